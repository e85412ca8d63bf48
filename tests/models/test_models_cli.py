"""sublearn models choose and compare, and the experiment, from the command line."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sublearn import BadInputError, cli
from sublearn.experiments import find
from sublearn.models._choice import load
from sublearn.runs import _experiment

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
MAKER = """
import torch

def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    inputs = torch.randn(40, 4)
    return model, inputs, inputs[:, :3].argmax(1)

def more():
    model, inputs, labels = make()
    return {"model": model, "inputs": inputs, "labels": labels,
            "loss": torch.nn.functional.cross_entropy, "test": (inputs, labels)}
"""
PLAIN = """
def odd():
    return {"model": 1, "inputs": 2, "labels": 3, "lables": 4}

def nothing():
    return 5

number = 7

def short():
    return 1, 2

def few():
    return {"model": 1}

def swapped():
    import torch
    return torch.ones(8, 2), torch.nn.Linear(2, 2), [0, 1] * 4

def raises():
    raise ValueError("no weights.pt\\nlook elsewhere")

def refuses():
    from sublearn import BadInputError
    raise BadInputError("the weights are elsewhere.")
"""


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "made.py"
    file.write_text(MAKER, encoding="utf-8")
    return file


def run(*words: str) -> str:
    result = CliRunner().invoke(cli.app, ["models", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def refuse(*words: str) -> str:
    result = CliRunner().invoke(cli.app, list(words))
    assert isinstance(result.exception, BadInputError), result.output
    return str(result.exception)


@needs_torch
def test_choose_is_the_api_and_saves(maker: Path) -> None:
    import torch

    from sublearn.models import choose

    words = ["choose", f"{maker}:make", "--budget", "9", "--steps", "3", "--out", "mask.npz"]
    text = run(*words, "--forbidden", "0.bias", "--seed", "4")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    inputs = torch.randn(40, 4)
    expected = choose(
        model, inputs, inputs[:, :3].argmax(1), 9, steps=3, forbidden="0.bias", seed=4
    )
    assert load("mask.npz") == expected
    assert text.startswith(str(expected)) and "written to mask.npz" in text
    few = json.loads(run(*words, "--rules", "last,random", "--json"))
    assert {row["rule"] for row in few["standings"]} == {"last", "random"}
    found = json.loads(run(*words, "--method", "last", "--json"))
    assert found["method"] == "last" and found["chosen"] == 9 and found["saved"] == "mask.npz"


@needs_torch
def test_what_it_costs_is_said_first_and_a_race_is_kept(maker: Path) -> None:
    words = ["models", "choose", f"{maker}:more", "--budget", "5", "--steps", "2"]
    result = CliRunner().invoke(cli.app, [*words, "--resume", "race.jsonl"])
    assert result.exit_code == 0, result.output
    assert "race: 12 rules at 4 rates, 84 runs of 2 steps, about " in result.stderr
    assert len(Path("race.jsonl").read_text().splitlines()) == 85


@needs_torch
def test_compare(maker: Path) -> None:
    words = ["compare", f"{maker}:make", "--budget", "4,9", "--methods", "race,last,all"]
    text = run(*words, "--seeds", "2", "--steps", "2", "--out", "found")
    assert "race minus (95% interval)" in text
    assert sorted(p.name for p in Path("found").iterdir()) == [
        "results.csv",
        "results.png",
        "results.svg",
    ]
    rows = Path("found/results.csv").read_text().splitlines()
    assert len(rows) == 1 + 3 * 2 * 2
    found = json.loads(run(*words, "--seeds", "1", "--steps", "2", "--json"))
    assert {row["method"] for row in found["results"]} == {"race", "last", "all"}


def test_makers_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain.py").write_text(PLAIN, encoding="utf-8")
    choose = ("models", "choose")
    rest = ("--budget", "3")
    assert "must be MODULE:FUNCTION" in refuse(*choose, "made", *rest)
    assert "there is no file none.py" in refuse(*choose, "none.py:make", *rest)
    assert "there is no module no_such_module" in refuse(*choose, "no_such_module:make", *rest)
    assert "plain.py has no function 'make'" in refuse(*choose, "plain.py:make", *rest)
    assert "plain.py has no function 'number'" in refuse(*choose, "plain.py:number", *rest)
    assert "must return (model, inputs, labels)" in refuse(*choose, "plain.py:nothing", *rest)
    assert "returns 'lables', which is none of" in refuse(*choose, "plain.py:odd", *rest)
    assert "not tuple of 2." in refuse(*choose, "plain.py:short", *rest)
    assert "not dict of 1." in refuse(*choose, "plain.py:few", *rest)
    for command in (("choose", *rest), ("compare", *rest), ("audit",)):
        said = refuse("models", command[0], "plain.py:raises", *command[1:])
        assert said == "plain.py:raises ended in ValueError: no weights.pt"
    assert refuse(*choose, "plain.py:refuses", *rest) == "the weights are elsewhere."
    for place in ("broken.py", "broken_module"):
        Path(place).with_suffix(".py").write_text("import json\n1 / 0\n", encoding="utf-8")
        said = refuse(*choose, f"{place}:make", *rest)
        assert said == f"{place} cannot be read: ZeroDivisionError: division by zero"
    Path("wrong.py").write_text("def make(:\n", encoding="utf-8")
    assert "wrong.py cannot be read: SyntaxError: " in refuse(*choose, "wrong.py:make", *rest)
    assert "--budget must be whole numbers" in refuse(
        "models", "compare", "plain.py:nothing", "--budget", "3;4"
    )
    assert "ending must be one of .npz" in refuse(
        *choose, "plain.py:nothing", *rest, "--out", "m.txt"
    )


@needs_torch
def test_a_maker_of_the_wrong_things_and_one_with_forward(maker: Path) -> None:
    Path("plain.py").write_text(PLAIN, encoding="utf-8")
    for command in (("choose", "--budget", "3"), ("audit",)):
        said = refuse("models", command[0], "plain.py:swapped", *command[1:])
        assert "model must be a torch.nn.Module or a JaxModel, not Tensor" in said
    made = (
        maker.read_text()
        + """
