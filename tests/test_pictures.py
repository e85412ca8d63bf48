"""Every result draws itself, on light and on dark ground, and shows itself in a notebook."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba

import sublearn as sl
from sublearn.plots import Shown, dark, draw_weights
from sublearn.runs._tables import parse_table

CROSS = {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]}
NET = sl.FeedForward((3, 3, 2))
PROBLEM = sl.Problem(NET, 2)
RELU = sl.Problem(sl.FeedForward((3, 4, 2), activation="relu"), 3)


NOISE = sl.Noise((0.1, 0.3, 0.01))
RNG = np.random.default_rng(4)
WEIGHTS = {name: RNG.normal(size=shape) for name, shape in NET.shapes.items()}
INPUTS = RNG.normal(size=(3, 5))
LESSON = sl.Problem(sl.LinearEstimator(inputs=4, outputs=2), samples=2, ensemble=sl.Gaussian(4))


def results() -> dict[str, Shown]:
    cross = sl.Allocation.from_entries(NET, CROSS)
    drawn = sl.draw(RELU, {"W1": sl.FirstRows(4)}, trial=1)
    lessons = sl.noise.draw_lessons(LESSON, repeats=3)
    candidates = sl.noise.candidate_placements(LESSON, 4)
    geometry = sl.local_geometry(lessons[0])
    path = sl.noise.expansion_path(lessons[0], [1, 2, 3])
    learners = ["gradient-descent", "levenberg-marquardt"]
    return {
        "allocation": cross,
        "census": sl.census(PROBLEM, "W1"),
        "drawn": sl.census(PROBLEM, "W1", draws=5),
        "patterns": replace(sl.patterns.pattern_counts(2, 3, [2, 2, 1, 1]), full_rank=3),
        "design": sl.repair(PROBLEM, cross),
        "gated": sl.design(RELU, learn=["W1"], want="best score"),
        "verdict": sl.certify(PROBLEM, cross),
        "estimate": sl.estimate(RELU, {"W1": sl.FirstRows(4)}, trials=5),
        "proved": sl.estimate(PROBLEM, sl.Allocation.whole(NET, ["W2"]), trials=5),
        "within": sl.estimate_within(RELU, {"W1": sl.FirstRows(4)}, 5, eps=0.1),
        "trainability": sl.estimates.trainability(
            RELU, {"W1": sl.FirstRows(4)}, 5, eps=0.1, learners=learners, steps=20, starts=2
        ),
        "fresh": sl.estimates.generalisation(LESSON, sl.Allocation.whole(LESSON.network), 5),
        "matched": sl.decide(sl.draw(PROBLEM, sl.Allocation.whole(NET, ["W2"]))),
        "other": sl.decide(sl.draw(RELU, {"W1": sl.FirstRows(2)}, trial=1)),
        "training": sl.train(drawn, "levenberg-marquardt", steps=20, starts=3),
        "placement": sl.place(lessons, candidates, NOISE, repeats=3, cycles=60),
        "simulation": sl.simulate(lessons[0], NOISE, cycles=60, repeats=3),
        "steady": sl.noise.compare_steady(lessons[0], NOISE, cycles=60, repeats=3),
        "geometry": geometry,
        "numbers": sl.Geometry(loss=1.0, gradient_norm=0.0, q=0.0, trace=3.0, plastic=2, noisy=4),
        "rate": geometry.check(NOISE, draws=10),
        "sizes": sl.best_size(path, NOISE),
        "same": NET.check(WEIGHTS, INPUTS, NET.forward(WEIGHTS, INPUTS)),
        "other model": NET.check(WEIGHTS, INPUTS, np.tanh(NET.forward(WEIGHTS, INPUTS))),
        "given": sl.rank_at(NET, cross, WEIGHTS, INPUTS),
    }


RESULTS = results()


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_itself(name: str) -> None:
    result = RESULTS[name]
    light = result.plot()
    with dark():
        other = result.plot()
    assert light.axes and light.get_facecolor() != other.get_facecolor()
    page = result._repr_html_()
    assert page.startswith("<pre>") and not page.startswith("<pre>&lt;"), "sentences"
    assert "data:image/png;base64," in page
    assert f"{len(result.table())} row" in page and page.endswith("</table></details>")
    json.dumps(result.to_dict(), allow_nan=False)
    line = repr(result)
    assert line.startswith(f"<{type(result).__name__} ") and "\n" not in line and len(line) < 120


def test_a_design_says_all_of_its_claim_in_a_notebook_and_its_repr_is_cut() -> None:
    design = RESULTS["gated"]
    assert isinstance(design, sl.designs.Design) and len(design.headline) > 110
    assert repr(design).endswith(" ...>")
    words = design._repr_html_().removeprefix("<pre>").split("</pre>")[0]
    assert words == f"{len(design)} weights: {design.words}"


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_table(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pip install 'sublearn[notebook]'")
    result = RESULTS[name]
    rows, frame = result.table(), result.to_frame()
    assert rows and list(frame.columns) == list(rows[0]) and len(frame) == len(rows)
    written = result.write_files(tmp_path / "new", name, {"more.txt": lambda p: p.write_text("x")})
    names = [f"{name}.png", f"{name}.svg", f"{name}.csv", "more.txt"]
    assert [path.name for path in written] == names
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == sorted(names)
    read = parse_table((tmp_path / "new" / f"{name}.csv").read_bytes())
    for ours, theirs in zip(rows, read, strict=True):
        for column, value in ours.items():
            missing = isinstance(value, float) and np.isnan(value) and np.isnan(theirs[column])
            assert missing or theirs[column] == (None if value == "" else value), column


def test_without_pandas_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(sl.BadInputError, match=r"pip install 'sublearn\[notebook\]'"):
        RESULTS["verdict"].to_frame()


def test_a_picture_is_what_the_last_line_of_a_cell_shows() -> None:
    fig = RESULTS["verdict"].plot()
    assert fig._repr_png_().startswith(b"\x89PNG")


def test_tables_say_what_the_results_say() -> None:
    verdict, estimate, simulation = (RESULTS[n] for n in ("verdict", "estimate", "simulation"))
    assert isinstance(verdict, sl.Verdict) and isinstance(estimate, sl.Estimate)
    rows = verdict.table()
    assert [(r["row"], r["column"]) for r in rows] == sorted(CROSS["W1"])
    assert sum(r["wasted"] for r in rows) == 1 and all(r["circuit"] for r in rows)
    assert sum(r["kind"] == "matched" for r in estimate.table()) == estimate.matched
    assert isinstance(simulation, sl.Simulation)
    last = simulation.table()[-1]
    repeats = [last[f"repeat_{i}"] for i in range(3)]
    assert repeats == simulation.errors[:, -1].tolist()
    assert last["mean"] == pytest.approx(sum(repeats) / 3)
    assert last["standard_error"] == pytest.approx(np.std(repeats, ddof=1) / np.sqrt(3))
    geometry = RESULTS["geometry"]
    assert isinstance(geometry, sl.Geometry)
    (ax,) = geometry.plot().axes
    along, itself = ax.lines[0], ax.lines[-1]
    assert itself.get_label() == "the loss itself"
    # The loss of a linear network is quadratic: the points lie on the line.
    heights = np.interp(itself.get_xdata(), along.get_xdata(), along.get_ydata())
    assert np.ravel(itself.get_ydata()) == pytest.approx(heights)


def test_the_picture_of_a_verdict_marks_what_it_says() -> None:
    verdict = RESULTS["verdict"]
    assert isinstance(verdict, sl.Verdict)
    (ax,) = verdict.plot().axes
    assert len(ax.patches) == 4, "the smallest dependent set: all four weights"
    cells = np.asarray(ax.get_images()[0].get_array())
    (place,) = verdict.idle.entries["W1"]
    learnable = {tuple(cells[entry].tolist()) for entry in CROSS["W1"] if entry != place}
    assert len(learnable) == 1 and tuple(cells[place].tolist()) not in learnable
    with dark():  # on a dark ground a lighter blue, and the same in the legend
        fig = verdict.plot()
    (lighter,) = {
        tuple(fig.axes[0].get_images()[0].get_array()[e]) for e in CROSS["W1"] if e != place
    }
    assert sum(lighter[:3]) > sum(next(iter(learnable))[:3])
    assert to_rgba(fig.legends[0].legend_handles[0].get_color()) == pytest.approx(lighter)


def test_a_match_shows_what_was_learned_and_frozen_weights_beside_large_ones() -> None:
    net = sl.LinearRNN(n=6, b=1, d=2, T=2)
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(net.shape(name)) for name in net.shapes}
    weights["W"][:2] *= 20.0
    rows = sl.Allocation.from_rows(net, "W", range(2))
    fig = draw_weights(weights, {name: rows.mask(name) for name in weights})
    *matrices, scale = fig.axes
    inches = np.array([ax.get_position().size for ax in matrices]) * fig.get_size_inches()
    cells = inches / [shape[::-1] for shape in net.shapes.values()]
    assert cells == pytest.approx(np.full_like(cells, cells[0, 0])), "cells of one size"
    outlines = [len(ax.collections[-1].get_segments()) for ax in matrices]
    assert outlines == [2 * (6 + 2), 0, 0], "once around two rows of six"
    (end,) = {ax.get_images()[0].get_clim()[1] for ax in matrices}
    size = np.abs(np.concatenate([each.ravel() for each in weights.values()]))
    assert 1.0 < end < 6.0 < size.max(), "frozen weights are told apart"
    words = f"weight; {(size > end).sum()} lie beyond these colours, up to {size.max():.3g} in size"
    assert scale.get_xlabel() == words
    small = {name: np.sign(each) for name, each in weights.items()}
    assert draw_weights(small).axes[-1].get_xlabel() == "weight"


def test_a_decision_knows_what_was_learnable() -> None:
    matched, other = RESULTS["matched"], RESULTS["other"]
    assert isinstance(matched, sl.Decision) and isinstance(other, sl.Decision)
    assert matched.allocation == sl.Allocation.whole(NET, ["W2"])
    assert other.allocation is not None and len(other.allocation) == 6
    near = sl.decide_within(sl.draw(PROBLEM, sl.Allocation.whole(NET, ["W2"])), 0.1)
    assert near.allocation == matched.allocation


def test_what_is_undecided_is_one_short_sentence() -> None:
    """The ladder's reason names every rung: it is there to be asked for, not to be read at once."""
    tanh = sl.Problem(sl.FeedForward((3, 4, 2), activation="tanh"), 3)
    drawn = sl.draw(tanh, {"W1": sl.FirstRows(3)})
    found = sl.decide(drawn, budget=sl.Budget(starts=1))
    assert found.kind == "undecided" and len(found.reason) > 120
    assert str(found).startswith("undecided: neither") and len(str(found)) < 90
    fig = found.plot()
    (ax,) = fig.axes
    assert ax.get_title(loc="left") == "W1: 6 of 4 x 3", "the mask that was asked about"
    lines = fig.get_suptitle().split("\n")
    assert lines[0] == "undecided" and "sl.decide_within(instance," in " ".join(lines[1:])
    fig.draw_without_rendering()
    assert fig.texts[0].get_window_extent().x1 <= fig.bbox.x1, "nothing is cut off"
    # A matcher that is used alone knows no mask.
    assert (
        sl.Decision("undecided", "search", "no luck").plot().get_suptitle() == "undecided\nno luck"
    )


