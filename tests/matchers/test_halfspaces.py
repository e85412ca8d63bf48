"""Layers behind a ReLU, against a search over which equations hold with equality."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.optimize import linprog

import sublearn as sl
from sublearn.matchers import Halfspaces


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("samples", [2, 4, 6])
def test_whole_numbers_against_a_linear_program(samples: int, bias: bool) -> None:
    """Small whole numbers, so that float64 programs with a margin are sure on either side."""
    rng = np.random.default_rng([samples, bias])
    network = sl.FeedForward((3, 1), output="relu", bias=bias)
    seen: Counter[str] = Counter()
    for _ in range(60):
        x = rng.integers(-2, 3, (3, samples)).astype(float)
        weights = {name: rng.integers(-2, 3, s).astype(float) for name, s in network.shapes.items()}
        held = sl.Allocation.from_entries(network, {"W1": [(0, 0), (0, 2)]})
        if rng.random() < 0.5:
            targets = network.forward({k: v + 1 for k, v in weights.items()}, x)
        else:
            targets = np.maximum(rng.integers(-2, 3, (1, samples)), 0).astype(float)
        instance = sl.Instance(network, held, weights, x, targets)
        frozen = weights["W1"][0, 1] * x[1] + (weights["b1"][0, 0] if bias else 0.0)
        columns, y = x[[0, 2]].T, targets[0]
        on = y > 0
        program = linprog(
            np.zeros(2),
            A_eq=columns[on] if on.any() else None,
            b_eq=(y - frozen)[on] if on.any() else None,
            A_ub=columns[~on] if (~on).any() else None,
            b_ub=-frozen[~on] if (~on).any() else None,
            bounds=(None, None),
        )
        decision = Halfspaces().attempt(instance, sl.Budget(), rng)
        assert program.status in (0, 2) and str(decision.grade) == "proof"
        assert decision.kind == ("matched" if program.status == 0 else "refuted")
        if decision.values is not None:
            assert np.abs(instance.residual(decision.values)).max() < 1e-9
        seen[decision.kind] += 1
    assert min(seen["matched"], seen["refuted"]) > 3


def test_a_teacher_is_matched_on_many_samples() -> None:
    network = sl.FeedForward((3, 2), output="relu")
    problem = sl.Problem(network, 6)
    whole = sl.Allocation.whole(network)
    for trial in range(10):
        instance = sl.draw(problem, whole, trial=trial)
        assert sl.decide(instance, ladder=[Halfspaces()]).kind == "matched"
        rest = sl.Allocation.from_entries(network, {"W1": [(0, 0), (1, 2)]})
        few = sl.draw(problem, rest, trial=trial)
        silent = not few.targets.any(axis=1).all()
        assert sl.decide(few, ladder=[Halfspaces()]).kind == "refuted" or silent
