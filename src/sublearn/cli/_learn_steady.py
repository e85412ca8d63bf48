"""learn steady and learn place: where noise stops learning, and where plastic weights should sit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn.cli._learn_options import (
    DataOption,
    GammaOption,
    NoiseOption,
    PicturesOption,
    SamplesOption,
    SeedOption,
    TimeOption,
    read_gamma,
    read_lesson,
)
from sublearn.cli._options import (
    FileOption,
    JsonOption,
    LearnOption,
    NetworkOption,
    TeacherOption,
    WeightOption,
)
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import print_json

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.learning import Placement, Simulation, SteadyPrediction
    from sublearn.networks import Network

CyclesOption = Annotated[int, typer.Option("--cycles", min=1, help="Cycles of a repeat.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", min=1, help="Repeats with other noise.")]
MixingOption = Annotated[
    float,
    typer.Option("--mixing", help="c: the task-irrelevant direction is c old + (1 - c) new."),
]
WorkersOption = Annotated[int, typer.Option("--workers", min=1, help="Threads.")]


def steady(
    network: NetworkOption,
    gamma: GammaOption,
    samples: SamplesOption = None,
    data: DataOption = None,
    T: TimeOption = 1.0,
    learn: LearnOption = None,
    allocation: FileOption = None,
    weight: WeightOption = None,
    noise_on: NoiseOption = "plastic",
    mixing: MixingOption = 0.0,
    norm: Annotated[
        str, typer.Option("--norm", help="Lengths: 'l2', or 'layers' for the sum over layers.")
    ] = "l2",
    cycles: CyclesOption = 1500,
    repeats: RepeatsOption = 12,
    workers: WorkersOption = 1,
    teacher: TeacherOption = None,
    seed: SeedOption = 0,
    out: PicturesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate learning under noise: where the error settles, and where the formula says it does.

    Without --learn every weight is plastic.
    """
    from sublearn.learning import predict_steady_state, simulate

    levels = read_gamma(gamma)
    lesson = read_lesson(network, samples, data, learn, allocation, weight, teacher, seed)
    common: dict[str, Any] = {**lesson.data, "allocation": lesson.allocation, "gamma": levels}
    common |= {"T": T, "mixing": mixing, "noise_on": noise_on}
    with progress_bar(repeats, "simulate") as advance:
        run = simulate(
            lesson.network,
            lesson.weights,
            **common,
            cycles=cycles,
            repeats=repeats,
            seed=seed,
            norm=norm,
            workers=workers,
            progress=lambda done: advance(done, "repeats"),
        )
    # The formula is for lengths by the L2 norm.
    predicted = None
    if norm == "l2":
        predicted = predict_steady_state(lesson.network, lesson.weights, **common)
    drawn = None if out is None else _draw_steady(run, predicted, Path(out))
    words = _steady_words(run, predicted)
    found = run.steady_state
    if as_json:
        print_json(
            {
                "network": lesson.network.spec,
                "gamma": list(levels),
                "T": T,
                "noise_on": noise_on,
                "norm": norm,
                "mixing": mixing,
                "cycles": cycles,
                "repeats": repeats,
                "seed": seed,
                "start": float(run.errors[:, 0].mean()),
                "simulated": found.to_dict(),
                "predicted": None if predicted is None else predicted.to_dict(),
                "meaning": words,
                "pictures": drawn,
            }
        )
        return
    typer.echo(f"error at the start   {run.errors[:, 0].mean():.5g}")
    typer.echo(f"simulated            {found}")
    if predicted is not None:
        where = "" if predicted.exact_minimum else " (local: F is not quadratic)"
        typer.echo(f"predicted            {predicted.value:.4g}{where}")
        typer.echo(f"  F_min              {predicted.minimum:.4g}")
        typer.echo(
            f"  excess             {predicted.excess:.4g}, leading term {predicted.leading:.4g}"
        )
        typer.echo(f"  modes, Tr H        {predicted.rank}, {predicted.trace:.4g}")
        if predicted.drift:
            typer.echo(f"  drift per cycle    {predicted.drift:.4g}")
    typer.echo(words)
    for written in drawn or []:
        typer.echo(f"drawn: {written}")


def _steady_words(run: Simulation, predicted: SteadyPrediction | None) -> str:
    found, start = run.steady_state, float(run.errors[:, 0].mean())
    share = f"{found.mean / start:.3g} of the error at the start" if start else f"{found.mean:.3g}"
    if predicted is not None and predicted.drift:
        return (
            "There is no steady state: the frozen weights move, and the plastic ones cannot make up for "
            f"all of it, so the error grows by {predicted.drift:.2g} per cycle."
        )
    if not found.reached:
        return f"The error has not settled; in the last stretch it is {share}."
    if found.mean >= start:
        words = f"The noise wins: the error settles at {share}."
    else:
        words = f"Learning and noise balance at {share}."
    if predicted is None:
        return words
    if predicted.minimum > 0.5 * predicted.value:
        return f"{words} Most of it is error that no plastic weight can remove (F_min)."
    return f"{words} Most of it is noise: halving gamma2 and gamma3 would cut the excess about 16 times."


