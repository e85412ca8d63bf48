"""Other teachers and ensembles: several components, surplus, dependence, degeneracy, no density."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from oracle import Oracle, oracle_of
from sublearn.verdicts import Verdict


def whole(problem: sl.Problem, *names: str) -> Verdict:
    return sl.certify(problem, sl.Allocation.whole(problem.network, names))


# Several components at once.


def test_encoder_with_recurrent_weights() -> None:
    # A column of B carries d min(T, m) = 2: three of its weights in one column are too many.
    problem = sl.Problem(sl.LinearRNN(n=3, b=2, d=1, T=2), samples=4)
    truth = oracle_of(problem)
    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(60):
        W = sl.Allocation.whole(problem.network, ["W"]).select(rng.permutation(9)[:1])
        B = sl.Allocation.whole(problem.network, ["B"]).select(rng.permutation(6)[:3])
        verdict = sl.certify(problem, W | B)
        assert verdict.rank == truth.rank(W | B)
        assert verdict.theorems == (), "no theorem of the paper speaks about two components"
        kinds.add(verdict.kind)
    assert {"minimal", "between"} <= kinds


def test_first_with_last_layer_can_be_affine() -> None:
    # Row 0 of W1 moves unit 0 only; W2 leaves column 0 frozen: no path meets two learnable weights.
    problem = sl.Problem(sl.FeedForward((2, 3, 2)), samples=2)
    disjoint = {"W1": [(0, 0), (0, 1)], "W2": [(0, 1), (1, 2)]}
    held = sl.Allocation.from_entries(problem.network, disjoint)
    verdict = sl.certify(problem, held)
    assert verdict.affine and verdict.kind == "maximal" and verdict.rank == 4
    # With a weight of column 0 of W2 a path has two: a product of unknowns.
    crossed = held.move("W2", (0, 1), (0, 0))
    assert sl.certify(problem, crossed).kind == "between"


def test_three_layers() -> None:
    problem = sl.Problem(sl.FeedForward((2, 3, 3, 2)), samples=2)
    entries = {"W1": [(0, 0), (1, 1)], "W3": [(0, 0), (1, 2)]}
    held = sl.Allocation.from_entries(problem.network, entries)
    verdict = sl.certify(problem, held)
    assert verdict.rank == oracle_of(problem).rank(held) == 4
    assert verdict.kind == "between" and not verdict.affine


def test_biases() -> None:
    problem = sl.Problem(sl.FeedForward((2, 3, 2), bias=True), samples=2)
    truth = oracle_of(problem)
    both = sl.Allocation.whole(problem.network, ["b1", "b2"])
    verdict = sl.certify(problem, both)
    # All biases move the two samples alike: d directions.
    assert (verdict.kind, verdict.rank, verdict.wasted) == ("minimal", 2, 2)
    assert truth.rank(both) == 2
    mixed = sl.Allocation.from_entries(
        problem.network, {"W2": [(0, 0), (1, 1)], "b1": [(0, 0)], "b2": [(1, 0)]}
    )
    verdict = sl.certify(problem, mixed)
    assert verdict.rank == truth.rank(mixed) == 4
    # b1(0) enters W2(0, 0): a product.
    assert (verdict.affine, verdict.kind) == (False, "between")
    assert sl.certify(problem, mixed - sl.Allocation.whole(problem.network, ["b1"])).affine


# Fewer and more weights than needed.


def test_fewer_weights_than_needed_are_minimal_and_waste_nothing() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), samples=2)
    held = sl.Allocation.from_entries(problem.network, {"W1": [(0, 0), (1, 1)]})
    verdict = sl.certify(problem, held)
    assert (verdict.kind, verdict.rank, verdict.wasted, verdict.surplus) == ("minimal", 2, 0, 0)
    assert (verdict.grade.kind, verdict.circuit) == ("proof", None)
    assert verdict.theorems[0].holds is True


def test_surplus_is_not_waste() -> None:
    problem = sl.Problem(sl.LinearRNN(n=3, b=1, d=2, T=2), samples=2)
    verdict = whole(problem, "W")
    assert (verdict.rank, verdict.needed, verdict.wasted, verdict.surplus) == (4, 4, 0, 5)
    assert len(verdict.idle) == 5 and verdict.circuit is None
    # It contains two saturated rows.
    assert verdict.kind == "maximal" and "2 rows of W with 2" in verdict.reasons[0]


def test_surplus_and_waste_at_once() -> None:
    # Two whole columns: 6 weights where 4 are needed, and each column carries only d = 1.
    problem = sl.Problem(sl.FeedForward((4, 3, 1)), samples=4)
    held = sl.Allocation.from_columns(problem.network, "W1", [0, 1])
    verdict = sl.certify(problem, held)
    assert (verdict.learnable, verdict.rank, verdict.needed) == (6, 2, 4)
    assert (verdict.wasted, verdict.surplus, len(verdict.idle)) == (2, 2, 4)
    assert verdict.kind == "minimal" and verdict.circuit is not None


@pytest.mark.parametrize(
    ("text", "samples", "extra", "words"),
    [
        ("lrnn:n=4,b=1,d=2,T=2", 2, {"W": [(0, 0), (0, 1), (2, 1), (2, 3), (3, 3)]}, "rows of W"),
        ("lrnn:n=4,b=1,d=2,T=2", 2, {"W": [(i, 1) for i in range(4)] + [(0, 0)]}, "columns of W"),
        ("lrnn:n=3,b=1,d=2,T=2", 2, {"D": [(0, 0), (0, 1), (1, 1), (1, 2)], "W": [(0, 0)]}, "of D"),
        ("ffn:2-3-2", 2, {"W2": [(0, 0), (0, 1), (1, 1), (1, 2)], "W1": [(1, 1)]}, "of W2"),
    ],
)
def test_what_contains_a_maximal_allocation_is_maximal(
    text: str, samples: int, extra: dict[str, list[tuple[int, int]]], words: str
) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    held = sl.Allocation.from_entries(problem.network, extra)
    verdict = sl.certify(problem, held)
    assert verdict.surplus == 1 and not verdict.affine
    assert verdict.kind == "maximal"
    assert words in verdict.reasons[0]


def test_biases_join_a_layer_in_an_affine_part() -> None:
    # A layer alone lacks the constant of the third sample; with b2 it is affine and enough.
    problem = sl.Problem(sl.FeedForward((2, 2, 2), bias=True), samples=3)
    held = sl.Allocation.whole(problem.network, ["W1", "W2", "b2"])
    assert whole(problem, "W1").rank == 4 and whole(problem, "W1", "b2").rank == 6
    verdict = sl.certify(problem, held)
    assert (verdict.kind, verdict.affine) == ("maximal", False)
    assert "and b2 alone" in verdict.reasons[0]


@pytest.mark.parametrize(
    "text", ["ffn:3-2-3-3", "ffn:2-2-2,bias=yes", "lrnn:n=2,b=1,d=1,T=5", "rnn:n=2,b=1,d=1,T=2"]
)
def test_a_student_that_learns_everything_can_copy_its_teacher(text: str) -> None:
    network = sl.networks.network_from_text(text)
    assert sl.certify(sl.Problem(network, 3), sl.Allocation.whole(network)).kind == "maximal"
    signs = sl.Ensemble(
        weights=sl.ensembles.Rademacher(),
        teacher=sl.ensembles.Rademacher(),
        inputs=sl.ensembles.Rademacher(),
    )
    verdict = sl.certify(sl.Problem(network, 3, signs), sl.Allocation.whole(network))
    assert verdict.kind == "maximal", "this needs no density"


# Dependent samples.


def test_more_samples_than_inputs() -> None:
    problem = sl.Problem(sl.LinearRNN(n=4, b=1, d=2, T=2), samples=7)
    held = sl.Allocation.from_entries(problem.network, {"W": [(0, 0), (0, 1), (1, 2), (1, 3)]})
    verdict = sl.certify(problem, held)
    assert (verdict.kind, verdict.rank, verdict.needed, verdict.equations) == ("maximal", 4, 4, 14)
    assert any("linearly dependent" in reason for reason in verdict.reasons)


def test_inputs_of_low_rank() -> None:
    ensemble = sl.Ensemble(inputs=sl.ensembles.LowRank(rank=2))
    problem = sl.Problem(sl.FeedForward((5, 4, 3)), 5, ensemble)
    verdict = whole(problem, "W2")
    truth = Oracle(problem.network, 5, input_rank=2)
    assert verdict.needed == truth.needed == 6
    assert verdict.kind == "maximal"
    assert any("only 2 of 5 samples count" in reason for reason in verdict.reasons)


# Degenerate teachers.


def test_a_bottleneck() -> None:
    problem = sl.Problem(sl.FeedForward((3, 1, 3, 2)), samples=2)
    truth = oracle_of(problem)
    assert truth.needed == 3
    verdict = whole(problem, "W2", "W3")
    assert (verdict.needed, verdict.rank) == (
        3,
        truth.rank(sl.Allocation.whole(problem.network, ["W2", "W3"])),
    )
    assert any("a hidden layer of 1 units" in reason for reason in verdict.reasons)
    assert (verdict.kind, verdict.needed_grade.kind) == ("minimal", "proof")


# Teachers of another architecture, and none at all.


def test_targets_without_a_teacher() -> None:
    problem = sl.Problem(sl.FeedForward((3, 4, 2)), 3, teacher=sl.Targets())
    assert whole(problem, "W2").kind == "maximal"
    mixed = sl.Allocation.from_entries(
        problem.network, {"W1": [(0, 0), (1, 1), (2, 2)], "W2": [(0, 0), (0, 1), (1, 2)]}
    )
    verdict = sl.certify(problem, mixed)
    assert (verdict.kind, verdict.rank, verdict.needed) == ("between", 6, 6)
    assert "positive" in verdict.reasons[0]
    narrow = sl.Problem(problem.network, 3, teacher=sl.Targets(sl.ensembles.Uniform()))
    assert "not proved" in sl.certify(narrow, mixed).reasons[0]


def test_targets_are_not_spared_dependent_samples() -> None:
    problem = sl.Problem(sl.FeedForward((2, 4, 2)), 3, teacher=sl.Targets())
    verdict = whole(problem, "W1", "W2")
    assert (verdict.kind, verdict.rank, verdict.needed) == ("minimal", 4, 6)
    assert verdict.grade.kind == "proof"


def test_a_larger_linear_teacher_with_dependent_samples() -> None:
    problem = sl.Problem(sl.FeedForward((2, 3, 2)), 4, teacher=sl.FeedForward((2, 5, 5, 2)))
    verdict = whole(problem, "W2")
    assert (verdict.kind, verdict.rank, verdict.needed) == ("maximal", 4, 4)


def test_a_teacher_with_biases_is_out_of_reach_without() -> None:
    student, teacher = sl.FeedForward((2, 3, 2)), sl.FeedForward((2, 3, 2), bias=True)
    problem = sl.Problem(student, 3, teacher=teacher)
    verdict = whole(problem, "W1", "W2")
    assert (verdict.kind, verdict.rank, verdict.needed) == ("minimal", 4, Oracle(teacher, 3).needed)
    assert verdict.needed == 6
    turned = sl.Problem(teacher, 3, teacher=student)
    assert whole(turned, "W2", "b2").kind == "maximal"


def test_a_teacher_that_reaches_less_leaves_the_rank_undecided() -> None:
    problem = sl.Problem(sl.LinearRNN(8, 1, 2, 2), 2, teacher=sl.LinearRNN(1, 1, 2, 2))
    held = sl.Allocation.from_entries(problem.network, {"W": [(0, 0), (0, 1), (0, 2), (1, 0)]})
    verdict = sl.certify(problem, held)
    assert (verdict.kind, verdict.rank, verdict.needed) == ("between", 3, 3)
    assert "not decided by ranks" in verdict.reasons[0]
    # Theorem 3.4 says minimal; nothing here refutes it.
    assert [(check.says, check.holds) for check in verdict.theorems] == [("minimal", None)]
    # Weights for all four outputs settle it, whatever the teacher.
    assert whole(problem, "D").kind == "maximal"


def test_a_nonlinear_teacher() -> None:
    teacher = sl.FeedForward((3, 6, 2), activation="tanh")
    problem = sl.Problem(sl.FeedForward((3, 4, 2)), 3, teacher=teacher)
    verdict = whole(problem, "W2")
    assert (verdict.kind, verdict.grade.kind) == ("maximal", "proof")
    assert (verdict.needed, verdict.needed_grade.kind) == (6, "proof")
    many = sl.Problem(problem.network, 5, teacher=teacher)
    verdict = whole(many, "W1", "W2")
    assert (verdict.kind, verdict.grade.kind) == ("minimal", "proof")


def test_a_relu_teacher_may_be_linear_on_the_samples() -> None:
    # Five samples of two numbers: where they all lie on one side of every unit, the teacher is a
    # linear map and can be matched. "Minimal" speaks of the others, and says so.
    teacher = sl.FeedForward((2, 2, 1), activation="relu")
    problem = sl.Problem(sl.FeedForward((2, 3, 1)), 5, teacher=teacher)
    verdict = whole(problem, "W2")
    assert (verdict.kind, verdict.rank, verdict.grade.kind) == ("minimal", 2, "proof")
    assert any("set aside" in reason for reason in verdict.reasons)
    rng = np.random.default_rng(0)
    sides = rng.standard_normal((4000, 2, 2)) @ rng.standard_normal((4000, 2, 5))
    assert (sides > 0).all(axis=(1, 2)).mean() > 0.005


# Ensembles without a density.


@pytest.mark.parametrize(
    ("ensemble", "named"),
    [
        (sl.Ensemble(inputs=sl.ensembles.Rademacher()), "inputs (Rademacher)"),
        (sl.Ensemble(weights=sl.ensembles.Sparse()), "weights (Sparse)"),
        (sl.Ensemble(teacher=sl.ensembles.Rademacher()), "teacher (Rademacher)"),
    ],
)
def test_no_density_no_generic_verdict(ensemble: sl.Ensemble, named: str) -> None:
    for text in ("ffn:3-3-2", "ffn:3-3-2,activation=tanh"):
        problem = sl.Problem(sl.networks.network_from_text(text), 2, ensemble)
        verdict = whole(problem, "W1")
        assert verdict.kind == "unknown"
        assert "No density" in verdict.reasons[0] and named in verdict.reasons[0]
        assert all(check.holds is None for check in verdict.theorems)


def test_targets_without_density() -> None:
    problem = sl.Problem(
        sl.FeedForward((3, 3, 2)), 2, teacher=sl.Targets(sl.ensembles.Rademacher())
    )
    verdict = whole(problem, "W1")
    assert verdict.kind == "unknown" and "targets (Rademacher)" in verdict.reasons[0]


@pytest.mark.parametrize(
    "law", [sl.ensembles.Uniform(), sl.ensembles.StudentT(df=2.5), sl.ensembles.Normal(g=3.0)]
)
def test_laws_with_a_density_share_their_verdicts(law: sl.ensembles.Normal) -> None:
    ensemble = sl.Ensemble(weights=law, teacher=law, inputs=law)
    cross = {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]}
    network = sl.FeedForward((3, 3, 2))
    held = sl.Allocation.from_entries(network, cross)
    assert sl.certify(sl.Problem(network, 2, ensemble), held).kind == "minimal"


def test_an_affine_part_that_reaches_everything_meets_any_teacher() -> None:
    """All of W2 solves a linear system for any targets, also those of a teacher with a bottleneck."""
    student, teacher = sl.FeedForward((3, 4, 3)), sl.FeedForward((3, 1, 3))
    problem = sl.Problem(student, samples=3, teacher=teacher)
    both = sl.Allocation.whole(student, ["W2"]) | sl.Allocation.from_entries(
        student, {"W1": [(0, 0)]}
    )
    verdict = sl.certify(problem, both)
    # Rank-one maps of 3 to 3 numbers: 3 + 3 - 1 dimensions.
    assert (verdict.kind, verdict.needed, verdict.affine) == ("maximal", 5, False)
    assert sl.decide(sl.draw(problem, both)).kind == "matched"
