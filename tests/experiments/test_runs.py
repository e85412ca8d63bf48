"""Our experiments through a real run: the same tables from this process and from two others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sublearn.runs as runs
from sublearn.experiments import find
from sublearn.runs import Plan


@pytest.mark.slow
def test_workers_change_nothing(tmp_path: Path) -> None:
    chosen = []
    for name in ("example", "equations", "theorem-map", "deficient-fraction"):
        experiment = find(name)
        points = [
            replace(p, trials=min(p.trials, 12), chunk=5) for p in experiment.quick.points[:4]
        ]
        chosen.append(replace(experiment, quick=Plan(tuple(points))))
    alone = runs.execute(chosen, out=tmp_path / "one")
    together = runs.execute(chosen, out=tmp_path / "two", workers=2)
    assert alone.failures == together.failures == []
    for experiment in chosen:
        name = experiment.name
        kept = [path.name for path in alone.pictures(name)]
        assert kept
        for file in ("table.csv", "about.json", *kept):
            first, second = (run.folder / name / file for run in (alone, together))
            assert first.read_bytes() == second.read_bytes(), f"{name}/{file}"
