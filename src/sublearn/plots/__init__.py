"""The one style of every picture.

from sublearn.plots import COLOURS, bracket, curve, figure, legend, name_axes, panels, save, shared_legend

fig, ax = figure()
curve(ax, x, y, low, high, label="the paper's protocol")
bracket(ax, x, matched, possible, low, high, label="decided", colour=1)
name_axes(ax, "rows k", "match probability", unit_interval=True)
legend(ax)
save(fig, "out/fig2a")                      # out/fig2a.png and out/fig2a.svg
"""

from sublearn._tables import Row
from sublearn.plots._draw import bracket, curve, draw_mask, draw_weights
from sublearn.plots._shown import Shown, finite
from sublearn.plots._style import (
    COLOURS,
    INK,
    MARKERS,
    dark,
    figure,
    ink,
    learnable_shade,
    legend,
    log_ticks,
    name_axes,
    panels,
    save,
    shade,
    shared_legend,
    whole_ticks,
)
from sublearn.plots._style import Axes as Axes
from sublearn.plots._style import Figure as Figure

__all__ = [
    "COLOURS",
    "INK",
    "MARKERS",
    "Row",
    "Shown",
    "bracket",
    "curve",
    "dark",
    "draw_mask",
    "draw_weights",
    "figure",
    "finite",
    "ink",
    "learnable_shade",
    "legend",
    "log_ticks",
    "name_axes",
    "panels",
    "save",
    "shade",
    "shared_legend",
    "whole_ticks",
]
