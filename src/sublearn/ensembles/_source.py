"""What asks: where the samples of a draw come from, and what their targets are.

A teacher network, a law without a teacher, or labelled data. Everything else asks a problem for its
:class:`Source`, never which of the three it is.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn.datasets import Dataset
from sublearn.ensembles._distributions import Distribution, Normal, check_law
from sublearn.ensembles._teacher import Teacher, settled
from sublearn.networks import Network

if TYPE_CHECKING:
    from sublearn.ensembles._problem import Problem


@dataclass(frozen=True)
class Drawn:
    """Inputs, the two factors whose exact product they are (or None), targets, and the teacher (or None)."""

    inputs: Array
    factors: tuple[Array, Array] | None
    targets: Array
    teacher: Teacher | None = None


class Source(ABC):
    """Where the inputs and targets of a problem come from."""

    network: Network | None = None
    """The teacher's network; None where there is no teacher."""
    has_full_support = False
    """Whether every open set of targets has positive probability."""
    is_labelled = False
    """Whether samples are taken from labelled data, which bring the inputs too."""
    lacks_density: str | None = None
    """What has no density, in words, so that generic facts say nothing about it; None where all has."""

    @property
    @abstractmethod
    def spec(self) -> str:
        """Text for digests and messages: different sources have different ones."""

    @property
    def written(self) -> str:
        """What a certificate writes: the teacher's network, or "none" where any numbers may be asked for."""
        return self.spec

    @abstractmethod
    def check(self, problem: Problem) -> None:
        """Refuse a problem whose network or number of samples does not go with this source."""

    @abstractmethod
    def draw(self, problem: Problem, rng: np.random.Generator) -> Drawn:
        """The samples of one draw, after the student's weights have been drawn from the same stream."""

    def fresh(
        self, problem: Problem, count: int, rng: np.random.Generator, own: np.random.Generator
    ) -> tuple[Array, Array]:
        """More samples: ``rng`` stands where :meth:`draw` begins, ``own`` is for what is new."""
        raise BadInputError("targets without a teacher say nothing about fresh samples.")


@dataclass(frozen=True)
class Taught(Source):
    """A teacher network, with weights drawn by the ensemble's law for teachers."""

    network: Network

    @property
    def spec(self) -> str:
        return self.network.spec

    def check(self, problem: Problem) -> None:
        check_teacher(problem.network, self.network, problem.samples)

    def draw(self, problem: Problem, rng: np.random.Generator) -> Drawn:
        inputs, factors = _draw_inputs(problem, rng)
        weights = draw_weights(self.network, problem.ensemble.teacher, rng)
        teacher = Teacher(self.network, weights)
        return Drawn(inputs, factors, teacher.outputs(inputs), teacher)

    def fresh(
        self, problem: Problem, count: int, rng: np.random.Generator, own: np.random.Generator
    ) -> tuple[Array, Array]:
        if problem.ensemble.inputs.inner is not None:
            raise BadInputError(
                "inputs of low rank span other directions in every draw: none are fresh."
            )
        _draw_inputs(problem, rng)  # the weights come after them
        weights = draw_weights(self.network, problem.ensemble.teacher, rng)
        inputs = problem.ensemble.inputs.draw(own, problem.network.input_shape(count))
        return inputs, Teacher(self.network, weights).outputs(inputs)


@dataclass(frozen=True)
class Targets(Source):
    """No teacher: the d m targets are drawn independently from one law (appendix F)."""

    law: Distribution = field(default_factory=Normal)

    def __post_init__(self) -> None:
        check_law("law", self.law, "targets")

    @property
    def spec(self) -> str:
        return "targets:" + json.dumps(self.law.describe(), sort_keys=True)

    @property
    def has_full_support(self) -> bool:  # type: ignore[override]
        return self.law.has_full_support

    @property
    def lacks_density(self) -> str | None:  # type: ignore[override]
        return None if self.law.has_density else f"targets ({type(self.law).__name__})"

    @property
    def written(self) -> str:
        return "none"

    def check(self, problem: Problem) -> None:
        """Targets can be drawn for every network."""

    def draw(self, problem: Problem, rng: np.random.Generator) -> Drawn:
        inputs, factors = _draw_inputs(problem, rng)
        shape = (problem.network.output_size, problem.samples)
        return Drawn(inputs, factors, self.law.draw(rng, shape))


