"""Small tasks and experiments for the tests of runs; at the top of a module, so that workers find them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sublearn.runs import Experiment, Json, Plan, Point, Row, Task


@dataclass(frozen=True)
class Walk(Task):
    """Random walks: enough arithmetic that a wrong seed or order shows in the last digit.

    Params: ``steps``; ``trap``, a file: where it is given and not there yet, the first worker to come
    by makes it and dies; ``pit``, the same, but it falls silent; ``mine``, a trial that kills its worker
    every time; ``fault``, a trial that raises every time; ``odd``, the same with an exception that cannot
    be sent. The variable WALK_NAPS slows every trial down by so many seconds.
    """

    name = "walk"
    columns = {"end": float, "turns": int, "up": bool, "side": str}  # noqa: RUF012

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        key = hashlib.sha256(json.dumps(point["steps"]).encode()).digest()
        rows: list[Row] = []
        for trial in trials:
            _mishaps(point, trial)
            rng = np.random.default_rng([seed, int.from_bytes(key[:8]), trial])
            steps = rng.standard_normal(int(str(point["steps"])))
            end, turns = float(steps.sum()), int((np.diff(np.sign(steps)) != 0).sum())
            side = "right" if end > 0 else "left"
            rows.append({"end": end, "turns": turns, "up": bool(end > 1), "side": side})
        return rows

    def summarise(self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray]) -> list[Row]:
        return [
            {
                "trials": len(rows["end"]),
                "mean": float(rows["end"].mean()),
                "turns": int(rows["turns"].sum()),
                "up": int(rows["up"].sum()),
                "right": float((rows["side"] == "right").mean()),
            }
        ]


def _mishaps(point: Mapping[str, Json], trial: int) -> None:
    if naps := os.environ.get("WALK_NAPS"):
        time.sleep(float(naps))
    if trap := point.get("trap"):
        path = Path(str(trap))
        if not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if pit := point.get("pit"):
        path = Path(str(pit))
        if trial >= 4 and not path.exists():
            path.touch()
            while True:
                signal.pause()
    if point.get("mine") == trial:
        os.kill(os.getpid(), signal.SIGKILL)
    if point.get("fault") == trial:
        raise RuntimeError(f"trial {trial} cannot be computed")
    if point.get("odd") == trial:
        raise OddError("odd", "very")


class OddError(Exception):
    """Pickle makes it anew from its message alone, and fails."""

    def __init__(self, first: str, second: str):
        super().__init__(f"{first} and {second}")


def walks(
    name: str = "walks", points: int = 3, trials: int = 20, chunk: int = 4, **more: Json
) -> Experiment:
    """Walks of 10, 20, ... steps."""
    grid = tuple(Point({"steps": 10 * (i + 1), **more}, trials, chunk) for i in range(points))
    plan = Plan(grid)
    return Experiment(name, "Walks", "nowhere", "they end somewhere", Walk(), plan, plan, 0.0)


def tables(folder: Path) -> dict[str, bytes]:
    """All that must not depend on how a run went: the tables, and the rows they came from."""
    found = [*folder.glob("*/table.csv"), *folder.glob("*/shards/*.parquet")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
