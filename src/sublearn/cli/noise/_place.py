"""noise place: where plastic weights should sit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import BadInputError
from sublearn.cli._asking import Learnable
from sublearn.cli._options import ForbiddenOption, read_entries, read_network
from sublearn.cli._progress import progress_bar
from sublearn.cli.noise._options import (
    NEITHER_NOR,
    Lesson,
    MixingOption,
    PlacedLevels,
    Repeats,
    Told,
)

if TYPE_CHECKING:
    from sublearn.ensembles import Instance, Problem
    from sublearn.noise import Candidates


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
            return Problem(lesson.network, lesson.samples), [lesson]
        if self.samples is None:
            raise BadInputError(NEITHER_NOR)
        problem = Problem(read_network(self.network), self.samples, Gaussian(self.gain))
        return problem, draw_lessons(problem, repeats, seed, factors=self.factors)


@dataclass(frozen=True)
class Placements(Learnable):
    """Which placements are compared: of so many weights, and one's own."""

    plastic: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT",
            help="How many weights may change: 200 | 20% | '2 per row' | '3 per column'.",
        ),
    ] = None
    among: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Place them in these weights (default: all)."),
    ] = None
    no_autapses: Annotated[bool, "No unit is connected to itself."] = False
    forbidden: ForbiddenOption = None

    def read(self, problem: Problem, seed: int) -> Candidates:
        """The candidates of the same number of weights, and the one of --learn or --allocation."""
        from sublearn.noise import candidate_placements

        own = self.once(problem) if self.given else None
        budget = self.plastic or (None if own is None else len(own))
        if budget is None:
            raise BadInputError("give --plastic R, or a placement with --learn or --allocation.")
        found = candidate_placements(
            problem,
            budget,
            learn=self.among,
            forbidden=read_entries(problem, self.forbidden),
            autapses=not self.no_autapses,
            seed=seed,
        )
        if own is None:
            return found
        if len(found["spread"]) != len(own):
            raise BadInputError(
                f"--plastic {self.plastic} and the given allocation of {len(own)} weights do not agree."
            )
        found["given"] = own
        return found


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
    placements: Placements,
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
        found = verb(
            drawn,
            candidates,
            levels.noise(mixing=mixing),
            **vars(simulated),
            seed=told.seed,
            improve=exchanges,
            progress=lambda name: advance(next(begun), name),
        )
    about: dict[str, Any] = {"network": problem.network.spec, "repeats": simulated.repeats}
    told.tell(found, about, masks=found.masks)
