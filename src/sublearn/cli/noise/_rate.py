"""noise rate: how fast a network learns under noise."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn.cli import _options as options
from sublearn.cli._out import check_folder
from sublearn.cli._show import print_json
from sublearn.cli.noise import _options as shared
from sublearn.cli.noise._show import draw_measured, tell_drawn

if TYPE_CHECKING:
    from sublearn.noise import Critical, Geometry, Validity


def rate(
    network: options.NetworkOption,
    gamma: shared.GammaOption,
    samples: shared.SamplesOption = None,
    data: shared.DataOption = None,
    T: shared.TimeOption = 1.0,
    learn: options.LearnOption = None,
    allocation: options.FileOption = None,
    weight: options.WeightOption = None,
    noise_on: shared.NoiseOption = "plastic",
    teacher: options.TeacherOption = None,
    draws: Annotated[
        int, typer.Option("--draws", min=2, help="Random cycles that check the formula.")
    ] = 400,
    slides: Annotated[
        bool, typer.Option("--slides", help="Show what the slides' formula gives, too.")
    ] = False,
    seed: shared.SeedOption = 0,
    out: shared.PicturesOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """The mean learning rate at the weights as they are, and how far the noise may go.

    Without --learn every weight is plastic.
    """
    from sublearn.noise import SecondOrderWarning, local_geometry, slides_rate

    folder = check_folder(out)
    levels = shared.read_gamma(gamma)
    lesson = shared.read_lesson(network, samples, data, learn, allocation, weight, teacher, seed)
    geo = local_geometry(
        lesson.network,
        lesson.weights,
        **lesson.data,
        allocation=lesson.allocation,
        noise_on=noise_on,
        seed=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecondOrderWarning)  # said in the reason below
        validity = geo.check(levels, T, draws=draws, seed=seed)
    drawn = None if folder is None else _draw_rate(geo, levels, T, draws, seed, folder)
    critical = {
        "gamma1": geo.critical_gamma1(levels, T),
        "gamma2": geo.critical_gamma2(levels, T),
        "gamma3": geo.critical_gamma3(levels, T),
    }
    best = geo.best_gamma1(T)
    words = _rate_words(geo, validity)
    printed = slides_rate(geo, levels, T) if slides else None
    if as_json:
        print_json(
            {
                "network": lesson.network.spec,
                "gamma": list(levels),
                "T": T,
                "noise_on": noise_on,
                **geo.to_dict(),
                "rate": geo.rate(levels, T),
                "rate_error": geo.rate_error(levels, T),
                "difficulty": shared.finite(geo.difficulty(levels, T)),
                "critical_difficulty": geo.critical_difficulty(levels, T),
                "best_gamma1": vars(best),
                "learns_for": {name: _critical_dict(c) for name, c in critical.items()},
                "measured": vars(validity.measured),
                "second_order_is_enough": validity.holds,
                "slides_rate": printed,
                "meaning": words,
                "pictures": drawn,
            }
        )
        return
    about = f"{geo.plastic} plastic of {geo.size} weights, noise on {geo.noisy}"
    typer.echo(f"{lesson.network.spec}: {about}, {lesson.targets.shape[-1]} samples")
    spread = f" +- {geo.trace_error:.2g}" if geo.trace_error else ""
    typer.echo(
        f"loss F {geo.loss:.4g}   |g| {geo.gradient_norm:.4g}   q {geo.q:.4g}   "
        f"Tr H {geo.trace:.4g}{spread}"
        + ("" if geo.noisy == geo.plastic else f"   Tr H on all {geo.noise_trace:.4g}")
    )
    measured = f"{validity.measured.mean:.4g} +- {validity.measured.error:.1g}"
    typer.echo(
        f"mean rate <k> {geo.rate(levels, T):.4g} by formula, {measured} over {draws} pairs of cycles"
    )
    if printed is not None:
        typer.echo(f"the slides' formula gives {printed:.4g}, which does not hold")
    typer.echo(
        f"local task difficulty {geo.difficulty(levels, T):.4g}, "
        f"critical {geo.critical_difficulty(levels, T):.4g}"
    )
    found = "none" if best.value is None else f"{best.value:.4g}"
    typer.echo(f"best gamma1   {found}: {best.reason}")
    for name, levels_of in critical.items():
        typer.echo(f"{name} learns  {levels_of}: {levels_of.reason}")
    typer.echo(words)
    tell_drawn(drawn)


def _critical_dict(critical: Critical) -> dict[str, Any]:
    return {
        "low": shared.finite(critical.low),
        "high": shared.finite(critical.high),
        "empty": critical.empty,
        "reason": critical.reason,
    }


def _rate_words(geo: Geometry, validity: Validity) -> str:
    share = 100 * validity.measured.mean * validity.T
    doing = f"removes {share:.3g}% of" if share >= 0 else f"adds {-share:.3g}% to"
    exact = "the loss is quadratic, so the formula is exact" if geo.quadratic else validity.reason
    return f"On average one cycle {doing} the loss; {exact.rstrip('.')}."


def _draw_rate(
    geo: Geometry, gamma: tuple[float, float, float], T: float, draws: int, seed: int, out: Path
) -> list[str]:
    import numpy as np

    from sublearn.plots import curve, figure, legend, name_axes, save

    fig, axes = figure(columns=2)
    for ax, place, name in ((axes[0], 0, "gamma1"), (axes[1], 2, "gamma3")):
        critical = geo.critical_gamma1(gamma, T) if place == 0 else geo.critical_gamma3(gamma, T)
        edges = [v for v in (critical.high, 2 * gamma[place]) if 0 < v < np.inf]
        levels = np.linspace(0.0, 1.15 * max(edges, default=1.0), 25)
        at = [tuple(level if i == place else g for i, g in enumerate(gamma)) for level in levels]
        curve(ax, levels, [geo.rate(g, T) for g in at], label="formula")
        measured = [geo.measure(g, T, draws, seed) for g in at[::2]]
        draw_measured(ax, levels[::2], measured)
        ax.axhline(0.0, color="#333333", linewidth=0.8)
        name_axes(ax, name, "mean rate")
        legend(ax)
    return [str(path) for path in save(fig, out / "rate")]
