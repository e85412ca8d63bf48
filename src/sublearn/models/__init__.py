"""Your own model, in PyTorch or JAX: which weights to tune, are they enough, do the others stay still."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Files are imported when a name of theirs is first used: torch and jax are extras.
_FILES = {
    "_attach": ("Attached", "attach", "load_delta"),
    "_audit": ("Audit", "LayerRow", "audit"),
    "_choice": ("Choice", "Standing", "load"),
    "_choose": ("choose",),
    "_compare": ("Comparison", "Difference", "Result", "compare"),
    "_derivatives": ("Derivatives",),
    "_guard": ("FrozenWeightsMovedError", "Guard", "assert_frozen", "guard"),
    "_interop": (
        "TorchNetwork",
        "as_torch",
        "from_torch",
        "masks_from_peft",
        "set_flags",
        "shira_layers",
        "shira_mask_fn",
    ),
    "_jax_choose": ("choose_jax",),
    "_jax": ("JaxAttached", "JaxDerivatives", "JaxModel", "attach_jax", "masked"),
    "_masks": ("as_masks",),
    "_rules": ("RULES", "Setting"),
}
_HOMES = {name: file for file, names in _FILES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from sublearn._errors import BadInputError

        raise BadInputError(
            f"sublearn.models.{name} needs PyTorch, which is not installed: "
            "pip install 'sublearn[torch]'."
        ) from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
