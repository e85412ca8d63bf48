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


def test_an_open_verdict_says_what_to_ask_about_the_arrays(
    run: Run, tmp_path: Path, own: dict[str, np.ndarray]
) -> None:
    asked = (*LAYER, "--learn", "W1:entries=0.0/1.1", "--learn", "W2:entries=0.0/1.1")
    shown = run("certify", *asked, "--data", _file(tmp_path, own, "inputs", "W1", "W2")).out
    step = shown.split("next: sublearn ")[1].replace("\\\n", " ").split()
    assert step[0] == "estimate" and "--data" in step
    assert run("estimate-within", *step[1:], "--eps", "1", "--trials", "2").code == 0
    assert "next: sublearn decide" in run("certify", *asked, "--data", _file(tmp_path, own)).out


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


def test_estimate_keeps_what_the_file_holds_and_draws_what_it_lacks(
    run: Run, tmp_path: Path, own: dict[str, np.ndarray]
) -> None:
    own["W2"][0, :2] = 0.0  # the first output sees one unit only
    weights = {name: own[name] for name in NET.shapes}
    rule = ("--learn", "W1:random=4", "--trials", "20", "--seed", "2")
    for names, given in (
        (tuple(own), {**own}),
        (("inputs",), {"inputs": own["inputs"]}),
        (("W2",), {"W2": own["W2"]}),
        (("W2", "inputs"), {"W2": own["W2"], "inputs": own["inputs"]}),
    ):
        asked = (*LAYER, *rule, "--data", _file(tmp_path, own, *names))
        asked += () if "inputs" in names else ("--samples", "2")
        found = run("estimate", *asked, "--json").json
        parts = {
            "weights": {n: v for n, v in given.items() if n in weights},
            "inputs": given.get("inputs"),
            "targets": given.get("targets"),
        }
        samples = None if "inputs" in given else 2
        problem = sl.Problem.given(NET, **parts, samples=samples)  # type: ignore[arg-type]
        expected = sl.estimate(problem, {"W1": sl.Anywhere(4)}, trials=20, seed=2)
        assert found["problem"] == problem.digest and sorted(found["given"]) == sorted(names)
        assert (found["matched"], found["refuted"]) == (expected.matched, expected.refuted)
        assert found["verdict"] is None and found["sampled"]
        # decide asks about one of these trials
        one = run("decide", *asked[:4], *rule[4:], "--trial", "5", *asked[8:], "--json").json
        assert one["kind"] == expected.records[5].kind
    shown = run("estimate", *asked).out
    assert "given in every trial: W2, inputs" in shown and "match probability" in shown


def test_estimate_within_goes_on_with_the_same_arrays_only(
    run: Run, tmp_path: Path, own: dict[str, np.ndarray]
) -> None:
    asked = ("estimate-within", *LAYER, "--learn", "W1:random=3", "--eps", "0.1", "--starts", "2")
    kept = ("--out", str(tmp_path / "trials.json"), "--data", _file(tmp_path, own))
    assert run(*asked, *kept, "--trials", "5").code == 0
    more = run(*asked, *kept, "--trials", "9", "--json").json
    whole = run(*asked, *kept[2:], "--trials", "9", "--json").json
    assert (more["trials"], more["within"]) == (9, whole["within"])
    own["targets"][0, 0] += 1.0
    _file(tmp_path, own)
    refused = run(*asked, *kept, "--trials", "12")
    assert refused.code == 2 and "its problem is another one" in refused.err


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
    assert "nothing is left to draw" in refused("estimate", *LAYER, *learn, "--data", path)
    asked = ("estimate", *LAYER, "--learn", "W1:random=4", "--data", path)
    assert "inputs are given" in refused("generalisation", *asked[1:], "--fresh", "5")
    assert "another law" in refused(*asked, "--covariance", "0.3")
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
    # What certify does not look at is looked at all the same, and before it answers.
    np.savez(path, **{**own, "targets": own["targets"] * np.inf})
    assert "targets must be finite, not" in refused("certify", *LAYER, *learn, "--data", path)
    np.savez(path, **{**own, "W2": own["W2"] * np.nan})
    assert "weight W2 must be finite" in refused("certify", *LAYER, *learn, "--data", path)
    exists = tmp_path / "exists.npz"
    np.savez(exists, W1=np.tri(3, dtype=bool))
    np.savez(path, **{**own, "W1": np.triu(own["W1"])})
    sparse = ("--network", f"ffn:3-3-2,connections={exists}", "--learn", "W1:all")
    assert "must be 0, not" in (said := refused("certify", *sparse, "--data", path))
    assert "Is it transposed?" in said


def test_connections_from_a_json_file_are_those_of_arrays(run: Run, tmp_path: Path) -> None:
    exists = {"W1": np.tri(3, dtype=bool)}
    sl.Allocation.from_masks(NET, exists).save(tmp_path / "exists.json")
    (tmp_path / "plain.json").write_text('{"W1": [[1, 0, 0], [1, 1, 0], [1, 1, 1]]}')
    asked = ("--samples", "2", "--learn", "W1:all", "--json")
    sparse = NET.with_connections(exists)
    wanted = sl.certify(sl.Problem(sparse, 2), sl.Allocation.whole(sparse, ["W1"]))
    for name in ("exists.json", "plain.json"):
        found = run("certify", "--network", f"ffn:3-3-2,connections={tmp_path / name}", *asked)
        assert (found.code, found.err) == (0, "")
        assert (found.json["learnable"], found.json["rank"]) == (6, wanted.rank)
    refused = run("certify", "--network", f"ffn:3-3-2,connections={tmp_path}/exists.csv", *asked)
    assert "must be a .npz or .json file of masks" in " ".join(refused.err.split())
