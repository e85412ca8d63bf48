"""noise steady: where noise stops learning."""

from __future__ import annotations

from typing import Annotated

import typer

from sublearn.cli import _options as options
from sublearn.cli._out import check_folder
from sublearn.cli._progress import progress_bar
from sublearn.cli.noise import _options as shared


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
    from sublearn.noise import compare_steady

    folder = check_folder(out)
    noise = shared.read_noise(gamma, T, mixing=mixing, on=noise_on, norm=norm)
    plastic = (learn, allocation, weight)
    instance = shared.read_instance(network, samples, data, plastic, teacher, seed)
    with progress_bar(repeats, "simulate") as advance:
        found = compare_steady(
            instance,
            noise,
            cycles=cycles,
            repeats=repeats,
            seed=seed,
            workers=workers,
            progress=lambda done: advance(done, "repeats"),
        )
    shared.tell(found, "steady", folder, as_json, {"network": instance.network.spec})
