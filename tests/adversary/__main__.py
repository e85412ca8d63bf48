"""The whole attack: ``make attack``. Killed at any moment it goes on where it stood.

Results stand in build/attack/<fingerprint of the code>/results.jsonl, one line a case; a line that was
cut short is made again. Another state of the code has another folder: they are never mixed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from adversary import reasons  # noqa: E402
from adversary.code import ROOT, commit, fingerprint  # noqa: E402
from adversary.known import KNOWN, Seen  # noqa: E402
from adversary.plan import (  # noqa: E402
    ATTACKS,
    CASES,
    MOST,
    TRIALS,
    Job,
    Record,
    cases_of,
    cells_of,
    work,
)


class Results:
    """The lines of a results file."""

    def __init__(self, path: Path) -> None:
        self.records: dict[str, Record] = {}
        self.seen: dict[str, Seen] = {}
        self.path = path
        if path.exists():
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            for line in data[:whole].decode().splitlines():
                content = json.loads(line)
                if "truth" in content:
                    content["interval"] = tuple(content["interval"])
                    self.seen[content["name"]] = Seen(**content)
                else:
                    self.records[content["key"]] = Record(**content)
            os.truncate(path, whole)

    def add(self, found: Record | Seen) -> None:
        """Keep one more, at once."""
        if isinstance(found, Seen):
            self.seen[found.name] = found
            content = asdict(found)
        else:
            self.records[found.key] = found
            content = found._asdict()
        with self.path.open("ab") as file:
            file.write((json.dumps(content) + "\n").encode())

    def states(self) -> dict[str, Counter[str]]:
        """Counts of states and contradictions by attack and cell."""
        out: dict[str, Counter[str]] = defaultdict(Counter)
        for record in self.records.values():
            cell = record.key.rpartition(" | ")[0]
            out[cell][record.state] += 1
            out[cell]["contradictions"] += record.note is not None
        return out


def rounds(results: Results, most: int) -> Iterator[list[Job | str]]:
    """What is still to do: all cells, then more cases for those without a definite pair."""
    first: list[Job | str] = [name for name in KNOWN if name not in results.seen]
    jobs = [
        Job(attack, cell, index)
        for attack in ATTACKS
        for index in range(min(most, CASES[attack]))
        for cell in cells_of(attack)
        if index < cases_of(attack, cell) and not reasons.none_possible(cell)
    ]
    yield [*first, *(job for job in jobs if job.key not in results.records)]
    for index in range(1, min(most, MOST)):
        states = results.states()
        again = [
            Job("decide", cell, index)
            for cell in cells_of("decide")
            if not reasons.none_possible(cell) and not states[f"decide | {cell}"]["definite"]
        ]
        if left := [job for job in again if job.key not in results.records]:
            yield left


def go(results: Results, jobs: list[Job | str], workers: int) -> None:
    """Work through jobs, keeping every result at once."""
    if not jobs:
        return
    begun = said = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        for count, found in enumerate(pool.imap_unordered(work, jobs, chunksize=4), 1):
            results.add(found)
            if isinstance(found, Record) and found.note:
                print(f"CONTRADICTION {found.key}: {found.note}", flush=True)
            now = time.monotonic()
            if now - said > (2 if sys.stderr.isatty() else 60) or count == len(jobs):
                said = now
                rate = count / (now - begun)
                end = "\r" if sys.stderr.isatty() and count < len(jobs) else "\n"
                print(
                    f"{count} of {len(jobs)}, {rate:.1f} a second   ",
                    end=end,
                    file=sys.stderr,
                    flush=True,
                )


def table(rows: Iterable[Iterable[object]], head: str) -> list[str]:
    """Lines of a Markdown table."""
    names = head.split(", ")
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def summary(results: Results) -> tuple[str, str, bool]:
    """A page for the docs, the table of all cells, and whether everything held."""
    states = results.states()
    records: dict[str, list[Record]] = defaultdict(list)
    for record in results.records.values():
        records[record.key.rpartition(" | ")[0]].append(record)
    cells, groups = [], defaultdict(Counter)
    uncovered, excused = [], Counter()
    for attack in ATTACKS:
        for cell in cells_of(attack):
            found = states[f"{attack} | {cell}"]
            cases = found["definite"] + found["open"]
            cells.append((attack, *cell, cases, found["definite"], found["contradictions"]))
            group = groups[attack, cell.network]
            group.update(
                cells=1,
                cases=cases,
                definite=found["definite"],
                contradictions=found["contradictions"],
            )
            if found["definite"]:
                group["covered"] += 1
            elif attack == "decide" and not reasons.none_possible(cell):
                uncovered.append(cell)
            else:
                why = reasons.without_pair(attack, cell, records[f"{attack} | {cell}"])
                excused[attack, why] += 1
    total = sum((g for g in groups.values()), Counter())
    seen = [results.seen[name] for name in KNOWN if name in results.seen]
    held = not total["contradictions"] and not any(s.far or s.many for s in seen)
    lines = [
        f"`make attack-answers`, commit {commit()}, {datetime.now(UTC):%Y-%m-%d}: {total['cases']} cases, "
        f"{total['definite']} with two definite answers, **{total['contradictions']} contradictions**; "
        f"{len(uncovered)} cells of `decide` uncovered.",
        "",
        *table(
            (
                (a, n, g["cells"], g["covered"], g["cases"], g["definite"], g["contradictions"])
                for (a, n), g in groups.items()
            ),
            "attack, network, cells, covered, cases, definite, contradictions",
        ),
        "",
        *(
            f"- {n} cells of `{attack}` have no pair: {why}."
            for (attack, why), n in excused.items()
        ),
        *(f"- uncovered: {cell}" for cell in uncovered),
        "",
        *table(
            (
                (
                    s.name,
                    f"{'at least ' if KNOWN[s.name].at_least else ''}{s.truth:.4f}",
                    f"{s.matched / s.trials:.4f}",
                    f"{s.interval[0]:.4f} to {s.interval[1]:.4f}",
                    "yes" if s.inside else "NO",
                    s.undecided,
                )
                for s in seen
            ),
            f"problem ({TRIALS} trials), truth, matched, 95% interval, truth inside, undecided",
        ),
    ]
    head = "attack, network, teacher, samples, learnable, law, cases, definite, contradictions"
    return "\n".join(lines) + "\n", "\n".join(table(cells, head)) + "\n", held


def main() -> int:
    """Attack, write build/attack/summary.md and cells.md, and say whether everything held."""
    parser = argparse.ArgumentParser(prog="make attack", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--most", type=int, default=MOST, help="cases of a cell, at most")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "attack")
    asked = parser.parse_args()
    folder = asked.out / fingerprint("adversary")
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(folder / "results.jsonl")
    if results.records:
        print(f"goes on after {len(results.records)} cases in {folder}", file=sys.stderr)
    for jobs in rounds(results, asked.most):
        go(results, jobs, asked.workers)
    page, cells, held = summary(results)
    for name, text in (("cells.md", cells), ("summary.md", page)):
        part = asked.out / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(asked.out / name)
        print(text)
    for record in results.records.values():
        if record.note:
            print(f"CONTRADICTION {record.key}: {record.note}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
