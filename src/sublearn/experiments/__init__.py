"""Experiments: the figures and claims of the sources, declared as data, one small file each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from sublearn._errors import one_of
from sublearn.experiments._rehearse import rehearse
from sublearn.runs import Experiment

# In the order of the report. A file is loaded when its experiment is first asked for.
_FILES = {
    "warmup": "_warmup",
    "example": "_example",
    "fig2a": "_fig2a",
    "fig2b": "_fig2b",
    "fig3a": "_fig3a",
    "fig3b": "_fig3b",
    "fig3c": "_fig3c",
    "saturation": "_saturation",
    "variance": "_variance",
    "columns": "_columns",
    "equations": "_equations",
    "growth": "_growth",
    "theorem-map": "_theorem_map",
    "deficient-fraction": "_deficient_fraction",
    "non-gaussian": "_non_gaussian",
    "first-order": "_first_order",
    "activations": "_activations",
    "generalisation": "_generalisation",
    "conjectures": "_conjectures",
    "curvature": "_curvature",
    "difficulty": "_difficulty",
    "rate-check": "_rate_check",
    "linear-size": "_linear_size",
    "noise-and-size": "_noise_and_size",
    "deep-size": "_deep_size",
    "placement": "_placement",
    "tuning": "_tuning",
}


class _All(Mapping[str, Experiment]):
    """Every experiment by its name, loaded when it is looked up."""

    def __getitem__(self, name: str) -> Experiment:
        module = import_module(f"{__name__}.{_FILES[name]}")
        found: Experiment = module.EXPERIMENT
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


ALL: Mapping[str, Experiment] = _All()


def find(name: str) -> Experiment:
    """The experiment of that name, or an error that lists the names.

    >>> find("fig2a").source
    'Figure 2a; section 3.3; appendix E.2'
    """
    return ALL[one_of("experiment", name, ALL)]


__all__ = ["ALL", "find", "rehearse"]
