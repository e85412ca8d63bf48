"""estimate, decide, check and doctor from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn import cli

NETWORK = ["--network", "lrnn:n=6,b=1,d=4,T=3", "--samples", "3"]


def run(*words: str) -> str:
    result = CliRunner().invoke(cli.app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_estimate_is_the_api() -> None:
    found = json.loads(
        run("estimate", *NETWORK, "--learn", "W:first-rows=5", "--trials", "9", "--json")
    )
    problem = sl.Problem(sl.LinearRNN(n=6, b=1, d=4, T=3), 3)
    e = sl.estimate(problem, {"W": sl.FirstRows(5)}, trials=9)
    assert (found["matched"], found["refuted"]) == (e.matched, e.refuted)
    assert found["curve"] == [list(point) for point in e.curve]
    text = run("estimate", *NETWORK, "--learn", "W:first-rows=5", "--trials", "9")
    assert f"{e.matched} matched" in text and "decided by: " in text


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_prints_the_counts_so_far(workers: str) -> None:
    """As from a terminal, where the signal goes to the whole group, once a few trials are decided."""
    words = ["estimate", *NETWORK, "--learn", "W:first-rows=5", "--trials", "1000000", "--json"]
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *words, "--workers", workers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    out, err = child.communicate(timeout=300)
    assert (child.returncode, err.strip()) == (130, "interrupted")
    found = json.loads(out)
    assert found["unfinished"] and found["trials"] >= 24 and found["trials"] % 8 == 0
    assert found["matched"] + found["refuted"] + found["undecided"] == found["trials"]


# The command line as it is, which interrupts its own process group after the third chunk.
INTERRUPTED = """
import os, signal
if __name__ == "__main__":
    # A shell gives background jobs an ignored SIGINT, which children inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from sublearn.estimates import _count as room
    replaced, calls = room.replace, []
    def counted(start, **fields):
        calls.append(len(fields["records"]))
        if len(calls) == 3:
            os.killpg(os.getpgid(0), signal.SIGINT)
        return replaced(start, **fields)
    room.replace = counted
    from sublearn.cli import main
    main()
