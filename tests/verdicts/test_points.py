"""What the probability of error is made of, and the grades that follow from it."""

from __future__ import annotations

from itertools import product
from math import factorial, log2

import flint
import numpy as np
import pytest

import sublearn as sl
from sublearn._grades import NUMERICAL, PROOF, weakest
from sublearn._seeds import named_stream
from sublearn.networks import factors, log2_terms
from sublearn.verdicts import Grade
from sublearn.verdicts._points import PRIMES, input_size, miss_probability
from sublearn.verdicts._rank import points_needed

CROSS = {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]}


def test_the_number_of_primes() -> None:
    low, high = 2**22, 2**23
    sieve = np.ones(high, dtype=bool)
    sieve[:2] = False
    for k in range(2, int(high**0.5) + 1):
        if sieve[k]:
            sieve[k * k :: k] = False
    assert int(sieve[low:].sum()) == PRIMES


class Polynomials:
    """The outputs of a network as polynomials in its weights and inputs, expanded by flint."""

    def __init__(self, network: sl.Network, samples: int, input_rank: int | None = None) -> None:
        shape = network.input_shape(samples)
        features = int(np.prod(shape[:-1]))
        self.names: list[str] = []
        weights = {n: self._matrix(n, *s) for n, s in network.shapes.items()}
        if input_rank is None:
            self._inputs = self._matrix("x", features, samples)
            pieces = None
        else:
            pieces = (
                self._matrix("l", features, input_rank),
                self._matrix("r", input_rank, samples),
            )
        context = flint.fmpz_mpoly_ctx.get(self.names, flint.Ordering.degrevlex)
        self.variable = dict(zip(self.names, context.gens(), strict=True))
        self.context = context
        values = {n: self._values(m) for n, m in weights.items()}
        if pieces is None:
            inputs = self._values(self._inputs)
        else:
            inputs = self._multiply(self._values(pieces[0]), self._values(pieces[1]))
        self.outputs = self._forward(network, values, inputs, samples)
        self.weight_names = [name for m in weights.values() for row in m for name in row]

    def _matrix(self, name: str, rows: int, columns: int) -> list[list[str]]:
        out = [[f"{name}_{i}_{j}" for j in range(columns)] for i in range(rows)]
        self.names += [entry for row in out for entry in row]
        return out

    def _values(self, matrix: list[list[str]]) -> list[list]:
        return [[self.variable[name] for name in row] for row in matrix]

    def _multiply(self, a: list[list], b: list[list]) -> list[list]:
        zero = self.context.from_dict({})
        columns = list(zip(*b, strict=True))
        return [
            [sum((x * y for x, y in zip(row, column, strict=True)), zero) for column in columns]
            for row in a
        ]

    def _forward(
        self, network: sl.Network, values: dict[str, list[list]], inputs: list[list], samples: int
    ) -> list:
        if isinstance(network, sl.LinearRNN):
            state = None
            for t in range(network.T):
                block = inputs[t * network.b : (t + 1) * network.b]
                entering = self._multiply(values["B"], block)
                if state is not None:
                    entering = [
                        [x + y for x, y in zip(a, b, strict=True)]
                        for a, b in zip(state, entering, strict=True)
                    ]
                state = self._multiply(values["W"], entering)
            out = self._multiply(values["D"], state or [])
        else:
            assert isinstance(network, sl.FeedForward)
            out = inputs
            for layer in range(1, network.layers + 1):
                out = self._multiply(values[f"W{layer}"], out)
                if network.bias:
                    out = [
                        [x + bias[0] for x in row]
                        for row, bias in zip(out, values[f"b{layer}"], strict=True)
                    ]
        return [entry for row in out for entry in row]

    def jacobian_entries(self) -> list:
        return [y.derivative(name) for y in self.outputs for name in self.weight_names]


