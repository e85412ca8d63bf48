"""noise size: which size of a network learns fastest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sublearn.cli import _options as options
from sublearn.cli._out import check_folder
from sublearn.cli._show import print_json
from sublearn.cli.noise import _options as shared
from sublearn.cli.noise._show import draw_measured, tell_drawn

if TYPE_CHECKING:
    from sublearn.noise import Grown, MeasuredRate, SizeCurve

GROW = ("both", "inputs", "outputs", "synapses", "widths")
MOST_SIZES = 16


def size(
    network: options.NetworkOption,
    gamma: shared.GammaOption,
    samples: shared.SamplesOption = None,
    data: shared.DataOption = None,
    T: shared.TimeOption = 1.0,
    grow: Annotated[
        str | None,
        typer.Option(
            "--grow",
            help="How: 'both' (inputs and outputs), 'inputs', 'outputs' or 'synapses' of a linear "
            "estimator; 'widths' of an ffn.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="A,B,...", help="Factors of growth, or widths for an ffn."),
    ] = None,
    reading: Annotated[
        str, typer.Option("--reading", help="The loss on 'expanded' or on 'projected' outputs.")
    ] = "expanded",
    start: Annotated[
        str, typer.Option("--start", help="The expanded weights: 'embedded' or 'random'.")
    ] = "embedded",
    teacher: options.TeacherOption = None,
    draws: Annotated[
        int, typer.Option("--draws", min=0, help="Random cycles that measure each size; 0: none.")
    ] = 0,
    seed: shared.SeedOption = 0,
    out: shared.PicturesOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Grow a network without changing what it computes: which size learns fastest?"""
    from sublearn._errors import BadInputError
    from sublearn.noise import best_size

    folder = check_folder(out)
    if draws == 1:
        raise BadInputError("--draws must be 0, for none, or at least 2, not 1.")
    levels = shared.read_gamma(gamma)
    lesson = shared.read_lesson(network, samples, data, None, None, None, teacher, seed)
    path = _grow(lesson, grow, to, levels, T, reading, start, seed)
    found = best_size(path, levels, T)
    measured = [geo.measure(levels, T, draws, seed) for geo in found.geometries] if draws else None
    drawn = None if folder is None else _draw_size(found, measured, folder)
    words = _size_words(found)
    if as_json:
        plain = found.to_dict()
        plain["difficulties"] = [shared.finite(v) for v in found.difficulties]
        print_json(
            {
                "network": lesson.network.spec,
                **plain,
                "measured": None if measured is None else [vars(m) for m in measured],
                "meaning": words,
                "pictures": drawn,
            }
        )
        return
    typer.echo("     N   Tr H/|g|     mean rate   difficulty     critical")
    for place, geo in enumerate(found.geometries):
        ratio = geo.trace / geo.gradient_norm if geo.gradient_norm else float("inf")
        extra = f"   {measured[place].mean:.5g} +- {measured[place].error:.1g}" if measured else ""
        mark = "  <- best" if found.best.value == geo.plastic else ""
        typer.echo(
            f"{geo.plastic:>6}   {ratio:8.4g}   {found.rates[place]:11.5g}   "
            f"{found.difficulties[place]:10.4g}   {found.critical_difficulties[place]:10.4g}"
            f"{extra}{mark}"
        )
    if found.exponent is not None:
        error = found.exponent.error
        spread = "from two sizes" if error is None else f"+- {error:.1g}"
        typer.echo(f"Tr H/|g| grows as N^a, a = {found.exponent.value:.3f} {spread}")
    for name, value in (
        ("best size", found.best),
        ("closed form", found.closed_form),
        ("slides, linear", found.slides),
        ("slides, nonlinear", found.slides_nonlinear),
        ("implicit", found.implicit),
    ):
        shown = "none" if value.value is None else f"{value.value:.0f}"
        typer.echo(f"{name:<18}{shown:>6}  {value.reason}")
    typer.echo(words)
    tell_drawn(drawn)


