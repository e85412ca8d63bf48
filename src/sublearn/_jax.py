"""JAX, where it is installed, in float64."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def enable_x64() -> Any:
    """The switch to float64, which moved from jax.experimental to jax itself."""
    import jax

    try:
        return jax.enable_x64
    except AttributeError:
        return import_module("jax.experimental").enable_x64
