"""noise rate: how fast a network learns under noise."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from sublearn.cli import _options as options
from sublearn.cli._out import check_folder
from sublearn.cli.noise import _options as shared


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
    from sublearn.noise import SecondOrderWarning, local_geometry

    folder = check_folder(out)
    noise = shared.read_noise(gamma, T, on=noise_on)
    plastic = (learn, allocation, weight)
    instance = shared.read_instance(network, samples, data, plastic, teacher, seed)
    geometry = local_geometry(instance, on=noise_on, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecondOrderWarning)  # said in its words
        found = geometry.check(noise, draws=draws, seed=seed)
    lines = [f"{instance.network.spec}, {instance.samples} samples"]
    printed = None
    if slides:
        from sublearn.experiments.raman2019 import slides_rate

        printed = slides_rate(geometry, noise)
        lines.append(f"the slides' formula gives <k> {printed:.4g}, which does not hold")
    about = {"network": instance.network.spec, "slides_rate": printed}
    shared.tell(found, "rate", folder, as_json, about, *lines)
