"""What the pages of the docs are built by."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parents[1] / "docs"


def built_by(name: str) -> ModuleType:
    """A module of docs/_build, which mkdocs calls or a person runs; it is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_build" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
