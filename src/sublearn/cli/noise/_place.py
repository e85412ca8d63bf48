"""noise place: where plastic weights should sit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sublearn.cli import _options as options
from sublearn.cli._out import check_folder
from sublearn.cli._progress import progress_bar
from sublearn.cli.noise import _options as shared

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.ensembles import Instance, Problem


def place(
    network: options.NetworkOption,
    gamma: shared.GammaOption,
    samples: shared.SamplesOption = None,
    data: shared.DataOption = None,
    T: shared.TimeOption = 1.0,
    plastic: Annotated[
        int | None, typer.Option("--plastic", min=1, help="How many weights may change.")
    ] = None,
    among: Annotated[
        list[str] | None,
        typer.Option("--among", metavar="NAME", help="Place them in these weights (default: all)."),
    ] = None,
    learn: options.LearnOption = None,
    allocation: options.FileOption = None,
    weight: options.WeightOption = None,
    noise_on: shared.NoiseOption = "plastic",
    mixing: shared.MixingOption = 0.0,
    gain: Annotated[
        float, typer.Option("--gain", help="Drawn weights have variance gain^2 / row length.")
    ] = 1.0,
    factors: Annotated[
        int | None,
        typer.Option("--factors", min=1, help="Drawn inputs share so many latent numbers."),
    ] = None,
    cycles: shared.CyclesOption = 3000,
    repeats: shared.RepeatsOption = 8,
    workers: shared.WorkersOption = 1,
    seed: shared.SeedOption = 0,
    out: shared.PicturesOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare placements of the same number of plastic weights, and recommend one.

    Spread, concentrated and designed ones, and that of --learn or --allocation. With --samples every
    repeat draws its own weights, teacher and inputs; with --data all repeats share them.
    """
    from sublearn.noise import place as verb

    folder = check_folder(out)
    noise = shared.read_noise(gamma, T, mixing=mixing, on=noise_on)
    problem, lessons = _read_lessons(network, samples, data, gain, factors, repeats, seed)
    candidates = _read_placements(problem, plastic, among, (learn, allocation, weight), seed)
    with progress_bar(len(candidates), "place") as advance:
        names = list(candidates)
        found = verb(
            lessons,
            candidates,
            noise,
            cycles=cycles,
            repeats=repeats,
            seed=seed,
            workers=workers,
            progress=lambda name: advance(names.index(name), name),
        )
    about = {"network": problem.network.spec, "repeats": repeats}
    shared.tell(found, "place", folder, as_json, about)


def _read_lessons(
    network: str,
    samples: int | None,
    data: str | None,
    gain: float,
    factors: int | None,
    repeats: int,
    seed: int,
) -> tuple[Problem, Sequence[Instance]]:
    """An instance for every repeat, drawn, or the one of a file for all of them."""
    from sublearn._errors import BadInputError
    from sublearn.ensembles import Gaussian, Problem
    from sublearn.networks import network_from_text
    from sublearn.noise import draw_lessons

    if data is not None:
        if factors is not None or gain != 1.0:
            raise BadInputError("--gain and --factors are for drawn data, not for --data.")
        lesson = shared.read_instance(network, samples, data, seed=seed)
        return Problem(lesson.network, lesson.samples), [lesson]
    if samples is None:
        raise BadInputError(shared.NEITHER_NOR)
    problem = Problem(network_from_text(network), samples, Gaussian(gain))
    return problem, draw_lessons(problem, repeats, seed, factors=factors)


def _read_placements(
    problem: Problem,
    plastic: int | None,
    among: list[str] | None,
    own: tuple[list[str] | None, str | None, str | None],
    seed: int,
) -> dict[str, Allocation]:
    """The candidates of the same number of weights, and the one of --learn or --allocation."""
    from sublearn._errors import BadInputError
    from sublearn.noise import candidate_placements

    given = options.read_allocation(problem, *own) if own[0] or own[1] else None
    if given is None:
        if plastic is None:
            raise BadInputError("give --plastic R, or a placement with --learn or --allocation.")
        return candidate_placements(problem, plastic, among, seed=seed)
    if plastic not in (None, len(given)):
        raise BadInputError(
            f"--plastic {plastic} and the given allocation of {len(given)} weights do not agree."
        )
    return {**candidate_placements(problem, len(given), among, seed=seed), "given": given}
