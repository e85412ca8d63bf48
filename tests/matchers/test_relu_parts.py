"""The parts of the ReLU rung: cone test, Farkas vectors, the tree that joins them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sublearn as sl
from matchers.relu_instances import small
from sublearn.exact import Feasible, Infeasible, decide_program, separates
from sublearn.matchers.relu._branch import check_tree, covers_all, decide_by_branching, decide_leaf
from sublearn.matchers.relu._cone import cone_contradiction, outside_cone
from sublearn.matchers.relu._kernel import Leaves
from sublearn.matchers.relu._leaf import LeafProofs
from sublearn.patterns import System, build_program, build_system, in_coordinates


def _system(n: int, k: int, trial: int) -> System:
    problem = sl.Problem(sl.FeedForward((6, n, 4), activation="relu"), samples=6)
    return build_system(sl.draw(problem, {"W1": sl.FirstRows(k)}, seed=3, trial=trial))


def _rationals(values: np.ndarray) -> list[list[object]]:
    from flint import fmpq

    return [[fmpq(*float(x).as_integer_ratio()) for x in row] for row in values]


def test_cone_against_a_linear_program() -> None:
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    seen = {True: 0, False: 0}
    for _ in range(80):
        k = int(rng.integers(1, 6))
        matrix, target = rng.standard_normal((3, k)), rng.standard_normal(3)
        wanted = linprog(np.zeros(k), A_eq=matrix, b_eq=target).status == 2
        exact = [row[0] for row in _rationals(target[:, None])]
        assert outside_cone(_rationals(matrix), exact) == wanted
        seen[wanted] += 1
    assert min(seen.values()) > 10


def test_a_target_on_the_border_of_the_cone_is_not_outside() -> None:
    readout = _rationals(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    for target, wanted in (([3.0, 0.0], False), ([0.0, 0.0], False), ([3.0, -1e-9], True)):
        exact = [row[0] for row in _rationals(np.array(target)[:, None])]
        assert outside_cone(readout, exact) == wanted


def test_signs_decide_where_k_is_d() -> None:
    network = sl.FeedForward((3, 2, 2), activation="relu")
    held = sl.Allocation.from_rows(network, "W1", [0, 1])
    readout = np.array([[1.0, 2.0], [0.0, 1.0]])
    weights = {"W1": np.zeros((2, 3)), "W2": readout}
    for outputs, kind in (([[1.0], [2.0]], "matched"), ([[1.0], [-2.0]], "refuted")):
        instance = sl.Instance(network, held, weights, [[1.0], [0.5], [2.0]], readout @ outputs)
        assert (cone_contradiction(build_system(instance)) is None) == (kind == "matched")
        assert sl.decide(instance).kind == kind


def _refutation(system: System) -> Leaves:
    found = decide_by_branching(system, 100_000, np.random.default_rng(0))
    assert found.kind == "refuted" and found.refutation is not None
    return found.refutation


@pytest.mark.parametrize(("n", "k", "trial"), [(8, 8, 4), (12, 8, 1), (16, 16, 7)])
def test_every_leaf_holds_in_rationals_and_the_tree_covers_all(n: int, k: int, trial: int) -> None:
    system = _system(n, k, trial)
    refutation = _refutation(system)
    assert covers_all(refutation, system.pairs)
    program, proofs = build_program(system), LeafProofs(build_program(system))
    rng = np.random.default_rng(1)
    count = len(refutation.is_cut)
    assert count > 10
    for leaf in rng.choice(count, size=min(count, 12), replace=False):
        clause = refutation.clause[leaf]
        assert proofs.proved(clause, refutation.vector[leaf])
        is_open = ~program.held(clause)
        assert separates(program.exact, program.columns.matrix, refutation.vector[leaf], is_open)


def test_a_damaged_tree_does_not_pass() -> None:
    system = _system(8, 8, 4)
    whole = _refutation(system)
    clause = whole.clause.copy()
    clause[0, :] = True
    assert not covers_all(whole._replace(clause=clause), system.pairs)


def _fractions(matrix: np.ndarray, right: np.ndarray) -> list[list[object]]:
    return _rationals(np.column_stack([matrix, right]))


def test_no_vector_separates_what_is_feasible() -> None:
    """Systems with a solution v >= 0: whatever the guess is, nothing proves that there is none."""
    rng = np.random.default_rng(2)
    for _ in range(600):
        matrix = rng.integers(-2, 3, (3, 8)).astype(float)
        right = matrix @ rng.integers(0, 2, 8).astype(float)
        guess = (
            rng.standard_normal(3) if rng.random() < 0.5 else rng.integers(-2, 3, 3).astype(float)
        )
        assert not separates(_fractions(matrix, right), matrix, guess, np.ones(8, np.bool_))


def test_vectors_separate_only_what_the_simplex_finds_infeasible() -> None:
    """Integers in the shape of real systems, with ties, zeros and opposite columns; rows of inverses."""
    rng = np.random.default_rng(4)
    proved = held_back = 0
    for _ in range(3000):
        pairs = int(rng.integers(2, 5))
        top = rng.integers(-2, 3, (2, pairs)) * (rng.random((2, pairs)) < 0.7)
        low = rng.integers(-1, 2, (2, pairs))
        matrix = np.block([[top, np.zeros((2, pairs))], [low, -low]]).astype(float)
        right = rng.integers(-2, 3, 4).astype(float)
        is_open = rng.random(2 * pairs) < 0.7
        choices = np.concatenate([np.arange(2 * pairs), -1 - np.arange(4)])
        basis = rng.permutation(choices)[:4]
        square = np.array([matrix[:, c] if c >= 0 else np.eye(4)[-1 - c] for c in basis]).T
        if abs(np.linalg.det(square)) < 0.5:
            continue
        # Off by rounding, as a simplex leaves it.
        guess = np.linalg.inv(square)[int(rng.integers(4))] * rng.choice([-1.0, 1.0])
        guess *= 1 + 1e-15 * rng.standard_normal(4)
        program = _fractions(matrix, right)
        if separates(program, matrix, guess, is_open):
            assert isinstance(decide_program(program, is_open), Infeasible)
            proved += 1
        else:
            held_back += 1
    assert proved > 100 and held_back > 100


def test_a_program_from_any_basis_against_highs() -> None:
    """Bases whose columns depend on each other too: rounding hands some out."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(2)
    dependent = 0
    for _ in range(300):
        matrix = rng.integers(-2, 3, (4, 8)).astype(float)
        right = rng.integers(-2, 3, 4).astype(float)
        is_open = rng.random(8) < 0.6
        basis = rng.permutation(np.concatenate([np.arange(8), -1 - np.arange(4)]))[:4]
        square = np.array([matrix[:, c] if c >= 0 else np.eye(4)[-1 - c] for c in basis]).T
        dependent += abs(np.linalg.det(square)) < 0.5
        bounds = [(0, None) if free else (0, 0) for free in is_open]
        status = linprog(np.zeros(8), A_eq=matrix, b_eq=right, bounds=bounds).status
        answer = decide_program(_fractions(matrix, right), is_open, basis.tolist())
        assert isinstance(answer, Feasible if status == 0 else Infeasible)
        if isinstance(answer, Feasible):
            v = np.array([float(answer.values.get(j, 0)) for j in range(8)])
            assert (v >= 0).all() and not v[~is_open].any() and np.allclose(matrix @ v, right)
    assert dependent > 30