@pytest.mark.parametrize(
    ("text", "samples", "input_rank"),
    [
        ("lrnn:n=2,b=1,d=1,T=2", 1, None),
        ("lrnn:n=2,b=2,d=1,T=3", 1, None),
        ("lrnn:n=3,b=1,d=2,T=2", 2, None),
        ("ffn:2-3-2", 2, None),
        ("ffn:2-2-2-1", 1, None),
        ("ffn:2-2-2,bias=yes", 2, None),
        ("ffn:3-2-2", 3, 2),
        ("lrnn:n=2,b=2,d=1,T=2", 2, 2),
    ],
)
def test_norm_and_degree_of_jacobian_entries(
    text: str, samples: int, input_rank: int | None
) -> None:
    network = sl.networks.network_from_text(text)
    law = sl.ensembles.Normal() if input_rank is None else sl.ensembles.LowRank(rank=input_rank)
    problem = sl.Problem(network, samples, sl.Ensemble(inputs=law))
    polynomials = Polynomials(network, samples, input_rank)
    entries = [e for e in polynomials.jacobian_entries() if e != 0]
    norm = max(sum(abs(int(c)) for c in entry.coeffs()) for entry in entries)
    degree = max(int(entry.total_degree()) for entry in entries)
    assert norm <= 2 ** log2_terms(network, input_size(problem)) * (1 + 1e-12)
    # The bound is an output's own sum of coefficients, times the degree: no more is given away.
    of_outputs = max(sum(abs(int(c)) for c in y.coeffs()) for y in polynomials.outputs)
    assert 2 ** log2_terms(network, input_size(problem)) == pytest.approx(
        of_outputs * network.degree
    )
    assert degree <= network.degree - 1 + (input_rank is not None)
    # Three columns: a minor of at most three times the degree, with coefficients below 3! N^3.
    schwartz_zippel = 3 * degree / 2**22
    bad_primes = (log2(factorial(3)) + 3 * log2(of_outputs * network.degree)) / 22 / PRIMES
    assert miss_probability(problem, network, 3) == pytest.approx(schwartz_zippel + bad_primes)
    # Coefficients are bounded by the norm, those of a 2 x 2 minor by 2! norm^2.
    minor = entries[0] * entries[-1] - entries[1] * entries[-2]
    largest = max((abs(int(c)) for c in minor.coeffs()), default=0)
    assert largest <= factorial(2) * norm**2


@pytest.mark.parametrize("p", [5, 7, 11])
def test_zeros_modulo_a_small_prime_keep_schwartz_and_zippel(p: int) -> None:
    # y = d w^2 b x_1 + d w b x_2: the column of w vanishes at no more than degree / p of all points.
    network = sl.LinearRNN(n=1, b=1, d=1, T=2)
    points = np.array(list(product(range(p), repeat=5)))
    w, b, d, x1, x2 = points.T
    zero = ((d * b * (2 * w * x1 + x2)) % p == 0).mean()
    assert zero <= (network.degree - 1) / p


def test_the_column_above_is_the_networks() -> None:
    network = sl.LinearRNN(n=1, b=1, d=1, T=2)
    w, b, d, x1, x2 = 2.0, 3.0, 5.0, 7.0, 11.0
    weights = {"W": np.array([[w]]), "B": np.array([[b]]), "D": np.array([[d]])}
    found = factors(network, weights, np.array([x1, x2]).reshape(2, 1, 1))["W"]
    column = sum((found.left[t, 0, 0, 0] * found.right[t, 0, 0] for t in range(2)), 0.0)
    assert column == d * b * (2 * w * x1 + x2)


def test_miss_probability_adds_its_two_parts() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    size = 4
    schwartz_zippel = size * (problem.network.degree - 1) / 2**22
    bits = log2(factorial(size)) + size * log2_terms(problem.network, input_size(problem))
    bad_primes = bits / 22 / PRIMES
    assert miss_probability(problem, problem.network, size) == pytest.approx(
        schwartz_zippel + bad_primes
    )
    assert miss_probability(problem, problem.network, 0) == 0.0
    large = sl.Problem(sl.LinearRNN(n=64, b=8, d=64, T=8), 64)
    assert miss_probability(large, large.network, 4096) < 0.1


