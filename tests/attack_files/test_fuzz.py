"""Hundreds of spoilt files, in a process with little memory; `make attack-files` reads 20,000."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attack_files.cases import NAMES, bytes_spoilt, text_spoilt
from attack_files.fuzz import fuzz, outcomes


def test_every_reader_ends_in_success_or_in_one_sentence(tmp_path: Path) -> None:
    cases = 20 * len(NAMES)
    found = fuzz(tmp_path, cases)
    assert len(found) == cases
    broken = {number: words for number, words in found.items() if words.startswith("BROKE")}
    assert broken == {}
    kinds = {(NAMES[number % len(NAMES)], words) for number, words in found.items()}
    assert {kind for kind, words in kinds if words == "refused"} >= {
        "mask .npz",
        "sweep",
        "manifest",
    }
    assert {kind for kind, words in kinds if words == "read"} >= {
        "about",
        "table",
        "shard",
        "timings",
    }
    before = (tmp_path / "progress.txt").read_bytes()
    assert fuzz(tmp_path, cases) == found and (tmp_path / "progress.txt").read_bytes() == before


def test_a_case_that_ends_its_process_is_seen(tmp_path: Path) -> None:
    log = tmp_path / "progress.txt"
    log.write_text("0 begun\n0 read\n1 begun\n1 refused\n2 begun\n")
    assert outcomes(log) == {0: "read", 1: "refused", 2: "begun"}


def test_files_are_spoilt_in_many_ways_and_always_the_same() -> None:
    data = b'{"a": [1, 2, "three"], "b": null}\n' * 5
    for spoil in (bytes_spoilt, text_spoilt):
        found = [spoil(data, np.random.default_rng([1, i])) for i in range(50)]
        assert found == [spoil(data, np.random.default_rng([1, i])) for i in range(50)]
        assert len(set(found)) > 40
