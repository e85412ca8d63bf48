"""The corners of a unit's cells, the program made of them, and the proofs of its leaves."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb

import numpy as np
import pytest

import sublearn as sl
from matchers.relu_instances import planted, small
from sublearn.matchers import Relu
from sublearn.matchers.relu import _program
from sublearn.matchers.relu._leaf import LeafProofs
from sublearn.matchers.relu._program import build_program
from sublearn.patterns._system import System, build, to_float


def _on_a_grid(
    rng: np.random.Generator, sizes: tuple[int, int, int], samples: int
) -> tuple[sl.Instance, np.ndarray]:
    """Small whole numbers, so that hyperplanes meet where they should not; and a W1 that matches."""
    network = sl.FeedForward(sizes, activation="relu")
    weights = {n: rng.integers(-2, 3, s).astype(float) for n, s in network.shapes.items()}
    x = rng.integers(-2, 3, (sizes[0], samples)).astype(float)
    pool = sl.Allocation.whole(network, ["W1"])
    held = pool.select(np.sort(rng.permutation(len(pool))[: int(rng.integers(1, len(pool) + 1))]))
    return sl.Instance(network, held, weights, x, network.forward(weights, x)), weights["W1"]


def _corners(system: System, i: int) -> tuple[np.ndarray, np.ndarray]:
    corners = build_program(system).units[i].corners
    assert corners is not None
    before = np.array([[to_float(x) for x in corner.before] for corner in corners])
    return before, np.array([corner.vertex for corner in corners])


@pytest.mark.parametrize("grid", [False, True])
def test_every_unit_is_a_mixture_of_corners_of_its_own_cell(grid: bool) -> None:
    """For random weights the outputs are found again, by a program over the corners of one cell."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    problem = sl.Problem(sl.FeedForward((4, 5, 2), activation="relu"), samples=5)
    tried = 0
    for trial in range(12):
        if grid:
            instance, _ = _on_a_grid(rng, (4, 5, 2), 5)
        else:
            instance = sl.draw(problem, {"W1": sl.FirstRows(5)}, seed=1, trial=trial)
        system = build(instance)
        for i in range(system.k):
            before, vertex = _corners(system, i)
            slopes = instance.inputs[list(system.columns[i])].T
            frozen = np.array([to_float(x) for x in system.frozen[i]])
            for _ in range(4):
                z = frozen + slopes @ (rng.standard_normal(slopes.shape[1]) * 2)
                here = ~((before > 1e-12) & (z < 0) | (before < -1e-12) & (z > 0)).any(axis=1)
                table = np.vstack([np.maximum(before[here].T, 0.0), vertex[here].astype(float)])
                found = linprog(
                    np.zeros(here.sum()), A_eq=table, b_eq=np.append(np.maximum(z, 0.0), 1.0)
                )
                assert found.status == 0, (trial, i)
                tried += 1
    assert tried > 100


def test_corners_are_counted_as_in_general_position() -> None:
    """C(m, rho) vertices; 2 C(m, rho - 1) rays, of which those that are never up are left out."""
    problem = sl.Problem(sl.FeedForward((5, 5, 2), activation="relu"), samples=5)
    held = sl.Allocation.from_entries(
        problem.network, {"W1": [(i, j) for i in range(5) for j in range(i + 1)]}
    )
    system = build(sl.draw(problem, held, seed=2))
    for i in range(5):
        before, vertex = _corners(system, i)
        assert vertex.sum() == comb(5, i + 1)
        assert (before == 0).sum(axis=1).tolist() == [i + 1] * vertex.sum() + [i] * (~vertex).sum()
        silent = 2 * comb(5, i) - (~vertex).sum()
        assert 0 <= silent <= comb(5, i)
        assert (before[~vertex].max(axis=1) > 0).all()


