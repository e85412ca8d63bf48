"""Colours, figures, axes and files: what all pictures share."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublearn._files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # for annotations alone: matplotlib is loaded when something is drawn
    Axes = Figure = Any

# Okabe and Ito (2008): told apart by the colour-blind too. Yellow, too faint on white, is left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
# A second cue beside colour, for print and for those who see none.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK = "#333333"
_LIGHT, _DARK = ("#FFFFFF", INK, "#DDDDDD"), ("#1E2129", "#D8DAE0", "#3A3F4B")
_THEME = ContextVar("theme", default=_LIGHT)  # ground, ink and grid
_DPI = 150
# Inches that :func:`boxes` leaves around each of its axes, those that a short title takes, and those of
# a figure with one line of text.
_ABOVE, _BELOW, _BESIDE, _TITLE, _NARROWEST = 0.75, 0.75, 0.6, 0.75, 5.2
_STYLE: dict[Any, Any] = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    # Text becomes outlines: a page looks the same on a machine without our font.
    "svg.fonttype": "path",
    "svg.hashsalt": "sublearn",
}


@contextmanager
def dark() -> Iterator[None]:
    """Pictures made and saved in this context have light lines on a dark ground, for dark pages.

    >>> with dark():
    ...     fig, ax = figure()
    >>> fig.get_facecolor() == figure()[0].get_facecolor()
    False
    """
    before = _THEME.set(_DARK)
    try:
        yield
    finally:
        _THEME.reset(before)


def _style() -> dict[Any, Any]:
    ground, ink, _ = _THEME.get()
    parts = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
    return {
        **_STYLE,
        **dict.fromkeys(parts, ink),
        "figure.facecolor": ground,
        "axes.facecolor": ground,
        "savefig.facecolor": ground,
    }


def ink() -> str:
    """The colour of text and rules on the present ground."""
    return _THEME.get()[1]


def shade(colour: int) -> str:
    """The colour of a line by its number; the darkest is the ink of the ground, to be seen on either.

    >>> with dark():
    ...     shade(0) == COLOURS[0], shade(6) == COLOURS[6]
    (True, False)
    """
    shown = COLOURS[colour % len(COLOURS)]
    return ink() if shown == INK else shown


def learnable_shade() -> str:
    """The blue of cells that are learnable: the lighter of the two on a dark ground, to be seen well.

    >>> with dark():
    ...     learnable_shade() == COLOURS[4]
    True
    """
    return COLOURS[4 if _THEME.get() is _DARK else 0]


def figure(
    columns: int = 1, rows: int = 1, *, width: float = 5.6, height: float = 3.6
) -> tuple[Figure, Any]:
    """A new figure and its axes: one Axes, or an array of them (rows, columns) squeezed.

    ``width`` and ``height`` are those of one panel, in inches.

    >>> fig, axes = figure(columns=2)
    >>> len(axes)
    2
    """
    from matplotlib import rc_context

    from sublearn.plots._picture import Picture

    # A figure itself, not pyplot: no global state, nothing to close, no window ever.
    with rc_context(_style()):
        fig = Picture(figsize=(width * columns, height * rows), layout="constrained")
        axes = fig.subplots(rows, columns)
        for ax in [axes] if rows * columns == 1 else axes.flat:
            ax.grid(True, color=_THEME.get()[2], linewidth=0.6)
            ax.tick_params(length=3.0)
    return fig, axes


def panels(
    count: int, *, across: int = 3, width: float = 3.9, height: float = 3.4
) -> tuple[Figure, list[Any]]:
    """A new figure and a list of ``count`` axes (at least one), ``across`` in a row at most.

    >>> fig, axes = panels(5)
    >>> len(axes)
    5
    """
    count = max(1, count)
    across = min(across, count)
    fig, axes = figure(across, -(-count // across), width=width, height=height)
    every = [axes] if count == 1 else list(axes.flat)
    for spare in every[count:]:
        spare.set_axis_off()
    return fig, every[:count]


def boxes(
    sizes: Sequence[tuple[float, float]], *, most: float = 9.0, foot: float = 0.0
) -> tuple[Figure, list[Any]]:
    """A new figure and axes of just these sizes (width, height), in inches, left to right as text flows.

    A line is at most ``most`` inches wide, unless one of the axes is wider; at the bottom ``foot`` inches
    stay free.

    >>> fig, axes = boxes([(2.0, 1.0), (0.5, 1.0)])
    >>> [round(float(ax.get_position().width * fig.get_figwidth()), 6) for ax in axes]
    [2.0, 0.5]
    """
    from matplotlib import rc_context

    from sublearn.plots._picture import Picture

    corners: list[tuple[float, float]] = []
    x, y, tallest, across = 0.0, _ABOVE, 0.0, _NARROWEST
    for width, height in sizes:
        slot = _BESIDE + max(width, _TITLE)
        if corners and x + slot > most:
            x, y, tallest = 0.0, y + tallest + _BELOW, 0.0
        corners.append((x + _BESIDE, y))
        x, tallest, across = x + slot, max(tallest, height), max(across, x + slot)
    wide, high = across + 0.2, y + tallest + _BELOW + foot
    with rc_context(_style()):
        fig = Picture(figsize=(wide, high))
        axes = [
            fig.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))
            for (left, top), (width, height) in zip(corners, sizes, strict=True)
        ]
    return fig, axes


def name_axes(ax: Axes, x: str, y: str, *, title: str = "", unit_interval: bool = False) -> None:
    """Name both axes; ``unit_interval`` shows probabilities from 0 to 1 with room for the line."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if title:
        ax.set_title(title, loc="left", fontsize=10, color=ink())
    if unit_interval:
        ax.set_ylim(-0.03, 1.03)


