"""The text picture of an allocation."""

from __future__ import annotations

import sublearn as sl
from sublearn import Allocation
from sublearn.allocations import cells, picture

NET = sl.LinearRNN(n=3, b=1, d=2, T=2)


def test_a_picture_by_hand() -> None:
    a = Allocation.from_entries(NET, {"W": [(0, 0), (2, 1)], "D": [(1, 2)]})
    assert str(a).splitlines() == [
        "W   0 1 2",
        "  0 # . .",
        "  1 . . .",
        "  2 . # .",
        "D   0 1 2",
        "  0 . . .",
        "  1 . . #",
    ]


def test_wasted_entries_are_marked() -> None:
    a = Allocation.from_rows(NET, "W", [1])
    wasted = Allocation.from_entries(NET, {"W": [(1, 2)]})
    assert picture(a, wasted).splitlines()[2] == "  1 # # x"
    meanings = [meaning for _, meaning in cells(a, wasted)[2]]
    assert meanings == ["label", "learnable", "learnable", "wasted"]


def test_wide_matrices_and_long_names_stay_aligned() -> None:
    net = sl.FeedForward((12, 2), bias=True)
    a = Allocation.from_entries(net, {"W1": [(0, 0), (1, 11)], "b1": [(1, 0)]})
    assert str(a).splitlines() == [
        "W1   0  1  2  3  4  5  6  7  8  9 10 11",
        "  0  #  .  .  .  .  .  .  .  .  .  .  .",
        "  1  .  .  .  .  .  .  .  .  .  .  .  #",
        "b1  0",
        "  0 .",
        "  1 #",
    ]


def test_what_is_too_wide_is_drawn_without_gaps_or_listed() -> None:
    wide = Allocation.diagonal(sl.LinearRNN(n=50, b=1, d=2, T=2), "W")
    lines = str(wide).splitlines()
    assert lines[0] == "W    " + "".join(f"{j:<10}" for j in range(0, 50, 10)).rstrip()
    assert lines[1] == "   0 #" + 49 * "." and lines[50] == "  49 " + 49 * "." + "#"
    lines = str(Allocation.diagonal(sl.LinearRNN(n=90, b=1, d=2, T=2), "W")).splitlines()
    assert lines[0] == "W (90 x 90): 90 learnable" and max(map(len, lines)) <= 80
    assert " ".join(lines[1:]).split()[::89] == ["(0,0)", "(89,89)"]
    many = Allocation.from_rows(sl.LinearRNN(n=300, b=1, d=2, T=2), "W", [0])
    assert str(many) == "W (300 x 300): 300 learnable"


def test_many_rows() -> None:
    lines = str(Allocation.from_rows(sl.FeedForward((1, 11)), "W1", [10])).splitlines()
    assert lines[0] == "W1   0" and lines[1] == "   0 ." and lines[11] == "  10 #"


def test_an_empty_allocation_has_an_empty_picture() -> None:
    assert str(Allocation(NET.shapes, {})) == ""