def test_no_proof_excludes_what_has_a_solution() -> None:
    """Leaves that hold a match: no vector may pass for a proof, whatever it is."""
    rng = np.random.default_rng(3)
    asked = 0
    for _ in range(60):
        instance, matching = _on_a_grid(rng, (2, 3, 2), 3)
        system = build(instance)
        program = build_program(system)
        proofs = LeafProofs(program)
        before = (matching @ instance.inputs)[list(system.units)]
        true = np.stack([before <= 0, before >= 0])  # conditions as the clause of a leaf has them
        for _ in range(6):
            clause = (true & (rng.random(true.shape) < 0.6)).reshape(-1)
            vector = rng.integers(-2, 3, len(program.right)).astype(float)
            assert not proofs.proved(clause, vector)
            asked += 1
    assert asked == 360


def test_leaves_are_proved_exactly_where_programs_are_infeasible() -> None:
    """Every pattern of small instances: the proof of its leaf against a linear program by HiGHS."""
    from scipy.optimize import linprog

    seen: Counter[tuple[bool, bool]] = Counter()
    for trial in (0, 2, 6, 8):
        system = build(small(trial, seed=31))
        program = build_program(system)
        proofs = LeafProofs(program)
        rng = np.random.default_rng(trial)
        for _ in range(40):
            # A pattern on some pairs, nothing on the others.
            side = rng.integers(0, 3, system.pairs)
            clause = np.concatenate([side == 1, side == 2])
            open_ = ~program.held(clause)
            answer = linprog(
                np.zeros(open_.size),
                A_eq=program.matrix,
                b_eq=program.right,
                bounds=[(0, None if is_open else 0) for is_open in open_],
            )
            proved = proofs.proved(clause, np.zeros(len(program.right)))
            assert not (proved and answer.status == 0)
            seen[proved, answer.status == 2] += 1
    assert seen[True, True] > 40 and seen[False, False] > 10
    assert seen[False, True] < 0.05 * seen[True, True], seen


@pytest.mark.parametrize("most", [0, 8])
def test_units_in_coordinates_give_the_same_answers(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many samples corners are too many: then a unit, or every unit, has its coordinates."""
    network = sl.FeedForward((6, 8, 4), activation="relu")
    instances = [small(trial, seed=32) for trial in range(40)]
    instances += [planted(network, 6, 6, seed=5, trial=trial) for trial in range(2)]
    wanted = [sl.decide(instance, ladder=[Relu()]) for instance in instances]
    monkeypatch.setattr(_program, "MOST_CORNERS", most)
    kinds = set()
    for instance, want in zip(instances, wanted, strict=True):
        found = sl.decide(instance, ladder=[Relu()])
        assert (found.kind, str(found.grade)) == (want.kind, "proof")
        kinds |= {unit.corners is None for unit in build_program(build(instance)).units}
    assert kinds == ({True} if most == 0 else {True, False})


def test_the_exact_program_is_the_rounded_one() -> None:
    """Both kinds of unit, grids and drawn numbers."""
    rng = np.random.default_rng(4)
    for trial in range(6):
        instance = small(trial, seed=33) if trial % 2 else _on_a_grid(rng, (3, 4, 2), 3)[0]
        program = build_program(build(instance))
        exact = np.array([[to_float(x) for x in row] for row in program.exact])
        rounded = np.column_stack([program.matrix, program.right])
        assert np.abs(exact - rounded).max() <= 1e-15 * np.abs(exact).max()
        assert ((exact != 0) == (rounded != 0)).all()


def test_a_pattern_is_read_from_unmixed_solutions_only() -> None:
    system = build(small(1, seed=34))
    program = build_program(system)
    m = system.m
    mine = np.flatnonzero(program.owner == 0)
    for one, other in product(mine, mine):
        mixed = (program.sides[one] * program.sides[other] < 0).any()
        pattern = program.pattern({int(one): 1, int(other): 1})
        assert (pattern is None) == mixed
        if pattern is not None:
            assert pattern.shape == (system.k, m)
            assert (pattern[0] == ((program.sides[[one, other]] > 0).any(axis=0))).all()