"""


def test_a_seed_fixes_the_allocation_and_certify_may_know() -> None:
    text = run("estimate", *NETWORK, "--learn", "W:block=0-3x0-2")
    assert "no sampling needed" in text and "maximal" in text
    fixed = run("estimate", *NETWORK, "--learn", "W:first-rows=4,seed=0")
    assert "no sampling needed" in fixed  # four rows are saturated


def test_a_certificate_goes_to_a_file_and_back(tmp_path: Path) -> None:
    file = tmp_path / "match.json"
    text = run("decide", *NETWORK, "--learn", "W:first-rows=4", "--trial", "3", "--out", str(file))
    assert text.startswith("matched by construct (proof)") and str(file) in text
    assert run("check", str(file)).startswith("valid: ")
    assert json.loads(run("check", str(file), "--json"))["valid"] is True
    content = json.loads(file.read_text())
    content["teacher"]["weights"]["D"][0] = (1.5).hex()
    file.write_text(json.dumps(content))
    result = CliRunner().invoke(cli.app, ["check", str(file)])
    assert result.exit_code == 1 and result.output.startswith("NOT valid")


def test_decide_in_json() -> None:
    found = json.loads(run("decide", *NETWORK, "--learn", "W:first-rows=4", "--json"))
    assert found["kind"] == "matched" and len(found["values"]) == 12
    assert found["grade"] == {"kind": "proof", "error": None}


@pytest.mark.parametrize("command", ["estimate", "decide", "certify", "train"])
def test_json_says_what_was_asked_and_of_which_version(command: str) -> None:
    words = {"estimate": ["--trials", "2"], "train": ["--steps", "3"]}.get(command, [])
    rule = ["--learn", "W:first-rows=5,count=11"]
    found = json.loads(run(command, *NETWORK, *rule, *words, "--json"))
    problem = sl.Problem(sl.LinearRNN(n=6, b=1, d=4, T=3), 3)
    assert found["sublearn"] == sl.__version__ and found["network"] == problem.network.spec
    assert found["samples"] == 3 and found["problem"] == problem.digest
    if command in ("estimate", "decide", "train"):
        assert found["rules"] == {"W": {"rule": "FirstRows", "k": 5, "count": 11}}
    if command in ("decide", "train"):
        held = sl.draw(problem, {"W": sl.FirstRows(5, 11)}, seed=0, trial=0).allocation
        assert found["entries"] == {"W": [list(entry) for entry in held.entries["W"]]}
    fixed = ["--learn", "W:entries=0.0/1.2"]
    found = json.loads(run(command, *NETWORK, *fixed, *words, "--json"))
    assert found["entries"] == {"W": [[0, 0], [1, 2]]} and "rules" not in found


def test_doctor_names_what_there_is() -> None:
    found = json.loads(run("doctor", "--json"))
    assert found["sublearn"] == sl.__version__ and found["numpy"] and "msolve" in found
    assert {"matplotlib", "pyarrow", "mlxtend", "scikit-learn", "jax", "distributed"} <= set(found)
    assert "blas threads" in run("doctor")


def test_doctor_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from sublearn.runs import versions

    known = metadata.version

    def version(package: str) -> str:
        if package == "jax":
            raise metadata.PackageNotFoundError(package)
        return known(package)

    monkeypatch.setattr(metadata, "version", version)
    versions.cache_clear()
    try:
        assert "jax            not found: pip install 'sublearn[jax]'" in run("doctor")
    finally:
        versions.cache_clear()
    assert json.loads(run("doctor", "--json"))["jax"] is None


def test_what_does_not_fit_into_memory_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sublearn.cli._asking.read_problem", full)
    monkeypatch.setattr("sys.argv", ["sublearn", "certify", *NETWORK, "--learn", "W:all"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2 and "does not fit into memory" in capsys.readouterr().err


def test_decide_takes_the_data_that_estimate_takes() -> None:
    network = ["--network", "ffn:64-12-10,activation=relu", "--samples", "3", "--data", "digits"]
    found = json.loads(run("decide", *network, "--learn", "W2:all", "--json"))
    # Thirty targets, linear in the 120 weights of the readout: no search is needed.
    assert (found["kind"], found["grade"]["kind"]) == ("matched", "proof")
    assert found["teacher"].startswith("labels:")


def test_decide_says_when_there_is_no_certificate(tmp_path: Path) -> None:
    file = tmp_path / "match.json"
    text = run("decide", *NETWORK, "--learn", "W:rows=0", "--out", str(file))
    assert text.startswith("refuted") and "not written: only a match" in " ".join(text.split())
    assert not file.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["estimate", *NETWORK], "say what is learnable"),
        (["estimate", *NETWORK, "--learn", "W:first-rows=5", "--trials", "0"], "trials"),
        (["estimate", *NETWORK, "--learn", "W:first-rows=5", "--method", "x"], "method"),
        (["decide", *NETWORK, "--learn", "W:all", "--out", "nowhere/m.json"], "no folder nowhere"),
        (["check", "nowhere.json"], "nowhere.json"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["sublearn", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    error = capsys.readouterr().err.strip()
    assert said in error and "\n" not in error


RELU = ["--network", "ffn:4-5-3,activation=relu", "--samples", "4", "--learn", "W1:first-rows=5"]


def test_decide_within_is_the_api() -> None:
    problem = sl.Problem(sl.FeedForward((4, 5, 3), "relu"), 4)
    instance = sl.draw(problem, {"W1": sl.FirstRows(5)}, trial=2)
    kinds = set()
    for eps in ("0.01", "3"):
        words = ["decide-within", *RELU, "--trial", "2", "--eps", eps]
        same = sl.decide_within(instance, float(eps))
        found = json.loads(run(*words, "--json"))
        assert (found["kind"], found["rung"], found["within"]) == (same.kind, same.rung, float(eps))
        assert found["reason"] == same.reason and found["grade"]["kind"] == "proof"
        values = None if same.values is None else same.values.tolist()
        assert found["values"] == values
        assert run(*words).split() == str(same).split()
        kinds.add(same.kind)
    assert kinds == {"matched", "refuted"}
    assert "within" not in json.loads(run("decide", *RELU, "--trial", "2", "--json"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--eps", "0"], "eps must be positive and finite, not 0.0."),
        (["--eps", "nan"], "eps must be positive and finite, not nan."),
        ([], "Missing option '--eps'."),
        (["--eps", "0.1", "--out", "match.json"], "--out must name a folder here, not a file"),
    ],
)
def test_decide_within_refuses(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sublearn", "decide-within", *RELU, *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    out = capsys.readouterr()
    assert stopped.value.code == 2 and said in " ".join(out.err.split()) and not out.out
    assert not list(tmp_path.iterdir())


def test_laws_and_correlations_are_options(tmp_path: Path) -> None:
    covariance = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 2.0]])
    np.savetxt(tmp_path / "c.csv", covariance, delimiter=",")
    asked = ["--network", "ffn:3-3-2", "--samples", "2", "--learn", "W1:first-rows=2"]
    laws = ["--ensemble", "weights=uniform teacher=normal*2", "--covariance", f"{tmp_path}/c.csv"]
    found = json.loads(run("estimate", *asked, *laws, "--trials", "20", "--always", "--json"))
    inputs = sl.ensembles.Correlated(covariance=tuple(map(tuple, covariance.tolist())))
    ensemble = sl.Ensemble(sl.ensembles.Uniform(), sl.ensembles.Normal(2.0), inputs)
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2, ensemble)
    same = sl.estimate(problem, {"W1": sl.FirstRows(2)}, 20, sample_always=True)
    assert (found["problem"], found["matched"]) == (problem.digest, same.matched)
    one = json.loads(run("estimate", *asked, "--covariance", "0.5", "--trials", "2", "--json"))
    rows = ((1.0, 0.5, 0.5), (0.5, 1.0, 0.5), (0.5, 0.5, 1.0))
    equal = sl.Ensemble(inputs=sl.ensembles.Correlated(covariance=rows))
    assert one["problem"] == sl.Problem(sl.FeedForward((3, 3, 2)), 2, equal).digest
    for words, message in (
        (["--ensemble", "weights=cauchy"], "normal, uniform"),
        ([*laws, "--input-rank", "1"], "given twice"),
        (["--covariance", "c.txt"], "must be a .csv or .npy file"),
        (["--covariance", "1.5"], "between -1 and 1"),
        (["--ensemble", "inputs=uniform", *laws[2:]], "for normal inputs"),
    ):
        result = CliRunner().invoke(cli.app, ["decide", *asked, *words])
        assert isinstance(result.exception, sl.BadInputError) and message in str(result.exception)
