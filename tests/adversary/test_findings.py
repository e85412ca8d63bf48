"""No wrong answer comes back."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from adversary.cases import CASES
from sublearn.cli import app


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_answer_stays_mended(name: str) -> None:
    CASES[name]()


@pytest.mark.slow
def test_the_command_at_which_words_about_gates_were_found_says_them_no_longer() -> None:
    network = "ffn:64-128-64-10,activation=relu,bias=yes"
    words = ["--network", network, "--samples", "32", "--learn", "W3:spread=172"]
    said = CliRunner().invoke(app, ["certify", *words]).output
    assert "172 learnable weights cannot reach the 320 dimensions needed" in " ".join(said.split())
    assert "does not change the outputs" not in " ".join(said.split())