def _grow(
    lesson: shared.Lesson,
    grow: str | None,
    to: str | None,
    gamma: tuple[float, float, float],
    T: float,
    reading: str,
    start: str,
    seed: int,
) -> list[Grown]:
    from sublearn._errors import BadInputError, one_of
    from sublearn.networks import FeedForward, LinearEstimator
    from sublearn.noise import add_synapses, expansion_path, zero_pad

    net = lesson.network
    given = None if to is None else shared.read_numbers("--to", to)
    if given is not None and not all(0 < value < float("inf") for value in given):
        raise BadInputError(f"--to must hold numbers above 0, not {to!r}.")
    if isinstance(net, FeedForward):
        if one_of("--grow", grow or "widths", GROW) != "widths":
            raise BadInputError(f"--grow of an ffn must be 'widths', not {grow!r}.")
        if len(net.sizes) == 2:
            plain = f"linear:inputs={net.sizes[0]},outputs={net.sizes[1]}"
            raise BadInputError(
                f"{net.spec} has no hidden layer to widen; a linear estimator is written {plain}."
            )
        first = max(net.sizes[1:-1], default=1)
        widths = given or [round(first * factor) for factor in (1, 1.5, 2, 3, 4, 6, 8)]
        whole = [_whole("--to", width) for width in widths]
        return [zero_pad(net, lesson.weights, **lesson.data, widths=w) for w in whole]
    if not isinstance(net, LinearEstimator):
        raise BadInputError(f"learn size grows linear estimators and ffns, not {net.spec}.")
    how = one_of("--grow", grow or "both", GROW)
    if how == "widths":
        raise BadInputError(
            "--grow 'widths' is for an ffn; a linear estimator has no hidden layer."
        )
    factors = given or _factors(how, net.inputs, net.outputs, gamma, T)
    if how == "synapses":
        whole = [_whole("--to", factor) for factor in factors]
        return [add_synapses(net, lesson.weights, **lesson.data, synapses=c) for c in whole]
    return expansion_path(
        net,
        lesson.weights,
        **lesson.data,
        factors=factors,
        path=how,
        reading=reading,
        start=start,
        seed=seed,
    )


def _whole(name: str, value: float) -> int:
    from sublearn._errors import BadInputError

    if value != round(value):
        raise BadInputError(f"{name} must hold whole numbers here, not {value:g}.")
    return int(value)


def _factors(
    how: str, inputs: int, outputs: int, gamma: tuple[float, float, float], T: float
) -> list[float]:
    """Factors that keep sizes whole, evenly spaced in their logarithms, past where an optimum may lie."""
    import math

    base = inputs * outputs
    step = {"both": math.gcd(inputs, outputs), "inputs": inputs, "outputs": outputs}.get(how, 1)
    target = T * gamma[1] ** 2 / gamma[2] ** 2 if gamma[2] else 0.0
    growth = min(max(4.0 * target / base, 16.0), 400.0)
    last = math.sqrt(growth) if how == "both" else growth
    steps = {round(step * last ** (place / (MOST_SIZES - 1))) for place in range(MOST_SIZES)}
    return [s / step for s in sorted(steps)]


def _size_words(found: SizeCurve) -> str:
    best, rates = found.best, found.rates
    if best.value is None:
        return f"No size learns faster than another: {best.reason}"
    top = max(rates)
    if top <= 0:
        return f"No size learns on average; the least harm is done at {best.value:.0f} weights."
    gain = f"{top / rates[0]:.3g} times as fast as" if rates[0] > 0 else "and unlike"
    if best.value == found.sizes[0]:
        return f"{best.reason[0].upper()}{best.reason[1:]}"
    return f"A network of {best.value:.0f} weights learns fastest, {gain} the first: {best.reason}"


def _draw_size(found: SizeCurve, measured: list[MeasuredRate] | None, out: Path) -> list[str]:
    from sublearn.plots import curve, figure, legend, name_axes, save

    fig, axes = figure(columns=2)
    curve(axes[0], found.sizes, found.rates, label="formula")
    if measured is not None:
        draw_measured(axes[0], found.sizes, measured)
    if found.best.value is not None:
        axes[0].axvline(found.best.value, color="#333333", linewidth=0.8, label="best")
    name_axes(axes[0], "weights N", "mean rate")
    curve(axes[1], found.sizes, found.difficulties, label="difficulty", colour=2)
    curve(
        axes[1],
        found.sizes,
        found.critical_difficulties,
        label="critical: learns below",
        colour=3,
        dashed=True,
    )
    name_axes(axes[1], "weights N", "local task difficulty")
    for ax in axes:
        ax.set_xscale("log")
        legend(ax)
    return [str(path) for path in save(fig, out / "size")]