@pytest.mark.parametrize(
    ("miss", "error"), [(1e-3, 1e-12), (1e-5, 1e-30), (0.3, 1e-6), (1e-20, 0.5)]
)
def test_points_needed(miss: float, error: float) -> None:
    points = points_needed(miss, error)
    assert miss**points <= error
    assert points == 1 or miss ** (points - 1) > error


@pytest.mark.parametrize("error", [1e-3, 1e-12, 1e-40])
def test_deficient_by_chance_keeps_the_asked_error(error: float) -> None:
    problem = sl.Problem(sl.LinearRNN(n=4, b=2, d=2, T=2), 4)
    cross = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0), (1, 1)]
    held = sl.Allocation.from_entries(problem.network, {"W": cross})
    verdict = sl.certify(problem, held, error=error)
    assert verdict.rank == 7 and verdict.kind == "minimal"
    assert verdict.grade.kind == "probability" and 0 < verdict.grade.error <= error


def test_full_rank_and_degree_bounds_are_proofs() -> None:
    problem = sl.Problem(sl.LinearRNN(n=4, b=2, d=2, T=2), 4)
    rows = sl.certify(problem, sl.Allocation.from_rows(problem.network, "W", [0, 1]))
    assert (rows.kind, rows.grade, rows.rank_grade) == ("maximal", PROOF, PROOF)
    # Two rows of W1 of four weights each, three samples: at most 3 + 3 dimensions of 8.
    layer = sl.Problem(sl.FeedForward((4, 4, 2)), 4)
    full = sl.Allocation.from_columns(layer.network, "W1", [0, 1])
    verdict = sl.certify(layer, full)
    assert (verdict.rank, verdict.kind, verdict.grade) == (4, "minimal", PROOF)
    # One row of four weights that sees T min(b, m) = 2 directions: dependent, and no chance in it.
    narrow = sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), 3)
    row = sl.certify(narrow, sl.Allocation.from_rows(narrow.network, "W", [0]))
    assert (row.rank, row.rank_grade) == (2, PROOF)


def test_peeling_proves_the_crossing_of_a_row_and_a_column() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    verdict = sl.certify(problem, sl.Allocation.from_entries(problem.network, CROSS))
    assert (verdict.rank, verdict.grade, verdict.broken) == (3, PROOF, ())


def test_weakest_grade() -> None:
    a, b = Grade("probability", 1e-9), Grade("probability", 3e-9)
    assert weakest(PROOF, PROOF) == PROOF
    assert weakest(PROOF, a, b) == Grade("probability", 1e-9 + 3e-9)
    assert weakest(a, NUMERICAL, PROOF) == NUMERICAL
    assert PROOF.to_dict() == {"kind": "proof", "error": None}


def test_generators_depend_on_seed_and_parts_only() -> None:
    first = named_stream(1, "a", "b").integers(0, 2**60, 4)
    assert (first == named_stream(1, "a", "b").integers(0, 2**60, 4)).all()
    assert (first != named_stream(2, "a", "b").integers(0, 2**60, 4)).any()
    assert (first != named_stream(1, "ab", "").integers(0, 2**60, 4)).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error": 0.0}, "error must lie strictly between 0 and 1, not 0.0."),
        ({"error": 1.0}, "error must lie strictly between 0 and 1, not 1.0."),
        ({"error": float("nan")}, "error must lie strictly between 0 and 1, not nan."),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1."),
        ({"seed": 0.5}, "seed must be a whole number of at least 0, not 0.5."),
    ],
)
def test_options_are_checked_at_every_door(options: dict[str, float], message: str) -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    held = sl.Allocation.from_entries(problem.network, CROSS)
    relu = sl.Problem(sl.FeedForward((3, 3, 2), activation="relu"), 2)
    for ask in (
        lambda: sl.certify(problem, held, **options),
        lambda: sl.census(problem, "W1", **options),
        lambda: sl.design(problem, ["W1"], **options),
        lambda: sl.repair(problem, held, **options),
        lambda: sl.verdicts.gated_rank(relu, held, {0: np.ones((3, 2))}, **options),
    ):
        with pytest.raises(sl.BadInputError) as caught:
            ask()
        assert str(caught.value) == message
