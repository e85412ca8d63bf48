"""Instances: drawn from (seed, problem, trial) alone, checked at the door."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import sublearn as sl
from sublearn.matchers._simplify import simplify

PROBLEM = sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=3), samples=3)
RULE = {"W": sl.FirstRows(3)}


def _numbers(instance: sl.Instance) -> list[np.ndarray]:
    return [*instance.weights.values(), instance.inputs, instance.targets]


def test_the_same_trial_is_the_same_numbers() -> None:
    one, two = (sl.draw(PROBLEM, RULE, seed=3, trial=8) for _ in range(2))
    assert one.allocation == two.allocation
    assert all((a == b).all() for a, b in zip(_numbers(one), _numbers(two), strict=True))
    for other in (
        sl.draw(PROBLEM, RULE, seed=3, trial=9),
        sl.draw(PROBLEM, RULE, seed=4, trial=8),
        sl.draw(sl.Problem(PROBLEM.network, 2), {"W": sl.FirstRows(3)}, seed=3, trial=8),
    ):
        assert not np.array_equal(other.weights["B"], one.weights["B"])


def test_allocations_are_compared_on_the_same_numbers() -> None:
    free = sl.draw(PROBLEM, RULE, seed=3, trial=8)
    fixed = sl.draw(PROBLEM, sl.Allocation.from_rows(PROBLEM.network, "W", [0]), seed=3, trial=8)
    assert (free.inputs == fixed.inputs).all() and (free.targets == fixed.targets).all()
    frozen = ~(free.allocation.mask("W") | fixed.allocation.mask("W"))
    assert (free.weights["W"][frozen] == fixed.weights["W"][frozen]).all()


def test_values_and_weights_are_two_views() -> None:
    instance = sl.draw(PROBLEM, RULE, seed=3, trial=8)
    values = np.arange(1.0, 7.0)
    weights = instance.with_values(values)
    assert (instance.values(weights) == values).all()
    assert (weights["W"][~instance.allocation.mask("W")] != 0).all()
    outputs = PROBLEM.network.forward(weights, instance.inputs)
    assert (instance.residual(values) == outputs - instance.targets).all()


def test_dependent_samples_stay() -> None:
    many = sl.Problem(PROBLEM.network, samples=7)  # T b = 3 numbers per sample
    instance = sl.draw(many, {"W": sl.FirstRows(3)})
    assert instance.samples == 7 and len(instance.allocation) == 6
    assert len(instance.exact_inputs.pivots()) == 3
    low = sl.Problem(PROBLEM.network, 3, sl.Ensemble(inputs=sl.ensembles.LowRank(rank=2)))
    instance = sl.draw(low, {"W": sl.FirstRows(3)})
    assert instance.samples == 3 and len(instance.allocation) == 4
    # The product is exact: rank 2 in whole numbers, which its rounding to float64 would not have.
    assert len(instance.exact_inputs.pivots()) == 2
    from sublearn.exact import Dyadics

    assert len(Dyadics.of(instance.inputs.reshape(3, -1)).pivots()) == 3


def test_what_a_teacher_asks_for_is_not_rounded() -> None:
    """Targets in fractions from the formula of the model, beside the float64 view."""
    from fractions import Fraction

    def dot(left: list[Fraction], right: list[Fraction]) -> Fraction:
        return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))

    network = sl.FeedForward((3, 2, 2), activation="relu", bias=True)
    instance = sl.draw(sl.Problem(network, 4), sl.Allocation.whole(network, ["W1"]), seed=5)
    assert instance.teacher is not None and instance.exact_targets is not None
    held = {
        k: [[Fraction(x) for x in row] for row in v] for k, v in instance.teacher.weights.items()
    }
    table = instance.exact_targets.rationals()
    for s, column in enumerate(instance.inputs.T.tolist()):
        sample = [Fraction(x) for x in column]
        hidden = [
            max(Fraction(0), dot(row, sample) + bias[0])
            for row, bias in zip(held["W1"], held["b1"], strict=True)
        ]
        for o, (row, bias) in enumerate(zip(held["W2"], held["b2"], strict=True)):
            value, found = dot(row, hidden) + bias[0], table[o][s]
            assert (int(found.p), int(found.q)) == (value.numerator, value.denominator)
            assert instance.targets[o, s] == pytest.approx(float(value), rel=1e-13)
    curved = sl.FeedForward((3, 2, 2), activation="tanh")
    drawn = sl.draw(sl.Problem(curved, 4), sl.Allocation.whole(curved, ["W1"]))
    assert drawn.exact_targets is None


def test_an_edited_draw_is_a_given_instance() -> None:
    """Other numbers have neither the teacher nor the rights of the draw they were made from."""
    drawn = sl.draw(PROBLEM, RULE, seed=3, trial=8)
    assert drawn.generic and drawn.teacher is not None and drawn.problem is PROBLEM
    for changes in (
        {"inputs": np.round(drawn.inputs)},
        {"targets": np.round(drawn.targets)},
        {"weights": {name: np.round(value) for name, value in drawn.weights.items()}},
        {},
    ):
        other = dataclasses.replace(drawn, **changes)
        assert not other.generic and other.teacher is None and other.origin is None
    # A field that somebody writes to does not bring them back.
    other = dataclasses.replace(drawn, inputs=np.round(drawn.inputs))
    object.__setattr__(other, "origin", drawn.origin)
    assert not other.generic


def test_numbers_cannot_be_edited_behind_the_rights_of_a_draw() -> None:
    """What is generic is compared once, so no number may change afterwards, even on purpose."""
    low = dataclasses.replace(PROBLEM.ensemble, inputs=sl.ensembles.LowRank(rank=1))
    for problem in (PROBLEM, dataclasses.replace(PROBLEM, ensemble=low)):
        drawn = sl.draw(problem, RULE)
        assert drawn.generic and drawn.teacher is not None
        arrays = [drawn.inputs, drawn.targets, *drawn.weights.values()]
        arrays += [*drawn.teacher.weights.values(), *(drawn.input_factors or ())]
        for array in arrays:
            assert not isinstance(array.base, np.ndarray)
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True


def test_a_teacher_of_ones_own() -> None:
    network = sl.FeedForward((2, 1))
    held = sl.Allocation.whole(network)
    weights = {"W1": [[0.1, 0.7]]}
    x = [[0.1, 0.2, 0.3], [0.3, 0.1, 0.7]]
    taught = sl.Instance.from_teacher(network, held, weights, x, weights)
    assert not taught.generic and sl.decide(taught).kind == "matched"
    given = sl.Instance(network, held, {"W1": np.zeros((1, 2))}, np.array(x), taught.targets)
    assert sl.decide(given).kind == "refuted"
    factors = np.array([[0.1], [0.7]]), np.array([[0.3, 0.9]])
    product = sl.Instance.from_teacher(network, held, weights, factors, weights)
    assert product.inputs.shape == (2, 2) and sl.decide(product).kind == "matched"
    with pytest.raises(sl.BadInputError, match="pair of matrices"):
        sl.Instance.from_teacher(
            network, held, weights, (np.ones((3, 1)), np.ones((1, 2))), weights
        )
    with pytest.raises(sl.BadInputError, match="the teacher's inputs have shape"):
        other = sl.FeedForward((3, 1))
        sl.Instance.from_teacher(network, held, weights, x, {"W1": np.ones((1, 3))}, other)
    with pytest.raises(sl.BadInputError, match="must be finite"):
        sl.Instance.from_teacher(network, held, weights, x, {"W1": [[np.inf, 0.0]]})


def test_generic_only_if_drawn_from_densities() -> None:
    assert sl.draw(PROBLEM, RULE).generic
    signs = sl.Problem(PROBLEM.network, 3, sl.Ensemble(weights=sl.ensembles.Rademacher()))
    assert not sl.draw(signs, RULE).generic
    made = sl.draw(PROBLEM, RULE)
    given = sl.Instance(made.network, made.allocation, made.weights, made.inputs, made.targets)
    assert not given.generic


def test_numbers_cannot_be_changed() -> None:
    instance = sl.draw(PROBLEM, RULE)
    with pytest.raises(ValueError):
        instance.targets[0, 0] = 1.0
    with pytest.raises(TypeError):
        instance.weights["W"] = np.zeros((5, 5))  # type: ignore[index]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_must_be_finite(bad: float) -> None:
    made = sl.draw(PROBLEM, RULE)
    targets = np.array(made.targets)
    targets[0, 0] = bad
    with pytest.raises(sl.BadInputError, match=rf"targets must be finite, not {bad} at \(0, 0\)"):
        sl.Instance(made.network, made.allocation, made.weights, made.inputs, targets)


def test_shapes_are_checked() -> None:
    made = sl.draw(PROBLEM, RULE)
    held, weights, inputs = made.allocation, made.weights, made.inputs
    with pytest.raises(sl.BadInputError, match="targets must have shape"):
        sl.Instance(made.network, held, weights, inputs, made.targets[:, :2])
    with pytest.raises(sl.BadInputError, match="give the transposed array"):
        sl.Instance(made.network, held, weights, inputs, made.targets.T)
    with pytest.raises(sl.BadInputError, match=r"not ndarray: Allocation.from_masks\(network"):
        sl.Instance(made.network, np.ones((5, 5)), weights, inputs, made.targets)  # type: ignore
    with pytest.raises(sl.BadInputError, match="inputs"):
        sl.Instance(made.network, held, weights, inputs[:2], made.targets)
    with pytest.raises(sl.BadInputError, match="does not belong"):
        sl.Instance(sl.FeedForward((2, 2)), held, weights, inputs, made.targets)
    nothing = sl.Allocation(made.network.shapes, {})
    with pytest.raises(sl.BadInputError, match="r = 0"):
        sl.Instance(made.network, nothing, weights, inputs, made.targets)
    with pytest.raises(sl.BadInputError, match="seed"):
        sl.draw(PROBLEM, RULE, seed=-1)


@pytest.mark.parametrize("law", [sl.ensembles.Rademacher(), sl.ensembles.Normal()])
@pytest.mark.parametrize("student", [False, True])
@pytest.mark.parametrize("teacher", [False, True])
def test_a_bias_on_either_side_keeps_two_samples_of_a_line(
    law: sl.ensembles.Normal | sl.ensembles.Rademacher, student: bool, teacher: bool
) -> None:
    """Samples of one number are dependent, but where an output may be shifted two are needed."""
    network, other = (sl.FeedForward((1, 2), bias=b) for b in (student, teacher))
    problem = sl.Problem(network, 5, sl.Ensemble(inputs=law), teacher=other)
    drawn = [sl.draw(problem, sl.Allocation.whole(network), trial=trial) for trial in range(8)]
    # Five signs are rarely all alike; equal ones count once.
    for one in drawn:
        # y = a x + c at two places is met by y = w x only where c = 0.
        met = student or not teacher or len(set(one.inputs.ravel().tolist())) == 1
        decision = sl.decide(one)
        assert decision.kind == ("matched" if met else "refuted")
        kept = simplify(one)[0].samples
        assert kept == (2 if student and len(set(one.inputs.ravel().tolist())) > 1 else 1) or (
            not met and kept == one.samples
        )


def test_a_sample_of_zeros_is_kept_where_it_is_the_only_one() -> None:
    network = sl.LinearEstimator(2, 1)
    zeros = sl.Ensemble(inputs=sl.ensembles.Sparse(density=0.2))
    problem = sl.Problem(network, samples=1, ensemble=zeros)
    drawn = [sl.draw(problem, sl.Allocation.whole(network), trial=trial) for trial in range(8)]
    assert all(instance.inputs.shape == (2, 1) for instance in drawn)
    assert any(not instance.inputs.any() for instance in drawn)


@pytest.mark.parametrize("law", [sl.ensembles.Rademacher(), sl.ensembles.Sparse(0.5)])
@pytest.mark.parametrize("bias", [False, True])
def test_samples_that_are_dependent_by_chance_are_left_out(law: object, bias: bool) -> None:
    from fractions import Fraction

    network = sl.FeedForward((3, 4, 2), bias=bias)
    problem = sl.Problem(network, 4 if bias else 3, sl.Ensemble(inputs=law))
    kept = set()
    for trial in range(60):
        drawn = sl.draw(problem, sl.Allocation.from_rows(network, "W1", [0]), trial=trial)
        assert drawn.samples == problem.samples
        instance = simplify(drawn)[0]
        x = instance.inputs
        if bias:
            x = np.vstack([x, np.ones(x.shape[1])])
        kept.add(instance.samples)
        # Gram determinants in exact fractions: not zero, so what is left is independent.
        columns = [[Fraction(v) for v in column] for column in x.T.tolist()]
        gram = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in columns] for p in columns]
        assert instance.samples == 1 or _determinant(gram) != 0
    assert len(kept) > 1  # chance made some dependent
    # A student that is not linear has to match them all.
    curved = sl.FeedForward((3, 4, 2), activation="tanh", bias=bias)
    other = sl.Problem(curved, problem.samples, problem.ensemble, teacher=network)
    learn = sl.Allocation.from_rows(curved, "W1", [0])
    assert {sl.draw(other, learn, trial=t).samples for t in range(20)} == {problem.samples}


def _determinant(rows: list[list]) -> object:
    if len(rows) == 1:
        return rows[0][0]
    return sum(
        (-1) ** j * rows[0][j] * _determinant([r[:j] + r[j + 1 :] for r in rows[1:]])
        for j in range(len(rows))
    )


def test_where_learning_starts_is_kept_and_decides_nothing() -> None:
    problem = sl.Problem(sl.LinearRNN(n=3, b=1, d=2, T=2), samples=2)
    drawn = sl.draw(problem, {"W": sl.Anywhere(4)}, seed=1)
    held, whole = drawn.allocation, dict(drawn.start)
    for name, value in whole.items():
        assert (value[~held.mask(name)] == drawn.weights[name][~held.mask(name)]).all()
        assert (value[held.mask(name)] != 0).all()
        assert (drawn.weights[name][held.mask(name)] == 0).all()
    other = sl.Allocation.whole(problem.network, ["B"])
    moved = drawn.with_allocation(other)
    assert moved.generic and (moved.targets == drawn.targets).all()
    assert all((moved.start[name] == value).all() for name, value in whole.items())
    assert not moved.weights["B"].any()
    part = drawn.only([1])
    assert all((part.start[name] == value).all() for name, value in whole.items())
    # Other values of the learnable weights: the same decision, number by number.
    given = [
        sl.Instance(
            problem.network,
            held,
            {n: np.where(held.mask(n), shift, w) for n, w in whole.items()},
            drawn.inputs,
            drawn.targets,
        )
        for shift in (0.0, 7.0, np.nan)
    ]
    one, two, three = (str(sl.decide(instance)) for instance in given)
    assert one == two == three
    with pytest.raises(sl.BadInputError, match="must be finite"):
        _ = given[2].start


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": {"W": np.zeros((3, 3))}}, "weight W must have shape"),
        ({"weights": {"V": np.zeros((3, 4))}}, "missing: W; unknown: V"),
        ({"weights": 3}, "weights must be a dict"),
        ({"weights": {"W": np.zeros((2, 3, 4))}}, "weight W must have shape"),
        ({"inputs": "many"}, "inputs must hold real numbers, not text"),
        ({"inputs": np.zeros((4, 0)), "targets": np.zeros((3, 0))}, "at least one sample"),
        ({"targets": np.full((3, 7), np.inf)}, "targets must be finite"),
        ({"allocation": "all"}, "allocation must be an Allocation"),
        ({"network": 3}, "network must be"),
    ],
)
def test_arrays_that_make_no_instance_are_refused(change: dict[str, object], words: str) -> None:
    net = sl.LinearEstimator(inputs=4, outputs=3)
    good = {
        "network": net,
        "allocation": sl.Allocation.whole(net),
        "weights": {"W": np.ones((3, 4))},
    }
    good |= {"inputs": np.ones((4, 7)), "targets": np.ones((3, 7))}
    with pytest.raises(sl.BadInputError, match=words):
        sl.Instance(**{**good, **change})
