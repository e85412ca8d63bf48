"""noise rate: how fast a network learns under noise."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from sublearn.cli._asking import Learnable
from sublearn.cli._progress import working
from sublearn.cli.noise._options import PlacedLevels, TaughtLesson, Told


class RateTold(Told):
    name = "rate"
    files = ("mask.json",)


def rate(
    lesson: TaughtLesson,
    plastic: Learnable,
    levels: PlacedLevels,
    told: RateTold,
    draws: Annotated[int, typer.Option(min=2, help="Random cycles that check the formula.")] = 400,
    slides: Annotated[bool, "Show what the slides' formula gives, too."] = False,
) -> None:
    """The mean learning rate at the weights as they are, and how far the noise may go.

    Without --learn every weight is plastic.
    """
    from sublearn.noise import SecondOrderWarning, local_geometry

    noise, seed = levels.noise(), told.seed
    instance = lesson.instance(seed, plastic, lesson.teacher)
    with working("rate"), warnings.catch_warnings():
        geometry = local_geometry(instance, on=noise.on, seed=seed)
        warnings.simplefilter("ignore", SecondOrderWarning)  # said in its words
        found = geometry.check(noise, draws=draws, seed=seed)
    lines = [f"{instance.network.title}, {instance.samples} samples"]
    printed = None
    if slides:
        from sublearn.experiments.raman2019 import slides_rate

        printed = slides_rate(geometry, noise)
        lines.append(f"the slides' formula gives <k> {printed:.4g}, which does not hold")
    about = {"network": instance.network.spec, "slides_rate": printed}
    told.tell(found, about, *lines, masks={"mask.json": instance.allocation})
