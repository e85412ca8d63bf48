"""The pages of docs/reference: a page for each public room, made of signatures and docstrings.

The sources are read, not imported: torch and JAX need not be there.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[2] / "src" / "sublearn"
# The pages that tell more, from docs/reference.
MORE = {
    "networks": "[Networks](../networks/feed-forward.md), [adding one](../adding-a-network.md)",
    "allocations": "[how the learnable weights are written](../start.md)",
    "datasets": "[digits](../nonlinear/digits.md)",
    "ensembles": "[definitions](../definitions.md), [your own arrays](../your-network.md)",
    "verdicts": "[definitions](../definitions.md), [where the paper is wrong](../paper-errors.md)",
    "designs": "[linear RNN](../networks/linear-rnn.md), [feed-forward](../networks/feed-forward.md)",
    "matchers": "[how a match is decided](../matching/decided.md), "
    "[within eps, decided](../matching/within-eps-decided.md)",
    "estimates": "[how to choose a matcher](../matching/choosing.md), "
    "[match within eps](../nonlinear/within-eps.md)",
    "patterns": "[shallow ReLU, exactly](../nonlinear/relu.md)",
    "training": "[learners](../nonlinear/learners.md)",
    "noise": "[the formulas](../noise/formulas.md), [simulation](../noise/simulation.md), "
    "[placement](../noise/placement.md)",
    "runs": "[start, stop, go on](../runs/running.md), "
    "[how to add an experiment](../runs/adding-an-experiment.md)",
    "models": "[tune a few weights](../models/tuning.md), [what the audit says](../models/audit.md)",
}
HEAD = """# Public names

What `import sublearn as sl` offers. The names most people need are flat (`sl.certify`) and listed here; the
others are in their rooms (`sl.patterns.pattern_counts`), each of which has a page with signatures,
definitions and examples. `help(sl.certify)` shows the same. What is not on these pages is private and may
change.
"""
EVERYWHERE = """## Of every room

::: sublearn._errors.BadInputError
    options: {heading: sl.BadInputError, show_root_heading: true, heading_level: 3}

::: sublearn._grades.Grade
    options: {heading: sl.Grade, show_root_heading: true, heading_level: 3}
"""


def flat_names() -> tuple[dict[str, str], list[str]]:
    """The names of ``sublearn`` itself, each with the module it comes from, and the public rooms."""
    names: dict[str, str] = {}
    rooms: list[str] = []
    for node in _tree(SOURCES / "__init__.pyi").body:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if node.module is None:
                rooms.append(alias.name)
            else:
                names[alias.name] = node.module
    return names, rooms


def room_names(room: str) -> dict[str, str]:
    """The public names of a room, each with the path that its documentation is found by."""
    body = _tree(SOURCES / room / "__init__.py").body
    values = {
        node.targets[0].id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    if "_FILES" in values:  # imported file by file, when a name is first used
        files = ast.literal_eval(values["_FILES"])
        paths = {name: f"sublearn.{room}.{file}.{name}" for file in files for name in files[file]}
        return dict(sorted(paths.items()))
    return {name: f"sublearn.{room}.{name}" for name in ast.literal_eval(values["__all__"])}


def pages() -> dict[str, str]:
    """The Markdown of every page, by its path below docs."""
    flat, rooms = flat_names()
    texts = {}
    lines = [HEAD]
    for room in [*(r for r in MORE if r in rooms), *(r for r in rooms if r not in MORE)]:
        summary = _sentence(_tree(SOURCES / room / "__init__.py"))
        about = re.sub(r"^\w+(?: \w+){0,2}: ", "", summary)  # without the room's name before it
        lines += [f"- [{room.capitalize()}]({room}.md): {about}"]
        texts[f"reference/{room}.md"] = _room_page(room, flat)
    lines += ["\n## Flat names\n", "| name | what it is |", "|---|---|"]
    sentences = _sentences()
    for name, room in sorted(flat.items(), key=lambda item: item[0].lower()):
        about = sentences[room.partition(".")[0], name].replace("|", r"\|")
        lines.append(f"| [`sl.{name}`][sublearn.{room}.{name}] | {about} |")
    texts["reference/index.md"] = "\n".join([*lines, "", EVERYWHERE])
    return texts


def _sentences() -> dict[tuple[str, str], str]:
    """The first sentence of every function and class, by room and name."""
    found = {}
    for file in SOURCES.rglob("*.py"):
        for node in _tree(file).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[file.relative_to(SOURCES).parts[0].removesuffix(".py"), node.name] = (
                    _sentence(node)
                )
    return found


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _sentence(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    first = (ast.get_docstring(node) or "").partition("\n\n")[0]
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", " ".join(first.split())).replace("``", "`")


def _room_page(room: str, flat: dict[str, str]) -> str:
    short = "sm" if room == "models" else f"sl.{room}"
    lines = [f"# {room.capitalize()}", _sentence(_tree(SOURCES / room / "__init__.py"))]
    if room in MORE:
        lines.append(f"More: {MORE[room]}.")
    if room == "models":
        lines.append("`import sublearn.models as sm`")
    names = room_names(room)
    # What is of every room is on the first page. Flat names come first.
    own = [name for name in names if not flat.get(name, room).startswith("_")]
    for name in sorted(own, key=lambda name: (name not in flat, name.lower())):
        place = "sl" if name in flat else short
        lines += [
            f"::: {names[name]}\n"
            f"    options: {{heading: {place}.{name}, toc_label: {name}, show_root_heading: true}}"
        ]
    return "\n\n".join(lines) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: the pages are added to those of the folder."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
