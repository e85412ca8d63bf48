"""Experiments: the figures and claims of the sources, declared as data, one small file each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from sublearn._errors import one_of
from sublearn.experiments._rehearse import rehearse
from sublearn.runs import Experiment, Table

if TYPE_CHECKING:
    from sublearn.experiments._answers import Answer

# In the order of the report; "fig2a" is the EXPERIMENT of _fig2a.py, loaded when it is first asked for.
_NAMES = (
    "warmup",
    "example",
    "fig2a",
    "fig2b",
    "fig3a",
    "fig3b",
    "fig3c",
    "saturation",
    "variance",
    "columns",
    "equations",
    "growth",
    "theorem-map",
    "deficient-fraction",
    "non-gaussian",
    "first-order",
    "activations",
    "generalisation",
    "conjectures",
    "learnability",
    "beyond",
    "surplus",
    "depth",
    "activity",
    "laws",
    "mixed",
    "curvature",
    "difficulty",
    "rate-check",
    "linear-size",
    "noise-and-size",
    "time-and-size",
    "redundant-synapses",
    "deep-size",
    "deep-best-size",
    "placement",
    "irrelevant-change",
    "forgetting",
    "irrelevant-placement",
    "tuning",
)


class _All(Mapping[str, Experiment]):
    """Every experiment by its name, loaded when it is looked up."""

    def __getitem__(self, name: str) -> Experiment:
        if name not in _NAMES:
            raise KeyError(name)
        module = import_module(f"{__name__}._{name.replace('-', '_')}")
        declared = vars(module.EXPERIMENT)
        return Experiment(name=name, draw=module.draw, find=module.find, **declared)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


ALL: Mapping[str, Experiment] = _All()


def find(name: str) -> Experiment:
    """The experiment of that name, or an error that lists the names.

    >>> find("fig2a").source
    'Figure 2a; section 3.3; appendix E.2'
    """
    return ALL[one_of("experiment", name, ALL)]


__all__ = ["ALL", "answer", "find", "rehearse"]


def answer(name: str, title: str, table: Table, finding: str) -> Answer:
    """The question behind an experiment, yes, no or not decided, and why in a sentence."""
    from sublearn.experiments._answers import answer as read  # it loads half of the experiments

    return read(name, title, table, finding)
