"""Your own model, in PyTorch or JAX: which weights to tune, are they enough, do the others stay still."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Files are imported when a name of theirs is first used: torch and jax are extras.
_FILES = {
    "_attach": ("attach", "load_delta"),
    "_attached": ("Attached",),
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
    "_jax": ("JaxAttached", "JaxDerivatives", "JaxModel", "masked"),
    "_masks": ("as_masks",),
    "_rules": ("RULES", "Setting"),
}
# For this room, the experiments, the command line and benchmarks, and for nobody else.
_WITHIN = {
    "_attached": ("attach_torch", "load_delta_torch"),
    "_compare": ("budget_axis", "compare_cell", "paired_difference"),
    "_contest": ("Contest", "Splits", "prepare"),
    "_jax_trainer": ("JaxTrainer",),
    "_limits": ("Limits",),
    "_pursuit": ("pursue",),
    "_prepare": ("prepared",),
    "_race": ("FOLDS", "RATES", "race"),
    "_trainer": ("TorchTrainer",),
}
__all__ = sorted(name for names in _FILES.values() for name in names)
_HOMES = {name: file for files in (_FILES, _WITHIN) for file in files for name in files[file]}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from sublearn._errors import BadInputError

        what = f"sublearn.models.{name}" if name in __all__ else "a model in torch"
        raise BadInputError(
            f"{what} needs PyTorch, which is not installed: pip install 'sublearn[torch]'."
        ) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
