"""The corners of a unit's cells, the program made of them, and the proofs of its leaves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

import sublearn as sl
from matchers.relu_instances import planted, small
from sublearn.exact import to_float, to_floats
from sublearn.matchers import Relu
from sublearn.matchers.relu import _leaf
from sublearn.matchers.relu._leaf import LeafProofs
from sublearn.patterns import System, _program, build_program, build_system


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
        system = build_system(instance)
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
    system = build_system(sl.draw(problem, held, seed=2))
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
        system = build_system(instance)
        program = build_program(system)
        proofs = LeafProofs(program)
        before = (matching @ instance.inputs)[list(system.units)]
        true = np.stack([before <= 0, before >= 0])  # conditions as the clause of a leaf has them
        for _ in range(6):
            clause = (true & (rng.random(true.shape) < 0.6)).reshape(-1)
            vector = rng.integers(-2, 3, len(program.exact)).astype(float)
            assert not proofs.proved(clause, vector)
            asked += 1
    assert asked == 360


def test_leaves_are_proved_exactly_where_programs_are_infeasible() -> None:
    """Every pattern of small instances: the proof of its leaf against a linear program by HiGHS."""
    from scipy.optimize import linprog

    seen: Counter[tuple[bool, bool]] = Counter()
    for trial in (0, 2, 6, 8):
        system = build_system(small(trial, seed=31))
        program = build_program(system)
        proofs = LeafProofs(program)
        rng = np.random.default_rng(trial)
        for _ in range(40):
            # A pattern on some pairs, nothing on the others.
            side = rng.integers(0, 3, system.pairs)
            clause = np.concatenate([side == 1, side == 2])
            open_ = ~program.held(clause)
            matrix, right = program.columns.matrix, program.columns.right
            answer = linprog(
                np.zeros(open_.size),
                A_eq=matrix,
                b_eq=right,
                bounds=[(0, None if is_open else 0) for is_open in open_],
            )
            # y with y' G >= 0 on the open columns and the smallest y' h.
            vector = linprog(right, -matrix[:, open_].T, np.zeros(open_.sum()), bounds=(-1, 1)).x
            proved = proofs.proved(clause, vector)
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
        kinds |= {unit.normals is not None for unit in build_program(build_system(instance)).units}
    assert kinds == ({True} if most == 0 else {True, False})


def test_columns_are_what_the_units_put_out() -> None:
    """Grids and drawn numbers; entry by entry from the definition."""
    rng = np.random.default_rng(4)
    for trial in range(6):
        instance = small(trial, seed=33) if trial % 2 else _on_a_grid(rng, (3, 4, 2), 3)[0]
        program = build_program(build_system(instance))
        exact, columns, system = to_floats(program.exact), program.columns, program.system
        assert (exact == np.column_stack([columns.matrix, columns.right])).all()
        readout = to_floats(system.readout)
        outer = np.array([to_float(x) for x in program.row_scales])
        for j, i in enumerate(columns.owner):
            outputs = np.outer(np.maximum(columns.sides[j], 0), readout[:, i] * outer).ravel()
            assert np.allclose(columns.matrix[: len(outputs), j], outputs, rtol=1e-14, atol=0)


def test_a_pattern_is_read_from_unmixed_solutions_only() -> None:
    system = build_system(small(1, seed=34))
    program = build_program(system)
    m = system.m
    mine = np.flatnonzero(program.columns.owner == 0)
    for one, other in product(mine, mine):
        mixed = (program.columns.sides[one] * program.columns.sides[other] < 0).any()
        pattern = program.pattern({int(one): 1, int(other): 1})
        assert (pattern is None) == mixed
        if pattern is not None:
            assert pattern.shape == (system.k, m)
            assert (pattern[0] == ((program.columns.sides[[one, other]] > 0).any(axis=0))).all()


def _given(
    weights: dict[str, np.ndarray], inputs: np.ndarray, entries: list[tuple[int, int]]
) -> sl.Instance:
    """The targets are what these weights put out."""
    n, q = weights["W1"].shape
    network = sl.FeedForward((q, n, len(weights["W2"])), activation="relu")
    held = sl.Allocation.from_entries(network, {"W1": entries})
    return sl.Instance(network, held, weights, inputs, network.forward(weights, inputs))


def test_sums_that_overflow_prove_nothing() -> None:
    """Four terms up and three down, 1e308 each: the ray goes down, but the sum is infinite first."""
    weights = {"W1": np.eye(2), "W2": np.full((1, 2), 1.7e308)}
    inputs = np.zeros((2, 8))
    inputs[0, :7], inputs[1, 7] = 2.0**-1000, 2.0**-900
    instance = _given(weights, inputs, [(0, 0), (1, 1)])
    program = build_program(build_system(instance))
    assert program.usable and program.by_corners
    vector = np.array([0.7, 0.7, 0.7, 0.7, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0])
    with np.errstate(over="ignore", invalid="ignore"):
        assert not LeafProofs(program).proved(np.zeros(32, np.bool_), vector)
    assert sl.decide(instance, ladder=[Relu()]).kind != "refuted"


def test_numbers_that_would_become_zero_are_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^-600 times 2^-600 in a column; 2^-1100 beside 2^-800 on the right: float64 holds neither."""
    # The learnable weights meet zeros: unit 0 has one vertex, at (1, 2^-600).
    weights = {
        "W1": np.array([[1.0, 0.0], [0.0, 0.0]]),
        "W2": np.array([[1.0, 1.0], [2.0**-600, 1.0]]),
    }
    inputs = np.array([[1.0, 2.0**-600], [0.0, 0.0]])
    system = build_system(
        replace(_given(weights, inputs, [(0, 1), (1, 1)]), targets=np.ones((2, 2)))
    )
    assert not build_program(system).usable
    monkeypatch.setattr(_program, "MOST_CORNERS", 0)
    network = sl.FeedForward((2, 2, 1), activation="relu")
    held = sl.Allocation.from_entries(network, {"W1": [(0, 1), (1, 1)]})
    weights = {"W1": np.array([[2.0**-400, 0.0], [2.0**-700, 0.0]]), "W2": np.ones((1, 2))}
    inputs = np.array([[2.0**-400], [0.0]])
    system = build_system(sl.Instance(network, held, weights, inputs, np.zeros((1, 1))))
    assert not build_program(system).usable


