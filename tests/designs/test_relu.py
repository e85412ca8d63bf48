"""ReLU designs, against all subsets of weights at all gates that integer points have.

The oracle knows nothing of the package: networks of whole numbers are drawn, their gates are those of
exact sums, and the ranks of their Jacobians are taken in whole numbers (Bareiss 1968). A set of weights is
admissible if its rank is full at one of the points; how many weights are needed is the largest rank of all.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pytest

import sublearn as sl
from sublearn.designs import _over_gates
from sublearn.designs._witness import realise
from sublearn.networks import gates_at
from sublearn.verdicts import drawn_gates, settled_gates

Labels = tuple[tuple[str, int, int], ...]


def rank_of(rows: list[list[int]]) -> int:
    """Of a matrix of whole numbers, without fractions."""
    left, rank, previous = [list(row) for row in rows], 0, 1
    for column in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(left)) if left[i][column]), None)
        if pivot is None:
            continue
        left[rank], left[pivot] = left[pivot], left[rank]
        first = left[rank]
        for i in range(rank + 1, len(left)):
            factor = left[i][column]
            left[i] = [
                (value * first[column] - factor * above) // previous
                for value, above in zip(left[i], first, strict=True)
            ]
        previous = first[column]
        rank += 1
    return rank


@dataclass(frozen=True)
class Layers:
    """A ReLU network of whole numbers at one point: its gates, and a column for every weight."""

    gates: tuple[bytes, ...]
    columns: dict[tuple[str, int, int], list[int]]


def draw_layers(sizes: tuple[int, ...], bias: bool, m: int, rng: np.random.Generator) -> Layers:
    """Backward by hand; rejected until no pre-activation of a unit that is reached is 0."""
    while True:
        weights = [rng.integers(-9, 10, (k, n)).astype(object) for n, k in pairwise(sizes)]
        shifts = [rng.integers(-9, 10, (k, 1)).astype(object) * bias for k in sizes[1:]]
        state = rng.integers(-9, 10, (sizes[0], m)).astype(object)
        entering, gates, doubtful = [], [], False
        for level, (W, b) in enumerate(zip(weights, shifts, strict=True)):
            entering.append(state)
            before = W @ state + b
            if level < len(weights) - 1:
                reached = (state != 0).any(axis=0) | bias
                doubtful |= bool(((before == 0) & reached).any())
                gates.append(before > 0)
                state = before * gates[-1]
        if not doubtful:
            break
    columns = {}
    for o, s in product(range(sizes[-1]), range(m)):
        back = np.zeros(sizes[-1], dtype=object)
        back[o] = 1
        for level in range(len(weights) - 1, -1, -1):
            for i in range(sizes[level + 1]):
                for j in range(sizes[level]):
                    value = int(back[i] * entering[level][j, s])
                    columns.setdefault((f"W{level + 1}", i, j), []).append(value)
                if bias:
                    columns.setdefault((f"b{level + 1}", i, 0), []).append(int(back[i]))
            if level:
                back = (back @ weights[level]) * gates[level - 1][:, s]
    return Layers(tuple(g.tobytes() for g in gates), columns)


@cache
def admissible(
    sizes: tuple[int, ...], bias: bool, m: int, names: tuple[str, ...], points: int
) -> frozenset[Labels]:
    """Every set of as many of the named weights as are needed, with full rank at one of the points."""
    rng = np.random.default_rng(7)
    drawn: dict[tuple[bytes, ...], list[Layers]] = {}
    for _ in range(points):
        point = draw_layers(sizes, bias, m, rng)
        drawn.setdefault(point.gates, []).append(point)
    # Three points of each gates: not all of them are special.
    few = [point for same in drawn.values() for point in same[:3]]
    needed = max(rank_of(list(point.columns.values())) for point in few)
    found: set[Labels] = set()
    for point in few:
        labels = sorted(label for label in point.columns if label[0] in names)
        for chosen in combinations(labels, needed):
            if chosen not in found and rank_of([point.columns[c] for c in chosen]) == needed:
                found.add(chosen)
    return frozenset(found)


CASES = [
    ((2, 3, 2), False, 2, ("W1",), 2000, 150),
    ((2, 2, 2), False, 2, ("W1", "W2"), 600, 60),
    ((2, 3, 1), False, 3, ("W1", "W2"), 2000, 60),
    ((3, 3, 2), False, 2, ("W1",), 2000, 60),
    ((1, 3, 2), False, 3, ("W1", "W2"), 600, 60),  # 4 of 6 are needed, and few gates exist
    ((4, 2, 2), False, 2, ("W1",), 600, 60),
    ((2, 2, 1), True, 3, ("W1", "b1", "W2"), 1500, 60),
    ((2, 2, 2, 1), False, 2, ("W1", "W2", "W3"), 1500, 60),
]
NAMES = ["-".join(map(str, case[0])) + " " + " ".join(case[3]) for case in CASES]


@pytest.fixture
def few_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of gates is not what these tests are about."""
    monkeypatch.setattr(_over_gates, "SAMPLED", 4)


