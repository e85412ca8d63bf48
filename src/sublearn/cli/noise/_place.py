"""noise place: where plastic weights should sit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn.cli import _options as options
from sublearn.cli._out import check_folder
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import print_json
from sublearn.cli.noise import _options as shared
from sublearn.cli.noise._show import tell_drawn

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.networks import Network
    from sublearn.noise import Placement


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
    from sublearn._errors import BadInputError
    from sublearn.noise import place as verb

    folder = check_folder(out)
    levels = shared.read_gamma(gamma)
    net, lessons, candidates = _read_placements(
        network,
        samples,
        data,
        plastic,
        among,
        learn,
        allocation,
        weight,
        gain,
        factors,
        repeats,
        seed,
    )
    if not candidates:
        raise BadInputError("there is no placement to compare.")
    with progress_bar(len(candidates), "place") as advance:
        names = list(candidates)
        found = verb(
            net,
            lessons[0],
            inputs=lessons[1],
            targets=lessons[2],
            allocations=candidates,
            gamma=levels,
            T=T,
            cycles=cycles,
            repeats=repeats,
            seed=seed,
            mixing=mixing,
            noise_on=noise_on,
            workers=workers,
            progress=lambda name: advance(names.index(name), name),
        )
    drawn = None if folder is None else _draw_place(found, folder)
    if as_json:
        print_json({"network": net.spec, "repeats": repeats, **found.to_dict(), "pictures": drawn})
        return
    typer.echo(str(found))
    tell_drawn(drawn)


def _read_placements(
    network: str,
    samples: int | None,
    data: str | None,
    plastic: int | None,
    among: list[str] | None,
    learn: list[str] | None,
    file: str | None,
    weight: str | None,
    gain: float,
    factors: int | None,
    repeats: int,
    seed: int,
) -> tuple[Network, tuple[Any, Any, Any], dict[str, Allocation]]:
    from sublearn._errors import BadInputError
    from sublearn.cli._options import read_allocation
    from sublearn.ensembles import Gaussian, Problem
    from sublearn.networks import network_from_text
    from sublearn.noise import candidate_placements, draw_lessons

    net = network_from_text(network)
    lessons: tuple[Any, Any, Any]
    if data is not None:
        if factors is not None or gain != 1.0:
            raise BadInputError("--gain and --factors are for drawn data, not for --data.")
        lesson = shared.read_lesson(network, samples, data, None, None, None, None, seed)
        lessons = (lesson.weights, lesson.inputs, lesson.targets)
        problem = Problem(net, int(lesson.targets.shape[-1]))
    else:
        if samples is None:
            raise BadInputError(shared.NEITHER_NOR)
        problem = Problem(net, samples, Gaussian(gain))
        lessons = draw_lessons(problem, repeats, seed, factors=factors)
    given = read_allocation(problem, learn, file, weight) if learn or file else None
    if plastic is None and given is None:
        raise BadInputError("give --plastic R, or a placement with --learn or --allocation.")
    count = len(given) if given is not None and plastic is None else int(plastic or 0)
    if given is not None and len(given) != count:
        raise BadInputError(
            f"--plastic {count} and the given allocation of {len(given)} weights do not agree."
        )
    candidates = candidate_placements(problem, count, among, seed=seed)
    return net, lessons, candidates | ({} if given is None else {"given": given})


def _draw_place(found: Placement, out: Path) -> list[str]:
    import math

    import numpy as np

    from sublearn.plots import COLOURS, INK, figure, name_axes, save, shared_legend

    fig, (left, right) = figure(columns=2)
    looks: dict[str, dict[str, Any]] = {
        "predicted": {"ms": 8, "mfc": "none", "color": INK},
        "F_min": {"ms": 18, "color": INK},
    }
    place = np.arange(len(found.rows))
    for k, row in enumerate(found.rows):
        shade = COLOURS[k % len(COLOURS)]
        left.plot(row.curve, color=shade, linewidth=1.2, label=row.name)
        low, high = row.steady.mean - 2 * row.steady.standard_error, row.steady.mean
        high += 2 * row.steady.standard_error
        right.plot([k, k], [low, high], color=shade, linewidth=2)
        right.plot(k, row.steady.mean, "o", color=shade)
        if math.isfinite(row.predicted):
            right.plot(k, row.predicted, "D", **looks["predicted"])
        right.plot(k, row.minimum, "_", **looks["F_min"])
    # The marks mean the same for every placement: the legend shows them in no placement's colour.
    right.plot([], [], "o-", color=INK, linewidth=2, label="simulated, +- 2 standard errors")
    for mark, (name, look) in zip("D_", looks.items(), strict=True):
        right.plot([], [], mark, **look, label=name)
    right.set_xticks(place, [row.name for row in found.rows])
    right.set_xlim(-0.6, len(found.rows) - 0.4)
    name_axes(left, "cycle", "error / error at the start")
    name_axes(right, "placement", "steady error / error at the start")
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    shared_legend(fig, [left, right], across=8)
    return [str(path) for path in save(fig, out / "place")]
