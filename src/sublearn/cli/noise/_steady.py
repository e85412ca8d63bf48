"""noise steady: where noise stops learning."""

from __future__ import annotations

import math
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
    from sublearn.noise import Simulation, SteadyPrediction


def steady(
    network: options.NetworkOption,
    gamma: shared.GammaOption,
    samples: shared.SamplesOption = None,
    data: shared.DataOption = None,
    T: shared.TimeOption = 1.0,
    learn: options.LearnOption = None,
    allocation: options.FileOption = None,
    weight: options.WeightOption = None,
    noise_on: shared.NoiseOption = "plastic",
    mixing: shared.MixingOption = 0.0,
    norm: Annotated[
        str, typer.Option("--norm", help="Lengths: 'l2', or 'layers' for the sum over layers.")
    ] = "l2",
    cycles: shared.CyclesOption = 1500,
    repeats: shared.RepeatsOption = 12,
    workers: shared.WorkersOption = 1,
    teacher: options.TeacherOption = None,
    seed: shared.SeedOption = 0,
    out: shared.PicturesOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Simulate learning under noise: where the error settles, and where the formula says it does.

    Without --learn every weight is plastic.
    """
    from sublearn.noise import predict_steady_state, simulate

    folder = check_folder(out)
    levels = shared.read_gamma(gamma)
    lesson = shared.read_lesson(network, samples, data, learn, allocation, weight, teacher, seed)
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
    predicted = calmer = None
    if norm == "l2":
        predicted = predict_steady_state(lesson.network, lesson.weights, **common)
        common["gamma"] = (levels[0], levels[1] / 2, levels[2] / 2)
        calmer = predict_steady_state(lesson.network, lesson.weights, **common)
    drawn = None if folder is None else _draw_steady(run, predicted, folder)
    words = _steady_words(run, predicted, calmer)
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
        _tell_predicted(predicted)
    typer.echo(words)
    tell_drawn(drawn)


def _tell_predicted(predicted: SteadyPrediction) -> None:
    none = predicted.kind == "none"
    value = "none" if none else f"{predicted.value:.4g} ({predicted.kind})"
    typer.echo(f"predicted            {value}")
    if not none:  # else the last line says why
        typer.echo(f"  how sure           {predicted.reason}")
    if predicted.lower is not None and predicted.upper is not None:
        typer.echo(f"  proved bounds      {predicted.lower:.4g} to {predicted.upper:.4g}")
    where = "" if predicted.exact_minimum else " (local: found by least squares from the weights)"
    typer.echo(f"  F_min              {predicted.minimum:.4g}{where}")
    if not none:
        typer.echo(
            f"  excess             {predicted.excess:.4g}, leading term {predicted.leading:.4g}"
        )
    typer.echo(f"  modes, Tr H        {predicted.rank}, {predicted.trace:.4g}")
    if math.isfinite(predicted.slowest):
        typer.echo(f"  slowest mode       {predicted.slowest:.3g} cycles")
    if predicted.drift:
        typer.echo(f"  drift per cycle    {predicted.drift:.4g}")
    for walk in predicted.walks:
        typer.echo(f"  not held           {walk}")


def _steady_words(
    run: Simulation, predicted: SteadyPrediction | None, calmer: SteadyPrediction | None
) -> str:
    """The result in a sentence or two; ``calmer``: the prediction with gamma2 and gamma3 halved."""
    found, start = run.steady_state, float(run.errors[:, 0].mean())
    share = f"{found.mean / start:.3g} of the error at the start" if start else f"{found.mean:.3g}"
    if predicted is not None and predicted.drift:
        return f"There is no steady state: {predicted.reason}"
    if predicted is not None and predicted.kind == "none":
        level = "level" if found.reached else "not level"
        return (
            f"No steady state is known: {predicted.reason} Over these {run.errors.shape[1]} cycles the "
            f"error is {level}, at {share}."
        )
    if not found.reached:
        return f"The error has not settled; in the last stretch it is {share}."
    if found.mean >= start:
        words = f"The noise wins: the error settles at {share}."
    else:
        words = f"Learning and noise balance at {share}."
    if predicted is None or calmer is None:
        return words
    if predicted.minimum > 0.5 * predicted.value:
        return f"{words} Most of it is error that no plastic weight can remove (F_min)."
    if calmer.kind == "none" or not calmer.excess > 0.0:
        return words
    fewer = predicted.excess / calmer.excess
    return (
        f"{words} Most of it is noise: halving gamma2 and gamma3 would cut the excess {fewer:.2g} times, "
        f"to {calmer.excess:.2g}."
    )


def _draw_steady(run: Simulation, predicted: SteadyPrediction | None, out: Path) -> list[str]:
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
