"""The rung for networks with activations: what it proves, what it refutes, what it leaves open."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import sublearn as sl
from sublearn.matchers import Nonlinear
from sublearn.matchers._behind import contradiction, is_affine_behind
from sublearn.matchers._hull import out_of_hull
from sublearn.matchers._ranges import out_of_range, ranges
from sublearn.matchers.proofs._balls import precision

RNG = np.random.default_rng


def _planted(problem: sl.Problem, learn: object, trial: int, size: float = 1.0) -> sl.Instance:
    """A drawn instance whose targets are replaced by outputs of random learnable weights."""
    drawn = sl.draw(problem, learn, trial=trial)  # type: ignore[arg-type]
    values = size * RNG(trial).standard_normal(len(drawn.allocation))
    targets = drawn.network.forward(drawn.with_values(values), drawn.inputs)
    return sl.Instance(drawn.network, drawn.allocation, drawn.weights, drawn.inputs, targets)


CASES = {
    "tanh": (sl.Problem(sl.FeedForward((5, 7, 3), "tanh"), 4), {"W1": sl.FirstRows(7)}),
    "both layers": (
        sl.Problem(sl.FeedForward((4, 6, 3), "sigmoid", bias=True), 4),
        {"W1": sl.FirstRows(6, 8), "W2": sl.FirstRows(3, 4)},
    ),
    "deep": (
        sl.Problem(sl.FeedForward((4, 5, 5, 3), "tanh", "sigmoid"), 4),
        {"W1": sl.FirstRows(5, 6), "W2": sl.FirstRows(5, 6)},
    ),
    "recurrent": (sl.Problem(sl.RNN(n=6, b=1, d=3, T=4), 4), {"W": sl.FirstRows(6)}),
}


@pytest.mark.parametrize("name", CASES)
def test_planted_solutions_are_matched(name: str) -> None:
    problem, learn = CASES[name]
    for trial in range(4):
        instance = _planted(problem, learn, trial, 0.7)
        found = Nonlinear().attempt(instance, sl.Budget(), RNG(0))
        assert found.kind == "matched" and str(found.grade) == "proof", found
        assert found.values is not None and found.certificate is not None
        assert np.abs(instance.residual(found.values)).max() < 1e-9
        assert found.certificate.check()


def test_nothing_solvable_is_ever_refuted() -> None:
    """Targets that are reached by some values survive every refutation, however large the values."""
    learns = [{"W1": 5}, {"W2": 4}, {"W1": 3, "W2": 3}, {"b1": 2, "b2": 1}]
    count = 0
    for hidden, output, bias in itertools.product(
        ("tanh", "sigmoid", "relu", "linear"), ("linear", "tanh", "sigmoid", "relu"), (False, True)
    ):
        network = sl.FeedForward((3, 4, 2), hidden, output, bias)
        for number, learn in enumerate(learns):
            if network.is_linear or (not bias and "b1" in learn):
                continue
            problem = sl.Problem(network, 3)
            for size in (0.5, 3.0):
                instance = _planted(problem, sl.Allocation.spread(network, learn), number, size)
                if output in ("tanh", "sigmoid") and np.abs(instance.targets).max() > 1 - 1e-12:
                    continue  # rounded to the end of the open range, where nothing is reached
                _assert_not_refuted(instance)
                count += 1
    recurrent = sl.Problem(sl.RNN(n=4, b=1, d=3, T=3), 3)
    for trial in range(10):
        instance = _planted(recurrent, {"W": sl.FirstRows(4)}, trial, 2.0)
        _assert_not_refuted(instance)
    assert count > 100


def _assert_not_refuted(instance: sl.Instance) -> None:
    """Up to the rounding of the targets: an output that nothing can change may miss it by that."""
    assert out_of_hull(instance) is None
    if out_of_range(instance) is not None:
        with precision(128):
            found = ranges(instance)
            low, high = (
                np.array([float(e.mid()) for e in end.entries()]).reshape(instance.targets.shape)
                for end in (found.low, found.high)
            )
        assert (found.no_low | (low <= instance.targets + 1e-14)).all()
        assert (found.no_high | (high >= instance.targets - 1e-14)).all()


def test_the_range_of_one_output_in_closed_form() -> None:
    """Free units in (-1, 1), one frozen: the output covers an open interval of known ends."""
    network = sl.FeedForward((2, 3, 1), "tanh")
    weights = {"W1": np.array([[0, 0], [0, 0], [0.5, 0.25]]), "W2": np.array([[2.0, -1.0, 4.0]])}
    allocation = sl.Allocation.block(network, "W1", rows=[0, 1])
    inputs = np.array([[1.0], [2.0]])
    middle = 4 * np.tanh(1.0)
    for offset, inside in ((2.999, True), (3.001, False), (-2.999, True), (-3.001, False)):
        instance = sl.Instance(network, allocation, weights, inputs, np.array([[middle + offset]]))
        assert (out_of_range(instance) is None) == inside


def _turn(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Positive where ``two`` lies to the left of ``one``."""
    return np.asarray(one[..., 0] * two[..., 1] - one[..., 1] * two[..., 0])


