"""Where plastic weights should sit, and the command that says it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sublearn as sl
from noise.given import given
from sublearn.cli import app
from sublearn.noise import Noise


def compare(samples: int, gamma, *, inputs=12, outputs=4, plastic=12, **options):
    network = sl.LinearEstimator(inputs=inputs, outputs=outputs)
    problem = sl.Problem(
        network, samples=samples, ensemble=sl.Gaussian(4.0 * inputs**0.5 / 32**0.5)
    )
    repeats = options.pop("repeats", 8)
    lessons = sl.noise.draw_lessons(problem, repeats, factors=options.pop("factors", None))
    candidates = sl.noise.candidate_placements(problem, plastic)
    return sl.place(lessons, candidates, Noise(gamma), repeats=repeats, **options)


def by_name(found: sl.Placement):
    return {row.name: row for row in found.rows}


def test_candidates_have_the_budget_and_the_shape_they_promise() -> None:
    network = sl.FeedForward((4, 6, 3))
    problem = sl.Problem(network, samples=2)
    found = sl.noise.candidate_placements(problem, 15)
    assert {len(a) for a in found.values()} == {15}
    assert found["concentrated"].entries["W1"] == tuple((t // 4, t % 4) for t in range(15))
    rows = found["spread"].row_counts("W1")
    assert rows.max() - rows.min() <= 1
    assert found["spread"].flat("W1").size == round(15 * 24 / 42)
    assert sl.certify(problem, found["designed"]).kind == "maximal"
    only = sl.noise.candidate_placements(problem, 7, ["W2"])
    assert all(a.names == ("W2",) for a in only.values())
    assert "designed" not in sl.noise.candidate_placements(problem, 3)  # six are needed
    with pytest.raises(sl.BadInputError, match="plastic"):
        sl.noise.candidate_placements(problem, 43)


def test_lessons_depend_on_seed_and_number_alone() -> None:
    problem = sl.Problem(sl.LinearRNN(n=3, b=1, d=2, T=2), samples=5)
    lessons = sl.noise.draw_lessons(problem, 4, seed=3)
    assert lessons[0].inputs.shape == (2, 1, 5) and lessons[0].targets.shape == (2, 5)
    for one, again in zip(
        lessons[2:], sl.noise.draw_lessons(problem, range(2, 4), seed=3), strict=True
    ):
        assert (one.inputs == again.inputs).all() and (one.targets == again.targets).all()
        assert (one.start["W"] == again.start["W"]).all()
    for one, other in zip(lessons, sl.noise.draw_lessons(problem, 4, seed=4), strict=True):
        assert (one.inputs != other.inputs).all()


def test_factors_make_inputs_correlated() -> None:
    problem = sl.Problem(sl.LinearEstimator(inputs=6, outputs=1), samples=4000)
    X = sl.noise.draw_lessons(problem, 1, factors=2)[0].inputs
    values = np.linalg.eigvalsh(X @ X.T / 4000)
    # Two large directions over a floor of (1/4) / (2 + 1/4).
    np.testing.assert_allclose(values[:4], 1 / 9, rtol=0.15)
    assert values[4] > 4 / 9


def test_spreading_wins_on_few_samples_and_concentrating_under_strong_noise() -> None:
    calm = compare(3, (0.1, 0.3, 0.02), cycles=2000)
    rows = by_name(calm)
    assert rows["spread"].verdict.kind == "maximal" and rows["spread"].verdict.rank == 12
    assert rows["concentrated"].verdict.kind == "minimal"
    assert rows["concentrated"].verdict.rank == rows["concentrated"].modes == 3
    assert calm.best.name in ("spread", "designed")
    assert rows["spread"].minimum == 0.0 < 0.5 < rows["concentrated"].minimum
    gap, error = calm.margin(rows["concentrated"])
    assert gap > 5 * error
    rough = compare(3, (0.1, 1.5, 0.2), cycles=1000, repeats=16)
    assert rough.best.name == "concentrated"
    assert "concentrated" in rough.recommendation and "noise" in rough.recommendation


def test_rows_agree_with_the_verbs_they_come_from() -> None:
    network = sl.LinearEstimator(inputs=6, outputs=4)
    problem = sl.Problem(network, samples=9, ensemble=sl.Gaussian(3.0))
    (lesson,) = sl.noise.draw_lessons(problem, 1)
    allocation = sl.Allocation.from_rows(network, "W", [1, 2])
    placed, noise = lesson.with_allocation(allocation), Noise((0.1, 0.2, 0.05), on="all")
    found = sl.place(lesson, {"mine": allocation}, noise, cycles=200, repeats=3)
    run = sl.simulate(placed, noise, cycles=200, repeats=3)
    row = found.best
    settled = sl.noise.find_steady_state(run.errors / run.errors[0, 0])
    assert row.steady.mean == pytest.approx(settled.mean)
    start = float(run.errors[0, 0])
    drift = sl.noise.predict_drift(placed, noise)
    assert row.drift == pytest.approx(drift.per_cycle / start)
    assert row.rate == pytest.approx(sl.local_geometry(placed, on="all").rate(noise))
    assert "keeps growing" in found.recommendation and "drifts" in str(found)


def test_bad_input_is_named() -> None:
    network = sl.LinearEstimator(inputs=4, outputs=2)
    whole = sl.Allocation.whole(network)
    row = sl.Allocation.from_rows(network, "W", [0])
    asked = given(network, {"W": np.ones((2, 4))}, np.eye(4), np.zeros((2, 4)))
    noise = Noise((0.1, 0.1, 0.0))
    with pytest.raises(sl.BadInputError, match="same number"):
        sl.place(asked, {"one": whole, "two": row}, noise)
    with pytest.raises(sl.BadInputError, match="allocations"):
        sl.place(asked, {}, noise)
    with pytest.raises(sl.BadInputError, match="two"):
        sl.place(asked, {"two": None}, noise)


def test_targets_that_are_reached_already_are_refused() -> None:
    """Relative to an error of rounding size, all numbers would be nonsense."""
    net = sl.RateRNN(n=6, b=2, d=2, T=3, leak=0.5)
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    inputs, spread = rng.standard_normal((3, 2, 5)), sl.Allocation.spread(net, {"W": 6})
    outputs = net.forward(weights, inputs) * (1 + 1e-15)
    done = sl.Instance.given(net, spread, weights, inputs, outputs)
    with pytest.raises(sl.BadInputError, match="there is nothing to learn"):
        sl.place(done, {"spread": spread}, Noise((0.1, 0.1, 0.01)), cycles=10, repeats=2)


LOCAL = [
    # spec, plastic weights, where noise falls, whether the formulas are local
    ("linear:inputs=3,outputs=2", "W:rows=0", "all", False),
    ("ffn:3-4-2,activation=tanh", "W2:rows=0", "plastic", False),
    ("ffn:3-4-2,activation=tanh", "W2:rows=0", "all", True),
    ("ffn:3-4-2,activation=tanh", "W1:rows=0-1", "plastic", True),
    ("ffn:3-4-2", "W1:rows=0", "plastic", False),
    ("ffn:3-4-2", "W1:rows=0", "all", True),
]


@pytest.mark.parametrize(("spec", "learn", "noise_on", "local"), LOCAL)
def test_local_is_where_the_loss_is_not_quadratic(
    spec: str, learn: str, noise_on: str, local: bool
) -> None:
    """Third differences of the loss along the weights that move vanish exactly if it is quadratic."""
    problem = sl.Problem(sl.networks.network_from_text(spec), 5)
    net = problem.network
    (lesson,) = sl.noise.draw_lessons(problem, 1)
    weights, x, y = lesson.start, lesson.inputs, lesson.targets
    name, _, rows = learn.partition(":rows=")
    held = sl.Allocation.from_rows(net, name, [int(r) for r in rows.split("-")])
    rng = np.random.default_rng(0)
    moving = {
        n: np.ones(shape) if noise_on == "all" else held.mask(n).astype(float)
        for n, shape in net.shapes.items()
    }
    step = {n: m * rng.standard_normal(m.shape) for n, m in moving.items()}
    losses = [
        ((net.forward({n: w + t * step[n] for n, w in weights.items()}, x) - y) ** 2).sum()
        for t in (-1.5, -0.5, 0.5, 1.5)
    ]
    third = losses[3] - 3 * losses[2] + 3 * losses[1] - losses[0]
    assert (abs(third) > 1e-6 * max(losses)) == local
    noise = Noise((0.1, 0.1, 0.01), on=noise_on)
    found = sl.place(lesson, {"rows": held}, noise, cycles=50, repeats=2)
    plain = found.to_dict()
    assert plain["local"] == plain["rows"][0]["local"] == local
    assert str(found).count("are local") == local


def test_the_sentence_names_the_placements_that_are_local() -> None:
    problem = sl.Problem(sl.FeedForward((3, 4, 2), "tanh"), 5)
    net = problem.network
    lessons = sl.noise.draw_lessons(problem, 2)
    held = {
        "readout": sl.Allocation.from_rows(net, "W2", [0]),
        "hidden": sl.Allocation.from_entries(net, {"W1": [(0, 0), (1, 1), (2, 2), (3, 0)]}),
    }
    found = sl.place(lessons, held, Noise((0.1, 0.1, 0.01)), cycles=50, repeats=2)
    assert "Rate and F_min of hidden are local" in found.recommendation
    kinds = {row.name: row.kind for row in found.rows}
    assert kinds["hidden"] == "none" and kinds["readout"] != "none"
    lines = {line.split()[0]: line for line in str(found).splitlines()}
    assert " none " in lines["hidden"] and " none " not in lines["readout"]
    plain = {row["name"]: row for row in found.to_dict()["rows"]}
    assert plain["hidden"]["predicted"] is None and "not quadratic" in plain["hidden"]["reason"]


PLACE = ["noise", "place", "--network", "linear:inputs=8,outputs=4", "--gamma", ".1,.3,.02"]
STEADY = ["noise", "steady", "--network", "linear:inputs=8,outputs=4", "--gamma", ".1,.3,.02"]


def test_commands(tmp_path: Path) -> None:
    runner = CliRunner()
    asked = [*PLACE, "--samples", "2", "--plastic", "8", "--cycles", "300", "--repeats", "3"]
    found = runner.invoke(app, [*asked, "--json", "--out", str(tmp_path / "p")])
    assert found.exit_code == 0, found.output
    table = json.loads(found.output)
    assert [row["name"] for row in table["rows"]][-1] == "concentrated"
    assert (tmp_path / "p" / "place.png").is_file() and (tmp_path / "p" / "place.svg").is_file()
    rows = [*asked, "--learn", "W:rows=0"]
    assert "given" in runner.invoke(app, rows).output
    asked = [*STEADY, "--samples", "20", "--cycles", "300", "--repeats", "3", "--mixing", ".1"]
    found = runner.invoke(app, [*asked, "--json", "--out", str(tmp_path / "s")])
    assert found.exit_code == 0, found.output
    content = json.loads(found.output)
    assert content["predicted"]["rank"] == 32 and content["simulated"]["mean"] > 0
    assert (tmp_path / "s" / "steady.svg").is_file()
    plain = runner.invoke(app, [*asked, "--norm", "layers", "--workers", "2"])
    assert "predicted" not in plain.output and plain.exit_code == 0


def test_commands_read_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "lesson.npz"
    x, w = rng.standard_normal((8, 5)), rng.standard_normal((4, 8))
    np.savez(path, inputs=x, targets=np.zeros((4, 5)), W=w)
    common = ["--data", str(path), "--cycles", "100", "--repeats", "2", "--json"]
    found = CliRunner().invoke(app, [*STEADY, *common])
    assert json.loads(found.output)["start"] == pytest.approx(((w @ x) ** 2).sum() / 10)
    found = CliRunner().invoke(app, [*PLACE, *common, "--plastic", "8", "--among", "W"])
    assert json.loads(found.output)["plastic"] == 8


@pytest.mark.parametrize(
    "words, named",
    [
        ([*STEADY], "--samples"),
        ([*STEADY, "--samples", "4", "--norm", "max"], "norm"),
        ([*STEADY, "--samples", "4", "--mixing", "2"], "mixing"),
        ([*STEADY, "--samples", "4", "--T", "0"], "T"),
        ([*PLACE, "--plastic", "4"], "--samples"),
        ([*PLACE, "--samples", "4"], "--plastic"),
        ([*PLACE, "--samples", "4", "--plastic", "99"], "plastic"),
        ([*PLACE, "--samples", "4", "--plastic", "4", "--learn", "W:rows=0"], "name 8"),
    ],
)
def test_commands_refuse_nonsense(words: list[str], named: str, tmp_path: Path) -> None:
    out = tmp_path / "nothing"
    found = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert isinstance(found.exception, sl.BadInputError)
    assert named in str(found.exception)
    assert not out.exists()


def test_the_legend_of_the_picture_covers_no_data() -> None:
    fig = compare(2, (0.1, 0.3, 0.02), inputs=8, plastic=8, cycles=50, repeats=2).plot()
    fig.canvas.draw()
    (legend,) = fig.legends
    assert all(ax.get_legend() is None for ax in fig.axes)
    names = [text.get_text() for text in legend.get_texts()]
    assert names[-3:] == ["simulated, +- 2 standard errors", "predicted", "F_min"]
    box = legend.get_window_extent()
    assert not any(box.overlaps(ax.get_window_extent()) for ax in fig.axes)


@pytest.mark.slow
def test_table_of_placements() -> None:
    """d = 8, 32 inputs, 64 plastic weights, 32 lessons each."""
    common = dict(inputs=32, outputs=8, plastic=64, repeats=32, cycles=6000)
    low = (0.1, 1.0, 0.05)
    few = by_name(compare(8, low, **common))
    assert 0.12 < few["spread"].steady.mean < 0.22
    assert 0.7 < few["concentrated"].steady.mean < 0.85
    many = compare(400, low, **common)
    gap = abs(by_name(many)["spread"].steady.mean - by_name(many)["concentrated"].steady.mean)
    assert gap < 0.08
    tied = by_name(compare(400, low, factors=2, **common))
    assert 0.2 < tied["spread"].steady.mean < 0.36
    assert 0.78 < tied["concentrated"].steady.mean < 0.95
    rough = compare(8, (0.1, 1.8, 0.12), **common)
    assert rough.best.name == "concentrated"
    gap, error = rough.margin(by_name(rough)["spread"])
    assert gap > 3 * error


def _one_of_two(targets) -> sl.Instance:
    """The same input twice and two targets: two weights, of which one counts."""
    network = sl.LinearEstimator(inputs=2, outputs=1)
    return given(network, {"W": np.ones((1, 2))}, [[1.0, 1.0], [2.0, 2.0]], targets)


def test_a_placement_on_own_data_is_certified_as_what_the_data_are_a_case_of() -> None:
    instance = _one_of_two([[0.0, 1.0]])
    whole = sl.Allocation.whole(instance.network)
    found = sl.place(
        instance, {"all": whole}, Noise((0.1, 0, 0)), cycles=50, repeats=2
    ).best.verdict
    data = sl.Problem.from_arrays(instance.network, instance.inputs, instance.targets)
    assert (found.kind, found.rank, found.needed) == ("minimal", 1, 2)
    assert found.to_dict() == sl.certify(data, whole).to_dict()


def test_it_says_what_is_lacking_where_there_are_weights_enough() -> None:
    instance = _one_of_two([[0.0, 1.0]])
    whole = sl.Allocation.whole(instance.network)
    found = sl.place(instance, {"all": whole}, Noise((0.1, 0, 0)), cycles=50, repeats=2)
    assert (
        "None matches exactly: rank 2 would be needed, and none has more than 1."
        in found.recommendation
    )


def test_the_case_knows_another_teacher_and_exact_factors() -> None:
    """Five samples of exact rank 2 and a teacher of rank 1, although those of the float64 view are more."""
    network, taught = sl.FeedForward((4, 4, 2)), sl.FeedForward((4, 1, 2))
    rng = np.random.default_rng(0)
    shapes, theirs = network.shapes, taught.shapes
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    teaching = {name: rng.normal(size=shape) for name, shape in theirs.items()}
    inputs = rng.normal(size=(4, 2)) / 3, rng.normal(size=(2, 5)) / 3
    plastic = sl.Allocation.whole(network, ["W2"])
    instance = sl.Instance.from_teacher(network, plastic, weights, inputs, teaching, taught)
    asked = instance.generic_problem
    assert (asked.teacher, asked.ensemble.inputs, asked.samples) == (
        taught,
        sl.ensembles.LowRank(rank=2),
        5,
    )
    assert instance.with_allocation(plastic).generic_problem == asked
    found = sl.place(
        instance, {"W2": plastic}, Noise((0.1, 0, 0)), cycles=50, repeats=2
    ).best.verdict
    drawn = sl.Problem(network, 5, sl.Ensemble(inputs=sl.ensembles.LowRank(rank=2)), taught)
    assert found.to_dict() == sl.certify(drawn, plastic).to_dict()
    assert found.needed < sl.certify(sl.Problem(network, 5), plastic).needed
    own = sl.Instance.from_teacher(network, plastic, weights, inputs, weights)
    assert own.generic_problem.teacher is None  # one of its own kind
