"""The gallery: what is stored is whole, of today's declarations, and a sample of it is computed again."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sublearn.runs as runs
from built import built_by
from sublearn.experiments import ALL, find
from sublearn.runs import Plan
from sublearn.runs._manifest import declare

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
STORED = sorted(path.name for path in RESULTS.iterdir())
# Places of points in the plan: all trials of each are computed again. Decided shares, ranks, verdicts,
# formulas, simulations.
QUICKLY = {
    "theorem-map": (0, 1),
    "forgetting": (0,),
    "beyond": (0,),
    "laws": (30,),
    "rate-check": (0,),
}


gallery = built_by("gallery")


def _about(name: str) -> dict[str, Any]:
    return dict(json.loads((RESULTS / name / "about.json").read_text(encoding="utf-8")))


def test_the_page_is_what_the_script_writes() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert page == gallery.page(), "python docs/_build/gallery.py writes it anew"
    for name in ALL:
        assert f"{{ #{name} }}" in page
        assert name in STORED or name in gallery.ELSEWHERE
        if name in STORED:
            shown = page.partition(f"{{ #{name} }}")[2].partition("\n## ")[0]
            assert ("Full budget" in shown) == (_about(name)["budget"] == "full")


@pytest.mark.parametrize("name", STORED)
def test_what_is_stored_is_whole_and_of_todays_declaration(name: str) -> None:
    about, experiment = _about(name), find(name)
    table = (RESULTS / name / "table.csv").read_bytes()
    assert about["table"] == hashlib.sha256(table).hexdigest()
    plan = experiment.plan(about["budget"])
    declared = declare(experiment, about["budget"], replace(plan, seed=about["seed"])).entry
    assert about["declaration"] == declared["digest"], f"run it again: {about['command']}"
    assert (about["points"], about["trials"]) == (len(plan.points), plan.trials)
    assert about["finds"] == experiment.find(gallery.rows(RESULTS / name))
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in about["commits"])
    kept = {f"{about['picture']}-light.svg", f"{about['picture']}-dark.svg"}
    assert {path.name for path in (RESULTS / name).iterdir()} == {"table.csv", "about.json", *kept}


@pytest.mark.parametrize("name", STORED)
def test_nothing_is_dark_on_a_dark_ground(name: str) -> None:
    (path,) = (RESULTS / name).glob("*-dark.svg")
    drawn = path.read_text(encoding="utf-8")
    assert "#333333" not in drawn
    # Text without a colour of its own is black.
    plain = re.findall(r'<g id="text_\d+">\s*(?:<!--(.*?)-->\s*)?<g (?!style="fill)', drawn)
    assert plain == []


def test_the_stored_results_are_small() -> None:
    assert sum(path.stat().st_size for path in RESULTS.rglob("*.*")) < 8e6


def _computed_again(name: str, place: int, out: Path) -> None:
    about, experiment = _about(name), find(name)
    point = experiment.plan(about["budget"]).points[place]
    alone = Plan((point,), about["seed"])
    again = replace(experiment, quick=alone, draw=lambda table: {}, find=lambda table: "")
    runs.execute([again], out=out)
    kept, new = (
        list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        for path in (RESULTS / name / "table.csv", out / name / "table.csv")
    )
    asked = {key: new[0][key] for key in point.params}
    kept = [row for row in kept if asked.items() <= row.items()]
    assert len(kept) == len(new) > 0
    for ours, stored in zip(new, kept, strict=True):
        for column, cell in ours.items():
            if re.fullmatch(r"-?\d+\.\d+(e[+-]\d+)?", cell):
                # No count. BLAS rounds by the processor, and medians of training follow: .5% between two.
                assert float(stored[column]) == pytest.approx(float(cell), rel=2e-2), column
            else:
                assert stored[column] == cell, f"{name}, {asked}: {column}"


@pytest.mark.parametrize(("name", "place"), [(n, p) for n, ps in QUICKLY.items() for p in ps])
def test_stored_counts_are_reproduced(name: str, place: int, tmp_path: Path) -> None:
    _computed_again(name, place, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED)
def test_a_point_of_every_stored_table_is_reproduced(name: str, tmp_path: Path) -> None:
    if not find(name).can_run:
        pytest.skip(f"{find(name).needs} is not installed")
    points = len(find(name).plan(_about(name)["budget"]).points)
    _computed_again(name, int(hashlib.sha256(name.encode()).hexdigest(), 16) % points, tmp_path)


def test_a_run_is_stored_the_same_twice_and_full_is_kept(tmp_path: Path) -> None:
    experiment = find("theorem-map")
    few, more = (Plan(experiment.quick.points[:count]) for count in (1, 2))
    made = {
        budget: runs.execute(
            [replace(experiment, quick=few, full=more)], out=tmp_path / budget, budget=budget
        )
        for budget in ("quick", "full")
    }
    place = tmp_path / "results"

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (place / "theorem-map").iterdir()}

    assert gallery.store(made["quick"], "theorem-map", place) == "stored, quick budget"
    first = files()
    assert gallery.store(made["quick"], "theorem-map", place) == "stored, quick budget"
    assert files() == first and len(first) == 4
    assert gallery.store(made["full"], "theorem-map", place) == "stored, full budget"
    kept = files()
    assert kept["table.csv"] != first["table.csv"]
    assert gallery.store(made["quick"], "theorem-map", place).startswith("kept")
    assert files() == kept
    few = (
        f"1 of {len(ALL)} experiments are shown at their full budget; {len(ALL) - 1} are not stored"
    )
    assert few in gallery.page(place)
    shutil.rmtree(tmp_path / "full" / "theorem-map")
    unfinished = runs.open(tmp_path / "full")
    assert gallery.store(unfinished, "theorem-map", place) == "not finished" and files() == kept


def test_the_header_says_which_intervals_are_wide() -> None:
    wide: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for name in STORED:
        for row in gallery.rows(RESULTS / name) if _about(name)["budget"] == "full" else ():
            decided = "undecided" in row and row.get("method") not in ("reference", "construction")
            if decided and row["undecided"] is not None and row["high"] - row["low"] > 0.1:
                why = wide[row["undecided"] > 0]
                why[name] = why.get(name, 0) + 1
    head = gallery.page().partition("\n| experiment")[0]
    for undecided, words in (
        (True, "that undecided instances widen"),
        (False, "of small subgroups"),
    ):
        assert f"{sum(wide[undecided].values())} {words} (" in head
        assert all(f"{name} {count}" in head for name, count in wide[undecided].items())


def _numbers(text: str) -> set[str]:
    return {n.replace(",", "") for n in re.findall(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])", text)}


def test_the_answers_on_the_first_page_have_the_gallerys_numbers() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    table = text.partition("## Open questions of the sources")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if "gallery.md#" in line]
    assert len(rows) >= 10
    for _, _, said, where, _ in rows:
        names = re.findall(r"\(gallery\.md#([\w-]+)\)", where)
        found = " ".join(_about(name)["finds"] for name in names)
        assert _numbers(said) <= _numbers(found), f"{names}: {_numbers(said) - _numbers(found)}"