class Two(torch.nn.Sequential):
    def forward(self, inputs):
        return {"scores": super().forward(inputs), "hidden": inputs}

def two(forward=lambda model, inputs: model(inputs)["scores"]):
    model, inputs, labels = make()
    return {"model": Two(*model), "inputs": inputs, "labels": labels, "forward": forward}
"""
    )
    maker.write_text(made, encoding="utf-8")
    words = ("--budget", "5", "--method", "pursuit", "--json")
    assert json.loads(run("choose", "made.py:two", *words)) == json.loads(
        run("choose", "made.py:make", *words)
    )
    assert run("audit", "made.py:two") == run("audit", "made.py:make")


@pytest.mark.parametrize("file", ["audit.txt", "none/audit.json", "folder.json"])
def test_a_report_that_cannot_be_written_names_its_option(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.json").mkdir()
    said = refuse("models", "audit", "plain.py:nothing", "--json", file)
    assert said.startswith("--json") and "--out" not in said


def test_the_experiment_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_experiment, "find_spec", lambda name: None)
    assert not find("tuning").can_run and find("warmup").can_run
    assert "experiment tuning needs the package torch" in refuse("reproduce", "tuning")
    told: list[str] = []
    monkeypatch.setattr(
        "sublearn.cli._runs.Order.carry_out",
        lambda order, chosen, budget, usual: told.extend(e.name for e in chosen),
    )
    result = CliRunner().invoke(cli.app, ["reproduce"])
    assert result.exit_code == 0, result.output
    assert "tuning is skipped: the package torch is not installed" in result.stderr
    assert "warmup" in told and "tuning" not in told


@needs_torch
def test_one_trial_of_the_experiment() -> None:
    task = find("tuning").task
    point = {"shift": "odd digits", "budget": 30, "samples": 40, "steps": 2}
    task.check(point)
    first, second = task.run(point, 0, range(2))
    assert task.run(point, 0, range(1, 2)) == [second]  # a trial depends on its number alone
    assert first != second and set(first) == set(task.columns)
    rows = {name: np.array([r[name] for r in (first, second)]) for name in task.columns}
    lines = {line["method"]: line for line in task.summarise(point, rows)}
    assert lines["race"]["ahead"] == 0.0
    best = np.max([rows[name] for name in lines if name != "race"], axis=0)
    assert lines["last"]["regret"] == pytest.approx((best - rows["last"]).mean())
    assert sum(line["picked"] for line in lines.values()) == 2
