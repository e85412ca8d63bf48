"""train: one instance, as a user would train it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import BadInputError
from sublearn.cli._asking import asking
from sublearn.cli._live import live_curve
from sublearn.cli._options import LEARNER_NAMES, JsonOption
from sublearn.cli._out import check_folder
from sublearn.cli._show import asked as asked_for
from sublearn.cli._show import print_json, say

if TYPE_CHECKING:
    from sublearn.training import Learner, Training


@asking
def train(
    problem: Any,
    learnable: Any,
    own: Any,
    learner: Annotated[
        str | None, typer.Option("--learner", help=f"{LEARNER_NAMES} (default adam).")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", hidden=True)] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Of the learner.")] = None,
    steps: Annotated[int, typer.Option("--steps", help="Of each start at most.")] = 2000,
    starts: Annotated[int, typer.Option("--starts", help="Random starts.")] = 1,
    start: Annotated[
        str,
        typer.Option(
            "--start", help="'random', or 'given': the first start is at --data's weights."
        ),
    ] = "random",
    within: Annotated[
        float | None,
        typer.Option(
            "--within",
            metavar="EPS",
            help="The goal: a mean squared error below EPS (default 0.01). On labelled data the goal "
            "is every label right unless this is given.",
        ),
    ] = None,
    loss: Annotated[
        str | None, typer.Option("--loss", help="'squared error' or 'cross-entropy'.")
    ] = None,
    single: Annotated[bool, typer.Option("--single", help="Compute in single precision.")] = False,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Save curve.csv, curve.png and weights.npz."),
    ] = None,
    trial: Annotated[int, typer.Option("--trial", min=0, help="Which instance to draw.")] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draws and starts.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Train one instance: only its learnable weights move, from random starts.

    In a terminal the loss of the first start is drawn while it falls. Not solved means that this learner
    did not do it within its steps and starts, and nothing more.
    """
    import numpy as np

    from sublearn.ensembles import draw
    from sublearn.training import train as verb

    folder = check_folder(out)
    if start == "given" and (own is None or not own.weights):
        raise BadInputError("--start given needs --data FILE.npz with weights to start at.")
    chosen = read_learner(learner or method or "adam", rate)
    draws = draw if own is None else own.instance
    instance = draws(problem, learnable, seed=seed, trial=trial)
    with live_curve(steps, "loss") as show:

        def watch(step: int, losses: Any) -> None:
            if np.isfinite(losses).any():
                show(step, float(np.nanmin(losses)))

        found = verb(
            instance,
            chosen,
            steps=steps,
            starts=starts,
            seed=seed,
            loss=loss,
            eps=within,
            precision="single" if single else "double",
            start=start,
            watch=watch,
        )
    saved = None if folder is None else _save(found, folder)
    if as_json:
        question = {**asked_for(problem, learnable), **asked_for(problem, instance.allocation)}
        print_json({**question, **found.to_dict(), "trial": trial, "saved": saved})
        return
    say(str(found))
    if saved is not None:
        typer.echo(f"written to {folder}: {', '.join(saved)}")


def read_learner(name: str, rate: float | None) -> Learner:
    """The learner of that name, at another rate if one was given."""
    from sublearn._errors import one_of
    from sublearn.training import LEARNERS, learner_named

    one_of("--learner", name, LEARNERS)
    return learner_named(name, **({} if rate is None else {"rate": rate}))


def _save(found: Training, folder: Path) -> list[str]:
    import io

    import numpy as np

    from sublearn._files import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    lines = ["step,start,loss"]
    for step, losses in zip(found.starts.looks, found.starts.curve, strict=True):
        lines += [
            f"{step},{start},{float(value)!r}"
            for start, value in enumerate(losses)
            if np.isfinite(value)
        ]
    write_whole(folder / "curve.csv", ("\n".join(lines) + "\n").encode())
    png, svg = found.save_plot(folder / "curve")
    weights: dict[str, Any] = found.weights
    packed = io.BytesIO()
    np.savez(packed, **weights)
    write_whole(folder / "weights.npz", packed.getvalue())
    return ["curve.csv", png.name, svg.name, "weights.npz"]
