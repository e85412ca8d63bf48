"""tanh and sigmoid: exact ranks, against elimination with 300 digits on a second forward map."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import factorial, log2

import flint
import numpy as np
import pytest

import sublearn as sl
from sublearn.verdicts import generic_rank
from sublearn.verdicts._needed import needed_rank
from sublearn.verdicts._points import PRIMES, miss_probability

BITS = 1000
Matrix = list[list[flint.arb]]
Weights = dict[str, Matrix]

CASES = [
    ("ffn:3-4-2,activation=tanh", 3, None),
    ("ffn:2-3-2,activation=sigmoid,bias=yes", 4, None),
    ("ffn:2-2-2-2,activation=tanh", 3, None),
    ("ffn:1-2-1,activation=tanh", 4, None),
    ("ffn:1-1-1-1,activation=tanh", 5, None),
    ("ffn:3-2-2,output=sigmoid", 4, None),
    ("ffn:3-2-2,output=tanh,bias=yes", 3, 1),
    ("ffn:3-3-2,activation=sigmoid", 3, 1),
    ("ffn:2-3-2,activation=tanh,output=tanh", 2, None),
    ("rnn:n=3,b=2,d=2,T=1", 4, None),
    ("rnn:n=3,b=1,d=1,T=2", 5, None),
    ("rnn:n=2,b=1,d=2,T=3", 3, None),
    ("rnn:n=2,b=2,d=1,T=2,activation=sigmoid", 4, 1),
]


def numbers(rng: np.random.Generator, rows: int, columns: int) -> Matrix:
    return [[flint.arb(x) for x in row] for row in rng.standard_normal((rows, columns)).tolist()]


def product(a: Matrix, b: Matrix) -> Matrix:
    return [
        [
            sum((x * y for x, y in zip(row, column, strict=True)), flint.arb(0))
            for column in zip(*b, strict=True)
        ]
        for row in a
    ]


def applied(activation: str, a: Matrix) -> Matrix:
    phi = {
        "linear": lambda x: x,
        "tanh": lambda x: x.tanh(),
        "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    }[activation]
    return [[phi(x) for x in row] for row in a]


def total(a: Matrix, b: Matrix) -> Matrix:
    return [[x + y for x, y in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)]


def outputs(network: sl.Network, weights: Weights, inputs: Matrix) -> list[flint.arb]:
    """The definitions on the pages of the two networks, written out."""
    if isinstance(network, sl.RNN):
        state = [[flint.arb(0)] * len(inputs[0]) for _ in range(network.n)]
        for t in range(network.T):
            entering = product(weights["B"], inputs[t * network.b : (t + 1) * network.b])
            state = applied(network.activation, product(weights["W"], total(state, entering)))
        return [x for row in product(weights["D"], state) for x in row]
    assert isinstance(network, sl.FeedForward)
    state = inputs
    for layer in range(1, network.layers + 1):
        state = product(weights[f"W{layer}"], state)
        if network.bias:
            state = [
                [x + b[0] for x in row] for row, b in zip(state, weights[f"b{layer}"], strict=True)
            ]
        state = applied(network.output if layer == network.layers else network.activation, state)
    return [x for row in state for x in row]


class Columns:
    """Every column of the Jacobian at one random point, to about 100 digits."""

    def __init__(self, problem: sl.Problem, seed: int) -> None:
        network, rng = problem.network, np.random.default_rng(seed)
        law = problem.ensemble.inputs
        features = sum(network.input_blocks)
        weights = {name: numbers(rng, *shape) for name, shape in network.shapes.items()}
        if isinstance(law, sl.ensembles.LowRank):
            left = numbers(rng, features, law.rank)
            inputs = product(left, numbers(rng, law.rank, problem.samples))
        else:
            inputs = numbers(rng, features, problem.samples)
        start = outputs(network, weights, inputs)
        step = flint.arb(2) ** -400
        self.at: dict[tuple[str, int, int], list[flint.arb]] = {}
        for name, i, j in sl.Allocation.whole(network).labels():
            before = weights[name][i][j]
            weights[name][i][j] = before + step
            moved = outputs(network, weights, inputs)
            weights[name][i][j] = before
            self.at[name, i, j] = [(y - x) / step for x, y in zip(start, moved, strict=True)]

    def rank(self, labels: list[tuple[str, int, int]]) -> int:
        """Elimination with the largest pivot first; what is left behind must be nothing."""
        columns = [list(self.at[label]) for label in labels]
        rank = 0
        while columns:
            sizes = [
                (abs(float(x.mid())), c, r)
                for c, column in enumerate(columns)
                for r, x in enumerate(column)
            ]
            size, c, r = max(sizes)
            if size < 1e-60:  # differences are right to 2^-400, about 1e-120
                assert size < 1e-100, "neither a pivot nor nothing"
                break
            pivot = columns.pop(c)
            rank += 1
            columns = [
                [x - y * column[r] / pivot[r] for x, y in zip(column, pivot, strict=True)]
                for column in columns
            ]
        return rank


@pytest.fixture(autouse=True)
def digits() -> object:
    before = flint.ctx.prec
    flint.ctx.prec = BITS
    yield
    flint.ctx.prec = before


@pytest.mark.parametrize(("text", "samples", "input_rank"), CASES)
def test_ranks_are_those_at_many_digits(text: str, samples: int, input_rank: int | None) -> None:
    network = sl.networks.network_from_text(text)
    law = sl.ensembles.Normal() if input_rank is None else sl.ensembles.LowRank(rank=input_rank)
    problem = sl.Problem(network, samples, sl.Ensemble(inputs=law))
    columns = Columns(problem, seed=1)
    whole = sl.Allocation.whole(network)
    assert needed_rank(problem, error=1e-12, seed=0).rank == columns.rank(whole.labels())
    rng = np.random.default_rng(2)
    seen: Counter[str] = Counter()
    for _ in range(12):
        size = int(rng.integers(1, min(network.size, problem.equations + 2) + 1))
        held = whole.select(np.sort(rng.permutation(network.size)[:size]))
        found = generic_rank(problem, held, error=1e-12, seed=0)
        assert found.rank == columns.rank(held.labels()), held.entries
        assert found.grade.kind in ("proof", "probability") and found.grade.error <= 1e-12
        seen["full" if found.rank == min(size, problem.equations) else "deficient"] += 1
    assert seen["full"]


def test_some_of_these_ranks_are_deficient() -> None:
    """One use of W and B: y = D tanh(W B x) knows only the product W B, of 3 x 2 numbers."""
    problem = sl.Problem(sl.RNN(n=3, b=2, d=2, T=1), 8)
    both = sl.Allocation.whole(problem.network, ["W", "B"])
    found = sl.certify(problem, both)
    assert (found.rank, found.needed, found.kind) == (6, 12, "minimal")
    assert Columns(problem, seed=0).rank(both.labels()) == 6
    # W alone: what enters W is B x, two numbers a sample, so a row of W carries two.
    row = sl.certify(problem, sl.Allocation.from_rows(problem.network, "W", [0]))
    assert (row.rank, row.rank_grade.kind) == (2, "probability")


def test_a_census_of_a_tanh_network() -> None:
    """W sees B x, two numbers a sample: of 84 sets of three weights, the three whole rows carry two."""
    problem = sl.Problem(sl.RNN(n=3, b=2, d=1, T=1), 3)
    columns = Columns(problem, seed=3)
    whole = sl.Allocation.whole(problem.network, ["W"])
    deficient = [
        flat
        for flat in combinations(range(9), 3)
        if columns.rank(whole.select(np.array(flat)).labels()) < 3
    ]
    assert deficient == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    count = sl.census(problem, "W")
    assert (count.total, count.feasible, count.deficient) == (84, 84, 3)


REPORTED = sl.Problem(sl.RNN(n=4, b=1, d=2, T=3), 2, sl.Gaussian(10.0))


def test_saturated_weights_do_not_hide_the_rank() -> None:
    """Float64 sees rank 3 of 4 at some draws of this ensemble; the verdict was minimal or between."""
    held = sl.Allocation.whole(REPORTED.network, ["W"])
    verdicts = [sl.certify(REPORTED, held, seed=seed) for seed in range(5)]
    assert {(v.kind, str(v.grade), v.rank, v.needed) for v in verdicts} == {
        ("between", "proof", 4, 4)
    }
    assert Columns(REPORTED, seed=0).rank(held.labels()) == 4
    found = sl.estimate(REPORTED, held, trials=20)
    assert found.sampled and found.matched > 0


@pytest.mark.parametrize("g", [0.1, 1.0, 30.0])
def test_the_scale_of_a_law_does_not_matter(g: float) -> None:
    problem = sl.Problem(REPORTED.network, 2, sl.Gaussian(g))
    for names, kind in ((["W"], "between"), (["D"], "maximal"), (["B"], "between")):
        held = sl.Allocation.whole(problem.network, names)
        found = {sl.certify(problem, held, seed=seed).kind for seed in range(3)}
        assert found == {kind}, names


def test_too_few_weights_are_a_proof() -> None:
    network = sl.FeedForward((64, 128, 64, 10), activation="tanh", bias=True)
    problem = sl.Problem(network, 32)
    verdict = sl.certify(problem, sl.Allocation.spread(network, {"W3": 172}))
    assert (verdict.kind, str(verdict.grade)) == ("minimal", "proof")
    assert (verdict.rank, verdict.needed, str(verdict.needed_grade)) == (172, 320, "proof")
    assert verdict.reasons[0].startswith("172 learnable weights cannot reach the 320")


def test_an_invertible_output_activation_changes_nothing() -> None:
    """tanh y = tanh z exactly if y = z: with the readout alone, one linear system."""
    network = sl.FeedForward((3, 4, 1), activation="tanh", output="tanh")
    problem = sl.Problem(network, 2, sl.Gaussian(20.0))
    verdict = sl.certify(problem, sl.Allocation.whole(network, ["W2"]))
    assert (verdict.kind, str(verdict.grade), verdict.rank) == ("maximal", "proof", 2)
    assert any("invertible" in reason for reason in verdict.reasons)
    # Another teacher, without it, has outputs beyond 1.
    other = sl.Problem(network, 2, teacher=sl.FeedForward((3, 4, 1), activation="tanh"))
    assert sl.certify(other, sl.Allocation.whole(network, ["W2"])).kind == "between"


def test_relu_before_tanh_is_refused() -> None:
    """Units that are all off would make a constant of what tanh sees; nothing is claimed there."""

    class Mixed(sl.FeedForward):
        @property
        def steps(self) -> tuple[sl.networks.Step, ...]:
            return (
                sl.networks.Step("W1", "relu", block=0),
                sl.networks.Step("W2", "tanh"),
                sl.networks.Step("W3"),
            )

    problem = sl.Problem(Mixed((2, 2, 2, 1), activation="tanh"), 2)
    with pytest.raises(sl.BadInputError, match="come before all ReLU steps"):
        sl.certify(problem, sl.Allocation.whole(problem.network, ["W1"]))


# The probability of a mistake, with what tanh and sigmoid leave behind as variables of their own.


@pytest.mark.parametrize("slope", ["1 - h^2", "h - h^2"])
@pytest.mark.parametrize("bias", [False, True])
def test_degree_and_norm_of_entries(slope: str, bias: bool) -> None:
    """y = W3 h, h = phi(W2 phi(W1 x)), expanded by hand with flint's polynomials."""
    activation = "tanh" if slope.startswith("1") else "sigmoid"
    network = sl.FeedForward((2, 2, 3, 1), activation=activation, bias=bias)
    problem = sl.Problem(network, 1)
    names = [f"u{i}{j}" for i in range(3) for j in range(2)] + [f"v{i}" for i in range(3)]
    names += ["x0", "x1", "g0", "g1", "h0", "h1", "h2"]
    context = flint.fmpz_mpoly_ctx.get(names, flint.Ordering.degrevlex)
    of = dict(zip(names, context.gens(), strict=True))

    def bent(h: object) -> object:
        return 1 - h * h if activation == "tanh" else h - h * h  # type: ignore[operator]

    entries = [of[f"h{i}"] for i in range(3)]  # d y / d W3
    leaving = [of[f"v{i}"] * bent(of[f"h{i}"]) for i in range(3)]
    entries += [left * of[f"g{j}"] for left in leaving for j in range(2)]  # d y / d W2
    for j in range(2):
        back = sum((leaving[i] * of[f"u{i}{j}"] for i in range(3)), context.from_dict({}))
        entries += [back * bent(of[f"g{j}"]) * of[f"x{k}"] for k in range(2)]  # d y / d W1
    degree = max(int(entry.total_degree()) for entry in entries)
    norm = max(sum(abs(int(c)) for c in entry.coeffs()) for entry in entries)
    miss = miss_probability(problem, network, 3)
    least = 3 * degree / 2**22 + (log2(factorial(3)) + 3 * log2(norm)) / 22 / PRIMES
    assert degree == 7 and least <= miss <= 1.2 * least
