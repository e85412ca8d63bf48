"""Draws docs/pictures, which README and pages show: ``python docs/_build/pictures.py [name ...]`` (a minute or two).

The pictures of docs/results.md are drawn from the lines that stand above them there.
"""

from __future__ import annotations

import ast
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import sublearn as sl
from sublearn.plots import bracket, curve, dark, draw_mask, ink, legend, name_axes, panels, save

DOCS = Path(__file__).resolve().parents[1]
PLACE = DOCS / "pictures"
GROUNDS = {"light": nullcontext, "dark": dark}
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n\n!\[[^]]*\]\(pictures/([\w-]+)-light\.svg",
    flags=re.MULTILINE | re.DOTALL,
)
CROSS = {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]}
ROWS = (4, 5, 6, 8)


def results() -> dict[str, str]:
    """The lines of docs/results.md by the name of the picture that is drawn from them."""
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    return {name: block for block, name in BLOCK.findall(text)}


def draw_result(name: str, block: str) -> None:
    """Run the lines, and draw what the last of them says, on either ground."""
    *lines, last = ast.parse(block).body
    assert isinstance(last, ast.Expr)
    names: dict[str, Any] = {}
    exec(compile(ast.Module(lines, []), name, "exec"), names)
    for ground, theme in GROUNDS.items():
        with theme():
            _save(
                eval(compile(ast.Expression(last.value), name, "eval"), names), f"{name}-{ground}"
            )


def _save(fig: Any, stem: str) -> None:
    png, _ = save(fig, PLACE / stem)
    png.unlink()  # the .svg is enough


def front() -> None:
    """A mask and its verdict, the mask mended, and a curve: what the package is about."""
    net = sl.FeedForward((3, 3, 2))
    problem = sl.Problem(net, samples=2)
    cross = sl.Allocation.from_entries(net, CROSS)
    mended = sl.repair(problem, cross)
    recurrent = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    decided = [sl.estimate(recurrent, {"W": sl.FirstRows(k)}, trials=100) for k in ROWS]
    protocol = [
        sl.estimate(recurrent, {"W": sl.FirstRows(k)}, trials=20, method="reference") for k in ROWS
    ]
    for ground, theme in GROUNDS.items():
        with theme():
            fig, axes = panels(3, width=3.3, height=3.2)
            for ax, held, words in zip(
                axes, (cross, mended), ("four weights", "one moved"), strict=False
            ):
                verdict = sl.certify(problem, held)
                idle = verdict.idle.mask("W1") if verdict.wasted else None
                draw_mask(ax, "W1", held.mask("W1"), idle)
                title = f"{words}: {verdict.kind}\nrank {verdict.rank} of {verdict.needed}, {verdict.grade}"
                ax.set_title(title, loc="left", color=ink())
            ends = zip(*(e.bracket + e.confidence for e in decided), strict=True)
            bracket(axes[2], ROWS, *ends, label="decided, by proof")
            low, high = zip(
                *(e.interval(e.matched, e.matched, e.trials, False) for e in protocol), strict=True
            )
            shares = [e.matched / e.trials for e in protocol]
            curve(
                axes[2],
                ROWS,
                shares,
                low,
                high,
                label="found by fsolve, 400 starts\n(the law of the starts is ours)",
                colour=1,
                dashed=True,
            )
            title = "linear RNN, n = 8:\nhow often a match exists"
            name_axes(
                axes[2], "rows in use, k", "share of instances", title=title, unit_interval=True
            )
            axes[2].set_xticks(ROWS)
            legend(axes[2], place="lower right")
            _save(fig, f"front-{ground}")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["front", *results()]
    if "front" in wanted:
        front()
    for name, block in results().items():
        if name in wanted:
            draw_result(name, block)
