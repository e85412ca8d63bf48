"""Spoilt files by the thousand: every reader ends in success or in one sentence.

    python tests/attack_files/fuzz.py [--cases 20000] [--out build/attack-files]

Cases are read in child processes whose memory and time are limited from outside. The run goes on where it
was: what is done stands in progress.txt, in a folder for each state of the code. It ends with a table, and
with 1 if anything broke.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MEMORY = 3 * 2**30  # bytes of address space
CPU = 300  # seconds of a child
SILENCE = 60.0  # seconds without a word, after which a child is called hanging
BATCH = 500


def child(good: Path, log: Path, first: int, last: int) -> None:
    """Read cases, telling before and after each; started by :func:`fuzz` with limits."""
    from attack_files.cases import attempt

    with tempfile.TemporaryDirectory() as place, open(log, "a", encoding="utf-8") as told:
        for number in range(first, last):
            told.write(f"{number} begun\n")
            told.flush()
            try:
                outcome = attempt(good, Path(place) / "case", number)
            except BaseException as problem:  # whatever it is, it is no sentence
                lines = traceback.format_exception_only(problem)
                frames = traceback.extract_tb(problem.__traceback__)
                outcome = f"BROKE {lines[-1].strip()} in {Path(frames[-1].filename).name}:{frames[-1].lineno}"
            told.write(f"{number} {outcome.splitlines()[0][:300]}\n")
            told.flush()


def _limit(process: subprocess.Popen[bytes]) -> None:
    resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (CPU, CPU))


def outcomes(log: Path) -> dict[int, str]:
    """What came of each case that was begun; one that only began ended its process."""
    found: dict[int, str] = {}
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            number, _, words = line.partition(" ")
            with suppress(ValueError):
                if words:
                    found[int(number)] = words
    return found


def fuzz(out: Path, cases: int, first: int = 0) -> dict[int, str]:
    """Run the cases that are not done yet, and give what came of all."""
    from attack_files.cases import make

    good, log = out / "good", out / "progress.txt"
    if not (out / "made").exists():
        shutil.rmtree(good, ignore_errors=True)
        make(good)
        (out / "made").touch()
    place = first
    while place < cases:
        found = outcomes(log)
        while place < cases and found.get(place, "begun") != "begun":
            place += 1
        if place >= cases:
            break
        last = place + 1
        while last < min(place + BATCH, cases) and found.get(last, "begun") == "begun":
            last += 1
        words = [sys.executable, __file__, "--child", str(good), str(log), str(place), str(last)]
        path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}, cwd=out)
        _limit(process)
        why = _watched(process, log)
        found = outcomes(log)
        ended = max((n for n in range(place, last) if n in found), default=None)
        if ended is None:
            raise RuntimeError(f"the child did not begin: {why}")
        if found[ended] == "begun":  # it took its process with it
            with open(log, "a", encoding="utf-8") as told:
                told.write(f"{ended} BROKE the process: {why}\n")
    return outcomes(log)


def _watched(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for a child as long as it tells something; in words how it ended."""
    last, since = -1, time.monotonic()
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        size = log.stat().st_size if log.exists() else 0
        if size != last:
            last, since = size, time.monotonic()
        elif time.monotonic() - since > SILENCE:
            process.kill()
            process.wait()
            return f"no word for {SILENCE:.0f} s"
    return f"it ended with {process.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("build/attack-files"))
    asked = parser.parse_args()
    from adversary.code import commit, fingerprint
    from attack_files.cases import NAMES

    out = asked.out.resolve() / fingerprint("attack_files", "runs")
    out.mkdir(parents=True, exist_ok=True)
    found = fuzz(out, asked.cases)
    counts = Counter(
        (NAMES[number % len(NAMES)], words.split()[0]) for number, words in found.items()
    )
    print(f"commit {commit()}: {len(found)} cases of {len(NAMES)} kinds")
    print(f"{'kind':<22}{'read':>8}{'refused':>9}{'broke':>7}")
    for name in NAMES:
        print(f"{name:<22}" + "".join(
            f"{counts[name, what]:>{wide}}" for what, wide in (("read", 8), ("refused", 9), ("BROKE", 7))
        ))  # fmt: skip
    broken = {number: words for number, words in sorted(found.items()) if words.startswith("BROKE")}
    for number, words in broken.items():
        print(f"case {number}, {NAMES[number % len(NAMES)]}: {words}")
    return 1 if broken or len(found) < asked.cases else 0


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        raise SystemExit(main())