def test_proofs_do_not_lose_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an output leaves the range in which rounding is bounded there are no proofs in float64."""
    system = build_system(small(0, seed=31))
    program = build_program(system)
    side = np.zeros(2 * system.pairs, np.bool_)
    side[: system.pairs] = True  # every unit off: the targets are not 0
    vector = np.zeros(len(program.exact))
    vector[: system.d * system.m] = -program.columns.right[: system.d * system.m]
    assert LeafProofs(program).faithful and LeafProofs(program).proved(side, vector)
    monkeypatch.setattr(_leaf, "SMALLEST", 0.999)
    assert not LeafProofs(program).faithful


@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-500, 2.0**500, 2.0**1000])
def test_the_scale_of_the_readout_changes_nothing(size: float) -> None:
    """W2 and targets times a power of 2: the same instance, so the same tree with the same proofs."""
    base = sl.draw(
        sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6),
        {"W1": sl.FirstRows(8)},
        seed=3,
        trial=4,
    )
    weights = {"W1": base.weights["W1"], "W2": base.weights["W2"] * size}
    other = replace(base, weights=weights, targets=base.targets * size)
    given = replace(base)  # without its teacher, whose weights have their own size
    one, two = (sl.decide(instance, ladder=[Relu()]) for instance in (given, other))
    assert one.effort.nodes > 10
    assert (one.kind, str(one.grade), one.effort.nodes) == (
        two.kind,
        str(two.grade),
        two.effort.nodes,
    )


def _holds(program: _program.Program, y: np.ndarray, is_open: np.ndarray) -> bool:
    """Whether y proves the leaf, in rationals from the corners: no ray goes down, and left < right."""
    system = program.system
    weigh = [[Fraction(float(x)) for x in row] for row in y]
    outer = [Fraction(int(x.p), int(x.q)) for x in program.row_scales[: system.d]]

    def against(columns: list[list[Fraction]]) -> Fraction:
        return sum(
            weigh[s][o] * outer[o] * columns[o][s] for o in range(system.d) for s in range(system.m)
        ) + Fraction(0)

    def fractions(row: list[object]) -> list[Fraction]:
        return [Fraction(int(x.p), int(x.q)) for x in row]  # type: ignore[attr-defined]

    least: dict[int, Fraction] = {}
    corners = [corner for unit in program.units for corner in unit.corners]
    for j, corner in enumerate(corners):
        i = int(program.columns.owner[j])
        outputs = [max(x, Fraction(0)) for x in fractions(corner.before)]
        column = fractions([row[i] for row in system.readout])
        value = against([[w * a for a in outputs] for w in column])
        if not is_open[j]:
            continue
        if corner.vertex:
            least[i] = min(least.get(i, value), value)
        elif value < 0:
            return False
    return against([fractions(row) for row in system.rest]) < sum(least.values())


def test_the_check_with_roundings_says_only_what_rationals_confirm() -> None:
    """y for which a ray is level, or both sides equal, but for a few units in the last place."""
    rng = np.random.default_rng(11)
    seen: Counter[tuple[bool, bool]] = Counter()
    for trial in range(300):
        sizes = (1, int(rng.integers(1, 3)), int(rng.integers(1, 3)))
        network = sl.FeedForward(sizes, activation="relu")
        weights = {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
        inputs = np.abs(rng.standard_normal((1, 2)))
        targets = rng.standard_normal((sizes[2], 2))
        bias = trial % 2
        if bias:  # frozen parts, so that vertices are not 0
            inputs = np.vstack([inputs, rng.standard_normal((1, 2))])
            network = sl.FeedForward((2, *sizes[1:]), activation="relu")
            weights["W1"] = rng.standard_normal((sizes[1], 2))
        held = sl.Allocation.from_entries(network, {"W1": [(i, 0) for i in range(sizes[1])]})
        program = build_program(build_system(sl.Instance(network, held, weights, inputs, targets)))
        proofs = LeafProofs(program)
        is_open = np.ones(len(program.columns.owner), np.bool_)
        for _ in range(4):
            y = rng.standard_normal((2, sizes[2]))
            # Level for the first ray, then off by the least that float64 can.
            j = int(np.flatnonzero(~proofs.vertex)[0])
            slopes = np.outer(proofs.values[j], proofs.weights[:, program.columns.owner[j]])
            y -= slopes * (y * slopes).sum() / (slopes**2).sum()
            y[0, 0] += np.spacing(y[0, 0]) * rng.integers(-3, 4)
            said, true = proofs.check(y, is_open), _holds(program, y, is_open)
            assert true or not said
            seen[said, true] += 1
            # Equal sides: targets moved so that left and right agree to rounding.
            y = rng.standard_normal((2, sizes[2]))
            rise = (proofs.values * (y @ proofs.weights).T[program.columns.owner]).sum(axis=1)
            if (rise[~proofs.vertex] > 1e-3).all():
                lowest = np.full(sizes[1], np.inf)
                np.minimum.at(lowest, proofs.owner[proofs.vertex], rise[proofs.vertex])
                shift = lowest.sum() - (y.T * proofs.targets).sum()
                moved = targets.copy()
                moved[0, 0] += shift / y[0, 0] / to_float(program.row_scales[0] * program.factor)
                moved[0, 0] += np.spacing(moved[0, 0]) * rng.integers(-2, 3)
                given = build_program(
                    build_system(sl.Instance(network, held, weights, inputs, moved))
                )
                said = LeafProofs(given).check(y, is_open)
                true = _holds(given, y, is_open)
                assert true or not said
                seen[said, true] += 1
    assert min(seen[True, True], seen[False, True], seen[False, False]) > 20, seen


@pytest.mark.parametrize("gap", [2.0**-52, 2.0**-40, 2.0**-33])
def test_solutions_to_rounding_are_followed_down_to_a_proof(gap: float) -> None:
    """The same sample twice with targets a hair apart: float64 solves it, and nothing else does."""
    network = sl.FeedForward((2, 3, 1), activation="relu")
    weights = {"W1": np.zeros((3, 2)), "W2": np.array([[1.0, 2.0, -1.0]])}
    inputs = np.array([[1.0, 1.0, 2.0], [-1.0, -1.0, 1.0]])
    held = sl.Allocation.whole(network, ["W1"])
    for targets, kind in (([1.0, 1.0, 3.0], "matched"), ([1.0, 1.0 + gap, 3.0], "refuted")):
        decision = sl.decide(
            sl.Instance(network, held, weights, inputs, [targets]), ladder=[Relu()]
        )
        assert (decision.kind, str(decision.grade)) == (kind, "proof")
