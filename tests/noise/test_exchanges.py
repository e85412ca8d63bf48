"""A placement improved by exchanges, what may be chosen for it, and what is left out."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn.cli import app
from sublearn.noise import Candidates, Noise, candidate_placements

NOISE = Noise((0.1, 0.3, 0.02))


def lesson(outputs: int = 2, inputs: int = 4, samples: int = 30) -> sl.Instance:
    """Only the first input matters, and the others are noise to whoever learns from them."""
    net, rng = sl.LinearEstimator(inputs, outputs), np.random.default_rng(0)
    x, start = rng.standard_normal((inputs, samples)), np.zeros((outputs, inputs))
    y = np.arange(1.0, outputs + 1)[:, None] * x[:1] + 0.3 * x[1:2]
    return sl.Instance(net, sl.Allocation.whole(net), {"W": start}, x, y)


def test_by_formula_the_best_of_all_placements_is_found() -> None:
    given = lesson(inputs=6, samples=200)
    whole = sl.Allocation.whole(given.network)
    predicted = {
        few: sl.predict_steady_state(given.with_allocation(whole.select(few)), NOISE)
        for few in combinations(range(12), 10)
    }
    assert {one.kind.value for one in predicted.values()} <= {"exact", "limit"}
    best = tuple(whole.select(min(predicted, key=lambda few: predicted[few].value)).labels())
    bad = whole.select([*range(1, 6), *range(7, 12)])  # all but the first column
    found = sl.place(given, {"bad": bad}, NOISE, cycles=200, repeats=3, improve=100)
    row = next(row for row in found.rows if row.name == "improved")
    assert tuple(row.allocation.labels()) == best
    assert found.exchanges is not None and found.exchanges.by == "formula"
    assert found.exchanges.tried == 100 and len(found.exchanges.taken) >= 2
    # One by one, they lead from where it began to what is recommended.
    held = set(bad.labels())
    for left, came in found.exchanges.taken:
        held = held - {left} | {came}
    assert held == set(row.allocation.labels())
    assert "exchanges" in found.recommendation
    again = sl.place(given, {"bad": bad}, NOISE, cycles=200, repeats=3, improve=100)
    assert again.to_dict() == found.to_dict()
    plain = sl.place(given, {"bad": bad}, NOISE, cycles=200, repeats=3)
    assert plain.exchanges is None and len(plain.rows) == 1


def test_what_was_measured_must_be_better_beyond_doubt() -> None:
    """In a hidden layer there is no formula. The error of what is taken is lower in new noise too."""
    problem = sl.Problem(sl.FeedForward((4, 4, 2), "tanh"), 6, sl.Gaussian(2.0))
    net = problem.network
    given = sl.noise.draw_lessons(problem, 1)[0]
    one = sl.Allocation.from_entries(net, {"W1": [(0, 0), (0, 1), (0, 2)]})
    among = sl.Allocation.whole(net, ["W1"])
    asked = dict(cycles=150, repeats=6)
    found = sl.place(given, Candidates({"one": one}, among=among), NOISE, improve=60, **asked)
    assert found.exchanges is not None and found.exchanges.by == "measured"
    rows = {row.name: row for row in found.rows}
    assert "improved" in rows and rows["improved"].allocation.names == ("W1",)
    assert len(rows["improved"].allocation) == 3
    both = {name: row.allocation for name, row in rows.items()}
    fresh = sl.place(given, both, NOISE, seed=99, **asked)
    assert fresh.best.name == "improved"


def test_nothing_is_taken_for_better_by_chance() -> None:
    """All placements are alike: whatever differs is noise, and no exchange may be taken."""
    net, rng = sl.FeedForward((3, 3, 1), "tanh"), np.random.default_rng(1)
    weights = {"W1": np.zeros((3, 3)), "W2": np.zeros((1, 3))}
    given = sl.Instance(net, sl.Allocation.whole(net), weights, rng.standard_normal((3, 5)),
                        rng.standard_normal((1, 5)))  # fmt: skip
    one = sl.Allocation.from_entries(net, {"W1": [(0, 0)]})
    among = sl.Allocation.whole(net, ["W1"])
    found = sl.place(given, Candidates({"one": one}, among=among), NOISE, cycles=60, repeats=5,
                     improve=40)  # fmt: skip
    assert found.exchanges is not None and found.exchanges.taken == ()
    assert [row.name for row in found.rows] == ["one"]
    assert "None of 40 exchanges" in found.recommendation


def test_one_repeat_leaves_doubt_where_no_formula_holds() -> None:
    problem = sl.Problem(sl.FeedForward((4, 4, 2), "tanh"), 6)
    given = sl.noise.draw_lessons(problem, 1)
    one = sl.Allocation.from_entries(problem.network, {"W1": [(0, 0)]})
    with pytest.raises(sl.BadInputError, match=r"improve .* repeats"):
        sl.place(given, {"one": one}, NOISE, cycles=50, repeats=1, improve=5)
    with pytest.raises(sl.BadInputError, match="improve"):
        sl.place(given, {"one": one}, NOISE, cycles=50, repeats=2, improve=-1)
    with pytest.raises(sl.BadInputError, match="'improved'"):
        sl.place(given, {"improved": one}, NOISE, cycles=50, repeats=2, improve=5)


def test_candidates_keep_what_is_forbidden_and_what_a_budget_says() -> None:
    problem = sl.Problem(sl.RNN(n=6, b=1, d=2, T=3), samples=3)
    found = candidate_placements(problem, "20%", ["W"], autapses=False)
    assert {len(a) for a in found.values()} == {6}  # of 30
    assert not any(a.mask("W").diagonal().any() for a in found.values())
    assert not found.among.mask("W").diagonal().any() and len(found.among) == 30
    rows = candidate_placements(problem, "1 per row", ["W"])
    assert all(a.row_counts("W").tolist() == [1] * 6 for a in rows.values())
    assert set(rows) == {"spread", "concentrated", "designed"} and rows.within == "row"
    barred = np.zeros((6, 6), dtype=bool)
    barred[:, 0] = True
    kept = candidate_placements(problem, 5, ["W"], forbidden={"W": barred})
    assert not any(a.column_counts("W")[0] for a in kept.values())


def test_what_is_left_out_is_named_with_the_reason() -> None:
    problem = sl.Problem(sl.LinearEstimator(inputs=6, outputs=4), samples=3)
    found = candidate_placements(problem, 5)
    assert "designed" not in found and "12" in found.left_out["designed"]
    lessons = sl.noise.draw_lessons(problem, 2)
    table = sl.place(lessons, found, NOISE, cycles=50, repeats=2)
    assert table.left_out == found.left_out and table.to_dict()["left_out"] == found.left_out
    assert "Left out: designed" in str(table)


def test_exchanges_keep_quotas() -> None:
    given = lesson(outputs=3)
    problem = sl.Problem(given.network, given.samples)
    start = candidate_placements(problem, "1 per row")
    found = sl.place(given, start, NOISE, cycles=100, repeats=2, improve=60)
    assert found.exchanges is not None
    for row in found.rows:
        assert row.allocation.row_counts("W").tolist() == [1, 1, 1]


PLACE = ["noise", "place", "--network", "linear:inputs=8,outputs=4", "--gamma", ".1,.3,.02"]
SHORT = ["--cycles", "100", "--repeats", "3"]


def test_the_command_improves_and_saves_the_masks_it_recommends(tmp_path: Path) -> None:
    out = tmp_path / "p"
    asked = [*PLACE, "--samples", "2", "--plastic", "25%", *SHORT, "--exchanges", "5"]
    found = CliRunner().invoke(app, [*asked, "--json", "--out", str(out)])
    assert found.exit_code == 0, found.output
    table = json.loads(found.output)
    assert table["plastic"] == 8 and table["exchanges"]["tried"] == 5
    net = sl.LinearEstimator(inputs=8, outputs=4)
    saved = [sl.Allocation.load(path, net) for path in table["masks"]]
    digests = [row["digest"] for row in table["rows"]]
    assert saved and saved[0].digest == digests[0] and {a.digest for a in saved} <= set(digests)
    assert (out / "place.png").is_file()
    words = CliRunner().invoke(app, [*asked, "--out", str(out), "--overwrite"]).output
    assert "written to" in words and "exchanges" in words


def test_the_command_knows_autapses_and_data_of_ones_own(tmp_path: Path) -> None:
    net, rng = sl.RNN(n=5, b=2, d=1, T=3), np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(path, inputs=rng.standard_normal((3, 2, 4)), W=rng.standard_normal((5, 5)) / 3)
    asked = ["noise", "place", "--network", net.spec, "--data", str(path), "--gamma", ".1,.1,.01"]
    asked += ["--plastic", "20%", "--no-autapses", "--among", "W", *SHORT, "--json"]
    found = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "out")])
    assert found.exit_code == 0, (found.output, found.exception)
    table = json.loads(found.output)
    assert table["plastic"] == 4
    for file in table["masks"]:
        assert not sl.Allocation.load(file, net).mask("W").diagonal().any()


def test_candidates_are_a_value() -> None:
    net = sl.LinearEstimator(2, 2)
    first, other = (sl.Allocation.from_entries(net, {"W": [(0, k)]}) for k in (0, 1))
    placed = {"first": first}
    ways = Candidates(placed, left_out={"designed": "none is known"})
    more = ways.with_placement("other", other)
    assert [*ways] == ["first"] and [*more] == ["first", "other"] and more["other"] == other
    assert more.left_out == ways.left_out and ways == placed
    with pytest.raises(TypeError):
        ways["other"] = other  # type: ignore[index]
    with pytest.raises(AttributeError):
        ways.among = first  # type: ignore[misc]
