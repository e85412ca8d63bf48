"""Files outlive a power cut: content to disk, then the new name, then the name to disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sublearn._files import write_whole
from sublearn.runs._files import write_json


def test_what_is_brought_to_disk_and_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []
    sync, rename = os.fsync, os.replace

    def spied_sync(handle: int) -> None:
        found = os.fstat(handle)
        events.append("folder" if stat.S_ISDIR(found.st_mode) else found.st_size)
        sync(handle)

    def spied_rename(source: Path, target: Path) -> None:
        events.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", spied_sync)
    monkeypatch.setattr(os, "replace", spied_rename)
    path = tmp_path / "numbers"
    write_whole(path, b"1234567")
    assert events == [7, "rename", "folder"]
    assert path.read_bytes() == b"1234567" and list(tmp_path.iterdir()) == [path]
    events.clear()
    write_json(path, [1])
    assert events == [7, "rename", "folder"]  # "[\n 1\n]\n"
    assert path.read_text() == "[\n 1\n]\n"
