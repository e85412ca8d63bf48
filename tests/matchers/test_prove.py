"""Proofs: planted roots are proved, non-roots and double roots never, boxes hold what they say."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_mat, ctx, fmpq

import sublearn as sl
from matchers import rational, small_example
from sublearn.ensembles import Instance, draw
from sublearn.matchers.proofs._balls import ball_matrix, precision
from sublearn.matchers.proofs._certificate import Certificate
from sublearn.matchers.proofs._doubles import LOW, Doubles, bound_moves, inflate, residual
from sublearn.matchers.proofs._dyadic import from_pairs, to_ball, to_float
from sublearn.matchers.proofs._equations import ChainEquations
from sublearn.matchers.proofs._krawczyk import contracts, float_inverse, float_matrix, spread
from sublearn.matchers.proofs._prove import prove
from sublearn.matchers.proofs._quick import (
    free,
    jacobian_over,
    packed_doubles,
    quick_proof,
    target_pairs,
)

RNN = sl.LinearRNN(n=4, b=2, d=3, T=3)
DEEP = sl.FeedForward((3, 4, 4, 2), bias=True)
CASES = [
    (RNN, {"W": [(0, 0), (0, 3), (3, 1)], "B": [(1, 1), (2, 0)], "D": [(2, 3)]}, 2),
    (DEEP, {"W1": [(0, 1)], "W2": [(0, 0), (3, 3)], "b1": [(2, 0)], "b3": [(1, 0)]}, 3),
    (sl.LinearEstimator(3, 2), {"W": [(0, 0), (1, 2)]}, 2),
    (sl.FeedForward((3, 4, 2)), {"W1": [(0, 0), (3, 2)], "W2": [(1, 1)]}, 2),
]


def _instance(case: int, seed: int = 0) -> Instance:
    network, entries, samples = CASES[case]
    allocation = sl.Allocation.from_entries(network, entries)
    return draw(sl.Problem(network, samples=samples), allocation, seed=seed)


def _planted(
    network: sl.Network, rule: object, samples: int, seed: int, scale: float
) -> tuple[Instance, np.ndarray]:
    """Targets are the float64 outputs at x, so a root lies near x, not at it."""
    drawn = draw(sl.Problem(network, samples=samples), rule, seed=seed)  # type: ignore[arg-type]
    x = scale * np.random.default_rng(seed).normal(size=len(drawn.allocation))
    targets = network.forward(drawn.with_values(x), drawn.inputs)
    return Instance(network, drawn.allocation, drawn.weights, drawn.inputs, targets), x


def _held_by(certificate: Certificate, exact: list[fmpq]) -> bool:
    inside = []
    for position, rho in zip(certificate.free, certificate.radius, strict=True):
        distance = abs(rational.rational(certificate.centre[position]) - exact[position])
        inside.append(distance < rational.rational(rho))
    return all(inside)


# The enclosures, against rational arithmetic from the formulas.


def _exact_jacobian(instance: Instance, x: list[fmpq]) -> list[list[fmpq]]:
    """Columns by exact differences: a polynomial of degree q needs q + 1 points for its slope."""
    degree = instance.network.degree
    columns = []
    for k in range(len(x)):
        # Lagrange: the derivative at 0 of the polynomial through t = 0 .. degree.
        values = [
            rational.outputs(instance, [*x[:k], x[k] + t, *x[k + 1 :]]).entries()
            for t in range(degree + 1)
        ]
        weights = []
        for t in range(degree + 1):
            others = [s for s in range(degree + 1) if s != t]
            bottom = fmpq(1)
            for s in others:
                bottom *= t - s
            top = fmpq(0)
            for skipped in others:
                part = fmpq(1)
                for s in others:
                    if s != skipped:
                        part *= -s
                top += part
            weights.append(top / bottom)
        columns.append(
            [
                sum((w * v[row] for w, v in zip(weights, values, strict=True)), fmpq(0))
                for row in range(instance.equations)
            ]
        )
    return columns


def _packed(instance: Instance, values: np.ndarray) -> Doubles:
    targets = target_pairs(instance)
    chain = packed_doubles(instance.network, instance.weights, instance.inputs, targets)
    assert chain is not None
    return free(chain, instance, np.arange(values.size), values)


def _residual(instance: Instance, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """F(hi + lo) as (hi, lo, error bound), (3, d m)."""
    chain = _packed(instance, high)
    chain.weights[LOW, chain.at] = low
    residual(chain)
    return chain.residual.reshape(3, -1)


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("size", [1.0, 1e-40, 1e40])
def test_balls_hold_outputs_and_jacobian(case: int, size: float) -> None:
    instance = _instance(case)
    x = size * np.random.default_rng(case).normal(size=len(instance.allocation))
    exact = [rational.rational(float(v)) for v in x]
    residual, columns = rational.residual(instance, exact), _exact_jacobian(instance, exact)
    for bits in (53, 106, 300):
        with precision(bits):
            found, jacobian = ChainEquations(instance).linearised([arb(float(v)) for v in x])
            assert all(rational.holds(b, v) for b, v in zip(found.entries(), residual, strict=True))
            for k, column in enumerate(columns):
                for row, value in enumerate(column):
                    assert rational.holds(jacobian[row, k], value)


def test_balls_over_a_box_hold_the_values_inside() -> None:
    instance = _instance(0)
    rng = np.random.default_rng(1)
    x = rng.normal(size=len(instance.allocation))
    with precision(80):
        found, jacobian = ChainEquations(instance).linearised([arb(float(v), 0.01) for v in x])
    for _ in range(3):
        inside = [rational.rational(float(v)) for v in x + rng.uniform(-0.01, 0.01, x.size)]
        residual = rational.residual(instance, inside)
        assert all(rational.holds(b, v) for b, v in zip(found.entries(), residual, strict=True))
        for k, column in enumerate(_exact_jacobian(instance, inside)):
            assert all(rational.holds(jacobian[row, k], v) for row, v in enumerate(column))


def test_held_weights_keep_their_values() -> None:
    instance = _instance(0)
    x = np.random.default_rng(2).normal(size=len(instance.allocation))
    free = [1, 4]
    with precision(106):
        part = ChainEquations(instance, free, x)
        residual, jacobian = part.linearised([arb(float(x[i])) for i in free])
        whole_residual, whole = ChainEquations(instance).linearised([arb(float(v)) for v in x])
        assert all(
            a.overlaps(b) for a, b in zip(residual.entries(), whole_residual.entries(), strict=True)
        )
        for k, position in enumerate(free):
            assert all(jacobian[i, k].overlaps(whole[i, position]) for i in range(6))


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("size", [1.0, 1e-30, 1e30, 1e-200])
def test_float64_bounds_hold(case: int, size: float) -> None:
    instance = _instance(case)
    rng = np.random.default_rng(case)
    high = size * rng.normal(size=len(instance.allocation))
    low = high * rng.uniform(-1, 1, high.size) * 2.0**-54
    top, rest, error = _residual(instance, high, low)
    exact = [rational.rational(v) for v in from_pairs(high, low)]
    for row, value in enumerate(rational.residual(instance, exact)):
        found = rational.rational(float(top[row])) + rational.rational(float(rest[row]))
        assert abs(found - value) <= rational.rational(float(error[row]))
        # The bound is useful: close to the last of 106 bits of what was added up.
        assert float(error[row]) < 1e-25 * max(1.0, size**4)
    chain = _packed(instance, high)
    for radius in (np.zeros_like(high), np.abs(high) * 1e-3):
        middle, around = jacobian_over(chain, high, radius)
        for shift in (0.0, 1.0, -1.0) if radius.any() else (0.0,):
            moved = [rational.rational(float(v)) for v in high + shift * 0.999 * radius]
            for k, column in enumerate(_exact_jacobian(instance, moved)):
                for row, value in enumerate(column):
                    distance = abs(rational.rational(float(middle[row, k])) - value)
                    assert distance <= rational.rational(float(around[row, k]))


def test_float64_residual_survives_cancellation() -> None:
    """At the pair nearest a root the residual is far below what float64 shows, and bounded there."""
    network = sl.LinearRNN(n=6, b=1, d=3, T=3)
    instance, x = _planted(network, {"W": sl.FirstRows(5)}, 3, 4, 5.0)
    found = prove(instance, x)
    assert found is not None
    with precision(300):
        pairs = [to_ball(v) for v in found.centre]
        high = np.array([float(v) for v in pairs])
        low = np.array([float(v - h) for v, h in zip(pairs, high.tolist(), strict=True)])
    top, rest, error = _residual(instance, high, low)
    exact = [rational.rational(v) for v in from_pairs(high, low)]
    for row, value in enumerate(rational.residual(instance, exact)):
        total = rational.rational(float(top[row])) + rational.rational(float(rest[row]))
        assert abs(total - value) <= rational.rational(float(error[row]))
    assert np.abs(top).max() < 1e-12 * np.abs(instance.residual(high)).max() + 1e-20


# The two halves of the test, against the inequality over the rationals.


def _inequality(
    moves: list[fmpq], inverse: np.ndarray, slopes: np.ndarray, radius: list[fmpq]
) -> bool:
    """moves + (|I - Y M| + |Y| R) rho < rho, with J in M +- R: what the test has to imply."""
    size = len(moves)
    y, middle, around = (rational.matrix(v) for v in (inverse, slopes[0], np.abs(slopes[1])))
    product = y * middle
    for i in range(size):
        image = moves[i]
        for j in range(size):
            defect = abs(product[i, j] - (1 if i == j else 0))
            spread = sum((abs(y[i, k]) * around[k, j] for k in range(size)), fmpq(0))
            image += (defect + spread) * radius[j]
        if not image < radius[i]:
            return False
    return True


def test_float64_test_implies_the_inequality() -> None:
    rng = np.random.default_rng(0)
    answers = []
    for trial in range(400):
        size = int(rng.integers(1, 5))
        middle = rng.normal(size=(size, size))
        inverse = np.linalg.inv(middle)
        # Radii around the largest that can pass, so that both answers come often.
        sharp = 1 / (np.abs(inverse).sum(axis=1).max() * size)
        around = sharp * rng.uniform(0, 4, (size, size)) * (trial % 3 > 0)
        slopes = np.array([middle, around])
        moves = 1e-20 * rng.uniform(0.1, 1, size) * 10.0 ** rng.integers(-3, 4, size)
        widest = float(moves.max()) * float(rng.uniform(1, 4))
        radius = moves.copy()
        held = inflate(
            np.ascontiguousarray(inverse), slopes, widest, radius, np.zeros((size + 3, size))
        )
        answers.append(held)
        if held:
            assert radius.max() <= widest
            exact = [rational.rational(float(v)) for v in radius]
            bounds = [rational.rational(float(v)) for v in moves]
            assert _inequality(bounds, inverse, slopes, exact)
    assert 50 < sum(answers) < 350


def test_float64_test_refuses_what_is_no_number() -> None:
    eye = np.eye(2)
    for bad in (np.nan, np.inf):
        for place_of in range(3):
            inverse, slopes, moves = eye.copy(), np.array([eye, 0 * eye]), np.full(2, 1e-20)
            target = (inverse, slopes[0], moves)[place_of]
            target.flat[0] = bad
            assert not inflate(inverse, slopes, 1e-17, moves, np.zeros((5, 2)))
        assert not inflate(eye, np.array([eye, 0 * eye]), bad, np.full(2, np.nan), np.zeros((5, 2)))


def test_float64_moves_are_upper_bounds() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        size = int(rng.integers(1, 6))
        inverse = rng.normal(size=(size, size)) * 10.0 ** rng.integers(-8, 9)
        top = rng.normal(size=size)
        small = top * rng.uniform(-1, 1, size) * 2.0**-53
        error = np.abs(top) * 2.0 ** float(rng.integers(-60, -2))
        moves = np.zeros(size)
        widest = bound_moves(inverse, np.array([top, small, error]), top, moves)
        assert widest >= 1024 * moves.max()
        for sign in (-1, 1):
            exact = [
                rational.rational(float(t))
                + rational.rational(float(s))
                + sign * rational.rational(float(e))
                for t, s, e in zip(top, small, error, strict=True)
            ]
            y = rational.matrix(inverse)
            for i in range(size):
                value = abs(sum((y[i, k] * exact[k] for k in range(size)), fmpq(0)))
                assert value <= rational.rational(float(moves[i]))


def test_ball_test_implies_the_inequality() -> None:
    rng = np.random.default_rng(2)
    answers = []
    for _ in range(200):
        size = int(rng.integers(1, 4))
        middle = rng.normal(size=(size, size))
        inverse = np.linalg.inv(middle)
        around = rng.uniform(0, 2, (size, size)) / (np.abs(inverse).sum(axis=1).max() * size)
        # Radii of 30 bits, which balls keep.
        around = np.ldexp(np.floor(np.ldexp(around, 20)), -20)
        radius = rng.uniform(0.5, 1, size)
        moves = rng.uniform(0, 0.5, size)
        with precision(60):
            jacobian = arb_mat(
                size,
                size,
                [arb(float(m), float(r)) for m, r in zip(middle.flat, around.flat, strict=True)],
            )
            spreads = spread(ball_matrix(inverse), jacobian)
            held = contracts(
                [arb(float(v)) for v in moves], spreads, [arb(float(v)) for v in radius]
            )
        answers.append(held)
        exact = _inequality(
            [rational.rational(float(v)) for v in moves],
            inverse,
            np.array([middle, around]),
            [rational.rational(float(v)) for v in radius],
        )
        assert exact or not held
    assert 20 < sum(answers) < 180


@pytest.mark.parametrize("power", [0, 60, 240])
def test_float64_inverses_of_uneven_matrices(power: int) -> None:
    """J = R A C with powers of two in R and C and zeros in A: |C (I - Y J) / C| is small, exactly."""
    rng = np.random.default_rng([3, power])
    # In the largest row the first pivot is small: without scaling seven digits would be lost.
    hidden = np.array([[1e-8, 0.9, 0.0], [0.8, 0.7, 0.0], [0.0, 0.0, 0.6]])
    cases = [(hidden, 2.0 ** np.array([power, 0, -power]), np.ones(3))]
    for size in (1, 4, 6):
        middle = rng.uniform(0.5, 1.0, (size, size)) + size * np.eye(size)[rng.permutation(size)]
        middle[np.arange(size), middle.argmin(axis=1)] *= size == 1  # a zero in every row
        rows, columns = (2.0 ** rng.integers(-power, power + 1, size) for _ in range(2))
        cases.append((middle, rows, columns))
    for middle, rows, columns in cases:
        size = rows.size
        jacobian = rows[:, None] * middle * columns[None, :]
        inverse = float_inverse(jacobian)
        assert inverse is not None
        y, j = rational.matrix(float_matrix(inverse)), rational.matrix(jacobian)
        c = [rational.rational(float(v)) for v in columns]
        for i in range(size):
            for k in range(size):
                entry = sum((y[i, t] * j[t, k] for t in range(size)), fmpq(0))
                assert abs((entry - (i == k)) * c[i] / c[k]) < fmpq(1, 10**12)


@pytest.mark.parametrize("fill", [0.0, 1.0, np.inf, np.nan])
def test_no_float64_inverse_where_there_is_none(fill: float) -> None:
    assert float_inverse(np.full((3, 3), fill)) is None


# Proofs.


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("case", [(8, 5), (8, 8), (6, 4)])
def test_planted_roots_are_proved_and_checked(case: tuple[int, int], seed: int) -> None:
    n, k = case
    network = sl.LinearRNN(n=n, b=1, d=4 if n == 8 else 2, T=n // 2)
    instance, x = _planted(network, {"W": sl.FirstRows(k)}, n // 2, seed, 3.0)
    found = prove(instance, x)
    assert found is not None and found.kind == "krawczyk"
    assert np.allclose(found.values, x, rtol=1e-4)
    assert found.check()


@pytest.mark.parametrize("seed", range(4))
def test_exact_roots_lie_in_their_boxes(seed: int) -> None:
    """Small multiples of 1/8: the outputs at x are float64 numbers, so x itself is the root."""
    rng = np.random.default_rng(seed)
    for network, entries, samples in CASES[:2]:
        size = network.output_size * samples
        places = [(n, i, j) for n, s in network.shapes.items() for i, j in np.ndindex(s)]
        picks = rng.permutation(len(places))[:size]
        entries = {}
        for p in picks:
            entries.setdefault(places[p][0], []).append(places[p][1:])
        allocation = sl.Allocation.from_entries(network, entries)
        weights = {n: rng.integers(-8, 9, s) / 8 for n, s in network.shapes.items()}
        inputs = rng.integers(-8, 9, network.input_shape(samples)) / 8
        targets = network.forward(weights, inputs)
        instance = Instance(network, allocation, weights, inputs, targets)
        exact = [rational.rational(float(v)) for v in instance.values(weights)]
        assert all(v == 0 for v in rational.residual(instance, exact))
        singular = np.linalg.matrix_rank(network.jacobian(weights, inputs, allocation)) < size
        found = prove(instance, instance.values(weights) * (1 + 1e-13))
        assert (found is None) == singular
        if found is not None:
            assert _held_by(found, exact)
            assert found.check()


def test_more_weights_than_equations() -> None:
    network = sl.LinearRNN(n=6, b=2, d=3, T=2)
    allocation = sl.Allocation.block(network, "W", rows=range(3))
    for seed in range(4):
        instance, x = _planted(network, allocation, 4, seed, 1.0)
        found = prove(instance, x)
        assert found is not None and found.check()
        assert len(found.free) == 12 and len(found.centre) == 18
        kept = sorted(set(range(18)) - set(found.free))
        assert [to_float(found.centre[i]) for i in kept] == [float(x[i]) for i in kept]


def test_several_weights_at_once() -> None:
    """Encoder, recurrent matrix and decoder together, and three layers with biases."""
    for network, samples in ((sl.LinearRNN(n=5, b=2, d=3, T=3), 4), (DEEP, 4)):
        rng = np.random.default_rng(samples)
        proved = 0
        for seed in range(6):
            size = network.output_size * samples
            places = [(n, i, j) for n, s in network.shapes.items() for i, j in np.ndindex(s)]
            entries: dict[str, list[tuple[int, int]]] = {}
            for p in rng.permutation(len(places))[:size]:
                entries.setdefault(places[p][0], []).append(places[p][1:])
            allocation = sl.Allocation.from_entries(network, entries)
            instance, x = _planted(network, allocation, samples, seed, 1.0)
            found = prove(instance, x)
            proved += found is not None
            assert found is None or found.check()
        assert proved >= 2


@pytest.mark.parametrize("allocation", [small_example.DIAGONAL, small_example.CROSS])
def test_small_example_is_proved_exactly_where_the_discriminant_is_positive(
    allocation: sl.Allocation,
) -> None:
    problem = sl.Problem(small_example.NETWORK, samples=2)
    proved = refused = 0
    for trial in range(120):
        instance = draw(problem, allocation, seed=3, trial=trial)
        d = small_example.discriminant(instance)
        a, b, c, p, q = small_example.quadratic(instance)
        if abs(d) < Fraction(1, 10**12) * b * b:
            continue
        if d < 0:
            middle = np.array([float(-b / (2 * a)), float(p - q * b / (2 * a))])
            for start in (middle, middle + 0.1, np.zeros(2)):
                assert prove(instance, start) is None
            refused += 1
            continue
        boxes = []
        for x in small_example.roots(instance):
            found = prove(instance, x)
            assert found is not None and found.check()
            centre = Fraction(*_ratio(found.centre[0]))
            rho = Fraction(*_ratio(found.radius[0]))
            # The quadratic changes its sign across the box: a root lies inside, by rational numbers.
            ends = [a * u * u + b * u + c for u in (centre - rho, centre + rho)]
            assert ends[0] * ends[1] < 0
            boxes.append((centre - rho, centre + rho))
        boxes.sort()
        assert boxes[0][1] < boxes[1][0]
        proved += 1
    assert proved > 60 and refused > 10


def _ratio(value: tuple[int, int]) -> tuple[int, int]:
    mantissa, exponent = value
    return mantissa << max(exponent, 0), 1 << max(-exponent, 0)


@pytest.mark.parametrize("allocation", [small_example.DIAGONAL, small_example.CROSS])
def test_double_roots_are_never_claimed(allocation: sl.Allocation) -> None:
    """Whole numbers with discriminant exactly 0: a root exists, but no test of this kind shows it."""
    rng = np.random.default_rng(0)
    found = 0
    while found < 5:
        weights = {
            n: rng.integers(-3, 4, s).astype(float) for n, s in small_example.NETWORK.shapes.items()
        }
        inputs = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
        targets = rng.integers(-6, 7, (1, 2)).astype(float)
        instance = Instance(small_example.NETWORK, allocation, weights, inputs, targets)
        try:
            a, b, _, p, q = small_example.quadratic(instance)
        except ZeroDivisionError:
            continue
        if a == 0 or small_example.discriminant(instance) != 0:
            continue
        u = -b / (2 * a)
        x = np.array([float(u), float(p + q * u)])
        for start in (x, x + 1e-9, x * (1 + 1e-6) + 1e-7):
            assert prove(instance, start, max_bits=1024) is None
        found += 1


def test_far_from_a_root_nothing_is_claimed_that_is_not_there() -> None:
    """Newton's method may wander to a root; wherever a proof comes back, it checks."""
    network = sl.LinearRNN(n=6, b=1, d=2, T=3)
    problem = sl.Problem(network, samples=3)
    for trial in range(20):
        instance = draw(problem, {"W": sl.FirstRows(4)}, seed=5, trial=trial)
        start = np.random.default_rng(trial).normal(size=len(instance.allocation))
        found = prove(instance, start)
        assert found is None or found.check()


