"""Estimates of problems whose match probability is known."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from adversary.known import KNOWN, look


@pytest.mark.parametrize("name", KNOWN)
def test_the_truth_is_not_missed(name: str) -> None:
    # One in a thousand: there are twenty problems, and each is asked once, with a fixed seed.
    seen = look(name, 60)
    assert not seen.far and not seen.many, seen


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_the_truth_is_not_missed_by_a_thousand(name: str) -> None:
    seen = look(name, 1000)
    assert not seen.far and not seen.many, seen


def test_lemma_b4_by_plain_monte_carlo() -> None:
    # Trace and determinant of W agree: the diagonal has sum v11 + v22 and product det V + w12 w21.
    v11, v12, v21, v22, w12, w21 = np.random.default_rng(3).standard_normal((6, 1_000_000))
    real = (v11 + v22) ** 2 >= 4 * (v11 * v22 - v12 * v21 + w12 * w21)
    assert abs(real.mean() - (1 - sqrt(2) / 4)) < 5 * 0.0005
