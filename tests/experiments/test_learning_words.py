"""What the experiments on learning under noise say of a table, and how wide their intervals are."""

from __future__ import annotations

import math

import pytest

from sublearn.experiments import find
from sublearn.experiments._noise_and_size import exponent
from sublearn.experiments._under_noise import errors_away, half_width, with_error
from sublearn.runs import Row, Table


def test_half_widths_are_those_of_student() -> None:
    row: Row = {"repeats": 5, "error": 2.0}
    assert half_width(row) == pytest.approx(
        2.0 * 2.776, abs=2e-3
    )  # t of 4 degrees, as tables print
    assert math.isnan(half_width({"repeats": 1, "error": None}))
    assert with_error({"a": 0.5, "b": 0.25}, "a", "b", 2, sign=True) == "+0.50 +- 0.25"
    assert with_error({"a": 0.5, "b": None}, "a", "b", 2) == "0.50"
    assert errors_away({"a": 0.5, "b": 0.25}, "a", "b") == 2.0


def test_the_exponent_of_a_power_law() -> None:
    rows = Table(
        {"gamma3": g, "best": g**-2, "best_low": g**-2 / 1.1, "best_high": g**-2 * 1.1}
        for g in (0.03, 0.05, 0.1)
    )
    power, error = exponent(rows)
    assert power == pytest.approx(-2.0)
    logs = [math.log(g) for g in (0.03, 0.05, 0.1)]
    spread = sum((x - sum(logs) / 3) ** 2 for x in logs)
    assert error == pytest.approx(2 * math.log(1.1) / 3.92 / math.sqrt(spread))
    rows[1]["best"] = 1.0
    rows[1]["best_low"], rows[1]["best_high"] = 1e-9, 1e9  # no weight where nothing is known
    assert exponent(rows)[0] == pytest.approx(-2.0, abs=0.01)


def _placed(more: float, error: float) -> Table:
    setting = "white inputs, m = 8"
    shared: Row = {"setting": setting, "gamma1": 0.1, "gamma2": 1.0, "gamma3": 0.05, "cycles": 9}
    shared |= {"repeats": 10, "error": 0.1, "predicted": 0.5, "minimum": 0.1, "modes": 4.0}
    shared |= {"level": True, "rate": 0.1, "change": 0.0, "change_error": 0.0}
    rows: list[Row] = [
        {**shared, "placement": "spread", "value": 0.5, "more": 0.0, "more_error": 0.0},
        {
            **shared,
            "placement": "concentrated",
            "value": 0.5 + more,
            "more": more,
            "more_error": error,
        },
    ]
    return Table(rows)


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        (0.3, 0.1, "spreading wins"),
        (-0.3, 0.1, "concentrating wins"),
        (0.2, 0.1, "no clear difference"),  # t of 9 degrees is 2.26
    ],
)
def test_placement_says_what_the_pairs_show(more: float, error: float, words: str) -> None:
    assert words in find("placement").find(_placed(more, error))


def test_unsettled_curves_are_named() -> None:
    table = _placed(0.3, 0.1)
    table[0]["level"] = False
    assert "1 of 2 curves have not settled in 9 cycles" in find("placement").find(table)


def _deep(gamma3: float, values: dict[int, tuple[float, float]]) -> Table:
    best = min(values, key=lambda width: values[width][0])
    rows: list[Row] = [
        {
            "gamma3": gamma3,
            "cycles": 1500,
            "width": width,
            "repeats": 36,
            "value": value,
            "error": 0.1,
            "best": width == best,
            "more": value - values[best][0],
            "more_error": error,
            "change": 0.0,
            "change_error": 0.1,
        }
        for width, (value, error) in values.items()
    ]
    return Table(rows)


def test_deep_size_says_which_end_is_worse() -> None:
    calm = _deep(0.0, {5: (0.4, 0.05), 12: (0.3, 0.05), 45: (0.2, 0.0)})
    text = find("deep-size").find(calm)
    assert "the smallest network is the worst, by 0.200 +- 0.050 over width 45 (4.0" in text
    noisy = _deep(0.1, {5: (0.9, 0.05), 12: (0.8, 0.0), 45: (1.3, 0.1)})
    text = find("deep-size").find(noisy)
    assert "width 12 is best" in text
    assert "largest network (width 45) has +0.500 +- 0.100 more error (5.0" in text
    odd = _deep(0.0, {5: (0.3, 0.05), 12: (0.5, 0.05), 45: (0.2, 0.0)})
    assert "the worst is width 12" in find("deep-size").find(odd)