@dataclass(frozen=True)
class Labels(Source):
    """No teacher: m samples of a data set, drawn without replacement, with one-hot labels as targets.

    Inputs come from the data too, so the ensemble's law of inputs is not used. Data have no density:
    generic facts say nothing about them.

    >>> import sublearn as sl
    >>> data = sl.Labels(sl.datasets.digits())
    >>> problem = sl.Problem(sl.FeedForward((64, 30, 10), activation="relu"), 50, teacher=data)
    >>> instance = sl.draw(problem, {"W1": sl.FirstRows(12)})
    >>> instance.inputs.shape, int(instance.targets.sum()), instance.generic
    ((64, 50), 50, False)
    """

    data: Dataset
    is_labelled = True
    lacks_density = "samples and labels (data)"

    def __post_init__(self) -> None:
        if not isinstance(self.data, Dataset):
            raise BadInputError(f"data must be a Dataset such as mnist(), not {self.data!r}.")

    @property
    def spec(self) -> str:
        return f"labels:{self.data.digest}"

    def check(self, problem: Problem) -> None:
        network, data = problem.network, self.data
        q = data.features.shape[0]
        if network.is_sequence or network.input_blocks != (q,):
            raise BadInputError(
                f"the data set {data.name} has {q} features a sample; {network.title} takes others."
            )
        if network.output_size != data.classes:
            raise BadInputError(
                f"the data set {data.name} has {data.classes} classes, the network "
                f"{network.output_size} outputs; they must be as many."
            )
        if problem.samples > data.size:
            raise BadInputError(
                f"samples must be at most {data.size}, all that {data.name} has, not "
                f"{problem.samples}."
            )
        if problem.ensemble.inputs != Normal():
            raise BadInputError(
                "inputs come from the data; leave the ensemble's inputs as they are."
            )

    def draw(self, problem: Problem, rng: np.random.Generator) -> Drawn:
        inputs, targets = self.data.take(self._taken(problem, rng))
        return Drawn(inputs, None, targets)

    def _taken(self, problem: Problem, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(self.data.size, problem.samples, replace=False)

    def fresh(
        self, problem: Problem, count: int, rng: np.random.Generator, own: np.random.Generator
    ) -> tuple[Array, Array]:
        left = np.setdiff1d(np.arange(self.data.size), self._taken(problem, rng))
        if count > left.size:
            raise BadInputError(
                f"count must be at most {left.size}, the samples of {self.data.name} that are left, "
                f"not {count}."
            )
        return self.data.take(own.choice(left, count, replace=False))


def check_teacher(student: Network, teacher: Network, samples: int) -> None:
    """Refuse a teacher whose inputs or outputs have other shapes than the student's."""
    for what, ours, theirs in (
        ("inputs", student.input_shape(samples), teacher.input_shape(samples)),
        ("outputs", (student.output_size, samples), (teacher.output_size, samples)),
    ):
        if ours != theirs:
            raise BadInputError(f"the teacher's {what} have shape {theirs}, the student's {ours}.")


def _draw_inputs(
    problem: Problem, rng: np.random.Generator
) -> tuple[Array, tuple[Array, Array] | None]:
    law, shape = problem.ensemble.inputs, problem.network.input_shape(problem.samples)
    factors = law.factors(rng, shape)
    if factors is None:
        return law.draw(rng, shape), None
    left, right = (settled("a factor of the inputs", part) for part in factors)
    return np.asarray(left @ right).reshape(shape), (left, right)


def draw_weights(network: Network, law: Distribution, rng: np.random.Generator) -> dict[str, Array]:
    """Weights of every matrix, a row of length n scaled by 1 / sqrt(n) (appendix E.3).

    Where only some weights exist, the others are 0 and n is the number of those that do.
    """
    out = {}
    for name, shape in network.shapes.items():
        drawn, exists = law.draw(rng, shape), network.connections.get(name)
        if exists is None:
            out[name] = drawn / np.sqrt(shape[1])
        else:
            out[name] = np.where(exists, drawn / np.sqrt(network.in_degrees(name))[:, None], 0.0)
    return out
