"""sublearn models audit: the table, the JSON file and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch", reason="torch is tested by make test-models")

from sublearn.cli import app

MAKER = """
import torch

def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    model[0].requires_grad_(False)
    return model, torch.randn(12, 4), torch.arange(12) % 3

def narrow():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1, 6, bias=False), torch.nn.Linear(6, 1, bias=False))
    return model, torch.randn(12, 1)
"""


@pytest.fixture
def maker(tmp_path: Path) -> str:
    file = tmp_path / "maker.py"
    file.write_text(MAKER)
    return str(file)


def test_flags_are_audited_and_the_report_is_written(maker: str, tmp_path: Path) -> None:
    out = tmp_path / "audit.json"
    done = CliRunner().invoke(app, ["models", "audit", f"{maker}:make", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("ok  (numerical)") and "2.weight" in done.output
    data = json.loads(out.read_text())
    assert (data["verdict"], data["rank"], data["count"]) == ("ok", 21, 21)
    assert 0 < data["reachable"] <= 1


def test_a_saved_choice_and_exit_codes(maker: str, tmp_path: Path) -> None:
    import numpy as np

    from sublearn.models import Choice

    mask = tmp_path / "mask.npz"
    Choice.from_masks({"0.weight": np.ones((6, 1), bool)}).save(mask)
    command = ["models", "audit", f"{maker}:narrow", "--mask", str(mask)]
    assert CliRunner().invoke(app, command).exit_code == 1  # rank 1 of 6
    assert CliRunner().invoke(app, [*command, "--fail-on", "never"]).exit_code == 0
