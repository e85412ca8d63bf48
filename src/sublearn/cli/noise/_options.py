"""Options that the noise commands share, what they are read into, and how a result is told.

Commands import the module, ``shared.GammaOption``: none lists again what all of them take.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn.cli._options import read_allocation, read_problem
from sublearn.cli._own import read_own

if TYPE_CHECKING:
    from sublearn.ensembles import Instance
    from sublearn.noise import Noise
    from sublearn.plots import Shown

GammaOption = Annotated[
    str,
    typer.Option(
        "--gamma",
        metavar="G1,G2,G3",
        help="Levels of the gradient step, of task-irrelevant change and of synaptic noise.",
    ),
]
TimeOption = Annotated[float, typer.Option("--T", help="The time T of one cycle.")]
NoiseOption = Annotated[
    str, typer.Option("--noise-on", help="Synaptic noise falls on 'plastic' weights or on 'all'.")
]
SamplesOption = Annotated[
    int | None,
    typer.Option("--samples", help="Draw so many samples, and a teacher for them; or give --data."),
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE.npz",
        help="Instead of --samples: the arrays inputs and targets (d, m), and weights by name if it "
        "holds them. (Labelled digits are for estimate, decide and train.)",
    ),
]
CyclesOption = Annotated[int, typer.Option("--cycles", min=1, help="Cycles of a repeat.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", min=1, help="Repeats with other noise.")]
MixingOption = Annotated[
    float,
    typer.Option("--mixing", help="c: the task-irrelevant direction is c old + (1 - c) new."),
]
WorkersOption = Annotated[int, typer.Option("--workers", min=1, help="Threads.")]
PicturesOption = Annotated[
    str | None,
    typer.Option("--out", metavar="DIR", help="Draw the curves into this folder, PNG and SVG."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of weights, data and noise.")]

NEITHER_NOR = "give either --samples M, to draw data, or --data FILE.npz, to read them."


def read_numbers(name: str, text: str) -> list[float]:
    """Numbers separated by commas."""
    from sublearn._errors import BadInputError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInputError(f"{name} must be numbers separated by commas, not {text!r}.") from None


def read_noise(gamma: str, T: float, **more: Any) -> Noise:
    """The noise of --gamma and --T, and of --mixing, --noise-on and --norm as ``more``."""
    from sublearn.noise import Noise

    levels: Any = read_numbers("--gamma", gamma)
    return Noise(levels, T, **more)


def read_instance(
    network: str,
    samples: int | None,
    data: str | None,
    plastic: tuple[list[str] | None, str | None, str | None] = (None, None, None),
    teacher: str | None = None,
    seed: int = 0,
) -> Instance:
    """An instance that (seed, problem) draws, or the arrays of a file.

    ``plastic`` is what --learn, --allocation and --weight say; without them every weight is.
    """
    import numpy as np

    from sublearn._errors import BadInputError
    from sublearn._seeds import words
    from sublearn.allocations import Allocation
    from sublearn.ensembles import Instance, draw_from, draw_weights
    from sublearn.networks import network_from_text

    if (samples is None) == (data is None):
        raise BadInputError(NEITHER_NOR)
    net = network_from_text(network)
    own = None if data is None else read_own(data, net)
    if own is not None and (own.inputs is None or own.targets is None or own.targets.ndim != 2):
        raise BadInputError(f"--data: {data} must hold the arrays inputs and targets (d, m).")
    count = samples if own is None or own.targets is None else own.targets.shape[-1]
    problem = read_problem(network, count, None, teacher)
    learn, file, weight = plastic
    learnable = Allocation.whole(net)
    if learn or file:
        learnable = read_allocation(problem, learn, file, weight)
    rng = np.random.default_rng([seed, *words(problem.digest), 2])
    if own is None or own.inputs is None or own.targets is None:
        return draw_from(rng, problem, learnable)
    weights = own.weights or draw_weights(net, problem.ensemble.weights, rng)
    return Instance(net, learnable, weights, own.inputs, own.targets)


def tell(
    result: Shown, name: str, folder: Path | None, as_json: bool, about: dict[str, Any], *lines: str
) -> None:
    """Draw a result into a folder if asked, and print it: as JSON, or in words after ``lines``."""
    from sublearn.cli._show import print_json

    drawn = None if folder is None else [str(path) for path in result.save_plot(folder / name)]
    if as_json:
        print_json({**about, **result.to_dict(), "pictures": drawn})
        return
    for line in (*lines, str(result), *(f"drawn: {path}" for path in drawn or [])):
        typer.echo(line)