def test_the_hull_of_two_outputs_against_its_corners() -> None:
    """Two outputs of free tanh units fill the inside of a zonotope: the hull of its 2^k corners."""
    rng = RNG(4)
    network = sl.FeedForward((2, 5, 2), "tanh")
    whole = sl.Allocation.whole(network, ["W1"])
    found = {True: 0, False: 0}
    for _ in range(40):
        readout = rng.standard_normal((2, 5))
        corners = np.array([readout @ s for s in itertools.product((-1.0, 1.0), repeat=5)])
        target = readout @ rng.uniform(-2.5, 2.5, 5)
        # Outside exactly if some edge of the hull has the target on its other side.
        edges = [
            (a, b)
            for a, b in itertools.permutations(corners, 2)
            if (_turn(b - a, corners - a) > -1e-12).all()
        ]
        inside = all(_turn(b - a, target - a) > 0 for a, b in edges)
        weights = {"W1": np.zeros((5, 2)), "W2": readout}
        instance = sl.Instance(network, whole, weights, np.ones((2, 1)), target[:, None])
        assert (out_of_hull(instance) is None) == inside
        found[inside] += 1
    assert min(found.values()) >= 5


def test_the_last_layer_is_one_linear_system() -> None:
    """Affine behind tanh features: matched where square, refuted where an output has too few."""
    network = sl.FeedForward((4, 6, 2), "tanh", "sigmoid")
    problem = sl.Problem(network, 3)
    square = sl.Allocation.block(network, "W2", columns=[0, 1, 2])
    few = sl.Allocation.from_entries(
        network, {"W2": [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3)]}
    )
    for trial in range(3):
        instance = sl.draw(problem, square, trial=trial)
        assert is_affine_behind(instance)
        found = sl.decide(instance)
        assert found.kind == "matched" and found.rung == "nonlinear"
        assert found.values is not None
        # The same by hand, in float64.
        features = np.tanh(instance.weights["W1"] @ instance.inputs)
        logits = np.log(instance.targets / (1 - instance.targets))
        rest = logits - instance.weights["W2"] @ features
        rows = [np.linalg.solve(features[:3].T, rest[o]) for o in range(2)]
        assert np.allclose(found.values, np.concatenate(rows), rtol=1e-6)
        found = sl.decide(sl.draw(problem, few, trial=trial), ladder=[Nonlinear()])
        assert found.kind == "refuted" and str(found.grade) == "proof"
        assert "output 0" in found.reason
        # The ladder's rank says the same of every draw: row 0 has two weights, row 1 one too many.
        assert sl.decide(sl.draw(problem, few, trial=trial)).rung == "rank"


