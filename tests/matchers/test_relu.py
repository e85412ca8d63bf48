"""Shallow ReLU networks decided exactly: against brute force, planted solutions and other programs."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from matchers.mixed_integer import MixedInteger
from matchers.relu_instances import by_brute_force, planted, small
from sublearn.matchers import Relu, standard_ladder
from sublearn.matchers.relu import _branch


def paper(n: int, k: int, trial: int, seed: int = 3) -> sl.Instance:
    problem = sl.Problem(sl.FeedForward((6, n, 4), activation="relu"), samples=6)
    return sl.draw(problem, {"W1": sl.FirstRows(k)}, seed=seed, trial=trial)


def decide(instance: sl.Instance, **budget: Any) -> sl.Decision:
    return sl.decide(instance, ladder=[Relu()], budget=sl.Budget(**budget))


def test_the_ladder_has_the_rung() -> None:
    assert "relu" in [matcher.name for matcher in standard_ladder()]
    decision = sl.decide(paper(8, 5, 0))
    assert decision.rung == "relu" and decision.kind == "refuted"


def _agree(count: int, seed: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for trial in range(count):
        instance = small(trial, seed)
        exists, margin = by_brute_force(instance)
        if margin < 1e-9:
            continue
        decision = decide(instance)
        assert decision.kind == ("matched" if exists else "refuted"), (trial, decision)
        assert str(decision.grade) == "proof"
        seen[decision.kind] += 1
        seen["branched"] += decision.effort.nodes > 1
        if exists:
            assert decision.values is not None
            size = np.abs(instance.targets).max()
            assert np.abs(instance.residual(decision.values)).max() < 1e-8 * size
    return seen


def test_decisions_equal_brute_force() -> None:
    seen = _agree(90, seed=21)
    assert seen["matched"] > 10 and seen["refuted"] > 10 and seen["branched"] > 20


@pytest.mark.slow
def test_programs_brute_force_and_search_never_contradict_each_other() -> None:
    from sublearn.matchers import Nonlinear

    seen: Counter[str] = Counter()
    for trial in range(500):
        instance = small(trial, seed=22)
        exists, margin = by_brute_force(instance)
        mine = decide(instance)
        rng = np.random.default_rng(0)
        programme = MixedInteger().attempt(instance, sl.Budget(nodes=5000), rng)
        found = sl.decide(instance, ladder=[Nonlinear(starts=8)])
        assert mine.kind in ("matched", "refuted") and str(mine.grade) == "proof", (trial, mine)
        if margin > 1e-9:
            assert mine.kind == ("matched" if exists else "refuted"), (trial, mine)
        if found.kind != "undecided":
            assert found.kind == mine.kind, (trial, found, mine)
        if programme.kind == "matched":
            assert mine.kind == "matched", (trial, programme)
        if programme.kind == "refuted":
            # Numbers beyond M are the one thing that a big-M does not see.
            assert str(programme.grade) == "numerical"
            seen["beyond M"] += mine.kind == "matched"
        seen[mine.kind] += 1
        seen["search"] += found.kind == "matched"
        seen["programme"] += programme.kind == mine.kind
    assert seen["matched"] > 60 and seen["refuted"] > 200 and seen["search"] > 50
    assert seen["programme"] > 480 and seen["beyond M"] < 10


def test_planted_matches_are_found() -> None:
    network = sl.FeedForward((6, 8, 4), activation="relu")
    for rows in (4, 6, 8):
        for trial in range(4):
            decision = decide(planted(network, 6, rows, seed=5, trial=trial))
            assert decision.kind == "matched" and str(decision.grade) == "proof", (rows, trial)


def test_no_solvable_instance_is_ever_refuted() -> None:
    """Small numbers and small grids: ties, zeros, repeated samples, singular patterns."""
    rng = np.random.default_rng(6)
    network = sl.FeedForward((2, 4, 2), activation="relu")
    seen: Counter[str] = Counter()
    for _ in range(150):
        weights = {n: rng.integers(-2, 3, s).astype(float) for n, s in network.shapes.items()}
        x = rng.integers(-2, 3, (2, 3)).astype(float)
        pool = sl.Allocation.whole(network, ["W1"])
        held = pool.select(np.sort(rng.permutation(8)[: int(rng.integers(1, 9))]))
        instance = sl.Instance(network, held, weights, x, network.forward(weights, x))
        seen[decide(instance).kind] += 1
    assert seen["matched"] == 150, seen


def test_refutations_of_small_grids_equal_the_programs() -> None:
    """Degenerate numbers again, with targets that need not be reachable."""
    rng = np.random.default_rng(7)
    network = sl.FeedForward((2, 3, 2), activation="relu")
    seen: Counter[str] = Counter()
    for trial in range(40):
        weights = {n: rng.integers(-2, 3, s).astype(float) for n, s in network.shapes.items()}
        x = rng.integers(-2, 3, (2, 2)).astype(float)
        held = sl.Allocation.whole(network, ["W1"]).select(np.sort(rng.permutation(6)[:4]))
        targets = rng.integers(-1, 3, (2, 2)).astype(float)
        if trial % 2:
            targets = network.forward(weights, x) + (targets == 2)
        instance = sl.Instance(network, held, weights, x, targets)
        mine = decide(instance)
        other = MixedInteger().attempt(instance, sl.Budget(), np.random.default_rng(0))
        assert mine.kind == other.kind, (mine, other)
        assert str(mine.grade) == "proof"
        seen[mine.kind] += 1
    assert min(seen["matched"], seen["refuted"]) > 4, seen


def test_biases() -> None:
    network = sl.FeedForward((2, 4, 2), activation="relu", bias=True)
    rng = np.random.default_rng(8)
    held = sl.Allocation.from_entries(
        network, {"W1": [(0, 0), (1, 1), (2, 0)], "b1": [(0, 0), (1, 0), (3, 0)]}
    )
    for _ in range(10):
        weights = {n: rng.integers(-9, 10, s) / 4 for n, s in network.shapes.items()}
        x = rng.integers(-9, 10, (2, 3)) / 4
        instance = sl.Instance(network, held, weights, x, network.forward(weights, x))
        decision = decide(instance)
        assert decision.kind == "matched" and decision.values is not None
        assert np.abs(instance.residual(decision.values)).max() < 1e-9


def test_certificates_can_be_checked_again() -> None:
    problem = sl.Problem(sl.FeedForward((3, 4, 2), activation="relu"), samples=3)
    held = sl.Allocation.from_entries(
        problem.network, {"W1": [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)]}
    )
    # Section 5 says that a column with more than d weights excludes a match: here are two.
    for trial in (2, 4):
        decision = decide(sl.draw(problem, held, trial=trial))
        assert decision.kind == "matched" and decision.certificate is not None
        assert decision.certificate.check()


def test_lemma_d3_fails_for_drawn_instances_of_a_relu_teacher() -> None:
    """A teacher whose units are all off on a sample asks for 0 there, which no unit has to be on for."""
    problem = sl.Problem(sl.FeedForward((3, 4, 2), activation="relu"), samples=3)
    held = sl.Allocation.from_entries(
        problem.network, {"W1": [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)]}
    )
    instance = sl.draw(problem, held, trial=6)
    assert instance.generic and not instance.targets[:, 1].any()
    decision = decide(instance)
    assert decision.kind == "matched" and decision.weights is not None
    gates = sl.patterns.activation_pattern(problem.network, decision.weights, instance.inputs)
    assert not sl.patterns.enough_rows(gates, 2)


def test_budget_and_refusals() -> None:
    decision = decide(paper(16, 16, 6), nodes=10, starts=3)
    assert decision.kind == "undecided" and decision.effort.starts == 3
    wide = sl.FeedForward((6, 40, 4), activation="relu")
    many = sl.draw(sl.Problem(wide, 6), sl.Allocation.from_columns(wide, "W1", [0]))
    assert "more than" in (Relu().refusal(many) or "")
    network = sl.FeedForward((6, 8, 4), activation="relu")
    last = sl.draw(sl.Problem(network, 6), sl.Allocation.from_rows(network, "W2", [0]))
    assert "W2" in (Relu().refusal(last) or "")
    linear = sl.draw(sl.Problem(sl.FeedForward((6, 8, 4)), 6), {"W1": sl.FirstRows(4)})
    assert "shallow ReLU" in (Relu().refusal(linear) or "")


@pytest.mark.parametrize("size", [1e-300, 1e150])
def test_sizes_out_of_the_ordinary(size: float) -> None:
    base = paper(8, 6, 1)
    other = sl.Instance(
        base.network, base.allocation, base.weights, base.inputs, base.targets * size
    )
    assert decide(other, nodes=2000, starts=2).kind in ("refuted", "undecided", "matched")
    zero = sl.Instance(
        base.network, base.allocation, base.weights, np.zeros((6, 6)), np.zeros((4, 6))
    )
    assert decide(zero).kind == "matched"


def test_the_same_seed_gives_the_same_decision() -> None:
    one, other = (decide(paper(12, 8, 1)) for _ in range(2))
    assert one.effort.nodes > 20
    assert (one.kind, one.reason, one.effort) == (other.kind, other.reason, other.effort)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(8, 4), (8, 5), (8, 6), (8, 7), (8, 8), (12, 6), (12, 8)])
def test_the_settings_of_figure_3b(n: int, k: int) -> None:
    """Every drawn instance is decided by proof, and every planted one is matched."""
    network = sl.FeedForward((6, n, 4), activation="relu")
    for trial in range(50 if k <= 6 else 12):
        decision = decide(paper(n, k, trial))
        assert decision.kind != "undecided" and str(decision.grade) == "proof", trial
    for trial in range(6):
        assert decide(planted(network, 6, k, seed=5, trial=trial)).kind == "matched"


def test_rounding_that_cuts_off_a_solution_is_no_refutation() -> None:
    """Two samples 1e-9 apart: float64 cuts off a leaf that has a solution, as rationals then show."""
    network = sl.FeedForward((5, 2, 3), "relu")
    weights = {
        "W1": np.array([[-3.0, -3, 3, 3, 1], [3, 1, 2, -1, -1]]),
        "W2": np.array([[3.0, 2], [0, -1], [-1, 2]]),
    }
    inputs = np.array(
        [
            [0.0, 0, 2, 3, -2],
            [2, 2, 1, -3, 1],
            [3, 3, -1, -1, -2],
            [-2, -2, -1, -3, 2],
            [1, 1, -2, 0, 2],
        ]
    )
    inputs[:, 1] += 2.0**-30 * np.array([2, 1, 2, 2, -2])
    held = sl.Allocation.from_entries(network, {"W1": [(1, 0), (1, 1), (1, 3), (1, 4)]})
    # Small dyadic numbers: the targets of these weights are exact.
    given = sl.Instance(network, held, weights, inputs, network.forward(weights, inputs))
    assert sl.decide(given, budget=sl.Budget(nodes=3000, starts=20)).kind != "refuted"


@pytest.mark.parametrize("power", [-600, -300, 300, 450])
def test_the_search_survives_numbers_far_apart(power: int) -> None:
    """With one node the descents have to go on, and their damping is lost in such numbers."""
    network = sl.FeedForward((3, 4, 2), "relu")
    rng = np.random.default_rng(13)
    # Small dyadic numbers, and powers of 2: the targets are exact, so that a match exists.
    weights = {name: rng.integers(-9, 10, shape) / 4 for name, shape in network.shapes.items()}
    inputs = rng.integers(-9, 10, (3, 4)) / 4 * 2.0**power
    held = sl.Allocation.whole(network, ["W1"])
    given = sl.Instance(network, held, weights, inputs, network.forward(weights, inputs))
    assert sl.decide(given, budget=sl.Budget(nodes=1, starts=4)).kind != "refuted"


def test_a_target_that_rounding_moved_off_its_ray_is_refuted() -> None:
    """One unit is on, so the targets lie on one ray, the edge of the cone; rounded, they lie beside it."""
    network = sl.FeedForward((1, 2, 2), "relu")
    held = sl.Allocation.whole(network, ["W1"])
    weights = {"W1": np.array([[1.0], [-1.0]]), "W2": np.array([[3.0, 1.0], [1.0, 1.0]])}
    beside = float(np.nextafter(0.3, 1.0))
    assert Fraction(beside) > 3 * Fraction(0.1)
    for targets, kind in (([[beside], [0.1]], "refuted"), ([[0.375], [0.125]], "matched")):
        given = sl.Instance(network, held, weights, [[1.0]], targets)
        decision = sl.decide(given, ladder=[Relu()])
        assert (decision.kind, str(decision.grade)) == (kind, "proof")


def test_leaves_that_no_vector_proves_refute_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [paper(8, 6, trial) for trial in range(10)]
    decided = [(instance, decide(instance)) for instance in drawn]
    # One that no cheap contradiction settles.
    instance = next(i for i, d in decided if d.kind == "refuted" and d.effort.nodes > 0)
    said = _branch.Outcome("numerical", 5, leaves=3)
    monkeypatch.setattr(_branch, "decide_by_branching", lambda *_: said)
    found = decide(instance)
    assert found.kind == "undecided" and "not every one by proof" in found.reason


def test_a_leaf_whose_vector_was_spoilt_by_rounding_is_proved_in_rationals() -> None:
    """Of 72,208 leaves of Figure 3b's setting two have such a vector; this instance has one of them."""
    decision = decide(paper(16, 16, 22))
    assert decision.kind == "refuted" and str(decision.grade) == "proof"
