"""Chromium, the docs as built, and the page of a small run: what the tests of this folder look at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import sublearn.runs as runs
from browser.chromium import Browser, program
from sublearn.experiments import ALL
from sublearn.plots import curve, figure, name_axes
from sublearn.reports import write
from sublearn.runs import Json, Plan, Point, Row, Table, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Waves(Task):
    """Numbers that cost nothing, in rows that are not in order."""

    name = "waves"
    columns = {"y": float}  # noqa: RUF012

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        return [{"y": np.cos(float(str(point["x"])) + trial)} for trial in trials]

    def summarise(self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray]) -> list[Row]:
        mean = float(rows["y"].mean())
        return [
            {"mean": mean, "lower": mean - 0.1, "upper": mean + 0.1, "kind": f"kind {mean:.1f}"}
        ]


def _draw(table: Table) -> dict[str, Figure]:
    fig, ax = figure()
    curve(ax, [row["x"] for row in table], [row["mean"] for row in table], label="waves")
    name_axes(ax, "x", "mean")
    return {"waves": fig}


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of all our experiments, by their titles and claims, with other numbers."""
    points = tuple(Point({"x": x}, trials=2) for x in (11, 2, 3, 5, 7, 13))
    headings = {"x": "x", "mean": "mean of y", "lower": "lower", "upper": "upper", "kind": "kind"}
    chosen = [
        replace(
            experiment,
            task=Waves(),
            quick=Plan(points),
            columns=headings,
            draw=_draw,
            needs="",
            find=lambda table: f"{len(table)} rows.",
        )
        for experiment in ALL.values()
    ]
    out = tmp_path_factory.mktemp("browser") / "run"
    return write(runs.execute(chosen, out=out, budget="quick").folder)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """The folder of the docs, built."""
    pytest.importorskip(
        "mkdocs", reason="the docs are built by mkdocs: pip install 'sublearn[docs]'"
    )
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(out)]
    subprocess.run(command, cwd=root, check=True)
    return out


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One tab for all tests."""
    if program() is None:
        pytest.skip("there is no Chromium here; `make test-browser` installs one where it can")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
