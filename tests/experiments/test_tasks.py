"""Tasks against counts by hand, brute force and closed forms."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import sublearn as sl
from matchers.small_example import quadratic
from sublearn._errors import BadInputError
from sublearn.estimates import MatchQuestion, Trial
from sublearn.experiments import find
from sublearn.experiments._saturation import threshold
from sublearn.experiments.tasks import TASKS, Decisions
from sublearn.experiments.tasks._decisions import match_line
from sublearn.experiments.tasks._point import ensemble_from_text, learnable_of, problem_of
from sublearn.runs import Row, Table

SMALL: Row = {"network": "lrnn:n=2,b=1,d=1,T=2", "samples": 2, "learn": "W:entries=0.0/1.1"}
ROWS: Row = {"network": "lrnn:n=6,b=1,d=2,T=3", "samples": 3, "learn": "W:first-rows=4"}


def _columns(task: str, rows: list[Row]) -> dict[str, np.ndarray]:
    kinds = TASKS[task].columns
    return {
        name: np.array([row[name] for row in rows], dtype=object if kind is str else kind)
        for name, kind in kinds.items()
    }


def _summary(task: str, point: Row, trials: int, seed: int = 0) -> Table:
    rows = TASKS[task].run(point, seed, range(trials))
    return TASKS[task].summarise(point, _columns(task, rows))


def test_trials_do_not_depend_on_their_chunk() -> None:
    for point in (SMALL, ROWS, {**SMALL, "method": "reference", "starts": 3}):
        task = TASKS["estimate"]
        whole = task.run(point, 1, range(6))
        assert whole == task.run(point, 1, range(2)) + task.run(point, 1, range(2, 6))


def test_a_rule_with_a_seed_is_drawn_once() -> None:
    network = "lrnn:n=6,b=1,d=2,T=3"
    drawn = []
    for text in ("W:first-rows=4,seed=3", "W:first-rows=4"):
        point: Row = {"network": network, "samples": 3, "learn": text}
        problem = problem_of(point)
        held = learnable_of(point, problem)
        drawn.append({sl.draw(problem, held, trial=t).allocation for t in range(6)})
        verdict = _summary("estimate", point, 1)[0].get("verdict")
        assert bool(verdict) == (len(drawn[-1]) == 1)
    assert len(drawn[0]) == 1 < len(drawn[1])


def _question(point: Row, seed: int) -> MatchQuestion:
    return Decisions().question(point, seed)


def test_a_trial_of_an_experiment_is_a_trial_of_estimate() -> None:
    """The same question, so the same records, for the points of Figure 2a and for every method."""
    points = [point.params for point in find("fig2a").quick.points]
    chosen = [points[0], {**points[-1], "starts": 20}, {**SMALL, "method": "search"}]
    for point in chosen:
        task = TASKS["estimate"]
        question = task.question(point, 3)
        found = sl.estimate(
            question.problem,
            question.allocation,
            5,
            seed=3,
            method=str(point.get("method") or "ladder"),
            budget=question.budget,
            sample_always=True,
        )
        assert found.question == question
        rows = task.run(point, 3, range(5))
        assert [tuple(row.values()) for row in rows] == [record[1:] for record in found.records]
        (line,) = task.summarise(point, _columns("estimate", rows))
        assert (line["matched"], line["refuted"]) == (found.matched, found.refuted)
        assert (line["low"], line["high"]) == found.confidence


def test_methods_are_compared_on_the_same_instances() -> None:
    for trial in range(3):
        ours = _question(ROWS, 5).draw(trial)
        theirs = _question({**ROWS, "method": "reference", "starts": 1}, 5).draw(trial)
        assert np.array_equal(ours.targets, theirs.targets)
        assert ours.allocation == theirs.allocation


def test_decisions_agree_with_the_discriminant() -> None:
    rows = TASKS["estimate"].run(SMALL, 3, range(30))
    for trial, row in enumerate(rows):
        a, b, c, _, _ = quadratic(_question(SMALL, 3).draw(trial))
        assert row["kind"] == ("matched" if b * b >= 4 * a * c else "refuted")


def test_counts_and_their_interval() -> None:
    kinds = ["matched"] * 7 + ["undecided"] + ["refuted"] * 2
    grades = ["proof"] * 7 + [""] + ["probability", "numerical"]
    errors = [0.0] * 8 + [1e-13, 0.0]
    records = [
        Trial(i, kind, "", grade, error, 0, 0, 0)
        for i, (kind, grade, error) in enumerate(zip(kinds, grades, errors, strict=True))
    ]
    found = match_line(sl.Estimate(_question(SMALL, 0), tuple(records)))
    assert (found["trials"], found["matched"], found["refuted"], found["undecided"]) == (
        10,
        7,
        2,
        1,
    )
    assert (found["share"], found["possible"]) == (0.7, 0.8)
    assert (found["proved"], found["numerical"], found["error"]) == (7, 1, 1e-13)
    # Clopper and Pearson: 7 of 10 from below, 8 of 10 from above, as tables print them.
    assert found["low"] == pytest.approx(0.3475, abs=5e-5)
    assert found["high"] == pytest.approx(0.9748, abs=5e-5)


def test_fixed_allocations_bring_their_verdict() -> None:
    (row,) = _summary("estimate", {**SMALL, "learn": "W:rows=0"}, 2)
    assert (row["verdict"], row["share"]) == ("maximal", 1.0)
    (row,) = _summary("estimate", ROWS, 2)
    assert row["verdict"] == ""


def test_saturation_counts_what_so_many_starts_found() -> None:
    point: Row = {**ROWS, "method": "reference", "starts": 50}
    rows = TASKS["saturation"].run(point, 0, range(6))
    for line in TASKS["saturation"].summarise(point, _columns("saturation", rows)):
        found = [r for r in rows if r["kind"] == "matched" and r["starts"] <= line["after"]]
        assert line["matched"] == len(found)


def test_where_the_papers_rule_would_stop() -> None:
    def rows(*counts: tuple[int, int]) -> Table:
        return [{"after": starts, "matched": count} for starts, count in counts]

    assert threshold(rows((25, 3), (50, 4), (100, 4), (200, 9))) == 50
    assert threshold(rows((25, 3), (50, 4), (100, 5))) is None
    assert threshold(rows((1, 3), (2, 3), (25, 3), (50, 4))) is None


def test_equations_left_are_those_of_the_rows_in_use() -> None:
    rows = TASKS["estimate-by-equations"].run(ROWS, 0, range(8))
    for trial, row in enumerate(rows):
        instance = _question(ROWS, 0).draw(trial)
        used = {i for i, _ in instance.allocation.entries["W"]}
        assert row["left"] == 3 * 1 * len(used) - 2 * 3  # T b k - d m
    lines = _summary("estimate-by-equations", ROWS, 8)
    assert sum(int(line["trials"] or 0) for line in lines) == 8


def test_verdicts_of_the_linear_estimator() -> None:
    """Section 2.1: maximal exactly if each of the two rows has two of its three weights."""
    point: Row = {"network": "linear:inputs=3,outputs=2", "samples": 2, "inside": "W"}
    lines = _summary("certify", point, 15)
    by_verdict = {"maximal": 0, "minimal": 0}
    for line in lines:
        by_verdict[str(line["verdict"])] += int(line["allocations"] or 0)
        assert line["wrong"] is False
    assert by_verdict == {"maximal": 3 * 3, "minimal": 15 - 9}


def test_the_printed_or_and_what_it_must_mean_are_counted_apart() -> None:
    """Four of nine weights of one 3 x 3 layer, d = m = 2: 90 keep both bounds, 81 of these are maximal."""
    point: Row = {"network": "ffn:3-3-2", "samples": 2, "inside": "W1"}
    lines = _summary("certify", point, 126)
    wrong = {key: 0 for key in ("wrong", "wrong_meant")}
    for line in lines:
        for key in wrong:
            wrong[key] += int(line["allocations"] or 0) * bool(line[key])
    bounds = sum(
        max(np.bincount([e // 3 for e in held])) <= 2
        and max(np.bincount([e % 3 for e in held])) <= 2
        for held in combinations(range(9), 4)
    )
    assert bounds == 90 and wrong == {"wrong": 126 - 81, "wrong_meant": 90 - 81}


def test_chunks_of_verdicts_go_through_all_allocations_once() -> None:
    point: Row = {"network": "lrnn:n=2,b=1,d=1,T=2", "samples": 2, "inside": "W"}
    task = TASKS["certify"]
    assert task.run(point, 0, range(6)) == task.run(point, 0, range(4)) + task.run(
        point, 0, range(4, 6)
    )


def test_deficient_allocations_by_brute_force() -> None:
    """All 126 sets of four products u_i (x) v_j in a 3 x 3 layer with d = m = 2, ranks in float64."""
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 3, 2))
    feasible = deficient = 0
    for chosen in combinations([(i, j) for i in range(3) for j in range(3)], 4):
        rows, columns = zip(*chosen, strict=True)
        if max(map(rows.count, rows)) <= 2 and max(map(columns.count, columns)) <= 2:
            feasible += 1
            products = np.array([np.kron(u[i], v[j]) for i, j in chosen])
            deficient += int(np.linalg.matrix_rank(products) < 4)
    point: Row = {"network": "ffn:3-3-2", "samples": 2, "inside": "W1"}
    (line,) = _summary("census", {**point, "every": True}, 1)
    assert (line["looked_at"], line["deficient"]) == (feasible, deficient)
    (drawn,) = _summary("census", point, 200)
    assert drawn["looked_at"] == 200
    assert float(drawn["low"] or 0) <= deficient / feasible <= float(drawn["high"] or 0)


@pytest.mark.slow
def test_the_published_shares_of_deficient_allocations() -> None:
    """About 85% at d = m = 8, n = 9, and none in Figure 2a's setting."""
    layer: Row = {"network": "ffn:9-9-8", "samples": 8, "inside": "W1"}
    (line,) = _summary("census", layer, 2000)
    assert 0.80 < float(line["share"] or 0) < 0.88
    figure: Row = {"network": "lrnn:n=8,b=1,d=4,T=4", "samples": 4, "inside": "W"}
    (line,) = _summary("census", figure, 1000)
    assert line["deficient"] == 0