def _draw_steady(run: Simulation, predicted: SteadyPrediction | None, out: Path) -> list[str]:
    import math

    import numpy as np

    from sublearn.plots import COLOURS, INK, figure, legend, name_axes, save

    fig, ax = figure()
    mean = run.errors.mean(axis=0)
    error = (
        run.errors.std(axis=0, ddof=1) / math.sqrt(len(run.errors)) if len(run.errors) > 1 else 0
    )
    time = np.arange(mean.size)
    ax.plot(time, mean, color=COLOURS[0], linewidth=1.2, label="mean over repeats")
    ax.fill_between(time, mean - 2 * error, mean + 2 * error, color=COLOURS[0], alpha=0.2, lw=0)
    if predicted is not None and math.isfinite(predicted.value):
        ax.axhline(predicted.value, color=COLOURS[1], linestyle="--", label="predicted")
        ax.axhline(predicted.minimum, color=INK, linestyle=":", linewidth=1.0, label="F_min")
    name_axes(ax, "cycle", "error F")
    legend(ax)
    return [str(path) for path in save(fig, out / "steady")]


def place(
    network: NetworkOption,
    gamma: GammaOption,
    samples: SamplesOption = None,
    data: DataOption = None,
    T: TimeOption = 1.0,
    plastic: Annotated[
        int | None, typer.Option("--plastic", min=1, help="How many weights may change.")
    ] = None,
    among: Annotated[
        list[str] | None,
        typer.Option("--among", metavar="NAME", help="Place them in these weights (default: all)."),
    ] = None,
    learn: LearnOption = None,
    allocation: FileOption = None,
    weight: WeightOption = None,
    noise_on: NoiseOption = "plastic",
    mixing: MixingOption = 0.0,
    gain: Annotated[
        float, typer.Option("--gain", help="Drawn weights have variance gain^2 / row length.")
    ] = 1.0,
    factors: Annotated[
        int | None,
        typer.Option("--factors", min=1, help="Drawn inputs share so many latent numbers."),
    ] = None,
    cycles: CyclesOption = 3000,
    repeats: RepeatsOption = 8,
    workers: WorkersOption = 1,
    seed: SeedOption = 0,
    out: PicturesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare placements of the same number of plastic weights, and recommend one.

    Spread, concentrated and designed ones, and that of --learn or --allocation. With --samples every
    repeat draws its own weights, teacher and inputs; with --data all repeats share them.
    """
    from sublearn._errors import BadInputError
    from sublearn.learning import place as verb

    levels = read_gamma(gamma)
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
    drawn = None if out is None else _draw_place(found, Path(out))
    if as_json:
        print_json({"network": net.spec, "repeats": repeats, **found.to_dict(), "pictures": drawn})
        return
    typer.echo(str(found))
    for written in drawn or []:
        typer.echo(f"drawn: {written}")


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
    from sublearn.learning import candidate_placements, draw_lessons
    from sublearn.networks import network_from_text

    net = network_from_text(network)
    lessons: tuple[Any, Any, Any]
    if data is not None:
        if factors is not None or gain != 1.0:
            raise BadInputError("--gain and --factors are for drawn data, not for --data.")
        lesson = read_lesson(network, samples, data, None, None, None, None, seed)
        lessons = (lesson.weights, lesson.inputs, lesson.targets)
        problem = Problem(net, int(lesson.targets.shape[-1]))
    else:
        if samples is None:
            raise BadInputError(
                "give either --samples M, to draw data, or --data FILE, to read them."
            )
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

    from sublearn.plots import COLOURS, INK, figure, legend, name_axes, save

    fig, (left, right) = figure(columns=2)
    place = np.arange(len(found.rows))
    for k, row in enumerate(found.rows):
        shade = COLOURS[k % len(COLOURS)]
        left.plot(row.curve, color=shade, linewidth=1.2, label=row.name)
        low, high = row.steady.mean - 2 * row.steady.standard_error, row.steady.mean
        high += 2 * row.steady.standard_error
        right.plot([k, k], [low, high], color=shade, linewidth=2)
        right.plot(k, row.steady.mean, "o", color=shade, label="simulated" if not k else None)
        known = math.isfinite(row.predicted)
        if known:
            mark = {"ms": 8, "mfc": "none", "color": INK}
            right.plot(k, row.predicted, "D", **mark, label="predicted" if not k else None)
        right.plot(k, row.minimum, "_", ms=18, color=INK, label="F_min" if not k else None)
    right.set_xticks(place, [row.name for row in found.rows])
    right.set_xlim(-0.6, len(found.rows) - 0.4)
    name_axes(left, "cycle", "error / error at the start")
    name_axes(right, "placement", "steady error / error at the start")
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    legend(left)
    legend(right)
    return [str(path) for path in save(fig, out / "place")]
