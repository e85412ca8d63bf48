"""Doctests of files that import torch are collected where torch is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

if find_spec("torch") is None:
    collect_ignore = [
        str(path)
        for path in Path(__file__).parent.glob("sublearn/models/*.py")
        if "import torch" in path.read_text(encoding="utf-8")
    ]
