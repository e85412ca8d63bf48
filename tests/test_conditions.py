"""Results are not conditions, and say why an interval is wide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sublearn as sl
import test_cli
from test_cli import Run

run = test_cli.run
PROBLEM = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
ROWS = {"W": sl.FirstRows(2)}
ASKED = ["--network", PROBLEM.network.spec, "--samples", "2", "--learn", "W:first-rows=2"]


INSTANCE = sl.draw(PROBLEM, ROWS)
VERBS: dict[str, Callable[[], Any]] = {
    "kind": lambda: sl.certify(PROBLEM, INSTANCE.allocation),
    "kind, which is 'matched'": lambda: sl.decide(INSTANCE),
    "rank": lambda: sl.rank_at(
        PROBLEM.network, INSTANCE.allocation, INSTANCE.weights, INSTANCE.inputs
    ),
    "solved": lambda: sl.train(INSTANCE, "adam", steps=2),
}


@pytest.mark.parametrize("ask", VERBS)
def test_a_result_is_no_condition(ask: str) -> None:
    result = VERBS[ask]()
    with pytest.raises(sl.BadInputError, match=f"is neither true nor false: ask for its {ask}"):
        bool(result)
    assert getattr(result, ask.split(",")[0]) is not None


def test_an_estimate_that_was_looked_at_says_why_its_interval_is_wide(
    run: Run, tmp_path: Path
) -> None:
    folder = str(tmp_path / "kept")
    assert (
        "whenever one stops" not in run("estimate", *ASKED, "--trials", "20", "--out", folder).out
    )
    more = run("estimate", *ASKED, "--trials", "30", "--out", folder).out
    assert "this interval holds whenever one stops" in more
    fewer = run("estimate", *ASKED, "--trials", "10", "--out", folder).out
    assert fewer.startswith("all 30 trials that were kept, more than 10: ")
