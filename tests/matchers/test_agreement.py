"""Every matcher alone, on the same instances: no MATCHED beside a REFUTED, ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import sublearn as sl
from sublearn.matchers import (
    Affine,
    Boxed,
    Complete,
    Construct,
    Copy,
    Deep,
    Halfspaces,
    Intertwine,
    Nonlinear,
    Rank,
    Reference,
    Relu,
    Search,
    standard_ladder,
)

NETWORKS: list[tuple[sl.Network, int]] = [
    (sl.LinearRNN(n=2, b=1, d=1, T=2), 2),
    (sl.LinearRNN(n=3, b=1, d=1, T=3), 3),
    (sl.LinearRNN(n=3, b=1, d=2, T=2), 2),
    (sl.LinearRNN(n=4, b=2, d=1, T=2), 3),
    (sl.LinearRNN(n=4, b=1, d=2, T=3), 2),
    (sl.LinearRNN(n=5, b=1, d=2, T=3), 3),
    (sl.LinearEstimator(inputs=4, outputs=2), 2),
    (sl.FeedForward((2, 3, 2)), 2),
    (sl.FeedForward((3, 4, 4, 2)), 2),
]
MATCHERS: list[sl.matchers.Matcher] = [
    Rank(),
    Affine(),
    Construct(),
    Copy(),
    Halfspaces(),
    Intertwine(),
    Search(),
    Complete(),
    Relu(),
    Nonlinear(),
    Deep(),
    Boxed(),
]


def test_no_matcher_of_the_ladder_is_forgotten() -> None:
    assert {m.name for m in MATCHERS} == {m.name for m in standard_ladder()}


def _instances(count: int, seed: int) -> Iterator[sl.Instance]:
    """Random allocations of d m weights over random components: deficient, saturated, all kinds."""
    rng = np.random.default_rng(seed)
    for trial in range(count):
        network, samples = NETWORKS[trial % len(NETWORKS)]
        problem = sl.Problem(network, samples)
        names = list(network.shapes)
        if rng.random() < 0.6:  # mostly one component
            names = [names[int(rng.integers(len(names)))]]
        pool = sl.Allocation.whole(network, names)
        size = min(problem.equations, len(pool))
        held = pool.select(rng.choice(len(pool), size, replace=False))
        yield sl.draw(problem, held, seed=seed, trial=trial)


def _decide_by_all(instance: sl.Instance, trial: int) -> dict[str, str]:
    budget = sl.Budget(starts=60, paths=4000, roots=200)
    found: dict[str, str] = {}
    for matcher in MATCHERS:
        if matcher.refusal(instance) is None:
            decision = matcher.attempt(instance, budget, np.random.default_rng([trial, 1]))
            if decision.kind != "undecided":
                found[matcher.name] = decision.kind
                assert decision.grade is not None
                if decision.kind == "matched" and decision.grade.kind == "proof":
                    assert decision.certificate is not None and decision.certificate.check()
    return found


def _check(count: int, seed: int, reference_every: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for trial, instance in enumerate(_instances(count, seed)):
        answers = _decide_by_all(instance, trial)
        assert len(set(answers.values())) <= 1, (trial, answers)
        seen[next(iter(answers.values()), "undecided")] += 1
        seen["twice"] += len(answers) > 1
        if trial % reference_every == 0 and len(instance.allocation) == instance.equations:
            other = Reference(starts=30).attempt(
                instance, sl.Budget(), np.random.default_rng([trial, 2])
            )
            if other.kind == "matched":
                assert set(answers.values()) == {"matched"}, (trial, answers)
                seen["reference"] += 1
    return seen


def test_matchers_agree() -> None:
    seen = _check(90, seed=11, reference_every=10)
    assert seen["matched"] > 20 and seen["refuted"] > 20 and seen["twice"] > 5


@pytest.mark.slow
def test_matchers_agree_on_two_thousand() -> None:
    seen = _check(2000, seed=12, reference_every=10)
    assert seen["matched"] > 500 and seen["refuted"] > 300 and seen["twice"] > 200
    assert seen["reference"] > 20
