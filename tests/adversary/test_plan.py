"""The runner of ``make attack``: it goes on after a stop, and no contradiction goes unsaid."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from adversary.__main__ import Results, rounds, summary
from adversary.cells import ALL_CELLS, ImpossibleError, make
from adversary.known import KNOWN, Seen
from adversary.plan import ATTACKS, Job, Record, cells_of, spread
from adversary.reasons import none_possible


def _seen(name: str, far: bool = False) -> Seen:
    return Seen(name, 1.0, 1000, 1000, 0, (0.99, 1.0), not far, far, False)


def test_a_run_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first = Results(path)
    jobs = next(rounds(first, most=1))
    done = [job for job in jobs if isinstance(job, Job)][:2]
    for job in done:
        first.add(Record(job.key, "open", None, "", ""))
    first.add(_seen("signs"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key": "decide | est')
    again = Results(path)
    left = next(rounds(again, most=1))
    assert len(left) == len(jobs) - 3 and not set(done) & set(left) and "signs" not in left
    again.add(Record("x", "open", None, "", ""))
    assert path.read_bytes() == whole + path.read_bytes()[len(whole) :]
    assert set(Results(path).records) == {*(job.key for job in done), "x"}


def test_what_is_open_is_asked_again_and_what_is_wrong_is_said(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    cells = [cell for cell in cells_of("decide") if not none_possible(cell)]
    for cell in cells:
        for index in range(3):
            state = "open" if cell == cells[5] else "definite"
            results.add(Record(Job("decide", cell, index).key, state, None, "", ""))
    turns = rounds(results, most=5)
    next(turns)
    assert next(turns) == [Job("decide", cells[5], 3)]
    page, table, held = summary(results)
    assert held and f"- uncovered: {cells[5]}" in page and "1 cells of `decide` uncovered" in page
    assert table.count("| decide |") == len(cells_of("decide"))
    results.add(Record(Job("decide", cells[0], 3).key, "definite", "matched, said refuted", "", ""))
    page, _, held = summary(results)
    assert not held and "**1 contradictions**" in page


def test_every_cell_without_a_pair_is_counted_with_a_reason(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    said = {
        "verdict": [("open", "matched", "between"), ("open", "None", "maximal")],
        "certificate": [("open", "", "refuted"), ("impossible", "9 weights in all, 11 needed", "")],
        "steady": [("open", "", "none"), ("definite", "", "")],
    }
    for attack, kinds in said.items():
        for k, cell in enumerate(cells_of(attack)):
            state, ours, theirs = kinds[k % 2]
            results.add(Record(Job(attack, cell, 0).key, state, None, ours, theirs))
    page, _, _ = summary(results)
    for words in (
        'of `verdict` have no pair: no answer contradicts a verdict that says "between"',
        "of `verdict` have no pair: the second implementation cannot find out the truth",
        "of `certificate` have no pair: a refuted instance has no certificate that could be spoilt",
        "of `certificate` have no pair: the network has fewer weights than the cell asks for",
        "of `steady` have no pair: no steady state is predicted",
        "of `gated` have no pair: not asked yet",
    ):
        assert words in page, words
    counted = Counter({"decide": page.count("- uncovered: ")})
    for number, attack in re.findall(r"- (\d+) cells of `(\w+)` have no pair", page):
        counted[attack] += int(number)
    covered = len(range(1, len(cells_of("steady")), 2))
    for attack in ATTACKS:
        assert counted[attack] == len(cells_of(attack)) - covered * (attack == "steady"), attack


def test_a_truth_that_is_missed_fails_the_attack(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    for name in KNOWN:
        results.add(_seen(name))
    assert summary(results)[2]
    results.add(_seen("signs", far=True))
    page, _, held = summary(results)
    assert not held and "| NO |" in page


def test_samples_go_through_all_cells() -> None:
    for attack in ATTACKS:
        count = len(cells_of(attack))
        assert len({job.cell for job in spread(attack, count)}) == count


def test_cells_without_a_case_have_none() -> None:
    excused = [cell for cell in ALL_CELLS if none_possible(cell)]
    assert 100 < len(excused) < 0.05 * len(ALL_CELLS)
    for cell in excused[::5]:
        for index in range(2):
            with pytest.raises(ImpossibleError):
                make(cell, index)
