"""One thread for torch, and what other packages warn about is not ours to mend."""

from __future__ import annotations

import pytest

try:
    import torch
except ImportError:  # then the tests that need it are skipped, with a word
    torch = None
    collect_ignore = ["layers.py"]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    if torch is not None:
        torch.set_num_threads(1)
