"""Options that the noise commands share, and what they are read into.

Commands import the module, ``shared.GammaOption``: none lists again what all of them take.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._seeds import words
from sublearn.cli._options import read_allocation, read_problem

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.networks import Network

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


@dataclass(frozen=True)
class Lesson:
    """A network with weights, data and plastic set, as the noise commands read it."""

    network: Network
    weights: dict[str, Any]
    inputs: Any
    targets: Any
    allocation: Allocation | None

    @property
    def data(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "targets": self.targets}


def finite(value: float) -> float | None:
    """JSON has no infinity: None stands for it."""
    from math import isfinite

    return value if isfinite(value) else None


def read_numbers(name: str, text: str) -> list[float]:
    """Numbers separated by commas."""
    from sublearn._errors import BadInputError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInputError(f"{name} must be numbers separated by commas, not {text!r}.") from None


def read_gamma(text: str) -> tuple[float, float, float]:
    from sublearn.noise._loss import check_gamma

    return check_gamma(read_numbers("--gamma", text))


def read_lesson(
    network: str,
    samples: int | None,
    data: str | None,
    learn: list[str] | None,
    allocation: str | None,
    weight: str | None,
    teacher: str | None,
    seed: int,
) -> Lesson:
    """Weights and data: drawn from (seed, problem), or read from a file; the plastic set."""
    import numpy as np

    from sublearn._errors import BadInputError
    from sublearn.ensembles import Targets, draw_weights
    from sublearn.networks import Network

    if (samples is None) == (data is None):
        raise BadInputError(NEITHER_NOR)
    held = {} if data is None else _read_data(data)
    count = int(held["targets"].shape[-1]) if held else int(samples or 0)
    problem = read_problem(network, count, None, teacher)
    net, ensemble = problem.network, problem.ensemble
    digest = words(problem.digest)
    rng = np.random.default_rng([seed, *digest, 2])
    weights = draw_weights(net, ensemble.weights, rng)
    if held:
        inputs, targets = held.pop("inputs"), held.pop("targets")
        weights = held or weights
    else:
        inputs = ensemble.inputs.draw(rng, net.input_shape(count))
        if isinstance(problem.teacher, Targets):
            targets = problem.teacher.law.draw(rng, (net.output_size, count))
        else:
            other = problem.teacher if isinstance(problem.teacher, Network) else net
            targets = other.forward(draw_weights(other, ensemble.teacher, rng), inputs)
    plastic = read_allocation(problem, learn, allocation, weight) if learn or allocation else None
    return Lesson(net, dict(weights), inputs, targets, plastic)


def _read_data(path: str) -> dict[str, Any]:
    import numpy as np

    from sublearn._errors import BadInputError
    from sublearn._reading import read_npz

    if not Path(path).is_file():
        named = path in ("mnist", "digits") or Path(path).is_dir()
        also = "; labelled digits are for estimate, decide and train" if named else ""
        raise BadInputError(
            f"--data must name a .npz file with inputs and targets: there is no file {path}{also}."
        )
    try:
        held = {n: np.asarray(v, dtype=np.float64) for n, v in read_npz(Path(path)).items()}
    except (ValueError, TypeError) as problem:  # no file of arrays, or arrays of no numbers
        raise BadInputError(
            f"--data: {path} cannot be read as a .npz file of numbers ({problem})."
        ) from None
    if not {"inputs", "targets"} <= set(held) or held["targets"].ndim != 2:
        raise BadInputError(f"--data: {path} must hold the arrays inputs and targets (d, m).")
    return held
