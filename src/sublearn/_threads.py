"""One BLAS thread inside a decision: sums come in one order, and workers do not fight for cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    import numpy  # noqa: F401 - its BLAS must be loaded before it can be found
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def single_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


def blas_threads() -> list[str]:
    """Each library of linear algebra that is loaded, with its number of threads."""
    pools = _controller().info()
    return sorted({f"{pool['internal_api']} {pool['num_threads']}" for pool in pools})
