"""learn rate and learn size: what they print is what the verbs return; bad input ends with 2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import sublearn as sl
from sublearn.cli import app

LINEAR = ["--network", "linear:inputs=6,outputs=3", "--samples", "12"]
DEEP = ["--network", "ffn:4-3-3-2,activation=sigmoid", "--samples", "9"]
GAMMA = ["--gamma", "0.8,1,0.05"]


def _run(*words: str) -> Result:
    return CliRunner().invoke(app, ["noise", *words])


def _json(*words: str) -> dict[str, object]:
    result = _run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _file(path: Path) -> tuple[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(9)
    held = {
        "inputs": rng.standard_normal((6, 12)),
        "targets": rng.standard_normal((3, 12)),
        "W": rng.standard_normal((3, 6)),
    }
    np.savez(path / "data.npz", **held)
    return str(path / "data.npz"), held


def test_rate_says_what_local_geometry_says(tmp_path: Path) -> None:
    name, held = _file(tmp_path)
    found = _json(
        "rate", "--network", LINEAR[1], "--data", name, *GAMMA, "--T", "2", "--learn", "W:rows=0-1",
        "--noise-on", "all", "--slides",
    )  # fmt: skip
    net = sl.LinearEstimator(inputs=6, outputs=3)
    rows = sl.Allocation.from_rows(net, "W", [0, 1])
    given = sl.Instance(net, rows, {"W": held["W"]}, held["inputs"], held["targets"])
    geo, noise = sl.local_geometry(given, on="all"), sl.Noise((0.8, 1.0, 0.05), T=2.0, on="all")
    assert found["rate"] == pytest.approx(geo.rate(noise), rel=1e-12)
    assert found["difficulty"] == pytest.approx(geo.difficulty(noise), rel=1e-12)
    assert (found["plastic"], found["noisy"], found["size"]) == (12, 18, 18)
    assert found["learns_for"]["gamma3"]["high"] == geo.critical_gamma3(noise).high
    assert found["second_order_is_enough"] is True and found["slides_rate"] != found["rate"]


def test_what_is_drawn_is_what_draw_draws() -> None:
    """The instance of a seed is the same wherever it is asked about."""
    found = _json("rate", *LINEAR, *GAMMA, "--seed", "5")
    problem = sl.Problem(sl.LinearEstimator(inputs=6, outputs=3), samples=12)
    drawn = sl.draw(problem, sl.Allocation.whole(problem.network), seed=5)
    wanted = sl.local_geometry(drawn).rate(sl.Noise((0.8, 1.0, 0.05)))
    assert found["rate"] == pytest.approx(wanted, rel=1e-12)


def test_rate_in_words_and_pictures(tmp_path: Path) -> None:
    result = _run("rate", *LINEAR, *GAMMA, "--draws", "20", "--out", str(tmp_path / "pictures"))
    assert result.exit_code == 0, result.output
    assert "On average one cycle" in result.output and "gamma3 learns" in result.output
    assert sorted(p.name for p in (tmp_path / "pictures").iterdir()) == [
        *("mask.json", "rate.csv", "rate.png", "rate.svg")
    ]
    bent = _run("rate", *DEEP, "--gamma", "5,5,0.5", "--T", "3")
    assert bent.exit_code == 0 and "is measured" in bent.output


def test_size_finds_the_best_size(tmp_path: Path) -> None:
    words = ["size", "--network", "linear:inputs=10,outputs=5", "--samples", "30", *GAMMA]
    found = _json(*words, "--draws", "20", "--out", str(tmp_path))
    assert found["bracket"][0] < 400 < found["bracket"][1]
    assert found["closed_form"]["value"] == pytest.approx(400)
    assert found["beside"]["slides, linear"]["value"] == pytest.approx(144)
    assert len(found["measured"]) == len(found["sizes"])
    assert (tmp_path / "size.svg").is_file()
    text = _run(*words).output
    assert "<- best" in text and "slides, linear       144" in text
    assert "smallest network learns fastest" in _run(*words[:5], "--gamma", "0.8,0,0.05").output


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ([*LINEAR, "--grow", "inputs", "--to", "1,2,4"], [18, 36, 72]),
        ([*LINEAR, "--grow", "outputs", "--to", "1,2", "--reading", "projected"], [18, 36]),
        ([*LINEAR, "--grow", "synapses", "--to", "1,3,9"], [18, 54, 162]),
        ([*LINEAR, "--start", "random", "--to", "1,2"], [18, 72]),
        ([*DEEP, "--to", "3,5"], [27, 55]),
        (DEEP, [w * w + 6 * w for w in (3, 4, 6, 9, 12, 18, 24)]),
    ],
)
def test_ways_of_growing(words: list[str], sizes: list[int]) -> None:
    assert _json("size", *words, *GAMMA)["sizes"] == sizes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rate", *LINEAR, "--gamma", "1,2"], "gamma must be three numbers"),
        (["rate", *LINEAR, "--gamma", "1,-2,3"], "gamma must be three numbers of at least 0"),
        (["rate", *LINEAR, "--gamma", "a,b,c"], "--gamma must be numbers separated by commas"),
        (["rate", *LINEAR, *GAMMA, "--T", "0"], "T, the time of one cycle"),
        (["rate", *LINEAR[:2], *GAMMA], "either --samples M"),
        (["rate", *LINEAR, *GAMMA, "--data", "x.npz"], "there is no file x.npz"),
        (["rate", *LINEAR[:2], *GAMMA, "--data", "no.npz"], "there is no file no.npz"),
        (
            ["rate", *LINEAR[:2], *GAMMA, "--data", "digits"],
            "--data must name a .npz file with inputs and targets: there is no file digits; labelled",
        ),
        (["size", *LINEAR, *GAMMA, "--draws", "1"], "draws, 0 for none or else must be"),
        (["rate", *LINEAR, *GAMMA, "--noise-on", "some"], "noise on must be one of"),
        (["size", *LINEAR, *GAMMA, "--grow", "widths"], "is for hidden units"),
        (["size", *DEEP, *GAMMA, "--grow", "both"], "must be 'widths' or 'copies'"),
        (["size", *DEEP, *GAMMA, "--to", "8,nan"], "to grow to must be numbers above 0"),
        (["size", *LINEAR, *GAMMA, "--to", "1,inf"], "to grow to must be numbers above 0"),
        (
            ["size", "--network", "ffn:4-3,bias=yes", "--samples", "4", *GAMMA],
            "ffn:4-3,bias=yes has no hidden layer to widen, and no recurrent units.",
        ),
        (["size", *LINEAR, *GAMMA, "--to", "1,1.1"], "c1 must be at least 1 and make"),
        (["size", *LINEAR, *GAMMA, "--grow", "synapses", "--to", "1,2.5"], "whole numbers"),
        (["size", *LINEAR, *GAMMA, "--to", "2"], "at least 2 sizes"),
        (
            [
                "size",
                "--network",
                "lrnn:n=3,b=1,d=2,T=2",
                "--samples",
                "4",
                *GAMMA,
                "--grow",
                "inputs",
            ],
            "must be 'widths' or 'copies'",
        ),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], message: str, tmp_path: Path) -> None:
    result = _run(*words, "--out", str(tmp_path / "none"))
    assert isinstance(result.exception, sl.BadInputError)
    assert message in str(result.exception)
    assert not (tmp_path / "none").exists()


def test_a_file_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "b.npz").write_text("not numbers")
    result = _run("rate", *LINEAR[:2], *GAMMA, "--data", str(tmp_path / "b.npz"))
    assert "cannot be read" in str(result.exception)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "all.npz", inputs=rng.standard_normal((6, 2)), targets=np.ones((3, 2)))
    asked = ("rate", *LINEAR[:2], *GAMMA, "--data", str(tmp_path / "all.npz"))
    other = _run(*asked, "--samples", "12")
    assert "--samples is 12, but" in str(other.exception) and "holds 2" in str(other.exception)
    agreeing = _run(*asked, "--samples", "2")
    assert agreeing.exit_code == 0 and agreeing.output == _run(*asked).output


def test_what_a_file_lacks_is_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    W, x = rng.standard_normal((3, 6)), rng.standard_normal((6, 2))
    np.savez(tmp_path / "inputs.npz", inputs=x)
    np.savez(tmp_path / "weights.npz", W=W)
    alone = _run("rate", *LINEAR[:2], *GAMMA, "--data", str(tmp_path / "inputs.npz"))
    assert alone.exit_code == 0, alone.output
    path = str(tmp_path / "weights.npz")
    assert _run("rate", *LINEAR, *GAMMA, "--data", path).exit_code == 0
    without = _run("rate", *LINEAR[:2], *GAMMA, "--data", path)
    assert "either --samples M" in str(without.exception)


def test_steady_says_what_less_noise_would_do() -> None:
    """The factor in the sentence is that of the predictions of two commands, one with half the noise."""
    common = ["--network", "linear:inputs=4,outputs=2", "--samples", "30", "--cycles", "1500"]
    common += ["--repeats", "3"]
    loud = _json("steady", *common, "--gamma", "0.1,0.2,0.01")
    calm = _json("steady", *common, "--gamma", "0.1,0.1,0.005")
    excess = [found["predicted"]["excess"] for found in (loud, calm)]
    words = str(loud["meaning"])
    assert f"cut the excess {excess[0] / excess[1]:.2g} times, to {excess[1]:.2g}" in words


FEW = ["--network", "rate:n=4,b=1,d=1,T=2,leak=0.5", "--samples", "2", "--gamma", ".1,.1,.01"]
SOON = ["--cycles", "20", "--repeats", "2"]


def test_rate_names_the_network_as_it_was_asked_for() -> None:
    shown = _run("rate", *FEW, "--draws", "4").stdout.splitlines()
    assert shown[0] == "rate:n=4,b=1,d=1,T=2,leak=0.5, 2 samples"
    assert max(map(len, shown)) <= 80


def test_place_says_among_which_weights() -> None:
    among = _run("place", *FEW, *SOON, "--among", "W", "--plastic", "25%")
    assert among.stdout.startswith("4 of 16 weights of W may change\n")
    # A bare name means what it means for design.
    assert _run("place", *FEW, *SOON, "--learn", "W", "--plastic", "25%").stdout == among.stdout
    every = _run("place", *FEW, *SOON, "--plastic", "25%")
    assert every.stdout.startswith("6 of 24 weights of W, Win, D may change\n")


def test_place_says_what_a_budget_came_to_where_two_disagree() -> None:
    result = _run("place", *FEW, *SOON, "--learn", "W:rows=0-1", "--plastic", "20%")
    assert str(result.exception) == (
        "--plastic 20% is 5 of 24 weights of W, Win, D, but --learn and --allocation name 8: leave "
        "--plastic out, or name as many."
    )


def test_place_and_certify_say_the_same_of_own_data(tmp_path: Path) -> None:
    path = str(tmp_path / "own.npz")
    np.savez(path, W=np.ones((1, 2)), inputs=[[1.0, 1.0], [2.0, 2.0]], targets=[[0.0, 1.0]])
    asked = ["--network", "linear:inputs=2,outputs=1", "--data", path, "--learn", "W:all"]
    noise = ["--gamma", "0.1,0,0", "--cycles", "50", "--repeats", "2"]
    rows = _json("place", *asked, *noise)["rows"]
    certified = json.loads(CliRunner().invoke(app, ["certify", *asked, "--json"]).stdout)
    for row in rows:
        assert (row["verdict"], row["rank"], row["needed"]) == ("minimal", 1, 2)
    assert (certified["kind"], certified["rank"], certified["needed"]) == ("minimal", 1, 2)
    told = " ".join(_run("place", *asked, *noise).output.split())
    assert "minimal" in told and "rank 2 would be needed, and none has more than 1" in told