def test_the_title_of_a_verdict_is_not_cut_off() -> None:
    """Neither is one that tells a probability of error, above a single matrix."""
    net = sl.FeedForward((5, 5, 3))
    entries = [(4, 0), (4, 1), (4, 2), (0, 4), (1, 4), (2, 4), (0, 0), (1, 1), (2, 2)]
    verdict = sl.certify(sl.Problem(net, 3), sl.Allocation.from_entries(net, {"W1": entries}))
    assert "probability of error" in str(verdict.grade)
    for result in (verdict, RESULTS["verdict"]):
        fig = result.plot()
        fig.draw_without_rendering()
        (title,) = fig.texts
        assert title.get_window_extent().x1 <= fig.bbox.x1


def test_the_bar_of_an_estimate_has_the_counts() -> None:
    estimate = RESULTS["estimate"]
    assert isinstance(estimate, sl.Estimate)
    (ax,) = estimate.plot().axes
    widths = {bar.get_label(): bar.patches[0].get_width() for bar in ax.containers}
    wanted = {
        "matched": estimate.matched,
        "undecided": estimate.undecided,
        "refuted": estimate.refuted,
    }
    assert widths == {f"{w}: {n}": pytest.approx(n / 5) for w, n in wanted.items() if n}
    (line,) = ax.lines
    assert tuple(line.get_xdata()) == estimate.confidence


