"""The mean learning rate: formula and slides against random cycles, cell by cell."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from sublearn.experiments._table import Declared, said
from sublearn.experiments._under_noise import levels
from sublearn.experiments.tasks import Rates
from sublearn.plots import COLOURS, Figure, ink, name_axes, panels, shared_legend
from sublearn.runs import Plan, Point, Points, Row, Table

_GAMMAS = ((0.8, 1.0, 0.05), (0.3, 0.8, 0.1))
_SUBSET = ((0.1, 1.0, 0.05), (0.3, 0.3, 0.1))
_SETTINGS = {"expansion": "linear expansion", "subset": "subset plasticity"}
_MANY = 150  # cells; more are drawn as one image


def _points(draws: int, expanded: int, masked: int) -> Points:
    """``expanded`` cells for each of 24 points, ``masked`` for each of 16."""
    expansion: list[Row] = [
        {"setting": "expansion", "path": path, "reading": reading}
        for path in ("both", "inputs", "outputs")
        for reading in ("expanded", "projected")
    ]
    subset: list[Row] = [
        {"setting": "subset", "inputs": inputs, "noise_on": on}
        for inputs in ("white", "correlated")
        for on in ("plastic", "all")
    ]
    for settings, gammas, cells, chunk in (
        (expansion, _GAMMAS, expanded, 8),
        (subset, _SUBSET, masked, 16),
    ):
        for setting, gamma, T in product(settings, gammas, (1.0, 2.0)):
            params = {**setting, **levels(*gamma), "T": T, "draws": draws}
            yield Point(params, cells, chunk=chunk)


def _ticks(reached: list[float]) -> Any:
    from matplotlib.ticker import FixedLocator

    below = [tick for tick in (-100.0, -10.0, -1.0) if tick >= 2 * min([0.0, *reached])]
    return FixedLocator([*below, -0.2, -0.1, 0.0, 0.1, 0.2])


def draw(table: Table) -> Figure:
    fig, axes = panels(3, width=3.9, height=3.7)
    for ax, setting in zip(axes, _SETTINGS, strict=False):
        rows = table.where(setting=setting)
        if rows:
            measured = rows.column("measured")
            for name, colour, words in (
                ("slides", 1, "slides' formula"),
                ("predicted", 0, "corrected formula"),
            ):
                ax.plot(
                    measured,
                    rows.column(name),
                    linestyle="none",
                    marker="so"[colour == 0],
                    markersize=3.5,
                    color=COLOURS[colour],
                    alpha=0.7,
                    label=words,
                    rasterized=len(rows) > _MANY,
                )
            ends = [min(measured), max(measured)]
            ax.plot(ends, ends, color=ink(), linewidth=0.8, label="formula = measured")
            # The slides' values lie far below; ours near 0 keep a linear scale.
            ax.set_yscale("symlog", linthresh=0.2, linscale=2.0)
            ax.yaxis.set_major_locator(_ticks(rows.column("slides")))
            ax.yaxis.set_major_formatter("{x:g}")
        name_axes(ax, "measured mean rate <k>", "by formula", title=_SETTINGS[setting])
    off = np.sort(np.array([row["off"] for row in table], dtype=float))
    last = axes[2]
    if off.size:
        from scipy.special import ndtri

        normal = ndtri((np.arange(off.size) + 0.5) / off.size)
        look: dict[str, Any] = {"color": COLOURS[0], "rasterized": off.size > _MANY}
        last.plot(normal, off, ".", label="corrected formula", **look)
        last.plot([-3, 3], [-3, 3], color=ink(), linewidth=0.8)
    for edge in (-3.0, 3.0):
        last.axhline(edge, color="#777777", linewidth=0.8, linestyle=":")
    name_axes(
        last,
        "standard errors that chance makes",
        "(measured - formula) / standard error",
        title="all cells",
    )
    shared_legend(fig, axes, across=3)
    return fig


def find(table: Table) -> str:
    lines = []
    for setting, words in _SETTINGS.items():
        rows = table.where(setting=setting)
        if not rows:
            continue
        ours = np.abs(np.array(rows.column("off"), dtype=float))
        theirs = np.abs(np.array(rows.column("slides_off"), dtype=float))
        wrong = sum(row["slides"] * row["measured"] < 0 for row in rows)
        lines.append(
            f"{words.capitalize()}: the corrected formula lies within 3 standard errors of the measured rate "
            f"in {int((ours <= 3).sum())} of {len(rows)} cells (largest difference {ours.max():.2f}), the "
            f"slides' in {int((theirs <= 3).sum())} (median difference {np.median(theirs):.0f}); the slides' "
            f"has the wrong sign in {wrong}."
        )
    if table:
        lines.append(
            f"By chance alone {0.0027 * len(table):.1f} of {len(table)} cells would lie beyond 3 standard "
            "errors of a formula that holds."
        )
    return said(lines)


EXPERIMENT = Declared(
    title="The mean learning rate, formula against random cycles",
    source="Slides, 'Weight Change Effect on Learning Rate'",
    claim="<k> = -(|g|/F) [-gamma1 + T gamma1^2 q + T Tr H / (2 |g|^2) (gamma2^2/N + gamma3^2/T)].",
    task=Rates(),
    quick=Plan.of(_points(400, 2, 7)),
    full=Plan.of(_points(10_000, 8, 16)),
    hours=0.008,
)
