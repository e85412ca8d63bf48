"""noise steady: where noise stops learning."""

from __future__ import annotations

from typing import Annotated

from sublearn.cli._asking import Learnable
from sublearn.cli._progress import progress_bar
from sublearn.cli.noise._options import MixingOption, PlacedLevels, Repeats, TaughtLesson, Told


class SteadyTold(Told):
    name = "steady"
    files = ("mask.json",)


def steady(
    lesson: TaughtLesson,
    plastic: Learnable,
    levels: PlacedLevels,
    simulated: Repeats,
    told: SteadyTold,
    mixing: MixingOption = 0.0,
    norm: Annotated[str, "Lengths: 'l2', or 'layers' for the sum over layers."] = "l2",
) -> None:
    """Simulate learning under noise: where the error settles, and where the formula says it does.

    Without --learn every weight is plastic.
    """
    from sublearn.noise import compare_steady

    noise = levels.noise(mixing=mixing, norm=norm)
    instance = lesson.instance(told.seed, plastic, lesson.teacher)
    with progress_bar(simulated.repeats, "simulate") as advance:
        found = compare_steady(
            instance,
            noise,
            **vars(simulated),
            seed=told.seed,
            progress=lambda done: advance(done, "repeats"),
        )
    told.tell(found, {"network": instance.network.spec}, masks={"mask.json": instance.allocation})
