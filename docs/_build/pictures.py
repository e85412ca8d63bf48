"""Draws docs/pictures, which README and pages show: ``python docs/_build/pictures.py`` (a minute)."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import sublearn as sl
from sublearn.plots import bracket, curve, dark, draw_mask, ink, legend, name_axes, panels, save

PLACE = Path(__file__).resolve().parents[1] / "pictures"
CROSS = {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]}
ROWS = (4, 5, 6, 8)


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
    for ground, theme in (("light", nullcontext), ("dark", dark)):
        with theme():
            fig, axes = panels(3, width=3.3, height=3.2)
            for ax, held, words in zip(axes, (cross, mended), ("four weights", "one moved"), strict=False):
                verdict = sl.certify(problem, held)
                idle = verdict.idle.mask("W1") if verdict.wasted else None
                draw_mask(ax, "W1", held.mask("W1"), idle)
                title = f"{words}: {verdict.kind}\nrank {verdict.rank} of {verdict.needed}, {verdict.grade}"
                ax.set_title(title, loc="left", color=ink())
            ends = zip(*(e.bracket + e.confidence for e in decided), strict=True)
            bracket(axes[2], ROWS, *ends, label="decided, by proof")
            low, high = zip(*(e.interval(e.matched, e.matched, e.trials, False) for e in protocol), strict=True)
            shares = [e.matched / e.trials for e in protocol]
            curve(axes[2], ROWS, shares, low, high, label="found by fsolve, 400 starts", colour=1, dashed=True)
            title = "linear RNN, n = 8:\nhow often a match exists"
            name_axes(axes[2], "rows in use, k", "share of instances", title=title, unit_interval=True)
            axes[2].set_xticks(ROWS)
            legend(axes[2], place="lower right")
            save(fig, PLACE / f"front-{ground}")
    for path in PLACE.glob("front-*.png"):
        path.unlink()  # the .svg is enough


if __name__ == "__main__":
    front()
