"""What the experiments on learning under noise say of a table, and how wide their intervals are."""

from __future__ import annotations

import math

import pytest

from sublearn.experiments import answer, find
from sublearn.experiments._irrelevant_change import power
from sublearn.experiments._noise_and_size import exponent
from sublearn.experiments._under_noise import errors_away, half_width, with_error
from sublearn.runs import Row, Table


def test_half_widths_are_those_of_student() -> None:
    row: Row = {"repeats": 5, "error": 2.0}
    assert half_width(row) == pytest.approx(
        2.0 * 2.776, abs=2e-3
    )  # t of 4 degrees, as tables print
    assert math.isnan(half_width({"repeats": 1, "error": None}))
    assert with_error({"a": 0.5, "a_error": 0.25}, "a", 2, sign=True) == "+0.50 +- 0.25"
    assert with_error({"a": 0.5, "a_error": None}, "a", 2) == "0.50"
    assert errors_away({"a": 0.5, "a_error": 0.25}, "a") == 2.0


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
            "best_size": 700.0,
            "best_low": 600.0,
            "best_high": 800.0,
            "inside": True,
            "best_predicted": 400.0,
        }
        for width, (value, error) in values.items()
    ]
    return Table(rows)


def _first_word(name: str, rows: list[Row]) -> str:
    return answer(name, "", Table(rows), find(name).find(Table(rows))).word


def test_time_and_size_needs_both_powers() -> None:
    def best(T: float, gamma2: float, size: float, wide: float = 1.05) -> Row:
        ends = {"best_low": size / wide, "best_high": size * wide}
        said: Row = {"best_of_curve": size, "best_predicted": size, "inside": True}
        return {"T": T, "gamma2": gamma2, "best": size, **ends, **said}

    levels = (0.5, 1.0, 2.0, 4.0)
    times = [best(T, 1.0, 400 * T) for T in levels]
    squares = [best(1.0, g, 400 * g**2) for g in levels if g != 1.0]
    assert _first_word("time-and-size", times + squares) == "yes"
    assert _first_word("time-and-size", times) == "not decided"
    flat = [best(1.0, g, 400.0) for g in levels if g != 1.0]
    assert _first_word("time-and-size", times + flat) == "no"
    blurred = [best(1.0, g, 400 * g**2, wide=9.0) for g in levels if g != 1.0]
    assert _first_word("time-and-size", times + blurred) == "not decided"


def test_redundant_synapses_have_a_best_number_or_not() -> None:
    def best(gamma3: float, low: float, high: float, inside: bool = True) -> Row:
        row: Row = {"quantity": "steady state", "gamma3": gamma3, "gamma1": 0.05, "gamma2": 1.0}
        row |= {"best": math.sqrt(low * high), "best_low": low, "best_high": high, "inside": inside}
        row |= {"best_of_curve": 400.0, "best_predicted": 400.0, "ratio": 1.0, "repeats": 4}
        return row | {"value": 1.0, "predicted": 1.0, "error": 0.1, "mixing": 0.0}

    assert _first_word("redundant-synapses", [best(0.05, 380, 420), best(0.06, 300, 500)]) == "yes"
    # There is one, where it was not predicted: another question, and another line.
    missed = [best(0.05, 380, 420), best(0.06, 411, 413)]
    assert _first_word("redundant-synapses", missed) == "yes"
    said = find("redundant-synapses").find(Table(missed)).splitlines()[1]
    assert "in the 95% interval in 1 of 2" in said and "between 1.00 and 1.03" in said
    ends = [best(0.05, 380, 420), best(0.06, 1500, 1700, inside=False)]
    assert _first_word("redundant-synapses", ends) == "no"
    wide = [best(0.05, 380, 420), best(0.06, 100, 900)]
    assert _first_word("redundant-synapses", wide) == "not decided"


def _sized(kind: str, power: float, error: float) -> list[Row]:
    shared: Row = {"irrelevant": kind, "gamma3": 0.0, "repeats": 4}
    sizes = (50, 200, 800)
    return [{**shared, "size": n, "value": n**power, "error": error * n**power} for n in sizes]


