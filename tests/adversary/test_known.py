"""Estimates of problems whose match probability is known."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from adversary.known import KNOWN, look, too_few_matched


@pytest.mark.parametrize("name", KNOWN)
def test_the_truth_is_not_missed(name: str) -> None:
    # One in a thousand: each problem is asked once, with a fixed seed.
    seen = look(name, 60)
    assert not seen.far and not seen.many, seen


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_the_truth_is_not_missed_by_a_thousand(name: str) -> None:
    seen = look(name, 1000)
    assert not seen.far and not seen.many, seen


def test_open_refutations_excuse_no_lost_matches() -> None:
    assert {name for name, known in KNOWN.items() if known.open} == {
        "rate network, a quadratic",
        "sparse recurrence",
    }
    # What the attack found of them, and what it would find if a rung were lost.
    for truth, matched in ((0.6225, 599), (0.7916, 814)):
        assert not too_few_matched(matched, 1000, truth)
        assert too_few_matched(matched * 4 // 5, 1000, truth) and too_few_matched(0, 60, truth)


def test_lemma_b4_by_plain_monte_carlo() -> None:
    # Trace and determinant of W agree: the diagonal has sum v11 + v22 and product det V + w12 w21.
    v11, v12, v21, v22, w12, w21 = np.random.default_rng(3).standard_normal((6, 1_000_000))
    real = (v11 + v22) ** 2 >= 4 * (v11 * v22 - v12 * v21 + w12 * w21)
    assert abs(real.mean() - (1 - sqrt(2) / 4)) < 5 * 0.0005