def test_training_that_is_there_at_once_shows_where_it_starts() -> None:
    """A line through one point would be nothing."""
    drawn = sl.draw(RELU, {"W1": sl.FirstRows(4)}, trial=1)
    (ax,) = sl.train(drawn, "levenberg-marquardt", eps=1e6).plot().axes
    assert len(ax.lines[0].get_xdata()) == 1 and ax.lines[0].get_marker() == "o"
    result = RESULTS["training"]
    assert isinstance(result, sl.Training) and len(result.curve[0]) > 1
    assert ax.lines[0].get_marker() != result.plot().axes[0].lines[result.best].get_marker()
    zero = {"W": np.zeros((2, 4))}
    net = LESSON.network
    met = sl.Instance(net, sl.Allocation.whole(net), zero, np.ones((4, 2)), np.zeros((2, 2)))
    (ax,) = sl.train(met, start="given").plot().axes
    assert np.ravel(ax.lines[0].get_ydata()).tolist() == [0.0] and ax.get_yscale() == "linear"


def test_a_simulation_marks_where_it_settles_and_nothing_where_it_does_not() -> None:
    level = 1.0 + 0.01 * np.random.default_rng(0).standard_normal((4, 400))
    for errors, marked in (
        (level + np.exp(-np.arange(400) / 20), True),
        (level + np.arange(400), False),
    ):
        run = sl.Simulation(errors, {}, NOISE, range(4), 0)
        steady = run.steady_state
        assert steady.reached == marked
        lines = [line for line in run.plot().axes[0].lines if "steady" in str(line.get_label())]
        assert len(lines) == marked
        for line in lines:
            assert np.ravel(line.get_xdata()).tolist() == [steady.start, 399]
            assert np.ravel(line.get_ydata()).tolist() == 2 * [steady.mean]
            assert f"from cycle {steady.start} on" in str(line.get_label())


def test_placements_that_are_the_same_weights_are_one_curve_that_names_both() -> None:
    result = RESULTS["placement"]
    assert isinstance(result, sl.Placement)
    first = result.rows[0]
    twice = replace(result, rows=(first, replace(first, name="again"), *result.rows[1:]))
    mine = next(names for names in result.alike if first.name in names)
    words = " = ".join([mine[0], "again", *mine[1:]])
    assert f"{words}: the same weights" in str(twice).split("\n")
    left, right = twice.plot().axes
    assert [line.get_label() for line in left.lines] == [" = ".join(n) for n in twice.alike]
    assert left.lines[0].get_label() == words
    assert "predicted" in right.get_legend_handles_labels()[1]
    unknown = replace(result, rows=tuple(replace(row, predicted=np.nan) for row in result.rows))
    assert "predicted" not in unknown.plot().axes[1].get_legend_handles_labels()[1]


@pytest.mark.parametrize("name", ["training", "simulation", "placement"])
def test_an_axis_that_counts_steps_has_whole_ticks(name: str) -> None:
    ax = RESULTS[name].plot().axes[0]
    ax.set_xlim(0.0, 2.0)  # so few that ticks in between would be taken
    assert [tick for tick in ax.get_xticks() if tick != round(tick)] == []
