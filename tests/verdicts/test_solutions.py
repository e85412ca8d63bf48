"""Maximal verdicts are true, instance by instance; minimal ones keep their distance."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.optimize import least_squares

import sublearn as sl
from sublearn.verdicts import _certify
from sublearn.verdicts.counts._count import SolutionCount
from verdicts import construction


@pytest.mark.parametrize(
    ("axis", "n", "b", "d", "T", "m"),
    [
        ("row", 4, 1, 2, 2, 2),
        ("row", 4, 2, 1, 2, 4),
        ("row", 3, 2, 2, 2, 1),  # m < b: T min(b, m) = 2 in a row
        ("row", 4, 2, 2, 2, 2),
        ("column", 4, 1, 2, 2, 2),
        ("column", 4, 2, 1, 2, 4),
        ("column", 4, 2, 2, 2, 2),
        ("column", 3, 3, 1, 3, 3),
    ],
)
def test_saturated_allocations_solve_every_instance(
    axis: str, n: int, b: int, d: int, T: int, m: int
) -> None:
    rng = random.Random(f"{axis}{n}{b}{d}{T}{m}")
    network = sl.LinearRNN(n=n, b=b, d=d, T=T)
    problem = sl.Problem(network, samples=m)
    size = T * min(b, m) if axis == "row" else T * d
    solve = construction.solve_rows if axis == "row" else construction.solve_columns
    for _ in range(6):
        held = construction.saturated(rng, network, axis, d * m // size, size)
        verdict = sl.certify(problem, held)
        assert (verdict.kind, verdict.grade.kind) == ("maximal", "proof")
        inputs = [construction.draw(rng, b, m) for _ in range(T)]
        targets = construction.outputs(network, construction.draw_weights(rng, network), inputs)
        student = construction.draw_weights(rng, network)
        found = solve(network, held, student, inputs, targets)
        assert construction.outputs(network, {**student, "W": found}, inputs) == targets
        assert construction.frozen_weights_kept(held, student["W"], found)


@pytest.mark.parametrize(
    ("text", "m", "names"),
    [
        ("ffn:3-3-2", 2, ["W1"]),
        ("ffn:3-4-3-2", 3, ["W2"]),
        ("lrnn:n=3,b=3,d=2,T=1", 2, ["B"]),
        ("lrnn:n=3,b=1,d=2,T=3", 2, ["D"]),
        ("lrnn:n=3,b=2,d=2,T=1", 2, ["W"]),
        ("ffn:3-3-2,bias=yes", 3, ["W2", "b1", "b2"]),
    ],
)
def test_affine_allocations_solve_all_instances_or_none(
    text: str, m: int, names: list[str]
) -> None:
    network = sl.networks.network_from_text(text)
    problem = sl.Problem(network, samples=m)
    rng = np.random.default_rng(0)
    labels = sl.Allocation.whole(network, names).labels()
    seen = set()
    for _ in range(30):
        chosen = rng.permutation(len(labels))[: problem.equations]
        held = sl.Allocation.whole(network, names).select(chosen)
        verdict = sl.certify(problem, held)
        if not verdict.affine:
            continue
        seen.add(verdict.kind)
        student = {k: rng.standard_normal(s) for k, s in network.shapes.items()}
        teacher = {k: rng.standard_normal(s) for k, s in network.shapes.items()}
        inputs = rng.standard_normal(network.input_shape(m))
        gap = (network.forward(teacher, inputs) - network.forward(student, inputs)).ravel()
        jacobian = network.jacobian(student, inputs, held)
        move, *_ = np.linalg.lstsq(jacobian, gap, rcond=None)
        distance = np.linalg.norm(jacobian @ move - gap) / np.linalg.norm(gap)
        if verdict.kind == "maximal":
            assert distance < 1e-7 * max(1.0, float(np.linalg.norm(move)))
        else:
            assert distance > 1e-7
    assert seen == {"maximal", "minimal"}


def closest(network: sl.Network, held: sl.Allocation, rng: np.random.Generator, m: int) -> float:
    """The smallest relative distance to a random teacher's outputs, over several starts."""
    student = {k: rng.standard_normal(s) for k, s in network.shapes.items()}
    teacher = {k: rng.standard_normal(s) for k, s in network.shapes.items()}
    inputs = rng.standard_normal(network.input_shape(m))
    Y = network.forward(teacher, inputs)

    def weights(x: np.ndarray) -> dict[str, np.ndarray]:
        out = {name: value.copy() for name, value in student.items()}
        for value, (name, i, j) in zip(x, held.labels(), strict=True):
            out[name][i, j] = value
        return out

    found = [
        least_squares(
            lambda x: (network.forward(weights(x), inputs) - Y).ravel() / np.linalg.norm(Y),
            rng.standard_normal(len(held)),
            jac=lambda x: network.jacobian(weights(x), inputs, held) / np.linalg.norm(Y),
            method="lm",
            xtol=1e-14,
            ftol=1e-14,
            max_nfev=200,
        ).cost
        for _ in range(2)
    ]
    return float(np.sqrt(2 * min(found)))


def test_minimal_recurrent_allocations_stay_away_from_the_targets() -> None:
    # Theorem 3.4 is not tight: rank 7 of 8. Beside it, two saturated rows.
    problem = sl.Problem(sl.LinearRNN(n=4, b=2, d=2, T=2), samples=4)
    cross = sl.Allocation.from_rows(problem.network, "W", [0])
    cross = cross | sl.Allocation.from_columns(problem.network, "W", [0])
    cross = cross | sl.Allocation.from_entries(problem.network, {"W": [(1, 1)]})
    rows = sl.Allocation.from_rows(problem.network, "W", [0, 1])
    assert [sl.certify(problem, held).kind for held in (cross, rows)] == ["minimal", "maximal"]
    far = [closest(problem.network, cross, np.random.default_rng(k), 4) for k in range(6)]
    near = [closest(problem.network, rows, np.random.default_rng(k), 4) for k in range(6)]
    assert min(far) > 1e-5 and np.median(far) > 1e-3
    assert np.median(near) < 1e-9


def test_saturated_for_more_samples_is_maximal_for_fewer() -> None:
    # Three rows of T b = 10 match 10 samples; so they match 8, with 6 weights to spare.
    network = sl.LinearRNN(n=12, b=2, d=3, T=5)
    rows = sl.Allocation.block(network, "W", rows=range(3), columns=range(10))
    full, fewer = (sl.certify(sl.Problem(network, m), rows) for m in (10, 8))
    assert full.kind == fewer.kind == "maximal"
    assert fewer.surplus == 6 and "10 samples" in fewer.reasons[0]
    # Each instance with 8 samples is part of one with 10, which is matched.
    assert sl.estimate(sl.Problem(network, 10), rows, trials=5, sample_always=True).matched == 5
    less = sl.Allocation.block(network, "W", rows=range(3), columns=range(9))
    assert sl.certify(sl.Problem(network, 8), less).kind == "between"


@pytest.mark.parametrize(
    ("grade", "kind"),
    [(sl.Grade("probability", 1e-9), "maximal"), (sl.Grade("numerical"), "between")],
)
def test_an_odd_count_without_a_bound_on_its_error_settles_nothing(
    grade: sl.Grade, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
    said = SolutionCount(3, (7, 11), grade, "3 complex solutions")
    monkeypatch.setattr(_certify, "count_solutions", lambda *_, **__: said)
    verdict = sl.certify(problem, sl.Allocation.diagonal(problem.network, "W"), count=True)
    assert (verdict.kind, verdict.solutions) == (kind, 3)
