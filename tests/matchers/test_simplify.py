"""Instances asked more simply: the same answers, by other means."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sublearn as sl
from sublearn.matchers import Affine, Nonlinear
from sublearn.matchers._simplify import simplify


def test_equal_output_activations_are_taken_off() -> None:
    for output in ("tanh", "sigmoid"):
        network = sl.FeedForward((3, 2), output=output, bias=True)
        drawn = sl.draw(sl.Problem(network, 3), sl.Allocation.whole(network, ["W1"]))
        simple, reason = simplify(drawn)
        assert reason is None and simple.network.is_linear
        assert simple.teacher is not None and drawn.teacher is not None
        before = np.arctanh(drawn.targets) if output == "tanh" else -np.log(1 / drawn.targets - 1)
        np.testing.assert_allclose(simple.targets, before, rtol=1e-9)
    # Nothing is taken off where the two differ, or where the targets are numbers.
    other = sl.Problem(network, 3, teacher=sl.FeedForward((3, 2), output="tanh", bias=True))
    assert simplify(sl.draw(other, {"W1": sl.Anywhere(6)}))[0].network == network
    given = sl.Problem(network, 3, teacher=sl.Targets(sl.ensembles.Uniform(0.1)))
    assert simplify(sl.draw(given, {"W1": sl.Anywhere(6)}))[0].network == network


def test_frozen_relu_layers_are_folded_exactly() -> None:
    network = sl.FeedForward((2, 3, 4, 2), "relu", bias=True)
    learn = {"W3": sl.Anywhere(5), "b3": sl.Anywhere(1)}
    drawn = sl.draw(sl.Problem(network, 3), learn, seed=4)
    simple, _ = simplify(drawn)
    assert simple.network.spec == "ffn:4-2,bias=yes" and len(simple.allocation) == 6
    # By hand, in fractions.
    rows = {k: [[Fraction(v) for v in row] for row in w] for k, w in drawn.weights.items()}
    for s, column in enumerate(drawn.inputs.T.tolist()):
        state = [Fraction(v) for v in column]
        for layer in (1, 2):
            state = [
                max(Fraction(0), sum((a * b for a, b in zip(row, state, strict=True)), bias[0]))
                for row, bias in zip(rows[f"W{layer}"], rows[f"b{layer}"], strict=True)
            ]
        for value, found in zip(state, simple.exact_inputs.rationals(), strict=True):
            assert (int(found[s].p), int(found[s].q)) == (value.numerator, value.denominator)
    values = np.arange(6.0)
    np.testing.assert_allclose(simple.residual(values), drawn.residual(values), atol=1e-12)


@pytest.mark.parametrize("T", [5, 6, 9])
def test_markov_parameters_beyond_the_units_add_nothing(T: int) -> None:
    """n + n* steps instead of T: the same answers as with all equations, where those can be decided."""
    network = sl.LinearRNN(n=2, b=1, d=1, T=T)
    learn = sl.Allocation.from_entries(network, {"D": [(0, 0)], "B": [(1, 0)]})
    assert simplify(sl.draw(sl.Problem(network, T), learn))[0].network.T == 4  # type: ignore[attr-defined]
    decoder = sl.Allocation.whole(network, ["D"])
    for trial in range(10):
        drawn = sl.draw(sl.Problem(network, T), decoder, trial=trial)
        whole = Affine().attempt(drawn, sl.Budget(), np.random.default_rng(0))
        assert sl.decide(drawn).kind == whole.kind == "refuted"
        assert drawn.teacher is not None
        planted = sl.Instance.from_teacher(
            network, decoder, drawn.teacher.weights, drawn.inputs, drawn.teacher.weights
        )
        whole = Affine().attempt(planted, sl.Budget(), np.random.default_rng(0))
        assert sl.decide(planted).kind == whole.kind == "matched"


def test_samples_that_are_there_twice() -> None:
    network = sl.FeedForward((2, 3, 1), "tanh")
    held = sl.Allocation.whole(network, ["W2"])
    weights = {name: np.ones(shape) for name, shape in network.shapes.items()}
    weights["W1"] = np.array([[1.0, 0.5], [-0.3, 0.2], [0.7, -0.9]])
    x = np.array([[1.0, 1.0, 0.5], [2.0, 2.0, 0.1]])
    same = sl.Instance(network, held, weights, x, np.array([[0.3, 0.3, 0.4]]))
    simple, reason = simplify(same)
    assert reason is None and simple.samples == 2
    found = sl.decide(same)
    assert found.kind == "matched" and found.certificate is not None and found.certificate.check()
    twice = sl.Instance(network, held, weights, x, np.array([[0.3, np.nextafter(0.3, 1), 0.4]]))
    assert sl.decide(twice).kind == "refuted"
    # A drawn instance of signs repeats samples, and its teacher repeats itself.
    signs = sl.Problem(
        sl.FeedForward((2, 3, 1), "tanh"), 6, sl.Ensemble(inputs=sl.ensembles.Rademacher())
    )
    drawn = sl.draw(signs, held, seed=3)
    assert simplify(drawn)[0].samples <= 4


def test_a_linear_student_of_a_tanh_teacher() -> None:
    """Dependent samples: balls see that the targets are not; copies of samples are left out."""
    student, teacher = sl.FeedForward((1, 1)), sl.FeedForward((1, 2, 1), "tanh")
    held = sl.Allocation.whole(student)
    shown = {"W1": np.array([[1.0], [0.5]]), "W2": np.array([[1.0, 2.0]])}
    line = np.array([[1.0, 2.0, 3.0]])
    instance = sl.Instance.from_teacher(student, held, {"W1": [[0.0]]}, line, shown, teacher)
    decision = sl.decide(instance)
    assert (decision.kind, decision.rung, str(decision.grade)) == ("refuted", "samples", "proof")
    copies = sl.Instance.from_teacher(student, held, {"W1": [[0.0]]}, line * 0 + 2, shown, teacher)
    decision = sl.decide(copies)
    assert decision.kind == "matched" and decision.values is not None
    assert decision.values[0] == pytest.approx((np.tanh(2.0) + 2 * np.tanh(1.0)) / 2)
    # tanh is odd: opposite samples have opposite targets, which no ball can equate.
    odd = sl.Instance.from_teacher(
        student, held, {"W1": [[0.0]]}, np.array([[1.0, -1.0]]), shown, teacher
    )
    assert sl.decide(odd).kind == "undecided"


def test_saturated_outputs() -> None:
    """Targets that float64 rounds to 1 are below 1: three weights meet any two of them."""
    network = sl.FeedForward((3, 4, 1), activation="tanh", output="tanh")
    problem = sl.Problem(network, samples=2, ensemble=sl.Gaussian(20.0))
    rounded = 0
    for trial in range(12):
        drawn = sl.draw(problem, sl.Allocation.whole(network, ["W2"]), trial=trial)
        rounded += bool((np.abs(drawn.targets) == 1.0).any())
        decision = sl.decide(drawn)
        assert decision.kind == "matched" and decision.certificate is not None
        assert decision.certificate.check()
        given = sl.Instance(network, drawn.allocation, drawn.weights, drawn.inputs, drawn.targets)
        if (np.abs(drawn.targets) == 1.0).any():
            assert sl.decide(given, ladder=[Nonlinear()]).kind == "refuted"
    assert rounded > 3
