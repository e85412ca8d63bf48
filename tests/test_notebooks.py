"""The tutorials are notebooks: they run, and say what they are stored with."""

from __future__ import annotations

import math
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from built import built_by
from sublearn.verdicts.counts import find_msolve

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ADDRESS = re.compile(r"""(?:src|href)=["']?https?:|!\[[^]]*\]\(https?:""")


BOOK = built_by("notebooks")


def _same(now: str, stored: str) -> bool:
    """The same words and whole numbers; other numbers up to 2%, for the last digits of other machines."""
    if NUMBER.sub("#", now) != NUMBER.sub("#", stored):
        return False
    pairs = zip(NUMBER.findall(now), NUMBER.findall(stored), strict=True)
    return all(
        a == b or (not b.isdigit() and math.isclose(float(a), float(b), rel_tol=0.02))
        for a, b in pairs
    )


def _kinds(cell: dict[str, Any]) -> list[list[str]]:
    return [sorted(output.get("data", ())) for output in cell["outputs"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", BOOK.names())
def test_a_notebook_says_what_it_is_stored_with(name: str) -> None:
    for module in ("nbclient", "ipykernel"):
        pytest.importorskip(module)
    if name == "machine-learning":
        pytest.importorskip("torch", reason="torch is tested by make test-models")
    if name == "theory" and find_msolve() is None:
        pytest.skip("msolve is not installed")
    stored, now = BOOK.load(name), BOOK.run(name)
    for old, new in zip(stored["cells"], now["cells"], strict=True):
        if old["cell_type"] == "code" and "varies" not in old["metadata"].get("tags", ()):
            assert _kinds(new) == _kinds(old), "".join(old["source"])
            for said, told in zip(BOOK.words(new), BOOK.words(old), strict=True):
                assert _same(said, told), f"{said}\n--- stored is\n{told}"


@pytest.mark.parametrize("name", BOOK.names())
def test_a_notebook_is_stored_with_all_it_shows(name: str) -> None:
    """Every cell has run, in order and without an error; a page shows it, and fetches nothing."""
    cells = [cell for cell in BOOK.load(name)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(output["output_type"] != "error" for cell in cells for output in cell["outputs"])
    text, pictures = BOOK.page(name)
    assert pictures and all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    assert all(f"({file})" in text for file in pictures)
    assert not ADDRESS.search(text)


def test_the_neuroscientist_needs_at_most_thirty_lines() -> None:
    cells = [c for c in BOOK.load("neuroscience")["cells"] if c["cell_type"] == "code"]
    lines = "\n".join("".join(cell["source"]) for cell in cells).splitlines()
    assert len([line for line in lines if line.strip()]) <= 30


def test_the_network_of_the_lab_is_the_one_we_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loop is reproduced to 1e-12, and the paper's formula with the same arrays is caught."""
    source = ROOT / "docs" / "tutorials" / "lab.py"
    assert "import sublearn" not in source.read_text(encoding="utf-8")
    shutil.copy(source, tmp_path)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("lab.py", run_name="__main__")
    W, Win, D, x, y = (np.load(f"{name}.npy") for name in ("W", "Win", "D", "x", "y"))
    inputs = x.transpose(1, 2, 0)
    net = sl.RateRNN(n=50, b=3, d=2, T=10, leak=0.2, autapses=False)
    check = net.check({"W": W, "Win": Win, "D": D}, inputs, y.T, tolerance=1e-12)
    assert check and check.relative <= 1e-12
    paper = sl.RNN(n=50, b=3, d=2, T=10).check({"W": W, "B": Win, "D": D}, inputs, y.T)
    assert not paper and paper.first == (0, 0) and paper.differing == paper.of == 200