@pytest.mark.parametrize(("k", "trial"), [(12, 271), (14, 99)])
def test_leaves_whose_basis_is_singular_are_proved(k: int, trial: int) -> None:
    """Of 11,070 instances of Figure 3b's setting these two came to such a leaf and were undecided."""
    problem = sl.Problem(sl.FeedForward((6, 16, 4), activation="relu"), samples=6)
    decision = sl.decide(sl.draw(problem, {"W1": sl.FirstRows(k)}, seed=0, trial=trial))
    assert (decision.kind, decision.grade.kind) == ("refuted", "proof")


def test_the_equations_hold_for_the_networks_own_outputs() -> None:
    """G v = h at v = (relu(z), relu(-z)) of any learnable weights whose outputs are the targets."""
    network = sl.FeedForward((3, 4, 2), activation="relu")
    rng = np.random.default_rng(3)
    weights = {n: rng.integers(-8, 9, s) / 4 for n, s in network.shapes.items()}
    x = rng.integers(-8, 9, (3, 5)) / 4
    held = sl.Allocation.from_entries(network, {"W1": [(0, 0), (0, 2), (2, 1), (3, 0), (3, 1)]})
    system = build_system(sl.Instance(network, held, weights, x, network.forward(weights, x)))
    program = in_coordinates(system)
    factor = Fraction(int(program.factor.p), int(program.factor.q))
    before = (weights["W1"] @ x)[[0, 2, 3]]
    both = np.stack([np.maximum(before, 0), np.maximum(-before, 0)], axis=1).ravel()
    v = [Fraction(float(t)) * factor for t in both]
    for row in program.exact:
        left = sum(Fraction(int(g.p), int(g.q)) * t for g, t in zip(row, v, strict=False))
        assert left == Fraction(int(row[-1].p), int(row[-1].q))
    assert len(program.exact) == 2 * 5 + (5 - 2) + (5 - 1) + (5 - 2)


