"""Affine systems: the decision against linear algebra over the rationals, on every kind of instance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sublearn as sl
from matchers import rational
from sublearn.ensembles import Instance, draw
from sublearn.exact import Dyadics, random_prime
from sublearn.matchers import _affine
from sublearn.matchers._affine import Affine, full_rank_modulo, ranks_modulo
from sublearn.matchers._decision import Decision
from sublearn.matchers._matcher import Budget
from sublearn.matchers._residues import LARGE_BITS, LARGE_PRIMES, miss_probability

ONE = sl.LinearRNN(n=4, b=2, d=2, T=1)
RNN = sl.LinearRNN(n=5, b=1, d=2, T=3)
DEEP = sl.FeedForward((3, 4, 4, 2), bias=True)
PLACES: list[tuple[sl.Network, str]] = [
    (RNN, "D"),
    (RNN, "B"),
    (ONE, "W"),
    (DEEP, "W1"),
    (DEEP, "W2"),
    (DEEP, "W3"),
    (DEEP, "b2"),
    (sl.LinearEstimator(3, 2), "W"),
]


def _attempt(instance: Instance, seed: int = 0) -> Decision:
    matcher = Affine()
    assert matcher.refusal(instance) is None
    return matcher.attempt(instance, Budget(), np.random.default_rng(seed))


def _agrees(instance: Instance, seed: int = 0) -> str:
    """The decision, after comparing it with the exact ranks."""
    decision = _attempt(instance, seed)
    plain, wide = rational.affine_system(instance)
    inner, outer = rational.rank(plain), rational.rank(wide)
    assert decision.kind == ("matched" if inner == outer else "refuted")
    assert decision.grade is not None
    if decision.grade.kind == "probability":
        assert decision.grade.error <= 1e-12
    full = inner == instance.equations
    alone = outer > inner == len(instance.allocation)
    assert (decision.grade.kind == "proof") == (full or alone)
    assert (decision.certificate is not None) == full
    if decision.certificate is not None:
        assert decision.certificate.check()
    if decision.kind == "matched" and decision.values is not None:
        assert decision.weights is not None
        found = rational.residual(instance, [rational.rational(float(v)) for v in decision.values])
        size = np.abs(decision.values)
        for row, value in enumerate(found):
            terms = sum(
                abs(float(Fraction(int(plain[row, k].p), int(plain[row, k].q)))) * size[k]
                for k in range(size.size)
            )
            assert abs(float(Fraction(int(value.p), int(value.q)))) <= 1e-10 * (
                terms + np.abs(instance.targets).max()
            )
    return decision.kind


def _random(network: sl.Network, name: str, rng: np.random.Generator, kind: str) -> Instance:
    samples = int(rng.integers(1, 5))
    rows, columns = network.shapes[name]
    count = int(rng.integers(1, rows * columns + 1))
    flat = rng.choice(rows * columns, count, replace=False)
    entries = [divmod(int(f), columns) for f in flat]
    allocation = sl.Allocation.from_entries(network, {name: entries})

    def numbers(shape: tuple[int, ...]) -> np.ndarray:
        if kind == "whole":
            # Many zeros and ties, so that ranks drop often.
            return rng.integers(-1, 2, shape).astype(float)
        values = rng.normal(size=shape)
        if kind == "sizes":
            values = values * 10.0 ** rng.integers(-40, 41, shape)
        return values

    weights = {n: numbers(s) for n, s in network.shapes.items()}
    inputs = numbers(network.input_shape(samples))
    if samples > 1 and rng.random() < 0.5:
        inputs[..., 1] = inputs[..., 0]
    targets = numbers((network.output_size, samples))
    if rng.random() < 0.6 and kind == "whole":
        targets = network.forward(weights, inputs)  # exact: whole numbers, far below 2^53
    return Instance(network, allocation, weights, inputs, targets)


@pytest.mark.parametrize("kind", ["whole", "real", "sizes"])
@pytest.mark.parametrize(("network", "name"), PLACES)
def test_decisions_agree_with_rational_ranks(network: sl.Network, name: str, kind: str) -> None:
    rng = np.random.default_rng([len(network.spec), len(name), len(kind)])
    seen = [_agrees(_random(network, name, rng, kind), trial) for trial in range(12)]
    assert set(seen) <= {"matched", "refuted"}


def test_both_answers_come_at_both_grades() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(150):
        decision = _attempt(_random(RNN, "D", rng, "whole"))
        assert decision.grade is not None
        seen.add((decision.kind, decision.grade.kind))
    assert seen == {(k, g) for k in ("matched", "refuted") for g in ("proof", "probability")}


def test_mixes_of_two_layers() -> None:
    """Rows of W1 and columns of W2 that no path joins are affine together."""
    network = sl.FeedForward((3, 4, 3))
    entries = {"W1": [(0, 0), (0, 1), (1, 2)], "W2": [(0, 2), (1, 2), (2, 3)]}
    allocation = sl.Allocation.from_entries(network, entries)
    for seed in range(5):
        assert _agrees(draw(sl.Problem(network, samples=2), allocation, seed=seed)) == "matched"
        few = sl.Allocation.from_entries(network, {"W1": entries["W1"]})
        assert _agrees(draw(sl.Problem(network, samples=2), few, seed=seed)) == "refuted"


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_huge_and_tiny_numbers(scale: float) -> None:
    allocation = sl.Allocation.whole(RNN, ["D"])
    drawn = draw(sl.Problem(RNN, samples=3), allocation, seed=1)
    weights = {n: np.array(m) * (scale if n == "B" else 1.0) for n, m in drawn.weights.items()}
    instance = Instance(RNN, allocation, weights, drawn.inputs, drawn.targets)
    assert _agrees(instance) == "matched"
    inputs = np.array(drawn.inputs)
    inputs[..., 2] = inputs[..., 1]
    other = Instance(RNN, allocation, weights, inputs, drawn.targets)
    assert _agrees(other) == "refuted"


def test_overflow_in_float64_does_not_reach_the_decision() -> None:
    weights = {"W1": np.eye(3) * 1e200, "W2": np.eye(3) * 1e200, "W3": np.eye(3)}
    network = sl.FeedForward((3, 3, 3, 3))
    allocation = sl.Allocation.whole(network, ["W3"])
    instance = Instance(network, allocation, weights, np.eye(3), np.ones((3, 3)))
    decision = _attempt(instance)
    assert decision.kind == "matched" and decision.certificate is not None
    assert decision.certificate.check()
    # The solution 1e-400 is below the smallest float64 number.
    assert decision.values is None or not decision.values.any()


def test_one_rounding_in_the_targets_is_seen() -> None:
    """Two samples that are equal ask for equal targets; the last bit of one decides."""
    network = sl.LinearEstimator(2, 1)
    allocation = sl.Allocation.whole(network)
    inputs, weights = np.array([[0.1, 0.1], [0.3, 0.3]]), {"W": np.zeros((1, 2))}
    same = Instance(network, allocation, weights, inputs, np.array([[0.7, 0.7]]))
    other = Instance(network, allocation, weights, inputs, np.array([[0.7, np.nextafter(0.7, 1)]]))
    assert _agrees(same) == "matched"
    assert _agrees(other) == "refuted"


@pytest.mark.parametrize("primes", [1, 2, 3, 8, 9])
def test_primes_are_drawn_until_the_error_is_small_enough(
    primes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each grade is the miss of one prime to the power of the primes drawn; eight, then undecided."""
    network = sl.LinearEstimator(2, 1)
    allocation = sl.Allocation.whole(network)
    inputs, weights = np.array([[0.1, 0.1], [0.3, 0.3]]), {"W": np.zeros((1, 2))}
    for target, augmented in ((0.7, True), (0.8, False)):
        # Equal targets: matched unless (J | c) was misread. Unequal: refuted unless J was.
        instance = Instance(network, allocation, weights, inputs, np.array([[0.7, target]]))
        miss = miss_probability(instance, 2, augmented=augmented)
        monkeypatch.setattr(_affine, "ERROR", 0.999 * miss ** (primes - 1))  # one fewer fails
        decision = _attempt(instance)
        if primes > 8:
            assert (decision.kind, decision.grade) == ("undecided", None)
        else:
            assert decision.kind == ("matched" if augmented else "refuted")
            assert decision.grade is not None and decision.grade.kind == "probability"
            assert decision.grade.error == pytest.approx(miss**primes, rel=1e-9)


