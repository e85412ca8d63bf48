"""Search: what it finds is there, what is there it finds, and it never says no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn._errors import BadInputError
from sublearn.allocations import Rule
from sublearn.ensembles import Instance
from sublearn.matchers import Budget
from sublearn.matchers._reference import Reference, outputs_minus_targets
from sublearn.matchers.search._search import Search, candidates
from sublearn.networks import Network

RNN = sl.LinearRNN(n=8, b=1, d=4, T=4)
WIDE = sl.LinearRNN(n=6, b=2, d=3, T=3)
LAYERS = {"W1": sl.FirstColumns(4, 8), "W2": sl.FirstRows(6, 8), "W3": sl.FirstRows(6, 8)}
Rules = Mapping[str, Rule]


def find(instance: Instance, starts: int, rng: np.random.Generator) -> Any:
    """The first candidate of at most ``starts`` starts, with no proof, and the effort until then."""
    for found in candidates(instance, starts, 200, rng):
        if found[0] is not None:
            break
    return found


SHAPES: dict[str, tuple[Network, int, Rules]] = {
    "rows": (RNN, 4, {"W": sl.FirstRows(6)}),
    "columns": (WIDE, 6, {"W": sl.FirstColumns(4)}),
    "m < T b": (RNN, 3, {"W": sl.FirstRows(8)}),
    "few rows, m < T b": (RNN, 2, {"W": sl.FirstRows(3)}),
    "b = 2": (WIDE, 6, {"W": sl.FirstRows(5)}),
    "b = 2, m < T b": (WIDE, 4, {"W": sl.FirstRows(5)}),
    "encoder and recurrent": (RNN, 4, {"W": sl.FirstRows(8, 12), "B": sl.FirstRows(8, 4)}),
    "decoder and recurrent": (RNN, 4, {"W": sl.FirstRows(8, 8), "D": sl.FirstRows(4, 8)}),
    "all three": (
        RNN,
        4,
        {"W": sl.FirstRows(8, 8), "B": sl.FirstRows(8, 4), "D": sl.FirstRows(4, 4)},
    ),
    "three layers": (sl.FeedForward((4, 8, 8, 6)), 4, LAYERS),
    "biases": (
        sl.FeedForward((3, 5, 2), bias=True),
        4,
        {"W1": sl.FirstRows(5, 4), "b1": sl.FirstRows(5, 1), "W2": sl.FirstRows(2, 3)},
    ),
    "more than needed": (RNN, 4, {"W": sl.FirstRows(8, 20)}),
    "more than needed, mixed": (RNN, 3, {"W": sl.FirstRows(8, 10), "D": sl.FirstRows(4, 8)}),
}


def planted(network: Network, samples: int, rules: Rules, trial: int) -> Instance:
    """An instance that has a solution: targets are the outputs at random learnable values.

    Allocations that are deficient are drawn again: their solutions are not isolated.
    """
    problem = sl.Problem(network, samples)
    while True:
        drawn = sl.draw(problem, rules, seed=11, trial=trial)
        rng = np.random.default_rng([11, trial])
        sizes = [network.shapes[name][1] for name, _, _ in drawn.allocation.labels()]
        weights = drawn.with_values(rng.standard_normal(len(sizes)) / np.sqrt(sizes))
        jacobian = network.jacobian(weights, drawn.inputs, drawn.allocation)
        if np.linalg.matrix_rank(jacobian) == drawn.equations:
            break
        trial += 1000
    targets = network.forward(weights, drawn.inputs)
    return Instance(network, drawn.allocation, drawn.weights, drawn.inputs, targets)


def quadratic(linear: float, constant: float) -> Instance:
    """w^2 + linear w = constant: an RNN of one unit, two steps, one sample."""
    network = sl.LinearRNN(n=1, b=1, d=1, T=2)
    ones = {name: np.ones((1, 1)) for name in network.shapes}
    inputs = np.array([[[1.0]], [[linear]]])
    allocation = sl.Allocation.whole(network, ["W"])
    return Instance(network, allocation, ones, inputs, np.array([[constant]]))


@pytest.mark.parametrize("shape", SHAPES)
def test_planted_solutions_are_found_and_proved(shape: str) -> None:
    for trial in range(3):
        instance = planted(*SHAPES[shape], trial)
        decision = Search().attempt(instance, Budget(), np.random.default_rng(trial))
        assert decision.kind == "matched", decision.reason
        assert decision.grade is not None and decision.grade.kind == "proof"
        assert decision.certificate is not None and decision.certificate.check()
        assert decision.rung == "search"
        assert decision.effort.starts >= 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_nearly_all_planted_solutions_are_found(shape: str) -> None:
    found = [
        find(planted(*SHAPES[shape], trial), 1000, np.random.default_rng(trial))[0] is not None
        for trial in range(60)
    ]
    assert np.mean(found) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "trials", "least"),
    [
        (12, 5, 60, 0.99),
        (12, 12, 60, 0.99),
        (16, 6, 60, 0.99),
        (24, 24, 20, 0.99),
        (32, 32, 20, 0.95),
    ],
)
def test_large_networks_are_matched(n: int, k: int, trials: int, least: float) -> None:
    problem = sl.Problem(sl.LinearRNN(n=n, b=1, d=4, T=n // 2), samples=n // 2)
    matched = 0
    for trial in range(trials):
        instance = sl.draw(problem, {"W": sl.FirstRows(k)}, seed=12, trial=trial)
        matched += find(instance, 3000, np.random.default_rng(trial))[0] is not None
    assert matched / trials >= least


@pytest.mark.parametrize(("n", "k"), [(8, 5), (12, 8), (16, 16)])
def test_drawn_instances_are_matched(n: int, k: int) -> None:
    problem = sl.Problem(sl.LinearRNN(n=n, b=1, d=4, T=n // 2), samples=n // 2)
    for trial in range(4):
        instance = sl.draw(problem, {"W": sl.FirstRows(k)}, seed=13, trial=trial)
        decision = Search().attempt(instance, Budget(), np.random.default_rng(trial))
        assert decision.kind == "matched"


@pytest.mark.parametrize("matcher", [Search(), Reference(starts=20), Reference(20, jacobian=True)])
@pytest.mark.parametrize(("linear", "constant"), [(0.0, 2.0), (3.0, -1.0), (-0.5, 7.0)])
def test_roots_of_a_quadratic(matcher: Search | Reference, linear: float, constant: float) -> None:
    roots = np.roots([1.0, linear, -constant])
    instance = quadratic(linear, constant)
    decision = matcher.attempt(instance, Budget(), np.random.default_rng(0))
    assert decision.kind == "matched" and decision.values is not None
    assert np.abs(roots - decision.values[0]).min() < 1e-9


@pytest.mark.parametrize("matcher", [Search(), Reference(starts=50)])
def test_no_real_root_is_never_a_match_and_never_a_refutation(matcher: Search | Reference) -> None:
    decision = matcher.attempt(quadratic(1.0, -3.0), Budget(starts=200), np.random.default_rng(0))
    assert decision.kind == "undecided"
    assert decision.grade is None and decision.values is None
    assert decision.effort.starts in (50, 200)


def test_a_double_root_is_found_but_not_proved() -> None:
    decision = Search().attempt(quadratic(2.0, -1.0), Budget(bits=424), np.random.default_rng(0))
    assert decision.kind == "undecided"


def test_same_generator_same_decision() -> None:
    instance = planted(*SHAPES["b = 2"], 5)
    (one, work), (two, again) = (find(instance, 50, np.random.default_rng(3)) for _ in range(2))
    assert one is not None and two is not None
    assert one.tobytes() == two.tobytes()
    assert (work.starts, work.iterations) == (again.starts, again.iterations)


def test_budget_counts_starts() -> None:
    # No real root, so every start is used: none, those of the budget, those of the range asked for.
    instance = quadratic(1.0, -3.0)
    for matcher, budget, used in (
        (Search(), Budget(starts=0), 0),
        (Search(), Budget(starts=37), 37),
        (Search(last=10), Budget(starts=37), 10),
        (Search(first=30), Budget(starts=37), 7),
        (Search(first=50), Budget(starts=37), 0),
    ):
        decision = matcher.attempt(instance, budget, np.random.default_rng(0))
        assert decision.kind == "undecided"
        assert decision.effort.starts == used


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e-30, 1e30, 1e200])
@pytest.mark.parametrize("part", ["weights", "inputs", "targets"])
def test_extreme_numbers_do_no_harm(part: str, scale: float) -> None:
    for shape in ("rows", "m < T b", "three layers"):
        good = planted(*SHAPES[shape], 0)
        weights, inputs, targets = dict(good.weights), good.inputs, good.targets
        if part == "weights":
            weights = {name: scale * value for name, value in weights.items()}
        elif part == "inputs":
            inputs = scale * inputs
        else:
            targets = scale * targets
        instance = Instance(good.network, good.allocation, weights, inputs, targets)
        decision = Search().attempt(instance, Budget(starts=4, bits=106), np.random.default_rng(0))
        assert decision.kind in ("matched", "undecided")


def test_singular_inputs_contradict_nothing() -> None:
    # A repeated sample with equal targets, and with targets that contradict each other.
    good = planted(*SHAPES["rows"], 0)
    inputs, targets = good.inputs.copy(), good.targets.copy()
    inputs[:, :, 1] = inputs[:, :, 0]
    for wanted in (targets, np.where(np.arange(4) == 1, targets[:, :1], targets)):
        instance = Instance(good.network, good.allocation, good.weights, inputs, wanted)
        decision = Search().attempt(instance, Budget(starts=20, bits=106), np.random.default_rng(0))
        assert decision.kind == "undecided"


def test_refusals() -> None:
    relu = sl.FeedForward((2, 3, 2), activation="relu")
    problem = sl.Problem(relu, samples=2)
    instance = sl.draw(problem, {"W1": sl.FirstRows(3)}, seed=0, trial=0)
    assert "not linear" in str(Search().refusal(instance))
    assert Reference().refusal(instance) is None
    few = sl.draw(sl.Problem(RNN, 4), {"W": sl.FirstRows(8, 12)}, seed=0, trial=0)
    assert "12" in str(Search().refusal(few)) and "16" in str(Reference().refusal(few))
    with pytest.raises(BadInputError, match="last"):
        Search(first=5, last=2)
    with pytest.raises(BadInputError, match="starts"):
        Reference(starts=0)


@pytest.mark.parametrize(
    "network",
    [RNN, sl.FeedForward((3, 4, 2), activation="relu", bias=True), sl.RNN(n=4, b=2, d=2, T=3)],
    ids=lambda network: network.spec,
)
def test_the_function_given_to_fsolve(network: Network) -> None:
    rng = np.random.default_rng(8)
    allocation = sl.Allocation.whole(network)
    weights = {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
    inputs = rng.standard_normal(network.input_shape(3))
    targets = rng.standard_normal((network.output_size, 3))
    instance = Instance(network, allocation, weights, inputs, targets)
    x = rng.standard_normal(len(allocation))
    got = outputs_minus_targets(instance)(x)
    np.testing.assert_allclose(got, instance.residual(x).ravel(), atol=1e-12)


def test_reference_agrees_with_search_on_easy_instances() -> None:
    problem = sl.Problem(sl.LinearRNN(n=6, b=1, d=2, T=3), samples=3)
    for trial in range(6):
        instance = sl.draw(problem, {"W": sl.FirstRows(6)}, seed=3, trial=trial)
        reference = Reference(starts=100).attempt(instance, Budget(), np.random.default_rng(trial))
        if reference.kind == "matched":
            assert reference.grade is not None and reference.grade.kind == "numerical"
            decision = Search().attempt(instance, Budget(), np.random.default_rng(trial))
            assert decision.kind == "matched"
