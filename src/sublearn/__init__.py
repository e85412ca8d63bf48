"""Subset learning: which weights may change, is it enough, and how sure is the answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; at run time names come from __getattr__
    from sublearn._errors import BadInputError
    from sublearn.allocations import Allocation, FirstColumns, FirstRows
    from sublearn.designs import design, repair
    from sublearn.ensembles import (
        Correlated,
        Ensemble,
        Gaussian,
        Instance,
        LowRank,
        Normal,
        Problem,
        Rademacher,
        Sparse,
        StudentT,
        Targets,
        Uniform,
        draw,
    )
    from sublearn.estimates import Estimate, clopper_pearson, confidence_sequence, estimate
    from sublearn.matchers import Budget, Certificate, Decision, Effort, Matcher, decide
    from sublearn.networks import (
        RNN,
        FeedForward,
        LinearEstimator,
        LinearRNN,
        Network,
        Step,
        network_from_text,
    )
    from sublearn.verdicts import (
        Census,
        Circuit,
        Grade,
        TheoremCheck,
        Verdict,
        census,
        certify,
        gated_rank,
    )

__version__ = "0.1.0"

__all__ = [
    "RNN",
    "Allocation",
    "BadInputError",
    "Budget",
    "Census",
    "Certificate",
    "Circuit",
    "Correlated",
    "Decision",
    "Effort",
    "Ensemble",
    "Estimate",
    "FeedForward",
    "FirstColumns",
    "FirstRows",
    "Gaussian",
    "Grade",
    "Instance",
    "LinearEstimator",
    "LinearRNN",
    "LowRank",
    "Matcher",
    "Network",
    "Normal",
    "Problem",
    "Rademacher",
    "Sparse",
    "Step",
    "StudentT",
    "Targets",
    "TheoremCheck",
    "Uniform",
    "Verdict",
    "__version__",
    "census",
    "certify",
    "clopper_pearson",
    "confidence_sequence",
    "decide",
    "design",
    "draw",
    "estimate",
    "gated_rank",
    "network_from_text",
    "repair",
]

# Rooms are imported when a name of theirs is first used: `import sublearn` stays fast.
_ROOMS = {
    "sublearn._errors": ("BadInputError",),
    "sublearn.allocations": ("Allocation", "FirstColumns", "FirstRows"),
    "sublearn.designs": ("design", "repair"),
    "sublearn.ensembles": (
        "Correlated",
        "Ensemble",
        "Gaussian",
        "Instance",
        "LowRank",
        "Normal",
        "Problem",
        "Rademacher",
        "Sparse",
        "StudentT",
        "Targets",
        "Uniform",
        "draw",
    ),
    "sublearn.estimates": ("Estimate", "clopper_pearson", "confidence_sequence", "estimate"),
    "sublearn.matchers": ("Budget", "Certificate", "Decision", "Effort", "Matcher", "decide"),
    "sublearn.networks": (
        "RNN",
        "FeedForward",
        "LinearEstimator",
        "LinearRNN",
        "Network",
        "Step",
        "network_from_text",
    ),
    "sublearn.verdicts": (
        "Census",
        "Circuit",
        "Grade",
        "TheoremCheck",
        "Verdict",
        "census",
        "certify",
        "gated_rank",
    ),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'sublearn' has no attribute {name!r}")
    return getattr(import_module(_ROOM_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
