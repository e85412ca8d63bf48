"""Problems: validation, counting, digests, and drawing allocations by rule."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

import sublearn as sl
from networks.reference import NETWORKS, by_spec, one_sentence
from sublearn import BadInputError, Problem
from sublearn.networks import Network

NET = sl.LinearRNN(n=8, b=1, d=4, T=4)
RNG = np.random.default_rng


def test_equations_and_defaults() -> None:
    problem = Problem(NET, 4)
    assert problem.equations == problem.effective_equations == 16
    assert problem.ensemble == sl.Gaussian() == sl.Ensemble() and problem.teacher is None
    assert problem == Problem(NET, samples=np.int64(4))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        problem.samples = 5  # type: ignore[misc]


def test_a_teacher_of_the_same_architecture_is_no_other_teacher() -> None:
    same = Problem(NET, 4, teacher=sl.LinearRNN(n=8, b=1, d=4, T=4))
    assert (
        same.teacher is None and same == Problem(NET, 4) and same.digest == Problem(NET, 4).digest
    )
    wider = Problem(NET, 4, teacher=sl.RNN(n=12, b=1, d=4, T=4))
    assert wider.teacher is not None and wider.digest != same.digest


def test_ensembles() -> None:
    g = sl.Gaussian(2.0)
    assert g == sl.Ensemble(
        sl.ensembles.Normal(2.0), sl.ensembles.Normal(2.0), sl.ensembles.Normal(1.0)
    )
    assert g.without_density == ()
    mixed = sl.Ensemble(weights=sl.ensembles.Rademacher(), inputs=sl.ensembles.Sparse())
    assert mixed.without_density == ("weights", "inputs")
    assert set(mixed.describe()) == {"weights", "teacher", "inputs"}


@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
@pytest.mark.parametrize("rank", [None, 1, 2])
def test_effective_samples_are_a_rank(network: Network, rank: int | None) -> None:
    law = sl.ensembles.Normal() if rank is None else sl.ensembles.LowRank(rank=rank)
    for samples in (1, 2, 3, 9):
        problem = Problem(network, samples, sl.Ensemble(inputs=law))
        x = law.draw(RNG(0), network.input_shape(samples)).reshape(-1, samples)
        if any(step.bias for step in network.steps):
            x = np.vstack([x, np.ones(samples)])
        expected = np.linalg.matrix_rank(x) if network.is_linear else samples
        assert problem.effective_samples == expected
        assert problem.effective_equations == network.output_size * expected


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_effective_samples_carry_the_whole_rank(rank: int) -> None:
    # What dependent samples add to the rank of the full Jacobian is nothing.
    network = sl.LinearRNN(n=5, b=2, d=2, T=2)
    problem = Problem(network, 6, sl.Ensemble(inputs=sl.ensembles.LowRank(rank=rank)))
    rng = RNG(1)
    weights = {name: rng.normal(size=shape) for name, shape in network.shapes.items()}
    x = problem.ensemble.inputs.draw(rng, network.input_shape(6))
    found = np.linalg.matrix_rank(network.jacobian(weights, x), tol=1e-8)
    assert found == problem.effective_equations == 2 * rank


def test_digest_by_hand() -> None:
    normal = {"law": "Normal", "g": 1.0}
    content = {
        "ensemble": {"inputs": normal, "teacher": normal, "weights": normal},
        "format": "sublearn problem 1",
        "network": "lrnn:n=8,b=1,d=4,T=4",
        "samples": 4,
        "teacher": None,
    }
    expected = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    assert Problem(NET, 4).digest == expected
    assert expected == "fdbeea2f4e36155c32e8f0c441a8250802f9d88fc2fa990166d5ab0c9a0ad549"


def test_digest_changes_with_every_field() -> None:
    normal, wide = sl.ensembles.Normal(), sl.ensembles.Normal(2.0)
    problems = [
        Problem(NET, 4),
        Problem(NET, 5),
        Problem(sl.LinearRNN(n=8, b=1, d=4, T=5), 4),
        Problem(sl.RNN(n=8, b=1, d=4, T=4), 4),
        Problem(NET, 4, sl.Ensemble(wide, normal, normal)),
        Problem(NET, 4, sl.Ensemble(normal, wide, normal)),
        Problem(NET, 4, sl.Ensemble(normal, normal, wide)),
        Problem(NET, 4, sl.Ensemble(normal, normal, sl.ensembles.Uniform())),
        Problem(NET, 4, sl.Ensemble(normal, normal, sl.ensembles.LowRank(rank=2))),
        Problem(NET, 4, sl.Ensemble(normal, normal, sl.ensembles.LowRank(rank=3))),
        Problem(NET, 4, sl.Ensemble(inputs=sl.ensembles.StudentT(df=4.0))),
        Problem(NET, 4, sl.Ensemble(inputs=sl.ensembles.StudentT(df=5.0))),
        Problem(NET, 4, teacher=sl.LinearRNN(n=9, b=1, d=4, T=4)),
        Problem(NET, 4, teacher=sl.Targets()),
        Problem(NET, 4, teacher=sl.Targets(sl.ensembles.Uniform())),
        Problem(NET, 4, teacher=sl.Targets(wide)),
    ]
    for one, other in combinations(problems, 2):
        assert one != other and one.digest != other.digest
    assert Problem(NET, 4, sl.Gaussian(1)).digest == Problem(NET, 4, sl.Gaussian(1.0)).digest


FFN = sl.FeedForward((3, 4, 2))
BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: Problem(NET, 0), "samples must be a whole number of at least 1, not 0"),
    (lambda: Problem(NET, -3), "samples must be .* not -3"),
    (lambda: Problem(NET, 2.0), "samples must be .* not 2.0"),  # type: ignore[arg-type]
    (lambda: Problem(NET, True), "samples must be .* not True"),
    (lambda: Problem(NET, None), "samples must be .* not None"),  # type: ignore[arg-type]
    (lambda: Problem("lrnn", 2), "network must be a sublearn network, not 'lrnn'"),  # type: ignore
    (lambda: Problem(sl.LinearRNN, 2), "network must be a sublearn network"),  # type: ignore
    (lambda: Problem(NET, 2, sl.ensembles.Normal()), "ensemble must be an Ensemble"),  # type: ignore
    (lambda: Problem(NET, 2, teacher="same"), "teacher must be a network or Targets"),  # type: ignore
    (
        lambda: Problem(NET, 2, teacher=sl.LinearRNN(n=8, b=1, d=4, T=3)),
        r"teacher's inputs have shape \(3, 1, 2\), the student's \(4, 1, 2\)",
    ),
    (
        lambda: Problem(NET, 2, teacher=sl.LinearRNN(n=8, b=1, d=3, T=4)),
        r"teacher's outputs have shape \(3, 2\), the student's \(4, 2\)",
    ),
    (lambda: Problem(FFN, 2, teacher=sl.LinearEstimator(3, 3)), "teacher's outputs"),
    # One step of a sequence is no plain vector: (1, b, m) against (q, m).
    (
        lambda: Problem(sl.LinearRNN(n=3, b=3, d=2, T=1), 2, teacher=FFN),
        r"inputs have shape \(3, 2\), the student's \(1, 3, 2\)",
    ),
    (lambda: sl.Ensemble(weights=1.0), "weights must be a distribution"),  # type: ignore[arg-type]
    (lambda: sl.Ensemble(inputs=sl.ensembles.Normal), "inputs must be a distribution"),  # type: ignore
    (lambda: sl.Ensemble(weights=sl.ensembles.LowRank()), "LowRank is for inputs, not for weights"),
    (lambda: sl.Ensemble(teacher=sl.ensembles.LowRank()), "LowRank is for inputs, not for teacher"),
    (lambda: sl.Targets(3), "law must be a distribution"),  # type: ignore[arg-type]
    (lambda: sl.Targets(sl.ensembles.LowRank()), "LowRank is for inputs, not for targets"),
    (lambda: sl.Gaussian(0), "scale g"),
]


@pytest.mark.parametrize(("make", "match"), BAD)
def test_bad_problems_get_one_sentence(make: Callable[[], object], match: str) -> None:
    with pytest.raises(BadInputError, match=match) as caught:
        make()
    assert one_sentence(caught.value)


def test_rules_draw_within_the_bounds_of_the_network() -> None:
    problem = Problem(sl.LinearRNN(n=6, b=1, d=2, T=3), 3)
    bounds = problem.network.degree_bounds("W", 3)
    for seed in range(20):
        a = problem.draw_allocation({"W": sl.FirstRows(4)}, RNG(seed))
        assert len(a) == 6 and a.names == ("W",) and a.row_counts("W")[4:].sum() == 0
        assert a.row_counts("W").max() <= bounds.row
        assert bounds.column is not None and a.column_counts("W").max() <= bounds.column


def test_rules_over_several_weights() -> None:
    problem = Problem(sl.FeedForward((4, 8, 8, 6)), 4)
    rules = {"W2": sl.FirstRows(3, 8), "W1": sl.FirstColumns(3, 8), "W3": sl.FirstRows(3)}
    a = problem.draw_allocation(rules, RNG(0))
    assert [a.flat(name).size for name in ("W1", "W2", "W3")] == [8, 8, 8]  # W3 takes the rest
    assert a.column_counts("W1")[3:].sum() == 0
    # The order of the dict does not matter.
    assert a == problem.draw_allocation(dict(reversed(rules.items())), RNG(0))
    assert a != problem.draw_allocation(rules, RNG(1))


def test_relu_columns_are_not_bounded() -> None:
    # Columns of a ReLU layer may be full: 2 columns carry all 16 of their entries.
    problem = Problem(sl.FeedForward((4, 8, 3), activation="relu"), 6)
    a = problem.draw_allocation({"W1": sl.FirstColumns(2, 16)}, RNG(0))
    assert a.column_counts("W1").tolist() == [8, 8, 0, 0]


def test_golden_draw() -> None:
    a = Problem(NET, 4).draw_allocation({"W": sl.FirstRows(5)}, RNG(0))
    assert a.flat("W").tolist() == [0, 8, 10, 11, 14, 16, 20, 21, 22, 24, 28, 30, 35, 36, 37, 38]


def test_rules_that_cannot_be_drawn() -> None:
    problem = Problem(NET, 4)  # d m = 16, at most T = 4 in a row
    cases: list[tuple[dict, str]] = [
        ({}, "rules must name at least one weight"),
        ({"V": sl.FirstRows(5)}, "weight name must be one of W, B, D, not 'V'"),
        (
            {"W": 5},
            "rule for W must be FirstRows, FirstColumns, Anywhere or one of your own, not 5",
        ),
        ({"W": sl.FirstRows(3)}, "first 3 rows of W cannot carry 16 weights .* at most 12"),
        ({"W": sl.FirstRows(9)}, "W has 8 rows, fewer than the first 9"),
        ({"W": sl.FirstRows(5), "B": sl.FirstRows(8)}, "give a count to the rules for W, B"),
        ({"W": sl.FirstRows(5), "B": sl.FirstRows(8, 16)}, "nothing is left of d m = 16 for W"),
    ]
    for rules, match in cases:
        with pytest.raises(BadInputError, match=match) as caught:
            problem.draw_allocation(rules, RNG(0))
        assert one_sentence(caught.value)
