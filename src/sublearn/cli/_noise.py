"""noise: learning under noise, how fast, at which size, how far, and where plastic weights should sit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import BadInputError
from sublearn.cli._asking import Learnable
from sublearn.cli._options import (
    AutapsesOption,
    ForbiddenOption,
    JsonOption,
    NetworkOption,
    TeacherOption,
    read_entries,
    read_network,
    read_numbers,
    read_problem,
)
from sublearn.cli._out import Out, tell_written
from sublearn.cli._own import read_own
from sublearn.cli._progress import progress_bar, working
from sublearn.cli._show import print_json, say
from sublearn.cli._usage import add_commands

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.ensembles import Instance, Problem
    from sublearn.noise import Candidates, Noise
    from sublearn.plots import Shown

MixingOption = Annotated[float, "c: the task-irrelevant direction is c old + (1 - c) new."]


@dataclass(frozen=True)
class CycleLevels:
    """The noise of a cycle, which falls on the plastic weights."""

    gamma: Annotated[
        str,
        "G1,G2,G3",
        "Levels of the gradient step, of task-irrelevant change and of synaptic noise.",
    ]
    T: Annotated[float, "The time T of one cycle."] = 1.0

    def noise(self, **more: Any) -> Noise:
        """The noise of --gamma and --T, and of --mixing and --norm as ``more``."""
        from sublearn.noise import Noise

        levels: Any = read_numbers("--gamma", self.gamma)
        return Noise(levels, self.T, **more)


@dataclass(frozen=True)
class PlacedLevels(CycleLevels):
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
        int | None,
        "Draw so many samples, and a teacher for them; or give --data, whose number it may say.",
    ] = None
    data: Annotated[
        str | None,
        "FILE.npz",
        "Instead of --samples: the arrays inputs, targets (d, m) and weights by name, any of them; "
        "the rest is drawn. (Labelled digits are for estimate, decide and train.)",
    ] = None

    def instance(
        self, seed: int, plastic: Learnable | None = None, teacher: str | None = None
    ) -> Instance:
        """An instance that (seed, problem) draws, or the arrays of a file, which lack what is drawn.

        Every weight is plastic unless --learn or --allocation say which.
        """
        from sublearn.allocations import Allocation
        from sublearn.ensembles import draw

        net = read_network(self.network)
        own = None if self.data is None else read_own(self.data, net, self.samples)
        if self.samples is None and (own is None or own.inputs is None):
            raise BadInputError(NEITHER_NOR)
        if own is None:
            problem = read_problem(self.network, self.samples, None, teacher)
        else:
            problem = own.given_in(own.problem(net, self.samples, None, teacher))
        mask = Allocation.whole(net)
        if plastic is not None and plastic.given:
            mask = plastic.once(problem)
        return draw(problem, mask, seed=seed)


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


class RateTold(Told):
    name = "rate"
    files = ("mask.json",)


def rate(
    lesson: TaughtLesson,
    plastic: Learnable,
    levels: PlacedLevels,
    told: RateTold,
    draws: Annotated[int, typer.Option(min=2, help="Random cycles that check the formula.")] = 400,
    slides: Annotated[bool, "Show what the slides' formula gives, too."] = False,
) -> None:
    """The mean learning rate at the weights as they are, and how far the noise may go.

    Without --learn every weight is plastic.
    """
    from sublearn.noise import SecondOrderWarning, local_geometry

    noise, seed = levels.noise(), told.seed
    with working("rate"), warnings.catch_warnings():
        instance = lesson.instance(seed, plastic, lesson.teacher)
        geometry = local_geometry(instance, on=noise.on, seed=seed)
        warnings.simplefilter("ignore", SecondOrderWarning)  # said in its words
        check = geometry.check(noise, draws=draws, seed=seed)
    lines = [f"{lesson.network}, {instance.samples} samples"]  # as it was asked: in full it is long
    printed = None
    if slides:
        from sublearn.experiments.raman2019 import slides_rate

        printed = slides_rate(geometry, noise)
        lines.append(f"the slides' formula gives <k> {printed:.4g}, which does not hold")
    about = {"network": instance.network.spec, "slides_rate": printed}
    told.tell(check, about, *lines, masks={"mask.json": instance.allocation})


class SizeTold(Told):
    name = "size"


def size(
    lesson: TaughtLesson,
    levels: CycleLevels,
    told: SizeTold,
    grow: Annotated[
        str | None,
        "How: 'both' (inputs and outputs), 'inputs', 'outputs' or 'synapses' of a linear "
        "estimator; 'widths' or 'copies' of hidden or recurrent units.",
    ] = None,
    to: Annotated[str | None, "A,B,...", "Factors of growth, or widths."] = None,
    reading: Annotated[str, "The loss on 'expanded' or on 'projected' outputs."] = "expanded",
    start: Annotated[str, "The expanded weights: 'embedded' or 'random'."] = "embedded",
    draws: Annotated[
        int, typer.Option(min=0, help="Random cycles that measure each size; 0: none.")
    ] = 0,
) -> None:
    """Grow a network without changing what it computes: which size learns fastest?"""
    from sublearn.experiments.raman2019 import SIZES
    from sublearn.noise import best_size
    from sublearn.noise import grow as grow_to

    noise, seed = levels.noise(), told.seed
    instance = lesson.instance(seed, teacher=lesson.teacher)
    sizes = None if to is None else read_numbers("--to", to)
    with working("size"):
        path = grow_to(instance, noise, grow, sizes, reading=reading, start=start, seed=seed)
        found = best_size(path, noise, draws=draws, seed=seed, beside=SIZES)
    told.tell(found, {"network": instance.network.spec})


class SteadyTold(Told):
    name = "steady"
    files = ("mask.json",)


def steady(
    lesson: TaughtLesson,
    plastic: Learnable,
    levels: PlacedLevels,
    simulated: Repeats,
    told: SteadyTold,
    mixing: MixingOption = 0.0,
    norm: Annotated[str, "Lengths: 'l2', or 'layers' for the sum over layers."] = "l2",
) -> None:
    """Simulate learning under noise: where the error settles, and where the formula says it does.

    Without --learn every weight is plastic.
    """
    from sublearn.noise import compare_steady

    noise = levels.noise(mixing=mixing, norm=norm)
    instance = lesson.instance(told.seed, plastic, lesson.teacher)
    with progress_bar(simulated.repeats, "simulate") as advance:
        settled = compare_steady(
            instance,
            noise,
            **vars(simulated),
            seed=told.seed,
            progress=lambda done: advance(done, "repeats"),
        )
    told.tell(settled, {"network": instance.network.spec}, masks={"mask.json": instance.allocation})


@dataclass(frozen=True)
class Lessons(Lesson):
    """What is learned in each repeat: drawn anew, or the arrays of one's own in all of them."""

    gain: Annotated[float, "Drawn weights have variance gain^2 / row length."] = 1.0
    factors: Annotated[
        int | None, typer.Option(min=1, help="Drawn inputs share so many latent numbers.")
    ] = None

    def read(self, repeats: int, seed: int) -> tuple[Problem, Sequence[Instance]]:
        """The problem, and an instance for every repeat or one for all."""
        from sublearn.ensembles import Gaussian, Problem
        from sublearn.noise import draw_lessons

        if self.data is not None:
            if self.factors is not None or self.gain != 1.0:
                raise BadInputError("--gain and --factors are for drawn data, not for --data.")
            lesson = self.instance(seed)
            return lesson.generic_problem, [lesson]
        if self.samples is None:
            raise BadInputError(NEITHER_NOR)
        problem = Problem(read_network(self.network), self.samples, Gaussian(self.gain))
        return problem, draw_lessons(problem, repeats, seed, factors=self.factors)


