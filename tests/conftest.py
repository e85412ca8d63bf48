"""What holds for every test: fixed seeds, a fixed terminal, one thread per worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before numpy is imported: the workers of pytest-xdist are the parallelism.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from hypothesis import settings  # noqa: E402

# Derandomized: a failure is seen by everyone or by no one. No deadline: no test is timed.
settings.register_profile("sublearn", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("sublearn")


@pytest.fixture(autouse=True)
def _fixed_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed text must not depend on the terminal the tests were started from."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parents[1]