def test_perturbed_targets_move_the_root_out_of_a_tight_box() -> None:
    network = sl.LinearRNN(n=6, b=1, d=2, T=3)
    instance, x = _planted(network, {"W": sl.FirstRows(4)}, 3, 0, 1.0)
    found = prove(instance, x)
    assert found is not None
    other = Instance(
        network, instance.allocation, instance.weights, instance.inputs, instance.targets + 1e-6
    )
    moved = Certificate(
        other, found.kind, found.bits, found.centre, found.free, found.radius
    ).check(max_bits=424)
    assert not moved and "does not hold" in moved.reason


def test_weights_without_effect_are_never_claimed() -> None:
    network = sl.FeedForward((2, 2, 2))
    allocation = sl.Allocation.whole(network, ["W1"])
    weights = {"W1": np.eye(2), "W2": np.array([[1.0, 2.0], [2.0, 4.0]])}
    inputs = np.eye(2)
    instance = Instance(network, allocation, weights, inputs, weights["W2"])
    assert prove(instance, [1.0, 0.0, 0.0, 1.0]) is None


@pytest.mark.parametrize("scale", [1e-290, 1e-90, 1e90, 1e290])
def test_numbers_at_the_ends_of_float64(scale: float) -> None:
    """A decoder of any size leaves the roots where they are."""
    network = sl.LinearRNN(n=4, b=1, d=2, T=2)
    instance, x = _planted(network, {"W": sl.FirstRows(3)}, 2, 1, 1.0)
    weights = {**instance.weights, "D": instance.weights["D"] * scale}
    made = Instance(network, instance.allocation, weights, instance.inputs, instance.targets)
    targets = network.forward(made.with_values(x), instance.inputs)
    made = Instance(network, instance.allocation, weights, instance.inputs, targets)
    found = prove(made, x)
    assert found is not None and found.check()
    assert np.allclose(found.values, x, rtol=1e-9)


