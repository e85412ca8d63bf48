"""No wrong answer comes back."""

from __future__ import annotations

import pytest

from adversary.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_answer_stays_mended(name: str) -> None:
    CASES[name]()