def test_equations_that_agree_exactly_are_no_contradiction() -> None:
    """Whole numbers, so that nothing is rounded: 3 equations with 2 learnable weights that agree."""
    network = sl.FeedForward((2, 3, 1), "relu")
    allocation = sl.Allocation.block(network, "W2", columns=[0, 1])
    weights = {"W1": np.array([[1, 2], [3, -1], [1, 1]]), "W2": np.array([[0, 0, 2]])}
    inputs = np.array([[1, 2, -1], [1, 0, 3]])
    features = np.maximum(weights["W1"] @ inputs, 0)
    targets = np.array([[5, -3, 2]]) @ features
    agree = sl.Instance(network, allocation, weights, inputs, targets)
    assert is_affine_behind(agree) and contradiction(agree) is None
    targets[0, 1] += 1
    apart = sl.Instance(network, allocation, weights, inputs, targets)
    assert contradiction(apart) == (
        "the 3 equations of output 0 hold 2 learnable weights and contradict each other"
    )


@pytest.mark.parametrize(
    ("output", "target"), [("tanh", 1.0), ("tanh", -1.5), ("sigmoid", 0.0), ("relu", -0.1)]
)
def test_targets_that_the_output_activation_never_gives(output: str, target: float) -> None:
    network = sl.FeedForward((2, 3, 1), "tanh", output)
    allocation = sl.Allocation.whole(network, ["W1", "W2"])
    weights = {name: np.zeros(shape) for name, shape in network.shapes.items()}
    instance = sl.Instance(network, allocation, weights, np.ones((2, 1)), np.array([[target]]))
    found = sl.decide(instance)
    assert found.kind == "refuted" and found.grade == sl.Grade("proof")


def test_the_rung_has_a_name_that_holds_for_relu_too() -> None:
    """Two ReLU layers and a ReLU on the output, which cannot give -1: nothing smooth about it."""
    network = sl.FeedForward((2, 3, 3, 1), "relu", "relu")
    weights = {name: np.ones(shape) for name, shape in network.shapes.items()}
    held = sl.Allocation.whole(network, ["W2"])
    found = sl.decide(sl.Instance(network, held, weights, np.ones((2, 1)), np.array([[-1.0]])))
    assert (found.kind, found.rung) == ("refuted", "nonlinear")
    assert str(found).startswith("refuted by nonlinear (proof): output 0 of sample 0 lies in")


def test_what_stays_open_and_what_is_refused() -> None:
    network = sl.FeedForward((4, 8, 2), "tanh")
    problem = sl.Problem(network, 4)
    few = sl.Allocation.spread(network, {"W1": 5})
    found = Nonlinear().attempt(_planted(problem, few, 0), sl.Budget(), RNG(0))
    assert found.kind == "undecided" and "5 weights cannot be proved to meet 8" in found.reason
    none = Nonlinear(starts=0).attempt(
        _planted(problem, {"W1": sl.FirstRows(8)}, 0), sl.Budget(), RNG(0)
    )
    assert none.kind == "undecided" and "0 starts" in none.reason
    linear = sl.draw(sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), 2), {"W": sl.FirstRows(4)})
    assert Nonlinear().refusal(linear) == "the network is linear"
    with pytest.raises(sl.BadInputError, match="starts"):
        Nonlinear(starts=-1)


def test_the_same_seed_decides_the_same() -> None:
    problem, learn = CASES["recurrent"]
    instance = sl.draw(problem, learn, trial=0)
    one, two = sl.decide(instance, seed=3), sl.decide(instance, seed=3)
    assert one.kind == two.kind and one.effort == two.effort
    if one.values is not None and two.values is not None:
        assert (one.values == two.values).all()


def test_large_instances_are_refused_at_once() -> None:
    network = sl.FeedForward((300, 200, 10), "tanh")
    problem = sl.Problem(network, 100)
    instance = sl.draw(problem, sl.Allocation.spread(network, {"W1": 1000}))
    assert Nonlinear().refusal(instance) == "too large for enclosures"
