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
    "learners": "[Learners](nonlinear/learners.md)",
    "learning": "[The formulas](learning/formulas.md), [simulation](learning/simulation.md), "
    "[placement](learning/placement.md)",
    "runs": "[Start, stop, go on](runs/running.md), "
    "[how to add an experiment](runs/adding-an-experiment.md)",
    "_errors": "",
}
HEAD = """# Public names

Everything that `import sublearn as sl` offers, by the room it lives in, with the first sentence of its
docstring. `help(sl.certify)` shows the rest: the definition, the arguments and an example that runs.
What is not on this page is private and may change.
"""


def summary(thing: object) -> str:
    """The first paragraph of a docstring, as Markdown in one line of a table."""
    return _markdown(inspect.getdoc(thing) or "")


def _markdown(docstring: str) -> str:
    first = docstring.partition("\n\n")[0]
    words = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", " ".join(first.split()))
    return words.replace("``", "`").replace("|", "\\|")


def page() -> str:
    """The text of docs/api.md."""
    names: dict[str, list[str]] = {}
    for name in sublearn.__all__:
        if not name.startswith("__"):
            names.setdefault(sublearn._ROOM_OF[name].split(".")[1], []).append(name)
    missing = sorted(set(names) - set(ROOMS))
    assert not missing, f"rooms with public names and no place on the page: {missing}"
    parts = [HEAD]
    for room, more in ROOMS.items():
        if room not in names:
            continue
        title = "Errors" if room == "_errors" else room.capitalize()
        about = summary(import_module(f"sublearn.{room}"))
        lines = [f"## {title}\n", about + (f" More: {more}." if more else "") + "\n"]
        lines += ["| name | what it is |", "|---|---|"]
        lines += [f"| `{name}` | {summary(getattr(sublearn, name))} |" for name in names[room]]
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
