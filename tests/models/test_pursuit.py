"""Residual pursuit on a given Jacobian, against the same written out slowly."""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np
import pytest

from models.dense import DenseDerivatives
from sublearn.models._limits import Limits
from sublearn.models._pursuit import (
    pursue,
    round_sizes,
    wanted_change,
)

SHAPES = {"a": (5, 6), "b": (7,), "c": (3, 2, 4)}
SIZE = 5 * 6 + 7 + 3 * 2 * 4


def example(seed: int, samples: int = 6, outputs: int = 3) -> tuple[DenseDerivatives, Any]:
    rng = np.random.default_rng(seed)
    jacobian = rng.standard_normal((samples * outputs, SIZE)) * rng.lognormal(0, 1, SIZE)
    values = rng.standard_normal((samples, outputs))
    return DenseDerivatives(jacobian, SHAPES, values), rng.standard_normal((samples, outputs))


def slowly(J: Any, target: Any, budget: int, rounds: int) -> list[int]:
    """The definition, with one dense inverse per round and the residual carried entry by entry."""
    T = target.reshape(-1)
    norms = (J**2).sum(0)
    rho = 0.1 * np.quantile(norms, 0.99)
    chosen: list[int] = []
    done = 0
    for number in range(min(rounds, budget)):
        size = len(range(number, budget, min(rounds, budget)))  # ceil first, then floor
        R = T
        if chosen:
            K = J[:, chosen] @ J[:, chosen].T
            ridge = 0.1 * np.trace(K) / len(K)
            R = ridge * np.linalg.inv(K + ridge * np.eye(len(K))) @ T
        score = (J.T @ R) ** 2 / (norms + rho)
        score[chosen] = -1.0
        order = np.argsort(-score, kind="stable")
        pool = [int(e) for e in order[: 5 * size] if score[e] >= 0]
        left = R.copy()
        for _ in range(size):
            worth = [(J[:, e] @ left) ** 2 / (norms[e] + rho) for e in pool]
            best = pool.pop(int(np.argmax(worth)))
            # What the entry explains is taken from the residual itself.
            left = left - J[:, best] * (J[:, best] @ left) / (norms[best] + rho)
            chosen.append(best)
        done += size
    assert done == budget
    return sorted(chosen)


def flat(masks: Any) -> list[int]:
    return np.flatnonzero(np.concatenate([masks[name].reshape(-1) for name in SHAPES])).tolist()


@pytest.mark.parametrize("budget", [1, 7, 10, 25, 43])
def test_the_definition(budget: int) -> None:
    # 43 entries are more than the 18 rows: the fit then goes by the other of the two matrices.
    for seed in range(4):
        dense, target = example(seed)
        found = pursue(dense, target, budget, Limits(SHAPES))
        assert flat(found.masks) == slowly(dense.jacobian, target, budget, 10)


def test_what_is_left_of_the_target() -> None:
    dense, target = example(0)
    first = pursue(dense, target, 4, Limits(SHAPES), rounds=1)
    both = pursue(dense, target, 8, Limits(SHAPES), rounds=2)
    assert first.residuals == ()
    # Ridge regression as least squares: on the columns, with the root of lambda below them.
    J = dense.jacobian[:, flat(first.masks)]
    ridge = 0.1 * (J**2).sum() / len(J)
    below = np.sqrt(ridge) * np.eye(4)
    goal = target.reshape(-1)
    weights = np.linalg.lstsq(np.vstack([J, below]), np.append(goal, np.zeros(4)), rcond=None)[0]
    left = goal - J @ weights
    assert both.residuals == pytest.approx((left @ left / (goal @ goal),), rel=1e-9)


def test_rounds_differ_by_at_most_one() -> None:
    for budget in range(1, 60):
        for rounds in (1, 3, 10):
            sizes = round_sizes(budget, rounds)
            assert sum(sizes) == budget and len(sizes) == min(budget, rounds)
            assert max(sizes) - min(sizes) <= 1 and min(sizes) >= 1


def test_one_entry_per_output_is_found() -> None:
    # J is the identity in part: the entries that move the outputs that are to move, and only these.
    jacobian = np.zeros((6, SIZE))
    jacobian[np.arange(6), np.arange(6)] = 1.0
    dense = DenseDerivatives(jacobian, SHAPES, np.zeros((3, 2)))
    target = np.array([[3.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    found = pursue(dense, target, 3, Limits(SHAPES))
    assert flat(found.masks) == [0, 3, 4]


def test_limits_hold_and_what_is_required_is_there() -> None:
    dense, target = example(3)
    required = np.zeros((5, 6), bool)
    required[4, 5] = True
    limits = Limits(SHAPES, forbidden="b", required={"a": required}, at_most={"c": 4})
    found = pursue(dense, target, 20, limits)
    assert sum(int(mask.sum()) for mask in found.masks.values()) == 20
    assert not found.masks["b"].any()
    assert found.masks["c"].sum() <= 4
    assert found.masks["a"][4, 5]


def test_whole_rows() -> None:
    dense, target = example(5)
    found = pursue(dense, target, 20, Limits(SHAPES, unit="row"))
    count = sum(int(mask.sum()) for mask in found.masks.values())
    assert 15 <= count <= 20
    for name in ("a", "c"):
        rows = found.masks[name].reshape(SHAPES[name][0], -1)
        assert (rows.all(axis=1) == rows.any(axis=1)).all()


@pytest.mark.parametrize("unit", ["entry", "row"])
def test_scores_are_let_go_before_columns_are_gathered(unit: str) -> None:
    held: list[ref[Any]] = []
    gathered: list[bool] = []

    class Watched(DenseDerivatives):
        def scores(self, cotangents: Any) -> Any:
            assert not any(one() is not None for one in held)
            found = super().scores(cotangents)
            held.extend(map(ref, found.values()))
            return found

        def gather(self, masks: Any) -> Any:
            gathered.append(any(one() is not None for one in held))
            return super().gather(masks)

    dense, target = example(6)
    pursue(
        Watched(dense.jacobian, SHAPES, dense.outputs),
        target,
        24,
        Limits(SHAPES, unit=unit),
        rounds=3,
    )
    assert gathered
    assert not any(gathered)


def test_a_model_that_nothing_moves() -> None:
    dense = DenseDerivatives(np.zeros((4, SIZE)), SHAPES, np.zeros((2, 2)))
    found = pursue(dense, np.ones((2, 2)), 5, Limits(SHAPES))
    assert sum(int(mask.sum()) for mask in found.masks.values()) == 5


def test_wanted_change_of_classes() -> None:
    # Two classes, by hand: centred outputs (1, -1) and (-2, 2), of lengths sqrt 2 and 2 sqrt 2.
    outputs = np.array([[3.0, 1.0], [0.0, 4.0]])
    change = wanted_change(outputs, labels=np.array([1, 1]))
    size = np.sqrt(2) * 1.5 * np.sqrt(2)
    assert change == pytest.approx(
        np.array([[-size / 2 - 1, size / 2 + 1], [-size / 2 + 2, size / 2 - 2]])
    )
    assert wanted_change(outputs, targets=np.zeros((2, 2))) == pytest.approx(-outputs)
    flat_outputs = wanted_change(np.zeros((2, 2)), labels=np.array([0, 1]))
    assert flat_outputs == pytest.approx(np.array([[0.5, -0.5], [-0.5, 0.5]]))