def whole_ticks(ax: Axes, axis: str = "both", *, most: int = 10) -> None:
    """Ticks at whole numbers only, ``most`` of them, for an axis that counts things."""
    from matplotlib.ticker import MaxNLocator

    for name in ("x", "y") if axis == "both" else (axis,):
        getattr(ax, f"{name}axis").set_major_locator(MaxNLocator(most, integer=True, min_n_ticks=1))


def log_ticks(ax: Axes, axis: str = "x") -> None:
    """A logarithmic axis for an axis that counts things: 50, 100, 200 rather than powers of ten.

    >>> fig, ax = figure()
    >>> line = ax.plot([50, 400], [0, 1])
    >>> log_ticks(ax)
    >>> {"50", "100", "200"} <= {label.get_text() for label in ax.get_xticklabels()}
    True
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(ax, f"set_{axis}scale")("log")
    own = getattr(ax, f"{axis}axis")
    own.set_major_locator(LogLocator(subs=(1, 2, 5)))
    own.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    own.set_minor_formatter(NullFormatter())


def legend(ax: Axes, *, place: Any = "best") -> None:
    """Say what each line is; axes without a named line get none. ``place`` is matplotlib's ``loc``."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize=9, title_fontsize=9, labelcolor=ink(), loc=place)


def shared_legend(fig: Figure, axes: Sequence[Axes], *, across: int = 4) -> None:
    """One legend for several panels, below them and over no data; each name stands there once.

    It has at most ``across`` columns, and fewer where that would be wider than the figure.

    >>> fig, axes = panels(2, width=2.0)
    >>> for i, ax in enumerate(axes):
    ...     line = ax.plot([0, 1], label=f"a name that takes most of the width, {i}")
    >>> shared_legend(fig, axes)
    >>> bool(fig.legends[0].get_window_extent().width <= fig.bbox.width)
    True
    """
    named: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    for columns in range(min(across, len(named)), 0, -1):
        made = fig.legend(
            list(named.values()), list(named), loc="outside lower center", frameon=False, fontsize=9,
            ncols=columns, labelcolor=ink(),
        )  # fmt: skip
        if columns == 1 or made.get_window_extent().width <= fig.bbox.width:
            break
        made.remove()


def save(fig: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write ``stem.png`` and ``stem.svg``, beside and renamed; the same picture, the same bytes.

    An ending .png or .svg of the stem is dropped.
    """
    from matplotlib import rc_context

    stem = Path(stem)
    if stem.suffix in (".png", ".svg"):
        stem = stem.with_suffix("")
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
        path = stem.with_name(stem.name + suffix)
        picture = io.BytesIO()
        with rc_context(_style()):
            fig.savefig(picture, format=suffix[1:], dpi=_DPI, metadata=metadata)
        write_whole(path, picture.getvalue())
        written.append(path)
    return written[0], written[1]