def test_overflow_is_no_proof() -> None:
    network = sl.LinearRNN(n=4, b=1, d=2, T=2)
    instance, x = _planted(network, {"W": sl.FirstRows(3)}, 2, 1, 1.0)
    weights = {**instance.weights, "W": instance.weights["W"] * 1e160}
    made = Instance(network, instance.allocation, weights, instance.inputs, instance.targets)
    for start in (x, x * 1e160, x * 1e300):
        found = prove(made, start, max_bits=424)
        assert found is None or found.check()


def test_more_digits_of_the_candidate_are_used() -> None:
    network = sl.LinearRNN(n=6, b=1, d=2, T=3)
    instance, x = _planted(network, {"W": sl.FirstRows(4)}, 3, 2, 1.0)
    first = prove(instance, x)
    assert first is not None
    values = first.values
    rest = np.array(
        [
            to_float(c) - 0.0 if v == 0 else float(Fraction(*_ratio(c)) - Fraction(v))
            for c, v in zip(first.centre, values.tolist(), strict=True)
        ]
    )
    again = prove(instance, values, low=rest)
    assert again is not None and again.check()
    with pytest.raises(sl.BadInputError, match="low must have shape"):
        prove(instance, values, low=rest[:-1])


def test_quick_proofs_agree_with_balls() -> None:
    """Whatever the float64 stage claims, the check in balls confirms."""
    network = sl.LinearRNN(n=8, b=1, d=4, T=4)
    count = 0
    for seed in range(12):
        instance, x = _planted(network, {"W": sl.FirstRows(6)}, 4, seed, 10.0 ** (seed % 4 - 1))
        quick = quick_proof(instance, np.arange(x.size), x, np.zeros_like(x))
        if quick.radius is not None:
            found = prove(instance, x)
            assert found is not None and found.bits == 106 and found.check()
            count += 1
    assert count >= 10