def asked(sizes: tuple[int, ...], bias: bool, m: int) -> sl.Problem:
    return sl.Problem(sl.FeedForward(sizes, activation="relu", bias=bias), m)


def test_the_finding() -> None:
    """One greedy at one point returned 1.52."""
    problem = asked((2, 3, 2), False, 2)
    scores = np.array([[-0.54, 0.58], [0.36, 0.29], [0.03, 0.55]])
    best = sl.design(problem, ["W1"], {"W1": scores}, want="best score")
    assert best.entries["W1"] == ((0, 1), (1, 0), (1, 1), (2, 1))
    assert best.value == pytest.approx(1.78)
    assert best.claim == "best score"


MORE = [
    ((3, 3, 2), False, 3, ("W1",), 6000, 300),
    ((2, 4, 1), False, 3, ("W1", "W2"), 4000, 300),
    ((1, 4, 2), False, 3, ("W1", "W2"), 1000, 300),
    ((2, 2, 2, 1), True, 3, ("W1", "b2", "W3"), 6000, 300),
]


@pytest.mark.usefixtures("few_gates")
@pytest.mark.parametrize(
    ("sizes", "bias", "m", "names", "points", "tables"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)
def test_no_admissible_set_scores_higher(
    sizes: tuple[int, ...], bias: bool, m: int, names: tuple[str, ...], points: int, tables: int
) -> None:
    problem, every = asked(sizes, bias, m), admissible(sizes, bias, m, names, points)
    shapes = problem.network.shapes
    rng = np.random.default_rng(0)
    proved = 0
    for table in range(tables):
        scores = {name: rng.standard_normal(shapes[name]) - table % 2 for name in names}
        if table % 3 == 0:  # rows, and columns, that are preferred as a whole; or ties
            scores = {
                name: np.round(values + 2 * rng.standard_normal((len(values), 1)))
                for name, values in scores.items()
            }
        best = max(sum(scores[n][i, j] for n, i, j in chosen) for chosen in every)
        found = sl.design(problem, names, scores)
        assert tuple(sorted(found.labels())) in every
        assert found.value == pytest.approx(sum(scores[n][i, j] for n, i, j in found.labels()))
        assert found.bound is not None
        assert found.value <= best + 1e-9 <= found.bound + 2e-9
        assert found.best == (found.claim == "best score")
        if found.best:
            assert found.value == pytest.approx(best)
            proved += 1
    assert proved == tables, "small enough for the search to end"


@pytest.mark.usefixtures("few_gates")
@pytest.mark.parametrize(
    ("sizes", "bias", "m", "names", "points", "tables"), CASES[:6], ids=NAMES[:6]
)
def test_forbidden_and_required(
    sizes: tuple[int, ...], bias: bool, m: int, names: tuple[str, ...], points: int, tables: int
) -> None:
    problem, every = asked(sizes, bias, m), admissible(sizes, bias, m, names, points)
    network = problem.network
    rng = np.random.default_rng(1)
    answered = refused = 0
    for _ in range(25):
        scores = {name: rng.standard_normal(network.shapes[name]) for name in names}
        pool = sl.Allocation.whole(network, names)
        order = rng.permutation(len(pool))
        must, barred = pool.select(order[:2]), pool.select(order[2:3])
        allowed = [
            c for c in every if set(must.labels()) <= set(c) and not set(barred.labels()) & set(c)
        ]
        if not allowed:
            with pytest.raises(sl.BadInputError, match="rank"):
                sl.design(problem, names, scores, forbidden=barred, required=must)
            refused += 1
            continue
        found = sl.design(problem, names, scores, forbidden=barred, required=must)
        best = max(sum(scores[n][i, j] for n, i, j in chosen) for chosen in allowed)
        assert not len(must - found) and not len(found & barred)
        assert found.best and found.value == pytest.approx(best)
        answered += 1
    assert answered and answered + refused == 25


@pytest.mark.usefixtures("few_gates")
@pytest.mark.parametrize(("sizes", "bias", "m", "names", "points", "tables"), CASES, ids=NAMES)
def test_no_repair_moves_fewer(
    sizes: tuple[int, ...], bias: bool, m: int, names: tuple[str, ...], points: int, tables: int
) -> None:
    problem, every = asked(sizes, bias, m), admissible(sizes, bias, m, names, points)
    pool = sl.Allocation.whole(problem.network, names)
    rng = np.random.default_rng(2)
    moves = []
    for _ in range(40):
        size = len(next(iter(every))) + int(rng.integers(0, 2))
        # Weights of few rows and columns first, so that some are wasted.
        weight = rng.random(len(pool)) + np.arange(len(pool)) / 4
        held = pool.select(np.argsort(weight)[: min(size, len(pool))])
        fewest = min(len(set(chosen) - set(held.labels())) for chosen in every)
        whole = sl.repair(problem, held, learn=names)
        assert whole.claim == "fewest moves"
        assert len(whole - held) == len(held - whole) == fewest == whole.value == whole.bound
        assert any(set(chosen) <= set(whole.labels()) for chosen in every)
        moves.append(fewest)
    assert max(moves) > 0 or sizes[0] < 3


@pytest.mark.parametrize("seed", range(3))
def test_the_seed_changes_no_design(seed: int) -> None:
    for spec, m in (("ffn:3-4-2,activation=relu", 3), ("rnn:n=3,b=1,d=2,T=2,activation=relu", 2)):
        problem = sl.Problem(sl.networks.network_from_text(spec), m)
        name = next(iter(problem.network.shapes))
        rng = np.random.default_rng(seed)
        scores = {name: rng.standard_normal(problem.network.shapes[name])}
        first, second = (sl.design(problem, [name], scores, seed=s) for s in (seed, seed + 10))
        assert first == second and first.claim == second.claim
        assert first.gates != second.gates or first.gates is not None


def test_share_of_gates_by_singular_values() -> None:
    """800 draws in float64 know nothing of primes: their share lies in a 95% interval, mostly."""
    problem = asked((3, 4, 2), False, 3)
    rng = np.random.default_rng(3)
    inside = 0
    for table in range(6):
        scores = {"W1": rng.standard_normal((4, 3))}
        best = sl.design(problem, ["W1"], scores, seed=table)
        assert best.gates is not None and best.gates.sampled == 200
        low, high = best.gates.interval
        full = 0
        for _ in range(800):
            W = {name: rng.standard_normal(s) for name, s in problem.network.shapes.items()}
            X = rng.standard_normal((3, 3))
            full += np.linalg.matrix_rank(problem.network.jacobian(W, X, best)) == 6
        inside += low - 0.03 <= full / 800 <= high + 0.03
    assert inside >= 5


@pytest.mark.usefixtures("few_gates")
def test_good_but_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without search and with one draw of gates, the answer is admissible and says what it is."""
    monkeypatch.setattr(_over_gates, "realise", lambda *_: False)
    problem, every = asked((2, 3, 2), False, 2), admissible(*CASES[0][:5])
    rng = np.random.default_rng(5)
    claims = set()
    for _ in range(40):
        scores = {"W1": rng.standard_normal((3, 2))}
        best = max(sum(scores[n][i, j] for n, i, j in chosen) for chosen in every)
        monkeypatch.setattr(_over_gates.GateSearch, "_drawn", one_draw)
        found = sl.design(problem, ["W1"], scores, effort=0)
        claims.add(found.claim)
        assert found.bound is not None and found.value <= best + 1e-9 <= found.bound + 2e-9
        assert tuple(sorted(found.labels())) in every
        if not found.best:
            assert "good, not proved best" in found.words and "none scores above" in found.words
            assert found.to_dict()["claim"] == found.claim
    assert claims == {"best score", "good, not proved best"}


def one_draw(self: _over_gates.GateSearch) -> Iterator[tuple[_over_gates.State, bool]]:
    """The first gates that reach the rank."""
    while True:
        gates = drawn_gates(self.problem, self.problem.network, self.draws)
        assert gates is not None
        state = np.concatenate([gates[p].ravel() for p in self.shapes]).astype(np.int8)
        if self._basis(state)[0].size == self.wanted:
            yield state, True
            return


def test_bounds_of_nodes_hold_below_them() -> None:
    """Open gates bound every way to close them, and the gates of a leaf are what the oracle draws."""
    problem = asked((2, 3, 2), False, 2)
    choice = _over_gates.Choices(
        problem.network, ["W1"], {"W1": np.arange(6.0).reshape(3, 2)}, None
    )
    order = choice.order()
    search = _over_gates.GateSearch(
        _over_gates.BasisQuery(
            problem=problem,
            choice=choice,
            order=order,
            start=order[:0],
            wanted=4,
            gains=(choice.score,),
            effort=100,
            error=1e-12,
            seed=0,
        )
    )
    rng = np.random.default_rng(0)
    for _ in range(60):
        state = rng.integers(-1, 2, 6).astype(np.int8)
        _, bound = search._bound(state, None)
        for filled in product((0, 1), repeat=int((state < 0).sum())):
            closed = state.copy()
            closed[state < 0] = filled
            assert search._bound(closed, None)[1] <= bound


@pytest.mark.parametrize(
    ("sizes", "bias", "m", "count"),
    [((2, 3, 2), False, 2, 64), ((3, 2, 2), False, 3, 64), ((2, 3, 1), False, 3, 512)],
)
def test_all_gates_of_wide_inputs_are_realised(
    sizes: tuple[int, ...], bias: bool, m: int, count: int
) -> None:
    """With features >= units or samples every pattern is one of a draw; three lines in a plane too."""
    problem, rng = asked(sizes, bias, m), np.random.default_rng(0)
    patterns = product((0.0, 1.0), repeat=sizes[1] * m)
    held = [{0: np.array(pattern).reshape(sizes[1], m)} for pattern in patterns]
    assert sum(realise(problem, gates, rng) for gates in held) == count


def test_one_feature_has_few_gates() -> None:
    problem, rng = asked((1, 3, 2), False, 2), np.random.default_rng(0)
    for pattern in product((0.0, 1.0), repeat=6):
        rows = np.array(pattern).reshape(3, 2)
        alike = all((row == rows[0]).all() or (row != rows[0]).all() for row in rows)
        assert realise(problem, {0: rows}, rng) == alike


def test_gates_of_deep_networks_with_biases() -> None:
    """Gates of draws, found again from the gates alone."""
    for spec in ("ffn:2-3-3-2,activation=relu", "ffn:1-3-2-2,activation=relu,bias=yes"):
        problem = sl.Problem(sl.networks.network_from_text(spec), 3)
        rng = np.random.default_rng(1)
        again = 0
        for _ in range(20):
            W = {n: rng.standard_normal(s) for n, s in problem.network.shapes.items()}
            X = rng.standard_normal((problem.network.sizes[0], 3))  # type: ignore[attr-defined]
            settled = settled_gates(problem.network, W, X)
            assert settled is not None
            gates = gates_at(problem.network, W, X)
            assert all(((gates[p] == settled[0][p]) | settled[1][p]).all() for p in gates)
            again += realise(problem, gates, rng)
        assert again >= 15


def test_rounding_leaves_doubt() -> None:
    network = sl.FeedForward((2, 1, 1), activation="relu")
    W = {"W1": np.array([[1.0, 1e-17]]), "W2": np.array([[1.0]])}
    assert settled_gates(network, W, np.array([[1.0], [1.0]])) is not None
    close = {**W, "W1": np.array([[1.0, -1.0]])}
    assert settled_gates(network, close, np.array([[1.0], [1.0 + 2**-52]])) is None
    assert settled_gates(network, W, np.array([[1e-9], [0.0]]), doubt=1e-8) is None


@pytest.mark.usefixtures("few_gates")
def test_networks_whose_gates_are_not_searched_are_only_called_best_at_the_bound() -> None:
    problem = sl.Problem(sl.networks.network_from_text("rnn:n=3,b=1,d=2,T=3,activation=relu"), 3)
    rng = np.random.default_rng(0)
    for _ in range(10):
        found = sl.design(problem, ["W"], {"W": rng.standard_normal((3, 3))}, effort=20)
        assert found.bound is not None
        assert found.best == (found.value >= found.bound)


def test_low_rank_inputs() -> None:
    """Inputs of rank 1 leave W1 one direction a unit and sample: no 6 weights are independent."""
    law = sl.Ensemble(inputs=sl.ensembles.LowRank(1))
    problem = replace(asked((3, 4, 2), False, 3), ensemble=law)
    found = sl.design(problem, ["W1", "W2"], want="best score")
    assert found.best
    rng = np.random.default_rng(0)
    ranks = []
    for _ in range(300):
        W = {n: rng.integers(-9, 10, s).astype(float) for n, s in problem.network.shapes.items()}
        X = np.outer(rng.integers(1, 9, 3), rng.integers(-9, 10, 3)).astype(float)
        whole = sl.Allocation.whole(problem.network)
        ranks.append(np.linalg.matrix_rank(problem.network.jacobian(W, X, whole)))
    assert len(found) == max(ranks)


def test_a_design_is_an_allocation() -> None:
    problem = asked((2, 3, 2), False, 2)
    found = sl.design(problem, ["W1"], {"W1": np.arange(6.0).reshape(3, 2)})
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.to_dict() == found.to_dict() and again.words == found.words
    assert isinstance(found, sl.Allocation) and type(found | found) is sl.Allocation
    assert found.claim in repr(found)
    with pytest.raises(AttributeError):
        found.claim = "best score"  # type: ignore[misc]


def test_what_cannot_be_reached() -> None:
    problem = asked((2, 3, 2), False, 2)
    row = np.zeros((3, 2), dtype=bool)
    row[0] = True
    with pytest.raises(sl.BadInputError, match="W1 reach rank 2, but 4 is needed"):
        sl.design(problem, ["W1"], want="best score", forbidden={"W1": ~row})
    wide = asked((4, 3, 2), False, 2)
    whole = sl.Allocation.from_rows(wide.network, "W1", [0])
    with pytest.raises(sl.BadInputError, match="4 required weights have rank 2 at most"):
        sl.design(wide, ["W1"], want="best score", required=whole)
    with pytest.raises(sl.BadInputError, match="effort must be"):
        sl.design(problem, ["W1"], want="best score", effort=-1)
    with pytest.raises(sl.BadInputError, match="known to be maximal"):
        sl.design(problem, ["W1"])