def test_no_effect_at_all() -> None:
    network = sl.FeedForward((2, 2, 1))
    allocation = sl.Allocation.from_entries(network, {"W1": [(0, 0)]})
    weights = {"W1": np.ones((2, 2)), "W2": np.zeros((1, 2))}
    for target, kind in ((0.0, "matched"), (1.0, "refuted")):
        instance = Instance(network, allocation, weights, np.ones((2, 1)), np.array([[target]]))
        assert _agrees(instance) == kind


def test_badly_conditioned_systems_are_refined() -> None:
    """A Vandermonde system whose float64 solution has no digit: the values come from balls."""
    size = 14
    network = sl.LinearEstimator(size, 1)
    nodes = 1 + np.arange(size) / 64
    inputs = nodes[None, :] ** np.arange(size)[:, None]
    targets = np.where(np.arange(size) % 2, 1.0, -1.0)[None, :]
    allocation, weights = sl.Allocation.whole(network), {"W": np.zeros((1, size))}
    assert _agrees(Instance(network, allocation, weights, inputs, targets)) == "matched"


def test_the_answer_does_not_depend_on_the_seed() -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        instance = _random(DEEP, "W2", rng, "whole")
        assert len({_attempt(instance, seed).kind for seed in range(5)}) == 1


def test_residues_are_exact() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=50) * 10.0 ** rng.integers(-300, 300, 50)
    values[:4] = [0.0, 5e-324, -1.7976931348623157e308, -0.0]
    for prime in (8388593, 2**61 - 1):
        for value, residue in zip(
            values.tolist(), Dyadics.of(values[None]).residues(prime), strict=True
        ):
            top, bottom = value.as_integer_ratio()
            assert (residue * bottom - top) % prime == 0 and 0 <= residue < prime


