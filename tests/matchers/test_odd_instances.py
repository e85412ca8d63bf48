"""Singular, huge, tiny and contradictory instances: an honest answer, never a wrong one, never a hang."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import sublearn as sl

NETWORK = sl.LinearRNN(n=4, b=1, d=2, T=2)
BASE = sl.draw(sl.Problem(NETWORK, 2), {"W": sl.FirstRows(3)}, seed=1)
DECODER = sl.Allocation.block(NETWORK, "D", columns=[0, 1])
BUDGET = sl.Budget(starts=50, paths=500, bits=512)


def made(**changes: Any) -> sl.Instance:
    given: Mapping[str, Any] = {
        "allocation": BASE.allocation,
        "weights": dict(BASE.weights),
        "inputs": BASE.inputs,
        "targets": BASE.targets,
        **changes,
    }
    return sl.Instance(NETWORK, **given)


def scaled(factor: float) -> dict[str, np.ndarray]:
    return {name: value * factor for name, value in BASE.weights.items()}


SAME = np.repeat(BASE.inputs[..., :1], 2, axis=-1)


@pytest.mark.parametrize(
    "changes",
    [
        {"targets": BASE.targets * 1e300},
        {"targets": BASE.targets * 1e-300},
        {"weights": scaled(1e200)},
        {"weights": scaled(1e-310)},
        {"weights": {**BASE.weights, "D": np.zeros((2, 4))}},
        {"weights": {**BASE.weights, "B": np.zeros((4, 1))}},
        {"inputs": np.zeros_like(BASE.inputs)},
        {"inputs": SAME},
        {"allocation": sl.Allocation.from_entries(NETWORK, {"W": [(0, 0)]})},
    ],
)
def test_no_wrong_answer(changes: dict[str, Any]) -> None:
    instance = made(**changes)
    decision = sl.decide(instance, budget=BUDGET)
    if decision.kind == "matched":
        assert decision.certificate is not None and decision.certificate.check()
    else:
        assert decision.kind == "undecided" and decision.reason


def test_contradictions_of_a_linear_system_are_refuted() -> None:
    # One sample twice with different targets, and no sample at all with targets that are not 0.
    for inputs in (SAME, np.zeros_like(BASE.inputs)):
        decision = sl.decide(made(allocation=DECODER, inputs=inputs), budget=BUDGET)
        assert decision.kind == "refuted" and decision.rung == "affine"
    huge = sl.decide(made(allocation=DECODER, targets=BASE.targets * 1e300), budget=BUDGET)
    assert huge.kind == "matched"


def test_a_solvable_planted_instance_is_not_refuted_by_generic_facts() -> None:
    """A crowded row is minimal for drawn instances; this one has a solution all the same."""
    crowded = sl.Allocation.from_rows(NETWORK, "W", [0])
    drawn = sl.draw(sl.Problem(NETWORK, 2), crowded, seed=1)
    assert sl.decide(drawn).kind == "refuted"
    values = np.array([0.5, -1.0, 0.25, 2.0])
    targets = NETWORK.forward(drawn.with_values(values), drawn.inputs)
    planted = sl.Instance(NETWORK, crowded, drawn.weights, drawn.inputs, targets)
    assert sl.decide(planted, budget=BUDGET).kind != "refuted"


def test_a_silent_relu_teacher_is_not_refuted_by_rank() -> None:
    """y = (c + w v) x reaches 0, though its rank 1 is below the 2 that a ReLU teacher may need."""
    student = sl.FeedForward((1, 2, 1))
    problem = sl.Problem(student, 2, teacher=sl.FeedForward((1, 2, 1), "relu"))
    held = sl.Allocation.from_entries(student, {"W1": [(0, 0)], "W2": [(0, 0)]})
    drawn = [sl.draw(problem, held, trial=trial) for trial in range(20)]
    silent = [instance for instance in drawn if not instance.targets.any()]
    assert silent
    for instance in silent:
        assert sl.decide(instance, budget=BUDGET).kind != "refuted"


def test_a_rank_against_a_tanh_teacher() -> None:
    """Such a teacher needs all four outputs, by proof; a linear map of two numbers reaches two."""
    student = sl.FeedForward((2, 2, 1))
    problem = sl.Problem(student, 4, teacher=sl.FeedForward((2, 6, 1), "tanh"))
    held = sl.Allocation.from_entries(student, {"W1": [(0, 0), (1, 1)], "W2": [(0, 0), (0, 1)]})
    decision = sl.decide(sl.draw(problem, held), budget=BUDGET)
    assert (decision.kind, decision.rung, str(decision.grade)) == ("refuted", "rank", "proof")


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_targets_whose_squares_do_not_fit(activation: str, scale: float) -> None:
    network = sl.FeedForward((2, 3, 3, 1), activation)
    held = sl.Allocation.from_entries(network, {"W1": [(0, 0), (1, 1)], "W3": [(0, 0)]})
    drawn = sl.draw(sl.Problem(network, 2), held)
    given = sl.Instance(network, held, drawn.weights, drawn.inputs, drawn.targets * scale)
    assert sl.decide(given, budget=BUDGET).kind in ("matched", "undecided")
