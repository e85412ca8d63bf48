"""The options that say what is asked about, for every command about instances of a problem."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from sublearn.cli._options import (
    CovarianceOption,
    DataOption,
    EnsembleOption,
    FileOption,
    InputRankOption,
    LearnOption,
    NetworkOption,
    OwnSamplesOption,
    TeacherOption,
    WeightOption,
    read_asked,
    read_learn,
    with_laws,
)


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a question.

    It is called with the problem, what is learnable, and the arrays of --data, if it names a file of them.
    """
    asked = inspect.signature(_read, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[3:]

    @wraps(command)
    def run(**given: Any) -> None:
        question = _read(**{name: given.pop(name) for name in asked})
        command(*question, **given)

    # What has no default, such as a context, comes first.
    every = sorted([*asked.values(), *own], key=lambda option: option.default is not option.empty)
    run.__annotations__ = {option.name: option.annotation for option in every}
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    return run


def _read(
    network: NetworkOption,
    samples: OwnSamplesOption = None,
    learn: LearnOption = None,
    allocation: FileOption = None,
    weight: WeightOption = None,
    data: DataOption = None,
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
    ensemble: EnsembleOption = None,
    covariance: CovarianceOption = None,
) -> tuple[Any, Any, Any]:
    problem, own = read_asked(network, samples, input_rank, teacher, data)
    problem = with_laws(problem, ensemble, covariance)
    return problem, read_learn(problem, learn, allocation, weight), own
