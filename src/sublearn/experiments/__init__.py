"""Experiments: the figures and claims of the sources, declared as data, one small file each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sublearn._errors import one_of
from sublearn.experiments._rehearse import rehearse
from sublearn.plots import Figure
from sublearn.runs import Experiment, Table

if TYPE_CHECKING:
    from sublearn.experiments._answers import Answer

# In the order of the report, each with the question behind it, which its first screen asks; "fig2a" is the
# EXPERIMENT of _fig2a.py, loaded when it is first asked for.
_QUESTIONS = {
    "warmup": "Must every row have m weights, and no more?",
    "example": "Are 0.74 and 0.83 right in the example?",
    "fig2a": "Does a match get likelier with rows and size?",
    "fig2b": "Never below d rows, always at d, nearly beyond?",
    "fig3a": "Do more rows help a deep linear network?",
    "fig3b": "Do more rows help a shallow ReLU network?",
    "fig3c": "Above 40 rows, does every label become right?",
    "saturation": "Are 400 starts of fsolve enough to say no?",
    "variance": "Does a match depend on the scale of weights?",
    "columns": "Do more columns help?",
    "equations": "Do more quadratic equations help?",
    "growth": "Do all allocations match in large networks?",
    "theorem-map": "Are the theorems right wherever they speak?",
    "deficient-fraction": "Are the degree bounds enough in one layer?",
    "non-gaussian": "Are other laws like the normal one?",
    "first-order": "Are second-order learners needed at r = d m?",
    "activations": "Do nonlinear networks match as linear ones do?",
    "generalisation": "Does a match on few samples hold on others?",
    "conjectures": "Is a label easier to learn than a vector?",
    "learnability": "Does gradient descent find what exists?",
    "beyond": "Does a linear teacher need r = d m weights?",
    "surplus": "Can r - d m weights be wasted without harm?",
    "depth": "Does spreading help deeper ReLU networks?",
    "activity": "Do few learnt weights change activity widely?",
    "laws": "Does spreading help under other laws too?",
    "mixed": "Is a mix good if each of its components is?",
    "curvature": "Does curvature slow or reverse learning?",
    "difficulty": "Is there a best size, smaller with more noise?",
    "rate-check": "Does the slides' formula for the rate hold?",
    "linear-size": "Is the slides' best size right?",
    "noise-and-size": "Is the best size inverse to noise variance?",
    "time-and-size": "Does the best size grow with time and change?",
    "redundant-synapses": "Is there a best number of redundant synapses?",
    "deep-size": "Do noisy synapses undo the benefit of size?",
    "deep-best-size": "Is the published best size of deep nets right?",
    "placement": "Does spreading win whatever the noise?",
    "irrelevant-change": "Does size dilute irrelevant change of any kind?",
    "forgetting": "Is a task forgotten as under white change?",
    "irrelevant-placement": "Does spreading win whatever else changes?",
    "tuning": "Does the race lose less than any one rule?",
}


class _All(Mapping[str, Experiment]):
    """Every experiment by its name, loaded when it is looked up."""

    def __getitem__(self, name: str) -> Experiment:
        if name not in _QUESTIONS:
            raise KeyError(name)
        module = import_module(f"{__name__}._{name.replace('-', '_')}")
        declared: Experiment = module.EXPERIMENT
        return replace(
            declared, name=name, draw=partial(_drawn, name, module.draw), find=module.find
        )

    def __iter__(self) -> Iterator[str]:
        return iter(_QUESTIONS)

    def __len__(self) -> int:
        return len(_QUESTIONS)


def _drawn(name: str, draw: Callable[[Table], Any], table: Table) -> dict[str, Figure]:
    """Pictures by their names; one alone is called like its experiment."""
    drawn = draw(table)
    return drawn if isinstance(drawn, dict) else {name: drawn}


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

    return read(name, _QUESTIONS.get(name, title), table, finding)