def test_both_moduli_show_the_same_full_rank() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        instance = _random(RNN, "D", rng, "whole")
        large = ranks_modulo(instance, 2**61 - 1)[0].rank == instance.equations
        assert full_rank_modulo(instance, 8388593) == large


def test_the_error_bound_counts_every_bit() -> None:
    """The bound is at least the true share of primes that divide a minor, found by factoring."""
    from flint import fmpz

    network = sl.LinearEstimator(2, 2)
    allocation = sl.Allocation.whole(network)
    inputs = np.array([[3.0, 5.0], [1.0, 2.0**40 + 1]])
    instance = Instance(network, allocation, {"W": np.zeros((2, 2))}, inputs, np.ones((2, 2)))
    plain, _ = rational.affine_system(instance)
    minor = fmpz(int(plain.det().p))
    bits = int(minor).bit_length()
    bound = miss_probability(instance, 4, augmented=False)
    assert bound >= bits / 60 / LARGE_PRIMES
    assert 0 < bound < 1e-12
    assert miss_probability(instance, 4, augmented=True) >= bound


def test_large_primes_are_prime_and_in_range() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = random_prime(rng, LARGE_BITS)
        assert 2**60 < p < 2**61
        assert pow(2, p - 1, p) == 1 == pow(3, p - 1, p)


def test_refusals_are_in_words() -> None:
    matcher = Affine()
    nonlinear = sl.RNN(n=3, b=1, d=1, T=2)
    cases = [
        (draw(sl.Problem(RNN, samples=2), sl.Allocation.whole(RNN, ["W"])), "not affine"),
        (
            draw(sl.Problem(nonlinear, samples=2), sl.Allocation.whole(nonlinear, ["D"])),
            "not linear",
        ),
    ]
    for instance, words in cases:
        refusal = matcher.refusal(instance)
        assert refusal is not None and words in refusal
    assert matcher.name == "affine"