@dataclass(frozen=True)
class Placed(Learnable):
    """Which placements are compared: of so many weights, and one's own."""

    plastic: Annotated[
        str | None,
        "COUNT",
        "How many weights may change: 200 | 20% | '2 per row' | '3 per column'.",
    ] = None
    among: Annotated[
        list[str] | None,
        "NAME",
        "Place them in these weights (default: all); so does --learn NAME.",
    ] = None
    no_autapses: AutapsesOption = False
    forbidden: ForbiddenOption = None

    def read(self, problem: Problem, seed: int) -> Candidates:
        """The candidates of the same number of weights, and the one of --learn or --allocation.

        A bare name in --learn says among which weights they lie, as it does for design.
        """
        from sublearn.noise import candidate_placements

        names = [text for text in self.learn or [] if text in problem.network.shapes]
        given = replace(self, learn=[text for text in self.learn or [] if text not in names])
        own = given.once(problem) if given.given else None
        budget = self.plastic or (None if own is None else len(own))
        if budget is None:
            raise BadInputError("give --plastic R, or a placement with --learn or --allocation.")
        places = candidate_placements(
            problem,
            budget,
            learn=[*(self.among or []), *names] or None,
            forbidden=read_entries(problem, self.forbidden),
            autapses=not self.no_autapses,
            seed=seed,
        )
        if own is None:
            return places
        if len(places["spread"]) != len(own):
            raise BadInputError(
                f"--plastic {self.plastic} is {places.budget}, but --learn and --allocation name {len(own)}: "
                "leave --plastic out, or name as many."
            )
        return places.with_placement("given", own)


@dataclass(frozen=True)
class Longer(Repeats):
    """Placements differ by little, and learn slowly."""

    cycles: Annotated[int, typer.Option(min=1, help="Cycles of a repeat.")] = 3000
    repeats: Annotated[int, typer.Option(min=1, help="Repeats with other noise.")] = 8


class PlaceTold(Told):
    name = "place"
    files = ("place-*.json",)


def place(
    lessons: Lessons,
    placements: Placed,
    levels: PlacedLevels,
    simulated: Longer,
    told: PlaceTold,
    mixing: MixingOption = 0.0,
    exchanges: Annotated[
        int, typer.Option(min=0, help="Improve the best by so many exchanges of two weights.")
    ] = 0,
) -> None:
    """Compare placements of the same number of plastic weights, and recommend one.

    Spread, concentrated and designed ones, and that of --learn or --allocation; with --exchanges the best
    is then improved. With --samples every repeat draws its own weights, teacher and inputs; with --data all
    repeats share them. With --out the masks that are recommended are saved too.
    """
    from sublearn.noise import place as verb

    problem, drawn = lessons.read(simulated.repeats, told.seed)
    candidates = placements.read(problem, told.seed)
    begun = count()
    with progress_bar(len(candidates) + exchanges, "place") as advance:
        comparison = verb(
            drawn,
            candidates,
            levels.noise(mixing=mixing),
            **vars(simulated),
            seed=told.seed,
            improve=exchanges,
            progress=lambda name: advance(next(begun), name),
        )
    about: dict[str, Any] = {"network": problem.network.spec, "repeats": simulated.repeats}
    told.tell(comparison, about, f"{candidates.budget} may change", masks=comparison.masks)


noise_app = typer.Typer(
    no_args_is_help=True,
    help="Learning under noise: how fast, at which size, how far, and where plastic weights should sit.",
)
add_commands(noise_app, rate, size, steady, place)
