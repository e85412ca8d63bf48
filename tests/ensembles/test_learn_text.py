"""Allocations from text, as the command line writes them."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublearn as sl
from networks.reference import one_sentence
from sublearn import Allocation, BadInputError
from sublearn.ensembles import learn_from_text
from sublearn.ensembles._text import FORMS

NET = sl.LinearRNN(n=8, b=1, d=4, T=4)
PROBLEM = sl.Problem(NET, 4)


def _fixed(*texts: str) -> Allocation:
    learn = learn_from_text(NET, texts)
    assert not learn.rules and learn.draw(PROBLEM) == learn.fixed
    return learn.fixed


def test_every_form() -> None:
    assert _fixed("W:all") == Allocation.whole(NET, ["W"])
    assert _fixed("W:entries=0.0/0.3/1.2").entries["W"] == ((0, 0), (0, 3), (1, 2))
    assert _fixed("W:rows=0-2/5") == Allocation.from_rows(NET, "W", [0, 1, 2, 5])
    assert _fixed("D:columns=0/4") == Allocation.from_columns(NET, "D", [0, 4])
    assert _fixed("W:block=0-3x2-5") == Allocation.block(NET, "W", range(4), range(2, 6))
    assert _fixed("W:block=1x2").entries["W"] == ((1, 2),)
    assert _fixed("W:diagonal") == Allocation.diagonal(NET, "W")
    assert _fixed("W:diagonal=-2") == Allocation.diagonal(NET, "W", -2)
    assert _fixed("W:spread=16") == Allocation.spread(NET, {"W": 16})
    assert len(_fixed()) == 0


def test_texts_are_joined() -> None:
    both = _fixed("W:diagonal", "W:rows=0", "B:all")
    assert both == _fixed("W:diagonal") | _fixed("W:rows=0") | _fixed("B:all")


@pytest.mark.parametrize("kind", FORMS)
def test_the_forms_shown_in_messages_can_be_read(kind: str) -> None:
    with patch.dict("sublearn.allocations._own_rules._KNOWN", NAME=lambda exists, count, rng: _first(
        exists, count
    )):  # fmt: skip
        learn = learn_from_text(NET, [FORMS[kind]])
        assert len(learn.draw(PROBLEM)) > 0


def _first(exists: np.ndarray, count: int) -> np.ndarray:
    """The first so many of the weights that exist."""
    return np.asarray(exists & (np.cumsum(exists.ravel()).reshape(exists.shape) <= count))


def test_rules() -> None:
    learn = learn_from_text(NET, ["W:first-rows=5,seed=3"])
    assert dict(learn.rules) == {"W": sl.FirstRows(5)} and learn.seed == 3
    expected = PROBLEM.draw_allocation({"W": sl.FirstRows(5)}, np.random.default_rng(3))
    assert learn.draw(PROBLEM) == expected == learn.draw(PROBLEM)
    counted = learn_from_text(NET, ["W:first-columns=3, count=8", "D:first-rows=2,count=4"])
    assert counted.rules == {"W": sl.FirstColumns(3, 8), "D": sl.FirstRows(2, 4)}
    assert counted.seed is None and len(counted.draw(PROBLEM)) == 12
    zero = ["W:first-columns=3,count=8,seed=0", "D:first-rows=2,count=4"]
    assert learn_from_text(NET, zero).draw(PROBLEM) == counted.draw(PROBLEM)


def test_random_takes_a_count_and_no_bounds() -> None:
    learn = learn_from_text(NET, ["W:random=60,seed=2"])
    assert dict(learn.rules) == {"W": sl.Anywhere(60)} and learn.seed == 2
    drawn = learn.draw(PROBLEM)
    # Sixty of 64 entries: no row is spared, and a row of more than d = 4 breaks the bound.
    assert len(drawn) == 60 and drawn.row_counts("W").min() >= 4
    both = PROBLEM.draw_allocation(
        {"W": sl.Anywhere(), "D": sl.Anywhere(5)}, np.random.default_rng(0)
    )
    assert both.flat("W").size == 16 - 5 and both.flat("D").size == 5


def test_rules_and_fixed_entries_together() -> None:
    learn = learn_from_text(NET, ["B:all", "W:first-rows=4,count=8,seed=1"])
    drawn = learn.draw(PROBLEM)
    assert drawn.flat("B").size == 8 and drawn.flat("W").size == 8
    assert len(learn.fixed & drawn) == 8


BAD = {
    "": "must read NAME:WHAT, like 'W:first-rows=5,seed=0'",
    "W": "like 'W:first-rows=5,seed=0', or 'W:all' for every entry",
    "W:": "must read NAME:WHAT",
    ":all": "weight name must be one of W, B, D, not ''",
    "V:all": "weight name must be one of W, B, D, not 'V'",
    "W:everything": "what to learn in 'W:everything' must be one of all, entries",
    "W:diagnal": "Did you mean 'diagonal'",
    "W:all=3": "cannot be read: write it like 'W:all'",
    "W:all,seed=0": "cannot be read",
    "W:entries": "cannot be read: write it like 'W:entries=0.0/0.3/1.2'",
    "W:entries=0": "must be a pair",
    "W:entries=0.0.0": "must be a pair",
    "W:entries=0.x": "cannot be read",
    "W:entries=0.8": r"entry \(0, 8\) lies outside W",
    "W:entries=-1.0": r"entry \(-1, 0\) lies outside W",
    "W:entries=0.0/0.0": "given twice",
    "W:rows": "cannot be read",
    "W:rows=8": "rows of W must lie in 0..7, not 8",
    "W:rows=-1": "cannot be read",
    "W:rows=0-": "cannot be read",
    "W:rows=3-1": "the range 3-1 in 'W:rows=3-1' runs backwards",
    "W:rows=1/1": "must not be given twice",
    "W:rows=0-999999999999999": "rows of W must lie in 0..7, not 999999999999999",
    "B:columns=0-1": "columns of B must lie in 0..0, not 1",
    "W:block=0-3": "cannot be read: write it like 'W:block=0-3x2-5'",
    "W:block=0-3x": "cannot be read",
    "W:diagonal=1.5": "cannot be read",
    "W:diagonal=8": "offset 8 leaves no entry of W",
    "W:spread": "cannot be read",
    "W:spread=65": "at most its 64 entries, not 65",
    "W:spread=-1": "count for W must be a whole number",
    "W:first-rows": "cannot be read: write it like 'W:first-rows=5,seed=0'",
    "W:first-rows=0": "k must be a whole number of at least 1, not 0",
    "W:first-rows=5,count=0": "count must be a whole number of at least 1, not 0",
    "W:first-rows=5,seed=-1": "seed must be at least 0",
    "W:first-rows=5,seed=1,seed=2": "cannot be read",
    "W:first-rows=5,sed=1": "cannot be read",
    "W:first-rows=5,seed": "cannot be read",
    "W:first-rows=five": "cannot be read",
    "W:random": "cannot be read: write it like 'W:random=16,seed=0'",
    "W:random=0": "count must be a whole number of at least 1, not 0",
    "W:random=3,count=3": "cannot be read",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: text or "empty")
def test_bad_texts_get_one_sentence(text: str) -> None:
    with pytest.raises(BadInputError, match=BAD[text]) as caught:
        learn_from_text(NET, [text])
    assert one_sentence(caught.value)


def test_rules_that_do_not_fit_together() -> None:
    for texts, match in (
        (["W:first-rows=5", "W:first-columns=3"], "two rules for W are given"),
        (["W:first-rows=5,seed=0", "B:first-rows=5,count=3,seed=1"], r"one seed, not \[0, 1\]"),
    ):
        with pytest.raises(BadInputError, match=match) as caught:
            learn_from_text(NET, texts)
        assert one_sentence(caught.value)


@given(st.text(max_size=12), st.sampled_from(["", "W:", *(f"W:{kind}=" for kind in FORMS)]))
def test_any_text_is_read_or_refused(text: str, start: str) -> None:
    try:
        learn = learn_from_text(NET, [start + text])
    except BadInputError:
        return
    assert set(learn.fixed.names) | set(learn.rules) <= set(NET.shapes)