@pytest.mark.slow
def test_the_example_has_its_closed_form() -> None:
    """Appendix B.1.1 over 1,500 instances each: the closed forms lie within four standard errors."""
    for learn, exact in (("W:entries=0.0/1.1", 0.7154), ("W:entries=0.1/1.0", 0.8289)):
        (line,) = _summary("estimate", {**SMALL, "learn": learn}, 1500)
        spread = (exact * (1 - exact) / 1500) ** 0.5
        assert line["undecided"] == 0
        assert abs(float(line["share"] or 0) - exact) < 4 * spread


def test_ensembles_from_text() -> None:
    found = ensemble_from_text("weights=uniform teacher=student-t*0.5")
    assert found == sl.Ensemble(
        sl.ensembles.Uniform(), sl.ensembles.StudentT(0.5), sl.ensembles.Normal()
    )
    assert ensemble_from_text("") == sl.Ensemble()
    heavy = ensemble_from_text("weights=student-t:5*2 inputs=sparse:0.2")
    assert heavy.weights == sl.ensembles.StudentT(2.0, df=5.0)
    assert heavy.inputs == sl.ensembles.Sparse(density=0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden=normal", "weights, teacher, inputs"),
        ("weights=cauchy", "normal, uniform"),
        ("weights=normal weights=uniform", "each part once"),
        ("weights=normal*big", "must be numbers"),
        ("weights=student-t:x", "must be numbers"),
        ("weights=normal:2", "takes no number"),
        ("weights=sparse:2", "density must lie"),
        ("weights=normal*-1", "positive"),
    ],
)
def test_ensembles_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        ensemble_from_text(text)


