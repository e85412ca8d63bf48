"""The construction: every form of saturation, sizes where float64 fails, systems that are singular."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from matchers import rational
from sublearn.ensembles import Instance, draw
from sublearn.matchers._construct import Construct, forms
from sublearn.matchers._decision import Decision
from sublearn.matchers._matcher import Budget


def _saturated(
    network: sl.LinearRNN, m: int, lines: str, rng: np.random.Generator
) -> sl.Allocation:
    """Random rows (columns) of W with exactly T min(b, m) (T d) random entries, d m in all."""
    size = network.T * (min(network.b, m) if lines == "rows" else network.d)
    count, rest = divmod(network.d * m, size)
    assert rest == 0
    mask = np.zeros((network.n, network.n), dtype=bool)
    for line in rng.choice(network.n, count, replace=False):
        mask[line, rng.choice(network.n, size, replace=False)] = True
    return sl.Allocation.from_masks(network, {"W": mask if lines == "rows" else mask.T})


def _attempt(instance: Instance, bits: int = 4096) -> Decision:
    matcher = Construct()
    assert matcher.refusal(instance) is None
    return matcher.attempt(instance, Budget(bits=bits), np.random.default_rng(0))


def _confirm(instance: Instance, decision: Decision) -> None:
    assert decision.kind == "matched" and str(decision.grade) == "proof"
    certificate = decision.certificate
    assert certificate is not None and certificate.kind == "construction"
    assert certificate.check()
    assert decision.values is not None and decision.weights is not None
    assert np.array_equal(decision.values, certificate.values)
    assert np.array_equal(instance.values(decision.weights), decision.values)
    # Over the rationals, from eq. (3.3): the centre nearly solves the system.
    centre = [rational.rational(v) for v in certificate.centre]
    worst = max(abs(v) for v in rational.residual(instance, centre))
    assert float(worst) < 1e-12 * np.abs(instance.targets).max()


CASES = [
    # n, b, d, T, m, saturated lines, form
    (2, 1, 1, 2, 2, "rows", "states"),
    (8, 1, 4, 4, 4, "rows", "states"),
    (8, 1, 4, 4, 3, "rows", "states"),
    (8, 2, 4, 2, 4, "rows", "states"),
    (8, 2, 4, 2, 2, "rows", "states"),
    (8, 2, 4, 2, 1, "rows", "samples"),
    (6, 3, 3, 3, 1, "rows", "samples"),
    (6, 3, 2, 2, 2, "rows", "samples"),
    (6, 3, 2, 2, 2, "columns", "readouts"),
    (8, 1, 4, 2, 2, "columns", "readouts"),
    (16, 1, 4, 4, 4, "columns", "readouts"),
    (8, 3, 4, 2, 4, "columns", "readouts"),
    (4, 2, 4, 1, 2, "rows", "states"),
]


@pytest.mark.parametrize(("n", "b", "d", "T", "m", "lines", "form"), CASES)
def test_every_form_is_built_and_proved(
    n: int, b: int, d: int, T: int, m: int, lines: str, form: str
) -> None:
    network = sl.LinearRNN(n=n, b=b, d=d, T=T)
    for seed in range(2):
        allocation = _saturated(network, m, lines, np.random.default_rng(seed))
        instance = draw(sl.Problem(network, samples=m), allocation, seed=seed)
        assert form in forms(instance)
        _confirm(instance, _attempt(instance))


@pytest.mark.parametrize("T", [8, 12, 16])
def test_sizes_where_float64_fails(T: int) -> None:
    network = sl.LinearRNN(n=2 * T, b=1, d=4, T=T)
    allocation = _saturated(network, T, "rows", np.random.default_rng(T))
    instance = draw(sl.Problem(network, samples=T), allocation, seed=T)
    decision = _attempt(instance)
    _confirm(instance, decision)
    assert decision.effort.bits >= 128


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_largest_sizes_many_times(seed: int) -> None:
    for T, lines in ((12, "rows"), (16, "rows")):
        network = sl.LinearRNN(n=2 * T, b=1, d=4, T=T)
        allocation = _saturated(network, T, lines, np.random.default_rng(seed))
        instance = draw(sl.Problem(network, samples=T), allocation, seed=seed)
        _confirm(instance, _attempt(instance))


def test_a_teacher_of_another_kind() -> None:
    network = sl.LinearRNN(n=8, b=1, d=4, T=4)
    problem = sl.Problem(network, samples=4, teacher=sl.Targets(sl.ensembles.Normal()))
    for trial in range(5):
        instance = draw(problem, {"W": sl.FirstRows(4)}, seed=2, trial=trial)
        _confirm(instance, _attempt(instance))


def test_rows_with_b_not_dividing_m_are_undecided() -> None:
    """The counterexample to Theorem 3.5 for rows: T b weights in each row, and yet singular."""
    network = sl.LinearRNN(n=8, b=2, d=4, T=2)
    allocation = _saturated(network, 3, "rows", np.random.default_rng(0))
    instance = draw(sl.Problem(network, samples=3), allocation, seed=0)
    decision = _attempt(instance, bits=1024)
    assert decision.kind == "undecided" and decision.certificate is None
    assert "singular" in decision.reason and decision.effort.bits == 1024


def test_the_same_sample_twice_is_undecided() -> None:
    network = sl.LinearRNN(n=8, b=1, d=4, T=4)
    drawn = draw(sl.Problem(network, samples=4), {"W": sl.FirstRows(4)}, seed=0)
    inputs = np.array(drawn.inputs)
    inputs[..., 1] = inputs[..., 0]
    instance = Instance(network, drawn.allocation, drawn.weights, inputs, drawn.targets)
    assert _attempt(instance, bits=512).kind == "undecided"


def test_a_row_of_zeros_that_leaves_no_choice_is_undecided() -> None:
    network = sl.LinearRNN(n=4, b=1, d=2, T=2)
    drawn = draw(sl.Problem(network, samples=2), {"W": sl.FirstRows(2)}, seed=0)
    weights = {**drawn.weights, "D": np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0]])}
    instance = Instance(network, drawn.allocation, weights, drawn.inputs, drawn.targets)
    decision = _attempt(instance, bits=256)
    # The free states reach the outputs only one step late, so the system is singular.
    assert decision.kind == "undecided"


def test_both_ways_may_apply() -> None:
    """Rows and columns saturated at once: a full square block with T b = T d = c."""
    network = sl.LinearRNN(n=6, b=2, d=2, T=2)
    allocation = sl.Allocation.block(network, "W", rows=range(2), columns=range(4))
    instance = draw(sl.Problem(network, samples=4), allocation, seed=0)
    assert forms(instance) == ["states"]
    square = sl.Allocation.block(network, "W", rows=range(4), columns=range(4))
    wide = draw(sl.Problem(network, samples=8), square, seed=0)
    assert forms(wide) == ["states", "readouts"]


def test_refusals_are_in_words() -> None:
    matcher, network = Construct(), sl.LinearRNN(n=8, b=1, d=4, T=4)
    problem = sl.Problem(network, samples=4)
    layered = sl.FeedForward((3, 3))
    cases = [
        (draw(sl.Problem(layered, samples=2), sl.Allocation.whole(layered)), "not a linear RNN"),
        (draw(problem, sl.Allocation.whole(network, ["D"])), "outside W"),
        (draw(problem, sl.Allocation.block(network, "W", rows=[0])), "is not d m"),
        (draw(problem, {"W": sl.FirstRows(6)}, seed=1), "neither rows nor columns"),
    ]
    for instance, words in cases:
        refusal = matcher.refusal(instance)
        assert refusal is not None and words in refusal
    assert matcher.name == "construct"


def test_the_same_instance_gives_the_same_certificate() -> None:
    network = sl.LinearRNN(n=8, b=1, d=4, T=4)
    instance = draw(sl.Problem(network, samples=4), {"W": sl.FirstRows(4)}, seed=7)
    one, two = _attempt(instance).certificate, _attempt(instance).certificate
    assert one is not None and two is not None
    assert (one.centre, one.radius) == (two.centre, two.radius)