def test_targets_of_a_linear_teacher_with_a_leak_are_its_outputs() -> None:
    """The chain of the quick proof knows the paper's form alone: another teacher's targets are balls."""
    teacher = sl.RateRNN(n=5, b=1, d=2, T=3, activation="linear", leak=0.5)
    problem = sl.Problem(sl.LinearRNN(n=5, b=1, d=2, T=3), samples=3, teacher=teacher)
    for trial in range(3):
        instance = draw(problem, {"W": sl.FirstRows(4, 6)}, seed=0, trial=trial)
        pairs = target_pairs(instance)
        np.testing.assert_allclose(pairs[0], instance.targets, rtol=1e-12)
        decision = sl.decide(instance)
        if decision.values is not None:
            assert decision.certificate is not None and decision.certificate.check()
            off = np.abs(instance.residual(np.asarray(decision.values))).max()
            assert off < 1e-6 * np.abs(instance.targets).max()


def test_what_cannot_be_asked() -> None:
    instance = _instance(0)
    with pytest.raises(sl.BadInputError, match="shape"):
        prove(instance, [1.0])
    assert prove(_instance(0), np.full(6, np.nan)) is None
    few = draw(sl.Problem(RNN, samples=2), sl.Allocation.block(RNN, "B", rows=[0]))
    assert prove(few, np.zeros(2)) is None


def test_the_precision_is_put_back() -> None:
    before = ctx.prec
    with pytest.raises(RuntimeError), precision(333):
        assert ctx.prec == 333
        with precision(444):
            assert ctx.prec == 444
        assert ctx.prec == 333
        raise RuntimeError
    assert ctx.prec == before


def test_threads_do_not_disturb_each_other() -> None:
    network = sl.LinearRNN(n=6, b=1, d=2, T=3)
    work = [_planted(network, {"W": sl.FirstRows(4)}, 3, seed, 1.0) for seed in range(8)]
    alone = [prove(*pair) for pair in work]
    together: list[Certificate | None] = [None] * len(work)

    def run(position: int) -> None:
        together[position] = prove(*work[position])
        with precision(60 + 40 * position):
            assert ctx.prec == 60 + 40 * position

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, two in zip(alone, together, strict=True):
        assert one is not None and two is not None
        assert (one.centre, one.radius, one.bits) == (two.centre, two.radius, two.bits)
