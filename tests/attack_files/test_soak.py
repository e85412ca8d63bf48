"""A soak that did not take place must not pass."""

from __future__ import annotations

from pathlib import Path

from adversary.code import fingerprint
from attack_files.soak import Session, faults, sessions

SEEN = [(share / 100, 200_000_000, 100_000_000) for share in range(101)]
WHOLE = [Session(SEEN, True, -9, 1.0)] * 3 + [Session(SEEN, False, 0, 1.0)]


def test_a_soak_has_its_kills_and_its_memory() -> None:
    assert faults(WHOLE) == []
    assert faults(WHOLE[1:]) == ["2 kills, not 3"]
    assert len(faults([])) == 3, "no session, no kill, no memory"
    early = [each._replace(seen=SEEN[:50]) for each in WHOLE]
    assert [fault.partition(" of")[0] for fault in faults(early)] == ["memory", "memory"]
    grown = [each._replace(seen=[(s, d * (1 + s), 1.0) for s, d, _ in SEEN]) for each in WHOLE]
    assert faults(grown) == [], "80 MB in half of the time"
    grown = [each._replace(seen=[(s, d * (1 + 2 * s), 1) for s, d, _ in SEEN]) for each in WHOLE]
    assert faults(grown) == ["memory of the driver grew by 160 MB"]


def test_sessions_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "sessions.jsonl"
    assert sessions(log) == []
    line = '{"seen": [[0.5, 2, 1]], "killed": true, "code": -9, "seconds": 2.0}\n'
    log.write_text(line * 2 + line[:30])
    assert [each.killed for each in sessions(log)] == [True, True]


def test_the_attack_is_part_of_what_is_attacked() -> None:
    assert len({fingerprint(), fingerprint("adversary"), fingerprint("attack_files", "runs")}) == 3
