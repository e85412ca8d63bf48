"""noise size: which size of a network learns fastest."""

from __future__ import annotations

from typing import Annotated

import typer

from sublearn.cli._progress import working
from sublearn.cli.noise._options import Levels, TaughtLesson, Told, read_numbers


class SizeTold(Told):
    name = "size"


def size(
    lesson: TaughtLesson,
    levels: Levels,
    told: SizeTold,
    grow: Annotated[
        str | None,
        "How: 'both' (inputs and outputs), 'inputs', 'outputs' or 'synapses' of a linear "
        "estimator; 'widths' or 'copies' of hidden or recurrent units.",
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Factors of growth, or widths.")
    ] = None,
    reading: Annotated[str, "The loss on 'expanded' or on 'projected' outputs."] = "expanded",
    start: Annotated[str, "The expanded weights: 'embedded' or 'random'."] = "embedded",
    draws: Annotated[
        int, typer.Option(min=0, help="Random cycles that measure each size; 0: none.")
    ] = 0,
) -> None:
    """Grow a network without changing what it computes: which size learns fastest?"""
    from sublearn.noise import best_size
    from sublearn.noise import grow as grow_to

    noise, seed = levels.noise(), told.seed
    instance = lesson.instance(seed, teacher=lesson.teacher)
    sizes = None if to is None else read_numbers("--to", to)
    with working("size"):
        path = grow_to(instance, noise, grow, sizes, reading=reading, start=start, seed=seed)
        found = best_size(path, noise, draws=draws, seed=seed)
    told.tell(found, {"network": instance.network.spec})
