"""The parts of the ReLU rung: cone test, signs, Farkas vectors, the tree that joins them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sublearn as sl
from matchers.relu_instances import small
from sublearn.matchers.relu._branch import (
    Refutation,
    _checked,
    decide_by_branching,
    decide_leaf,
    replay,
)
from sublearn.matchers.relu._cone import outside_cone
from sublearn.matchers.relu._leaf import LeafProofs
from sublearn.matchers.relu._program import build_program
from sublearn.matchers.relu._signs import sign_contradiction
from sublearn.patterns._exact import Feasible, Infeasible, decide_node, farkas
from sublearn.patterns._system import System, build


def _system(n: int, k: int, trial: int) -> System:
    problem = sl.Problem(sl.FeedForward((6, n, 4), activation="relu"), samples=6)
    return build(sl.draw(problem, {"W1": sl.FirstRows(k)}, seed=3, trial=trial))


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
        assert (sign_contradiction(build(instance)) is None) == (kind == "matched")
        assert sl.decide(instance).kind == kind


def _refutation(system: System) -> Refutation:
    found = decide_by_branching(system, 100_000, np.random.default_rng(0))
    assert found.kind == "refuted" and found.refutation is not None
    return found.refutation


@pytest.mark.parametrize(("n", "k", "trial"), [(8, 8, 4), (12, 8, 1), (16, 16, 7)])
def test_every_leaf_holds_in_rationals_and_the_tree_covers_all(n: int, k: int, trial: int) -> None:
    system = _system(n, k, trial)
    refutation = _refutation(system)
    assert replay(refutation, system.pairs)
    program, proofs = build_program(system), LeafProofs(build_program(system))
    rng = np.random.default_rng(1)
    count = len(refutation.row)
    assert count > 10
    for leaf in rng.choice(count, size=min(count, 12), replace=False):
        clause = refutation.used[leaf]
        assert proofs.proved(clause, refutation.vector[leaf])
        held = program.held(clause)
        start = [-1 - r for r in range(len(program.right))]
        found = farkas(
            program.exact,
            program.matrix,
            refutation.basis[leaf].tolist(),
            int(refutation.row[leaf]),
            int(refutation.sign[leaf]),
        ) or decide_node(program.exact, start, (~held).tolist())
        assert isinstance(found, Infeasible)
        # Rational arithmetic may need less than float64 asked for, never more.
        assert held[list(found.used)].all()


def test_a_damaged_tree_does_not_pass() -> None:
    system = _system(8, 8, 4)
    whole = _refutation(system)
    used = whole.used.copy()
    used[0, :] = True
    damaged = replace(whole, used=used)
    assert not replay(damaged, system.pairs)


def test_the_float_proof_refuses_what_is_feasible() -> None:
    """Systems with a solution v >= 0: no basis, row and sign may pass for a proof that there is none."""
    from sublearn.patterns._farkas import certify

    rng = np.random.default_rng(2)
    tried = 0
    for _ in range(300):
        matrix = rng.integers(-2, 3, (3, 8)).astype(float)
        solution = rng.integers(0, 2, 8).astype(float)
        right = matrix @ solution
        basis = rng.permutation(8)[:3].astype(np.int64)
        square = matrix[:, basis]
        if abs(np.linalg.det(square)) < 1e-9:
            continue
        table = np.zeros((3, 12))  # as in the kernel, where the inverse is a part of the tableau
        table[:, 8:11] = np.linalg.inv(square)
        open_, used = np.ones(8, dtype=np.bool_), np.zeros(8, dtype=np.bool_)
        for row in range(3):
            for sign in (1.0, -1.0):
                partner = (np.arange(8) + 4) % 8
                sure = certify(
                    matrix, right, table[:, 8:11], basis, open_, partner, row, sign, used
                )
                # A proof may only rest on columns that the solution needs: none is held here.
                assert not sure or (used & (solution > 0)).any()
                tried += 1
    assert tried > 600


def test_the_float_proof_says_only_what_rationals_confirm() -> None:
    """Integers in the shape of real systems, with ties, zeros and opposite columns; random bases."""
    from flint import fmpq

    from sublearn.patterns._farkas import certify

    rng = np.random.default_rng(4)
    proved = needing = 0
    for _ in range(3000):
        pairs = int(rng.integers(2, 5))
        top = rng.integers(-2, 3, (2, pairs)) * (rng.random((2, pairs)) < 0.7)
        low = rng.integers(-1, 2, (2, pairs))
        matrix = np.block([[top, np.zeros((2, pairs))], [low, -low]]).astype(float)
        right = rng.integers(-2, 3, 4).astype(float)
        open_ = rng.random(2 * pairs) < 0.7
        choices = np.concatenate([np.arange(2 * pairs), -1 - np.arange(4)])
        basis = rng.permutation(choices)[:4].astype(np.int64)
        square = np.array([matrix[:, c] if c >= 0 else np.eye(4)[-1 - c] for c in basis]).T
        if abs(np.linalg.det(square)) < 0.5:
            continue
        table = np.zeros((4, 2 * pairs + 5))
        table[:, 2 * pairs : -1] = np.linalg.inv(square)
        used = np.zeros(2 * pairs, dtype=np.bool_)
        row, sign = int(rng.integers(4)), float(rng.choice([-1.0, 1.0]))
        held_out = basis[row] >= 0 and open_[basis[row]]
        if sign < 0 and held_out:
            continue  # the simplex asks this only of a column that is held
        inverse = table[:, 2 * pairs : -1]
        partner = (np.arange(2 * pairs) + pairs) % (2 * pairs)
        if not certify(matrix, right, inverse, basis, open_, partner, row, sign, used):
            continue
        assert not (used & open_).any()
        program = [
            [fmpq(int(x)) for x in (*line, value)]
            for line, value in zip(matrix, right, strict=True)
        ]
        answer = decide_node(program, [-1, -2, -3, -4], (~used).tolist())
        assert isinstance(answer, Infeasible)
        proved += 1
        needing += used.any()
    assert proved > 100 and needing > 20


def test_the_equations_hold_for_the_networks_own_outputs() -> None:
    """G v = h at v = (relu(z), relu(-z)) of any learnable weights whose outputs are the targets."""
    network = sl.FeedForward((3, 4, 2), activation="relu")
    rng = np.random.default_rng(3)
    weights = {n: rng.integers(-8, 9, s) / 4 for n, s in network.shapes.items()}
    x = rng.integers(-8, 9, (3, 5)) / 4
    held = sl.Allocation.from_entries(network, {"W1": [(0, 0), (0, 2), (2, 1), (3, 0), (3, 1)]})
    system = build(sl.Instance(network, held, weights, x, network.forward(weights, x)))
    before = (weights["W1"] @ x)[[0, 2, 3]].ravel()
    unit = Fraction(int(system.unit.p), int(system.unit.q))
    v = [Fraction(float(t)) / unit for t in (*np.maximum(before, 0), *np.maximum(-before, 0))]
    for row in system.exact:
        left = sum(Fraction(int(g.p), int(g.q)) * t for g, t in zip(row, v, strict=False))
        assert left == Fraction(int(row[-1].p), int(row[-1].q))
    assert len(system.exact) == 2 * 5 + (5 - 2) + (5 - 1) + (5 - 2)


def test_the_cone_test_survives_the_largest_numbers() -> None:
    """Squares that overflow: the projection must neither crash nor decide by itself."""
    readout = np.array([[0.9e308, 1.3e308], [-1.1e308, -1.3e308]])
    for target, wanted in (([1.0, -1.0], False), ([1.0, 1.0], True), ([-1.0, 1.0], True)):
        assert (
            outside_cone(_rationals(readout), [row[0] for row in _rationals(np.array([target]).T)])
            == wanted
        )


def _tree(clauses: list[list[int]], log: list[int]) -> Refutation:
    """Two pairs: conditions 0 and 1 are off on pair 0 and 1, conditions 2 and 3 on."""
    used = np.zeros((len(clauses), 4), np.bool_)
    for line, clause in zip(used, clauses, strict=True):
        line[clause] = True
    count = len(clauses)
    return Refutation(
        np.zeros((count, 1), np.int16),
        used,
        np.zeros(count, np.int16),
        np.ones(count, np.int8),
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
    assert replay(_tree(clauses, log), 2) == covers


def test_a_leaf_is_infeasible_under_its_own_conditions_only() -> None:
    """A tree of several leaves has a root that is feasible: without conditions no leaf is refuted."""
    asked = 0
    for trial in range(40):
        system = build(small(trial, seed=35))
        found = decide_by_branching(system, 1000, np.random.default_rng(0))
        if found.kind != "refuted" or found.refutation is None or found.leaves < 2:
            continue
        program, tree = build_program(system), found.refutation
        freed = replace(tree, used=np.zeros_like(tree.used))
        for leaf in range(found.leaves):
            assert isinstance(decide_leaf(program, tree, leaf), Infeasible)
            assert isinstance(decide_leaf(program, freed, leaf), Feasible)
            asked += 1
    assert asked > 10


@pytest.mark.parametrize("row", [-1, 0])
def test_a_tree_proves_no_more_than_its_leaves(row: int) -> None:
    """Trees made by hand over instances that have a match, with a basis of artificial columns."""
    network = sl.FeedForward((3, 4, 2), activation="relu")
    rng = np.random.default_rng(12)
    kinds = set()
    for _ in range(12):
        weights = {n: rng.integers(-8, 9, s) / 4 for n, s in network.shapes.items()}
        x = rng.integers(-8, 9, (3, 3)) / 4
        held = sl.Allocation.from_columns(network, "W1", [0, 1])
        system = build(sl.Instance(network, held, weights, x, network.forward(weights, x)))
        program = build_program(system)
        rows = len(program.right)
        tree = Refutation(
            basis=np.array([[-1 - r for r in range(rows)]], np.int16),
            used=np.zeros((1, 2 * system.pairs), np.bool_),
            row=np.array([row], np.int16),
            sign=np.array([1], np.int8),
            vector=np.zeros((1, rows)),
            sure=np.array([False]),
            log=np.array([0], np.int32),
        )
        # The one leaf is the root: it covers all, and it has a solution, mixed or not.
        kinds.add(_checked(program, tree, 1).kind)
        # The one leaf is the cell of the match: nothing is said of the other cells.
        before = weights["W1"] @ x
        cell = replace(tree, used=np.stack([before <= 0, before > 0]).reshape(1, -1))
        assert _checked(program, cell, 1).kind == ("undecided" if row < 0 else "numerical")
    assert kinds == {"matched", "undecided"}