def test_the_cone_test_survives_the_largest_numbers() -> None:
    """Squares that overflow: the projection must neither crash nor decide by itself."""
    readout = np.array([[0.9e308, 1.3e308], [-1.1e308, -1.3e308]])
    for target, wanted in (([1.0, -1.0], False), ([1.0, 1.0], True), ([-1.0, 1.0], True)):
        assert (
            outside_cone(_rationals(readout), [row[0] for row in _rationals(np.array([target]).T)])
            == wanted
        )


def _tree(clauses: list[list[int]], log: list[int]) -> Leaves:
    """Two pairs: conditions 0 and 1 are off on pair 0 and 1, conditions 2 and 3 on."""
    used = np.zeros((len(clauses), 4), np.bool_)
    for line, clause in zip(used, clauses, strict=True):
        line[clause] = True
    count = len(clauses)
    return Leaves(
        np.zeros((count, 1), np.int16),
        used,
        np.zeros((count, 1)),
        np.ones(count, np.bool_),
        np.array(log, np.int32),
    )


@pytest.mark.parametrize(
    ("clauses", "log", "covers"),
    [
        ([[]], [0], True),
        ([[0]], [0], False),
        ([[0], [2]], [0, 1, -1], True),
        ([[0], [0]], [0, 1, -1], False),  # the same side twice
        ([[0, 2], [2]], [0, 1, -1], False),  # what no pattern does joins nothing
        ([[0, 1], [2, 1], [3]], [0, 1, -1, 2, -2], True),
        ([[0, 1], [2, 1]], [0, 1, -1], False),  # pair 1 on is not covered
        ([[0, 1], [2, 3]], [0, 1, -1], False),
        ([[0], [2], [3]], [2, 0, 1, -1, -3], True),  # the one below the last is not needed
        ([[], [0]], [0, 1], False),  # one too many
    ],
)
def test_clauses_join_to_the_empty_one_or_not(
    clauses: list[list[int]], log: list[int], covers: bool
) -> None:
    assert covers_all(_tree(clauses, log), 2) == covers


def test_a_leaf_is_infeasible_under_its_own_conditions_only() -> None:
    """A tree of several leaves has a root that is feasible: without conditions no leaf is refuted."""
    asked = 0
    for trial in range(40):
        system = build_system(small(trial, seed=35))
        found = decide_by_branching(system, 1000, np.random.default_rng(0))
        if found.kind != "refuted" or found.refutation is None or found.leaves < 2:
            continue
        program, tree = build_program(system), found.refutation
        freed = tree._replace(clause=np.zeros_like(tree.clause))
        for leaf in range(found.leaves):
            assert isinstance(decide_leaf(program, tree, leaf), Infeasible)
            assert isinstance(decide_leaf(program, freed, leaf), Feasible)
            asked += 1
    assert asked > 10


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_tree_proves_no_more_than_its_leaves(is_cut: bool) -> None:
    """Trees made by hand over instances that have a match, with a basis of artificial columns."""
    network = sl.FeedForward((3, 4, 2), activation="relu")
    rng = np.random.default_rng(12)
    kinds = set()
    for _ in range(12):
        weights = {n: rng.integers(-8, 9, s) / 4 for n, s in network.shapes.items()}
        x = rng.integers(-8, 9, (3, 3)) / 4
        held = sl.Allocation.from_columns(network, "W1", [0, 1])
        system = build_system(sl.Instance(network, held, weights, x, network.forward(weights, x)))
        program = build_program(system)
        rows = len(program.exact)
        tree = Leaves(
            basis=np.array([[-1 - r for r in range(rows)]], np.int16),
            clause=np.zeros((1, 2 * system.pairs), np.bool_),
            vector=np.zeros((1, rows)),
            is_cut=np.array([is_cut]),
            log=np.array([0], np.int32),
        )
        # The one leaf is the root: it covers all, and it has a solution, mixed or not.
        kinds.add(check_tree(program, tree, 1).kind)
        # The one leaf is the cell of the match: nothing is said of the other cells.
        before = weights["W1"] @ x
        cell = tree._replace(clause=np.stack([before <= 0, before > 0]).reshape(1, -1))
        assert check_tree(program, cell, 1).kind == ("numerical" if is_cut else "undecided")
    assert kinds == {"matched", "undecided"}
