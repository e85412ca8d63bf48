"""Which code is attacked: what was found of one state of it says nothing of another."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def fingerprint(*attack: str) -> str:
    """Twelve digits that change with the package and with the folders of tests that attack it."""
    digest = hashlib.sha256()
    for folder in (ROOT / "src", *(ROOT / "tests" / name for name in attack)):
        for path in sorted(folder.rglob("*.py")):
            if not path.name.startswith("test_"):
                digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def commit() -> str:
    """The commit, with a star where files differ from it."""
    try:
        head = subprocess.run(
            ["git", "describe", "--always", "--dirty=*"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip()