@pytest.mark.parametrize(
    ("task", "point", "message"),
    [
        ("estimate", {"samples": 2}, "needs 'network'"),
        ("estimate", {**SMALL, "samples": 2.5}, "samples must be"),
        ("estimate", {**SMALL, "learn": None}, "needs 'learn'"),
        ("estimate", {**SMALL, "method": "fsolve"}, "ladder, search, construction, reference"),
        ("estimate", {**SMALL, "starts": -3}, "starts must be"),
        ("estimate", {**SMALL, "learn": "W:first-rows=9"}, "2 rows"),
        ("estimate", {**SMALL, "learn": "W:first-rows=2 B:all"}, "not both"),
        ("certify", {**SMALL}, "needs 'inside'"),
        ("census", {**SMALL, "inside": "D", "samples": 9, "network": "ffn:9-2-9"}, "D"),
        (
            "census",
            {"network": "ffn:2-2-2,activation=relu", "samples": 2, "inside": "W1"},
            "gates",
        ),
    ],
)
def test_points_that_cannot_be_run_say_why(task: str, point: Row, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        TASKS[task].check(point)


def test_problems_are_read_from_points() -> None:
    found = problem_of({**SMALL, "ensemble": "inputs=rademacher"})
    network = sl.LinearRNN(n=2, b=1, d=1, T=2)
    assert found == sl.Problem(network, 2, sl.Ensemble(inputs=sl.ensembles.Rademacher()))


CHANGED = ["estimate", "saturation", "estimate-by-equations", "trainability", "generalisation"]
CHANGED += ["linear-sizes", "placements", "certify", "deep-sizes"]


@pytest.mark.parametrize("name", CHANGED)
def test_rows_that_differ_from_those_of_0_1_0_are_never_mixed_with_them(name: str) -> None:
    assert TASKS[name].version > 1


def test_correlated_inputs_are_those_of_estimate() -> None:
    point: Row = {"network": "lrnn:n=5,b=2,d=2,T=3", "samples": 3, "learn": "B:first-rows=4"}
    covariance = np.full((6, 6), 0.9) + 0.1 * np.eye(6)
    law = sl.ensembles.Correlated(covariance=tuple(map(tuple, covariance.tolist())))
    network = sl.LinearRNN(n=5, b=2, d=2, T=3)
    asked = sl.Problem(network, 3, sl.Ensemble(inputs=law))
    assert np.allclose(
        problem_of({**point, "covariance": 0.9}).ensemble.inputs.covariance, covariance
    )
    rows = TASKS["estimate"].run({**point, "covariance": 0.9}, 0, range(12))
    counted = sl.estimate(asked, {"B": sl.FirstRows(4)}, trials=12, seed=0)
    assert [row["kind"] for row in rows].count("matched") == counted.matched
    problem_of({**point, "covariance": 0})  # which is False to what is kept
    for wrong in (True, False, "much", [0.9]):
        with pytest.raises(BadInputError, match="covariance must be a number"):
            problem_of({**point, "covariance": wrong})
    with pytest.raises(BadInputError, match="for normal inputs"):
        problem_of({**point, "covariance": 0.9, "ensemble": "inputs=uniform"})


@pytest.mark.parametrize(
    "given, words",
    [
        ((3, "x"), "correlation must be a number, such as 0.9, not 'x'"),
        ((3, np.nan), "correlation must be a number, .* not nan"),
        ((3, True), "correlation must be a number, .* not True"),
        ((2.5, 0.5), "features must be a whole number of at least 1, not 2.5"),
        ((0, 0.5), "features must be a whole number"),
        ((3, -0.5), "covariance must be positive definite"),
    ],
)
def test_equal_correlations_of_no_numbers(given: tuple[object, object], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        sl.ensembles.Correlated.equally(*given)  # type: ignore[arg-type]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.99])
def test_equal_correlations(correlation: float) -> None:
    matrix = np.array(sl.ensembles.Correlated.equally(4, correlation).covariance)
    assert np.allclose(np.diag(matrix), 1.0, atol=1e-15)
    assert np.allclose(matrix[~np.eye(4, dtype=bool)], correlation)
