"""What a design says of itself."""

from __future__ import annotations

import sublearn as sl


def test_nothing_is_said_of_scores_that_were_not_given() -> None:
    problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), samples=2)
    found = sl.design(problem, ["W"], count=2)
    assert found.claim == "best score" and found.value == 0.0
    assert found.words == (
        f"the rank is as large as it can be here ({found.grade}). 2 of the 4 dimensions needed stay out of "
        "reach."
    )