@pytest.mark.parametrize(
    ("second", "error", "word"),
    [(-1.0, 0.05, "yes"), (0.0, 0.05, "no"), (0.0, 0.6, "not decided"), (0.5, 0.05, "no")],
)
def test_dilution_is_a_power_of_the_size(second: float, error: float, word: str) -> None:
    rows = _sized("white", -1.0, 0.01) + _sized("homeostasis", -1.0, 0.05)
    rows += _sized("second task", second, error)
    assert _first_word("irrelevant-change", rows) == word
    measured, spread = power(Table(_sized("white", -1.0, 0.01)))
    assert measured == pytest.approx(-1.0)
    # Two ends of weight log 4 each, and a middle of none.
    assert spread == pytest.approx(0.01 / (math.sqrt(2) * math.log(4)))


def test_forgetting_is_as_white_or_not() -> None:
    def row(kind: str, lost: float, error: float) -> Row:
        cells: Row = {"irrelevant": kind, "placement": "spread", "cycles": 9, "repeats": 8}
        cells |= {"value": lost, "error": error, "forgotten": lost, "forgotten_error": error}
        return cells | {"more": 0.0, "more_error": 0.0, "predicted": lost, "other": None}

    white, pulled = row("white", 0.03, 0.01), row("homeostasis", 0.4, 0.05)
    assert _first_word("forgetting", [white, row("second task", 1.5, 0.1), pulled]) == "no"
    assert _first_word("forgetting", [white, row("second task", 0.1, 0.1), pulled]) == "not decided"
    assert _first_word("forgetting", [white, pulled]) == ""  # not all kinds are there


def test_placement_under_other_change_counts_both_ways() -> None:
    def pair(more: float, error: float) -> list[Row]:
        shared: Row = {"setting": "s", "irrelevant": "second task", "gamma2": 1.0, "repeats": 10}
        shared |= {"value": 0.5, "error": 0.1, "more_error": error}
        names = {"spread": 0.0, "concentrated": more}
        return [{**shared, "placement": name, "more": gap} for name, gap in names.items()]

    assert _first_word("irrelevant-placement", pair(0.5, 0.1)) == "yes"
    assert _first_word("irrelevant-placement", pair(-0.5, 0.1)) == "no"
    assert _first_word("irrelevant-placement", pair(0.2, 0.1)) == "not decided"


def test_the_published_size_lies_in_the_measured_interval_or_not() -> None:
    def row(low: float, high: float, said: float) -> Row:
        cells: Row = {"approached": 30, "gamma3": said, "repeats": 8, "inside": True}
        cells |= {"best": math.sqrt(low * high), "best_low": low, "best_high": high}
        return cells | {"best_predicted": said, "best_of_curve": 900.0, "best_slides": 2.0}

    assert _first_word("deep-best-size", [row(350, 450, 400)]) == "yes"
    assert _first_word("deep-best-size", [row(350, 450, 400), row(800, 1000, 401)]) == "no"
    assert _first_word("deep-best-size", [row(100, 1000, 400)]) == "not decided"


def test_deep_size_says_which_end_is_worse() -> None:
    calm = _deep(0.0, {5: (0.4, 0.05), 12: (0.3, 0.05), 45: (0.2, 0.0)})
    text = find("deep-size").find(calm)
    assert "the smallest network is the worst, by 0.200 +- 0.050 over width 45 (4.0" in text
    noisy = _deep(0.1, {5: (0.9, 0.05), 12: (0.8, 0.0), 45: (1.3, 0.1)})
    text = find("deep-size").find(noisy)
    assert "width 12 is best" in text
    assert "largest network (width 45) has +0.500 +- 0.100 more error (5.0" in text
    assert "smallest at N = 700 (95%: 600 to 800), by the published equation at 400" in text
    odd = _deep(0.0, {5: (0.3, 0.05), 12: (0.5, 0.05), 45: (0.2, 0.0)})
    assert "the worst is width 12" in find("deep-size").find(odd)
