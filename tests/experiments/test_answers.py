"""Yes, no or not decided: the rules behind the first screen of a report, on tables made by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sublearn.estimates import clopper_pearson
from sublearn.experiments import _QUESTIONS, ALL, _answers, answer, find
from sublearn.experiments._answers import HARDLY, NO, OPEN, YES
from sublearn.experiments._table import decided_words, low_end, pooled
from sublearn.runs import Row, Table


def counted(matched: int, refuted: int, undecided: int = 0, **own: Any) -> dict[str, Any]:
    trials = matched + refuted + undecided
    low, high = clopper_pearson(matched, trials)[0], clopper_pearson(matched + undecided, trials)[1]
    counts = {"trials": trials, "matched": matched, "refuted": refuted, "undecided": undecided}
    shares = {"share": matched / trials, "possible": (matched + undecided) / trials}
    ends = {"low": low, "high": high, "proved": matched, "numerical": 0}
    return {"method": "ladder", **own, **counts, **shares, **ends}


def word(name: str, table: list[Row]) -> str:
    return answer(name, "", Table(table), "").word


def test_every_experiment_asks_a_question_that_fits_on_a_line() -> None:
    for question in _QUESTIONS.values():
        assert question.endswith("?") and len(question) <= 47, question


def test_every_rule_belongs_to_an_experiment() -> None:
    rules = [name for name in vars(_answers) if re.match("_[a-z]", name)]
    assert {name[1:].replace("_", "-") for name in rules} < set(_QUESTIONS)


@pytest.mark.parametrize(
    ("few", "many", "said"),
    [
        ((0, 60), (60, 0), YES),
        ((60, 0), (0, 60), NO),
        ((300, 0), (299, 1), HARDLY),  # near 1 throughout: no room to rise
        ((30, 30), (33, 27), OPEN),
        ((0, 6), (6, 0), YES),
        ((0, 5), (5, 0), OPEN),  # too few: 0 to 0.52 and 0.48 to 1 overlap
    ],
)
def test_a_rise_is_told_by_the_intervals(
    few: tuple[int, int], many: tuple[int, int], said: str
) -> None:
    table = [counted(*few, n=8, k=2), counted(*many, n=8, k=6)]
    assert word("fig3a", table) == word("fig2a", table) == word("fig3b", table) == said


def test_undecided_trials_widen_what_is_open() -> None:
    table = [counted(0, 30, 30, n=8, k=2), counted(60, 0, n=8, k=6)]
    assert word("fig3a", table) == YES
    assert word("fig3a", [counted(0, 0, 60, n=8, k=2), table[1]]) == OPEN


def test_what_is_undecided_is_told_where_it_leaves_the_answer_open() -> None:
    few, many = counted(50, 0, 10, n=8, k=2), counted(60, 0, n=8, k=6)
    told = str(answer("fig3a", "", Table([few, many]), ""))
    assert "50 of 60 matched and 10 undecided" in told and "60 of 60 in" in told
    grown = [counted(60, 0, 20, family="a", kind="diagonal", n=n) for n in (2, 9)]
    assert "is 0.750 to 1.000" in str(answer("growth", "", Table(grown), ""))


def test_one_case_against_it_is_enough() -> None:
    right = counted(60, 0, family="a", kind="rows", n=9)
    assert word("growth", [{**right, "n": 2}, right]) == YES
    low = counted(30, 30, family="a", kind="diagonal", n=9)
    assert word("growth", [right, low]) == NO
    assert word("growth", [right, counted(9, 1, family="a", kind="diagonal", n=9)]) == OPEN
    wrong: list[Row] = [
        {"paper": "minimal", "wrong": False, "wrong_meant": False, "allocations": 9}
    ]
    assert word("theorem-map", wrong) == YES
    assert word("theorem-map", [*wrong, {**wrong[0], "wrong": True, "allocations": 1}]) == NO
    gaps: list[Row] = [{"more": 0.5, "more_error": 0.1}, {"more": None, "more_error": None}]
    assert word("placement", gaps) == YES
    assert word("placement", [*gaps, {"more": 0.1, "more_error": 0.1}]) == OPEN
    assert word("placement", [*gaps, {"more": -0.3, "more_error": 0.1}]) == NO


def test_a_formula_is_held_against_what_is_measured() -> None:
    rates: list[Row] = [{"off": 0.3, "slides_off": 40.0}] * 8
    assert word("rate-check", rates) == NO
    assert word("rate-check", [{"off": 0.3, "slides_off": -1.0}] * 8) == YES
    sizes = {"quantity": "rate", "best": 400, "best_low": 390, "best_high": 410}
    assert word("linear-size", [{**sizes, "best_slides": 144, "best_predicted": 400}]) == NO
    assert word("linear-size", [{**sizes, "best_slides": 402, "best_predicted": 400}]) == YES


def test_a_table_of_somebody_else_has_its_own_words() -> None:
    table = Table([{"x": 1}])
    own = answer("fig2a", "Title", table, "Not decided by this: 3 of 9.\nMore.")
    assert (own.word, own.sentence) == (OPEN, "3 of 9")
    for name in ALL:
        assert answer(name, "Title", table, "Words.").word in ("", YES, NO, HARDLY, OPEN)
    assert answer("mine", "Title", Table(), "Nothing yet.").sentence == "Nothing yet."


def found_word(name: str, table: list[Row]) -> tuple[str, str]:
    """The word of an experiment whose finding answers, and its first line."""
    lines = find(name).find(Table(table)).splitlines()
    return answer(name, "", Table(table), "\n".join(lines)).word, lines[0]


def test_depth_is_told_layer_by_layer_over_all_data() -> None:
    def cells(few: int, most: int, case: str) -> list[Row]:
        return [
            counted(matched, 410 - matched, data=data, inputs=data, case=case, k=k)
            for data in ("normal inputs, teacher", "digits, teacher", "digits, labels")
            for k, matched in ((2, few), (6, most))
        ]

    first, last = cells(30, 50, "first of two"), cells(12, 3, "third of three")
    said, line = found_word("depth", first + last)
    assert said == NO and "rarer" in line and "90 of 1230" in line and "9 of 1230" in line
    assert found_word("depth", first)[0] == YES
    # Three settings tell what one of them alone leaves open.
    assert found_word("depth", first[:2])[0] == OPEN
    digits = find("depth").find(Table(first)).splitlines()[1]
    assert "digits" in digits and "100 of 820" in digits
    # Across layers nothing is pooled with one layer's matches.
    assert found_word("depth", first + cells(400, 0, "both of two, half each"))[0] == YES


def test_draws_that_are_shared_count_once_and_get_no_interval_in_words() -> None:
    one = counted(59, 41, network="a", samples=4, k=4)
    other = {**one, "network": "b"}
    alone, both, shared = (
        pooled(Table(rows)) for rows in ([one], [one, other], [one, {**one, "k": 5}])
    )
    assert (shared["matched"], shared["trials"], shared["copies"]) == (118, 200, 2)
    assert shared["low"] == pytest.approx(alone["low"]) and shared["low"] < both["low"]
    assert shared["high"] == pytest.approx(alone["high"]) and shared["high"] > both["high"]
    assert "95%" in decided_words(both) and decided_words(shared) == "0.590 (118 of 200 matched)"
    assert low_end(0, 7, 2) == 0 and low_end(7, 7, 2) == clopper_pearson(3, 3)[0]


def test_saturated_rows_stand_apart_from_the_quadratic_equations() -> None:
    def cells(shares: dict[int, int], name: str = "a") -> list[Row]:
        return [
            counted(share, 1000 - share, setting=name, network=name, k=k, left=left)
            for k, (left, share) in enumerate(shares.items())
        ]

    up, down = cells({0: 1000, 3: 870, 6: 980}), cells({0: 1000, 3: 980, 6: 870}, "b")
    flat = cells({0: 1000, 3: 970, 6: 975}, "c")
    said, line = found_word("equations", up + flat)
    assert said == YES and "rises in 1 of 2 settings" in line and "open in 1" in line
    assert found_word("equations", flat)[0] == OPEN and found_word("equations", up + down)[0] == NO


def test_what_is_printed_is_held_against_the_authors_own_error() -> None:
    own: Row = {"allocation": "diagonal", "verdict": "between", "exact": 0.7154}
    rows = [{**counted(14308, 5692), **own, "printed": printed} for printed in (0.74, 0.78)]
    reply = answer("example", "", Table(rows[:1]), "")
    assert reply.word == YES and "at most 1.7 standard errors" in reply.sentence
    assert word("example", rows) == NO
    assert "1.7 standard errors away" in find("example").find(Table(rows))


def test_other_laws_are_asked_where_spreading_helps_under_the_normal_one() -> None:
    def cells(law: str, case: str, few: int, most: int, undecided: int = 0) -> list[Row]:
        own = {"law": law, "case": case, "network": law + case}
        return [
            counted(n, 400 - n - undecided, undecided, **own, k=k) for k, n in ((2, few), (8, most))
        ]

    rows = [*cells("normal", "a", 2, 40), *cells("normal", "flat", 400, 400)]
    assert "Does spreading" not in find("laws").find(Table([*rows, *cells("x", "flat", 9, 300)]))
    said, line = found_word("laws", [*rows, *cells("x", "a", 3, 42)])
    assert said == YES and "a, normal 2 and 40, x 3 and 42 (yes)" in line
    assert found_word("laws", [*rows, *cells("x", "a", 3, 42), *cells("z", "a", 0, 0)])[0] == NO
    assert found_word("laws", [*rows, *cells("z", "a", 0, 0, 200)])[0] == OPEN
    against = [*cells("normal", "a", 400, 300), *cells("x", "a", 20, 60)]
    assert (
        "under the normal law (400 and 300), and brings some under x"
        in found_word("laws", against)[1]
    )
    more = find("laws").find(Table([*rows, *cells("x", "a", 0, 400)])).splitlines()[1]
    assert "yes: by 0.987" in more and ", more than by 0.0" in more


def trained(rows: str, within: int, of: int, far: float, case: str = "linear RNN") -> list[Row]:
    """What an allocation brings: a decision, and Levenberg-Marquardt."""
    own: Row = {"case": case, "allocation": rows, "trials": of, "steps": 200, "starts": 2}
    exact = {**counted(of, 0), "size": far, "distance": far, "condition": 1 / far}
    low, high = clopper_pearson(within, of)
    near = {"within": within, "within_low": low, "within_high": high}
    return [
        {**exact, **own, "question": "exact match", "method": "ladder"},
        {**own, **near, "question": "match within eps", "method": "levenberg-marquardt"},
    ]


@pytest.mark.parametrize(("first", "said"), [(2, "yes"), (50, "not decided by this"), (60, "no")])
def test_whether_the_best_rows_are_the_hardest_to_train(first: int, said: str) -> None:
    rows = [*trained("rows 4", first, 60, 9.0), *trained("rows 5", 50, 60, 3.0)]
    other = [trained(name, n, 60, 3.0, "layers") for name, n in (("rows 6", 60), ("rows 8", 50))]
    table = Table([*rows, *trained("spread", 0, 60, 90.0), *other[0], *other[1]])
    lines = find("learnability").find(table).splitlines()
    line, layers = [line for line in lines if "hardest to train?" in line]
    assert f"train? {said}:" in line and "in more rows in 50 of 60" in line
    assert layers.startswith("layers: are the fewest rows (rows 6)") and "train? no:" in layers
    assert any(
        "are most far away: median distance 9, in more rows 3 to 3" in line for line in lines
    )
    assert any("are not most ill-conditioned" in line for line in lines)


def test_wasted_surplus_is_not_blamed_for_what_fails_without_any() -> None:
    common: Row = {"case": "a layer", "trials": 9, "enough": 9, "low": 0.6, "high": 1.0}
    at = {**common, "ratio": 1.0, "may": 9, "may_not_enough": 4}
    beyond = {**common, "ratio": 2.0, "may": 9, "may_not_enough": 0}
    find_it = find("surplus").find
    assert answer("surplus", "", Table([at, beyond]), find_it(Table([at, beyond]))).word == YES
    worse = Table([at, {**beyond, "may_not_enough": 1}])
    assert answer("surplus", "", worse, find_it(worse)).word == NO
    assert "At r = d m, where none may be wasted, 4 of 9" in find_it(worse)


def test_hidden_states_are_held_against_the_sum_of_powers() -> None:
    rows = [
        {
            "place": "rows",
            "k": k,
            "g": 2.0,
            "r": 8,
            "growth": growth,
            "change": None,
            "silent_moved": None,
        }
        for k, growth in ((2, 80.0), (4, 90.0))
    ]
    assert "g = 2: 85, by this 85" in find("activity").find(Table(rows))
