"""Pictures: the same bytes each time, colours that differ to the colour-blind, gaps that show."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from sublearn.plots import (
    COLOURS,
    MARKERS,
    bracket,
    curve,
    figure,
    legend,
    name_axes,
    panels,
    save,
    shared_legend,
)

# Viénot, Brettel, Mollon (1999): what a protanope and a deuteranope see, in linear RGB.
_SEEN = (
    np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
)


def _linear(colour: str) -> np.ndarray:
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def test_colours_differ_for_the_colour_blind() -> None:
    for seen in _SEEN:
        points = [(seen @ _linear(colour)).clip(0, 1) ** (1 / 2.2) for colour in COLOURS]
        nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(points, 2))
        assert nearest > 0.1
    assert len(set(MARKERS)) == len(MARKERS) == len(COLOURS)


def _picture(folder: Path) -> tuple[bytes, bytes]:
    fig, ax = figure()
    x = np.arange(4, 9)
    bracket(ax, x, x / 10, x / 10 + 0.1, x / 10 - 0.1, x / 10 + 0.2, label="decided")
    curve(ax, x, x / 12, label="fsolve", colour=1, dashed=True)
    name_axes(ax, "rows k", "match probability", title="a", unit_interval=True)
    legend(ax)
    png, svg = save(fig, folder / "deep" / "picture")
    assert sorted(p.name for p in png.parent.iterdir()) == ["picture.png", "picture.svg"]
    return png.read_bytes(), svg.read_bytes()


@pytest.mark.parametrize("ending", ["", ".png", ".svg"])
def test_an_ending_is_not_written_twice(tmp_path: Path, ending: str) -> None:
    written = save(figure()[0], tmp_path / f"rows.5{ending}")
    assert [path.name for path in written] == ["rows.5.png", "rows.5.svg"]


def test_the_same_picture_has_the_same_bytes(tmp_path: Path) -> None:
    first, second = _picture(tmp_path / "a"), _picture(tmp_path / "b")
    assert first == second
    assert first[0].startswith(b"\x89PNG") and b"<svg" in first[1]


def test_undecided_is_in_the_legend_only_where_there_is_some() -> None:
    for gap, lines in ((0.1, 2), (0.0, 1)):
        _, ax = figure()
        x = np.arange(3)
        y = np.full(3, 0.5)
        bracket(ax, x, y, y + gap, y - 0.2, y + 0.3, label="decided")
        assert len(ax.get_legend_handles_labels()[1]) == lines


@pytest.mark.parametrize(
    ("label", "gap"),
    [
        ("decided", "undecided"),
        ("exact match, decided", "undecided"),
        ("decided, both scaled", "undecided, both scaled"),
        ("normal", "undecided (normal)"),
    ],
)
def test_what_is_undecided_is_named_after_what_is_decided(label: str, gap: str) -> None:
    _, ax = figure()
    x, half = np.arange(3), np.full(3, 0.5)
    bracket(ax, x, half, half + 0.1, half - 0.2, half + 0.3, label=label)
    assert ax.get_legend_handles_labels()[1] == [label, gap]


def test_panels_share_one_legend_that_names_each_line_once() -> None:
    fig, axes = panels(3, across=2)
    assert len(axes) == 3
    assert [ax.axison for ax in fig.axes] == [True, True, True, False]
    for ax in axes:
        curve(ax, [0, 1], [0, 1], label="decided")
    curve(axes[2], [0, 1], [1, 0], label="fsolve", colour=1)
    shared_legend(fig, axes)
    (shared,) = fig.legends
    assert [text.get_text() for text in shared.get_texts()] == ["decided", "fsolve"]
    assert all(ax.get_legend() is None for ax in axes)


def test_a_legend_without_lines_is_left_out() -> None:
    fig, axes = panels(0)
    shared_legend(fig, axes)
    legend(axes[0])
    assert fig.legends == [] and axes[0].get_legend() is None
