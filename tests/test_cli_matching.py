"""estimate, decide, check and doctor from the command line."""

from __future__ import annotations

import json
from pathlib import Path

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
    content["targets"][0] = (1.5).hex()
    file.write_text(json.dumps(content))
    result = CliRunner().invoke(cli.app, ["check", str(file)])
    assert result.exit_code == 1 and result.output.startswith("NOT valid")


def test_decide_in_json() -> None:
    found = json.loads(run("decide", *NETWORK, "--learn", "W:first-rows=4", "--json"))
    assert found["kind"] == "matched" and len(found["values"]) == 12
    assert found["grade"] == {"kind": "proof", "error": None}


def test_doctor_names_what_there_is() -> None:
    found = json.loads(run("doctor", "--json"))
    assert found["sublearn"] == sl.__version__ and found["numpy"] and "msolve" in found
    assert "blas threads" in run("doctor")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["estimate", *NETWORK], "say what is learnable"),
        (["estimate", *NETWORK, "--learn", "W:first-rows=5", "--trials", "0"], "trials"),
        (["estimate", *NETWORK, "--learn", "W:first-rows=5", "--method", "x"], "method"),
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
