"""noise size: which size of a network learns fastest."""

from __future__ import annotations

from typing import Annotated

import typer

from sublearn.cli import _options as options
from sublearn.cli._out import check_folder
from sublearn.cli.noise import _options as shared


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
    from sublearn.noise import best_size
    from sublearn.noise import grow as grow_to

    folder = check_folder(out)
    noise = shared.read_noise(gamma, T)
    instance = shared.read_instance(network, samples, data, teacher=teacher, seed=seed)
    sizes = None if to is None else shared.read_numbers("--to", to)
    path = grow_to(instance, noise, grow, sizes, reading=reading, start=start, seed=seed)
    found = best_size(path, noise, draws=draws, seed=seed)
    shared.tell(found, "size", folder, as_json, {"network": instance.network.spec})
