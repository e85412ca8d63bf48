"""Groups of options that the noise commands share, what they are read into, and how a result is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import BadInputError
from sublearn.cli._asking import Learnable
from sublearn.cli._options import (
    JsonOption,
    NetworkOption,
    TeacherOption,
    read_network,
    read_problem,
)
from sublearn.cli._out import Out, tell_written
from sublearn.cli._own import read_own
from sublearn.cli._show import print_json, say

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.ensembles import Instance, Problem
    from sublearn.noise import Noise
    from sublearn.plots import Shown

MixingOption = Annotated[float, "c: the task-irrelevant direction is c old + (1 - c) new."]


@dataclass(frozen=True)
class Levels:
    """The noise of a cycle, which falls on the plastic weights."""

    gamma: Annotated[
        str,
        typer.Option(
            metavar="G1,G2,G3",
            help="Levels of the gradient step, of task-irrelevant change and of synaptic noise.",
        ),
    ]
    T: Annotated[float, "The time T of one cycle."] = 1.0

    def noise(self, **more: Any) -> Noise:
        """The noise of --gamma and --T, and of --mixing and --norm as ``more``."""
        from sublearn.noise import Noise

        levels: Any = read_numbers("--gamma", self.gamma)
        return Noise(levels, self.T, **more)


@dataclass(frozen=True)
class PlacedLevels(Levels):
    """The noise of a cycle, and where it falls."""

    noise_on: Annotated[str, "Synaptic noise falls on 'plastic' weights or on 'all'."] = "plastic"

    def noise(self, **more: Any) -> Noise:
        return super().noise(on=self.noise_on, **more)


NEITHER_NOR = "give either --samples M, to draw data, or --data FILE.npz with inputs, to read them."


@dataclass(frozen=True)
class Lesson:
    """What is learned: drawn, or arrays of one's own."""

    network: NetworkOption
    samples: Annotated[
        int | None, "Draw so many samples, and a teacher for them; or give --data."
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.npz",
            help="Instead of --samples: the arrays inputs, targets (d, m) and weights by name, any of them; "
            "the rest is drawn. (Labelled digits are for estimate, decide and train.)",
        ),
    ] = None

    def instance(
        self, seed: int, plastic: Learnable | None = None, teacher: str | None = None
    ) -> Instance:
        """An instance that (seed, problem) draws, or the arrays of a file, which lack what is drawn.

        Every weight is plastic unless --learn or --allocation say which.
        """
        import numpy as np

        from sublearn._seeds import words
        from sublearn.allocations import Allocation
        from sublearn.ensembles import draw, draw_from

        net = read_network(self.network)
        own = None if self.data is None else read_own(self.data, net)
        given = own is not None and own.inputs is not None
        if (self.samples is None) != given:
            raise BadInputError(NEITHER_NOR)

        def learnable(problem: Problem) -> Allocation:
            if plastic is None or not plastic.given:
                return Allocation.whole(net)
            return plastic.once(problem)

        if own is not None:
            problem = own.given_in(own.problem(net, self.samples, None, teacher))
            return draw(problem, learnable(problem), seed=seed)
        problem = read_problem(self.network, self.samples, None, teacher)
        rng = np.random.default_rng([seed, *words(problem.digest), 2])
        return draw_from(rng, problem, learnable(problem))


@dataclass(frozen=True)
class TaughtLesson(Lesson):
    """The same, of any teacher."""

    teacher: TeacherOption = None


@dataclass(frozen=True)
class Repeats:
    """How far a simulation goes, and how often."""

    cycles: Annotated[int, typer.Option(min=1, help="Cycles of a repeat.")] = 1500
    repeats: Annotated[int, typer.Option(min=1, help="Repeats with other noise.")] = 12
    workers: Annotated[int, typer.Option(min=1, help="Threads.")] = 1


@dataclass(frozen=True)
class Told(Out):
    """Where random numbers come from, and where a result goes."""

    seed: Annotated[int, typer.Option(min=0, help="Of weights, data and noise.")] = 0
    as_json: JsonOption = False

    def tell(
        self,
        result: Shown,
        about: dict[str, Any],
        *lines: str,
        masks: Mapping[str, Allocation] | None = None,
    ) -> None:
        """Write a result if asked, and print it: as JSON, or in words after ``lines``."""
        saved = self.write(result, {name: mask.save for name, mask in (masks or {}).items()})
        if saved and masks:
            about = {**about, "masks": [path for path in saved if Path(path).name in masks]}
        if self.as_json:
            print_json({**about, **result.to_dict(), "saved": saved})
            return
        say("\n".join([*lines, str(result)]))
        tell_written(saved)


def read_numbers(name: str, text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInputError(f"{name} must be numbers separated by commas, not {text!r}.") from None
