"""Arrays of one's own on the command line: --data own.npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sublearn as sl
import test_cli
from test_cli import Run

run = test_cli.run
NET = sl.FeedForward((3, 3, 2))
LAYER = ("--network", "ffn:3-3-2")


@pytest.fixture
def own(tmp_path: Path) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape) for name, shape in NET.shapes.items()}
    arrays["inputs"] = rng.normal(size=(3, 2))
    arrays["targets"] = NET.forward({n: arrays[n] for n in NET.shapes}, arrays["inputs"])
    return arrays


def _file(tmp_path: Path, arrays: dict[str, np.ndarray], *names: str) -> str:
    path = tmp_path / "own.npz"
    np.savez(path, **{name: arrays[name] for name in names or arrays})
    return str(path)


def test_certify_tells_the_rank_at_the_numbers_given(
    run: Run, tmp_path: Path, own: dict[str, np.ndarray]
) -> None:
    asked = ("certify", *LAYER, "--learn", "W1:all")
    found = run(*asked, "--data", _file(tmp_path, own), "--json").json
    assert (found["samples"], found["rank"], found["rank_given"]["rank"]) == (2, 4, 4)
    own["W2"][:] = 0.0
    shown = run(*asked, "--data", _file(tmp_path, own)).out
    assert "At the weights and inputs given the rank is 0" in shown and "rank 4 of 4" in shown
    lacking = run(*asked, "--data", _file(tmp_path, own, "inputs", "W1")).out
    assert "own.npz lacks W2." in " ".join(lacking.split())
    assert run(*asked, "--data", _file(tmp_path, own, "W1", "W2"), "--samples", "3").code == 0


def test_decide_asks_about_the_arrays(run: Run, tmp_path: Path, own: dict[str, np.ndarray]) -> None:
    asked = ("decide", *LAYER, "--learn", "W1:all", "--json")
    every = run(*asked, "--data", _file(tmp_path, own)).json
    given = {name: own[name] for name in NET.shapes}
    instance = sl.Instance.given(
        NET, sl.Allocation.whole(NET, ["W1"]), given, own["inputs"], own["targets"]
    )
    assert every["kind"] == sl.decide(instance).kind == "matched"
    own["W2"][:] = 0.0  # no output moves
    assert run(*asked, "--data", _file(tmp_path, own)).json["kind"] == "refuted"
    for names in (("inputs", "targets"), ("inputs",)):  # what lacks is drawn
        assert run(*asked, "--data", _file(tmp_path, own, *names)).json["kind"] == "matched"
    weights = run(*asked, "--samples", "2", "--data", _file(tmp_path, own, "W1", "W2"))
    assert weights.json["kind"] == "refuted"


def test_train_starts_at_the_weights_given(
    run: Run, tmp_path: Path, own: dict[str, np.ndarray]
) -> None:
    data = ("--data", _file(tmp_path, own))
    asked = ("train", *LAYER, "--learn", "W1:all", "--steps", "1", "--json")
    begun = run(*asked, *data, "--start", "given").json
    assert (
        begun["final_loss"] < 1e-20 < run(*asked, *data).json["final_loss"]
    )  # they solve it already
    refused = run(*asked, "--samples", "2", "--start", "given")
    assert refused.code == 2 and "needs --data FILE.npz with weights" in refused.err


def test_design_counts_the_samples_of_the_file(
    run: Run, tmp_path: Path, own: dict[str, np.ndarray]
) -> None:
    found = run("design", *LAYER, "--learn", "W1", "--data", _file(tmp_path, own), "--json").json
    assert (found["samples"], found["learnable"], found["rank_given"]["rank"]) == (2, 4, 4)


def test_what_cannot_be_meant_is_refused(
    run: Run, tmp_path: Path, own: dict[str, np.ndarray]
) -> None:
    path = _file(tmp_path, own)

    def refused(*words: str) -> str:
        found = run(*words)
        assert (found.code, found.out) == (2, "") and found.err.count("\n") == 1
        return found.err

    learn = ("--learn", "W1:all")
    assert "is one instance" in refused("estimate", *LAYER, *learn, "--data", path)
    assert "give --samples M, or --data" in refused("certify", *LAYER, *learn)
    assert "holds 2 samples" in refused("certify", *LAYER, *learn, "--data", path, "--samples", "3")
    teacher = ("--teacher", "ffn:3-4-2")
    assert "holds targets" in refused("decide", *LAYER, *learn, "--data", path, *teacher)
    assert "labelled data are for" in refused("certify", *LAYER, *learn, "--data", "digits")
    np.savez(path, targets=own["targets"])
    assert "no inputs" in refused("decide", *LAYER, *learn, "--data", path)
    np.savez(path, V=own["W1"], inputs=own["inputs"])
    assert "holds 'V'" in refused("decide", *LAYER, *learn, "--data", path)
    np.savez(path, W1=own["W1"][:2], inputs=own["inputs"])
    assert "must have shape (3, 3)" in refused("decide", *LAYER, *learn, "--data", path)
