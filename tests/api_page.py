"""Writes docs/api.md, the list of public names: ``python tests/api_page.py``.

The page is made of the docstrings, and tests/test_docs.py fails where the two have parted.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import sublearn

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
# The order in which a reader meets the rooms, and the pages that tell more.
ROOMS = {
    "networks": "[Networks](networks/feed-forward.md), [adding one](adding-a-network.md)",
    "allocations": "[How the learnable weights are written](index.md)",
    "datasets": "[Digits](nonlinear/digits.md)",
    "ensembles": "[Definitions](definitions.md)",
    "verdicts": "[Definitions](definitions.md), [where the paper is wrong](paper-errors.md)",
    "designs": "[Linear RNN](networks/linear-rnn.md), [feed-forward](networks/feed-forward.md)",
    "matchers": "[How a match is decided](matching/decided.md), "
    "[within eps, decided](matching/within-eps-decided.md)",
    "estimates": "[How to choose a matcher](matching/choosing.md), "
    "[match within eps](nonlinear/within-eps.md)",
    "patterns": "[Shallow ReLU, exactly](nonlinear/relu.md)",
    "training": "[Learners](nonlinear/learners.md)",
    "noise": "[The formulas](noise/formulas.md), [simulation](noise/simulation.md), "
    "[placement](noise/placement.md)",
    "runs": "[Start, stop, go on](runs/running.md), "
    "[how to add an experiment](runs/adding-an-experiment.md)",
}
BASEMENT = ("BadInputError", "Grade")  # of every room
HEAD = """# Public names

What `import sublearn as sl` offers, by the room it lives in, with the first sentence of its docstring: the
names most people need are flat (`sl.certify`), the others are in their rooms (`sl.patterns.pattern_counts`).
`help(sl.certify)` shows the rest: the definition, the arguments and an example that runs. What is not on
this page is private and may change.
"""


def summary(thing: object) -> str:
    """The first paragraph of a docstring, as Markdown in one line of a table."""
    return _markdown(inspect.getdoc(thing) or "")


def _markdown(docstring: str) -> str:
    first = docstring.partition("\n\n")[0]
    words = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", " ".join(first.split()))
    return words.replace("``", "`").replace("|", "\\|")


def _documented(thing: object) -> bool:
    return inspect.isclass(thing) or inspect.isroutine(thing)


def page() -> str:
    """The text of docs/api.md."""
    every = [f"| `sl.{name}` | {summary(getattr(sublearn, name))} |" for name in BASEMENT]
    parts = ["\n".join([HEAD, "| name | what it is |", "|---|---|", *every]) + "\n"]
    for room, more in ROOMS.items():
        module = import_module(f"sublearn.{room}")
        names = [name for name in module.__all__ if _documented(getattr(module, name))]
        names.sort(key=lambda name: (not hasattr(sublearn, name), name.lower()))
        lines = [f"## {room.capitalize()}\n", f"{summary(module)} More: {more}.\n"]
        lines += ["| name | what it is |", "|---|---|"]
        for name in names:
            place = "sl" if name in sublearn.__all__ else f"sl.{room}"
            lines.append(f"| `{place}.{name}` | {summary(getattr(module, name))} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, models_part()])


def models_part() -> str:
    """The names of ``sublearn.models``, read and not imported: torch is not everywhere."""
    from sublearn import models

    lines = [
        "## Models\n",
        f"{summary(models)} `import sublearn.models as sm`. More: "
        "[what the audit says](models/audit.md).\n",
        "| name | what it is |",
        "|---|---|",
    ]
    about: dict[str, str] = {}
    for file in models._FILES:
        source = Path(models.__file__).with_name(f"{file}.py").read_text(encoding="utf-8")
        body = ast.parse(source).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                about[node.name] = ast.get_docstring(node) or ""
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(after, ast.Expr):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if isinstance(target, ast.Name) and isinstance(after.value, ast.Constant):
                    about[target.id] = inspect.cleandoc(str(after.value.value))
    for name in models.__all__:
        assert about.get(name), f"sublearn.models.{name} has no docstring"
        lines.append(f"| `{name}` | {_markdown(about[name])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
