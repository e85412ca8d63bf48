"""The second implementation and the package, on a sample of the cells of ``make attack``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import sublearn as sl
from adversary.cells import ALL_CELLS, ImpossibleError, make
from adversary.plan import ATTACKS, Job, run, spread
from adversary.verbs import PROOF, _move, _numbers

# (cases in `make test`, in `make test-slow`, least share of them with two definite answers)
SIZES = {
    "decide": (300, 2400, 0.5),
    "certify": (100, 600, 0.8),
    "verdict": (40, 300, 0.15),
    "design": (50, 225, 0.7),
    "repair": (50, 225, 0.8),
    "certificate": (60, 400, 0.05),
    "rate": (60, 300, 0.5),
    "within": (60, 500, 0.6),
    "budget": (50, 225, 0.7),
    "gated": (12, 40, 0.6),
    "steady": (8, 60, 0.4),
}
# In parts, so that workers share them; no divisor of the six indices.
PARTS = [(attack, part) for attack in ATTACKS for part in range(5 if attack == "decide" else 1)]


def _attack(jobs: list[Job], least: float) -> None:
    records = [run(job) for job in jobs]
    wrong = [f"{record.key}: {record.note}" for record in records if record.note]
    assert not wrong, "\n".join(wrong)
    states = Counter(record.state for record in records)
    # An attack without definite answers would not be one.
    assert states["definite"] >= least * len(records), states


@pytest.mark.parametrize(("attack", "part"), PARTS)
def test_no_contradiction(attack: str, part: int) -> None:
    count, _, least = SIZES[attack]
    step = sum(name == attack for name, _ in PARTS)
    _attack(list(spread(attack, count))[part::step], least)


STATED = {
    "copy": (sl.FeedForward((3, 2, 1), activation="relu"), {"W1": 6, "W2": 1}, 0, {"units"}),
    "intertwine": (sl.FeedForward((4, 2, 4)), {"W1": 6, "W2": 6}, 3, {"radius", "free", "beside"}),
    "affine": (sl.FeedForward((3, 3, 2)), {"W2": 6}, 0, {"prime"}),
}


@pytest.mark.parametrize("rung", STATED)
def test_all_that_a_certificate_states_is_tampered_with(rung: str, tmp_path: Path) -> None:
    network, learn, trial, stated = STATED[rung]
    some = {name: sl.Anywhere(count) for name, count in learn.items()}
    samples = 2 if rung == "affine" else 4
    found = sl.decide(sl.draw(sl.Problem(network, samples), some, trial=trial))
    assert found.rung == rung and found.certificate is not None
    found.certificate.save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text())
    ways = dict(_numbers(content))
    assert ways.keys() & set(PROOF) == stated
    for way in ways.values():
        changed = json.loads(json.dumps(content))
        _move(changed, way, np.random.default_rng(0))
        assert changed != content
        (tmp_path / "c.json").write_text(json.dumps(changed))
        if way[0] in PROOF:
            assert not sl.Certificate.load(tmp_path / "c.json").check()


@pytest.mark.slow
@pytest.mark.parametrize(("attack", "part"), PARTS)
def test_no_contradiction_in_thousands(attack: str, part: int) -> None:
    fast, count, least = SIZES[attack]
    step = sum(name == attack for name, _ in PARTS)
    _attack(list(spread(attack, fast + count))[fast + part :: step], least)


def test_a_case_is_its_cell_and_index() -> None:
    for cell in ALL_CELLS[:: len(ALL_CELLS) // 20]:
        try:
            first, second = make(cell, 1), make(cell, 1)
        except ImpossibleError:
            continue
        assert first.instance.allocation == second.instance.allocation
        assert (first.instance.inputs == second.instance.inputs).all()
        assert (first.instance.targets == second.instance.targets).all()
