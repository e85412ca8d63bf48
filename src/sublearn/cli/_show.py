"""What commands print: pictures, verdicts, JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from sublearn._kinds import BETWEEN, MAXIMAL, MINIMAL, UNKNOWN
from sublearn.cli._usage import QUESTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from sublearn.allocations import Allocation, Rule
    from sublearn.ensembles import Problem
    from sublearn.verdicts import Verdict


def entries(allocation: Allocation) -> dict[str, list[list[int]]]:
    return {name: [list(e) for e in allocation.entries[name]] for name in allocation.names}


def described(
    problem: Problem, learnable: Allocation | Mapping[str, Rule] | None = None
) -> dict[str, Any]:
    """What was asked, and of which version: an allocation by its entries, or the rules that draw one."""
    from sublearn import __version__
    from sublearn.allocations import Allocation

    out: dict[str, Any] = {
        "sublearn": __version__,
        "network": problem.network.spec,
        "samples": problem.samples,
        "teacher": None if problem.teacher is None else problem.teacher.spec,
        "problem": problem.digest,
    }
    if isinstance(learnable, Allocation):
        out |= {"entries": entries(learnable), "digest": learnable.digest}
    elif learnable is not None:
        out["rules"] = {name: rule.describe() for name, rule in learnable.items()}
    return out


def print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, indent=1, allow_nan=False))


def label(label: tuple[str, int, int]) -> str:
    name, i, j = label
    return f"{name}({i}, {j})"


# Colours of Okabe and Ito (2008), which the colour-blind can tell apart; the marks differ as well.
_COLOURS = {"label": "dim", "frozen": "dim", "learnable": "#0072B2 bold", "wasted": "#D55E00 bold"}
_COLOURS["words"] = ""
COLUMNS = 80  # of a line on the terminal


def make_console() -> Console:
    from rich.console import Console

    return Console(soft_wrap=False)


def show_picture(console: Console, allocation: Allocation, wasted: Allocation | None) -> None:
    from rich.text import Text

    from sublearn.allocations import cells

    lines = cells(allocation, wasted, min(COLUMNS, console.width))
    for line in lines:
        console.print(Text.assemble(*((text, _COLOURS[meaning]) for text, meaning in line)))
    if all(meaning == "words" for line in lines for _, meaning in line):
        return
    legend = [("#", "learnable", "learnable"), (".", "frozen", "frozen")]
    if wasted is not None:
        legend.insert(1, ("x", "wasted", "learnable but wasted"))
    shown = Text("   ").join(
        Text.assemble((mark, _COLOURS[key]), f" {words}") for mark, key, words in legend
    )
    console.print(shown)


_KIND_COLOURS = {
    MAXIMAL: "bold #009E73",
    MINIMAL: "bold #D55E00",
    BETWEEN: "bold #0072B2",
    UNKNOWN: "bold #CC79A7",
}


def show_verdict(console: Console, verdict: Verdict, *, theorems: bool = False) -> None:
    """The verdict in words; of the sources' theorems one line, or with ``theorems`` all there is."""
    from rich.text import Text

    first, second, *_ = str(verdict).splitlines()
    console.print()
    head = Text(first)
    head.stylize(_KIND_COLOURS[verdict.kind], 0, len(verdict.kind))
    console.print(head)
    console.print(Text(second))
    spoken = [check for check in verdict.theorems if check.says or check.why]
    lines = [str(check) for check in spoken]
    if spoken and not theorems:
        short = dict.fromkeys(check.short for check in spoken)
        lines = [f"In the source: {', '.join(short)} (see --theorems)."]
    for line in (*verdict.reasons, *lines):
        say(f"  {line}")
    if verdict.counts is not None and verdict.kind == BETWEEN:
        rows, columns = verdict.counts.by_rows.left, verdict.counts.by_columns.left
        heuristic = f"quadratic equations left: {rows} by rows, {columns} by columns"
        console.print(Text(heuristic, style="dim"))


def ask_again(context: typer.Context, verb: str, *more: str) -> str:
    """The command that asks ``verb`` the question of the command that is running, ready to copy."""
    import shlex

    words = ["sublearn", verb]
    for name in QUESTION:
        value = context.params.get(name)
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [] if one is None else [f"--{name.replace('_', '-')}", str(one)]
    return shlex.join([*words, *more])


def say(text: str) -> None:
    """Print words within 80 columns; a line that goes on does so below where its words began."""
    import re
    import textwrap

    keep: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    for line in text.splitlines():
        # Behind a label, which two spaces or more set apart.
        labels = [gap.end() for gap in re.finditer("  +", line) if gap.end() <= 30]
        indent = " " * (labels[-1] if labels else 0)
        fits = len(line) <= COLUMNS
        typer.echo(line if fits else textwrap.fill(line, COLUMNS, subsequent_indent=indent, **keep))


def tell_next(step: str) -> None:
    """What to do next: words, or a command in lines that can be copied as they are."""
    if not step.startswith("sublearn "):
        say(f"next: {step}")
        return
    lines = ["next: sublearn"]
    for piece in step.removeprefix("sublearn ").split(" --"):
        word = piece if lines == ["next: sublearn"] else f"--{piece}"
        if len(lines[-1]) + len(word) + 3 > COLUMNS:
            lines[-1] += " \\"
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}"
    typer.echo("\n".join(lines))
