"""What estimate does for a match within eps, for several learners, and for fresh samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from sublearn.cli._progress import progress_bar
from sublearn.cli._show import asked, print_json

if TYPE_CHECKING:
    from sublearn.allocations import Allocation, Rule
    from sublearn.ensembles import Problem
    from sublearn.learners import Learner


@dataclass(frozen=True)
class Request:
    """What was asked on the command line."""

    problem: Problem
    asked: Allocation | Mapping[str, Rule]
    trials: int
    eps: float | None
    method: str | None
    steps: int | None
    starts: int | None
    rate: float | None
    seed: int
    precision: float | None
    workers: int
    as_json: bool

    def learners(self) -> list[Learner]:
        """The learners that --method names, separated by commas."""
        from sublearn._errors import one_of
        from sublearn.learners import LEARNERS, learner_named

        names = ("levenberg-marquardt" if self.method is None else self.method).split(",")
        settings = {} if self.rate is None else {"rate": self.rate}
        return [learner_named(one_of("--method", name, LEARNERS), **settings) for name in names]


def within(request: Request) -> None:
    """How many instances one learner, or each of several, brings within eps."""
    from sublearn._errors import BadInputError
    from sublearn.estimates import WithinEstimate, estimate, trainability

    eps, learners = request.eps, request.learners()
    assert eps is not None
    if len(learners) > 1 and request.precision is not None:
        raise BadInputError("--precision stops one run; give --trials to compare several learners.")
    total = request.trials * len(learners)
    with progress_bar(total, "estimate") as advance:
        done = 0

        def show(now: WithinEstimate) -> None:
            nonlocal done
            advance(done + now.trials, f"{now.learner.name}: {now.within} within eps")
            if now.trials == request.trials:
                done += now.trials

        common: dict[str, Any] = {
            "eps": eps,
            "steps": request.steps,
            "starts": request.starts,
            "seed": request.seed,
            "workers": request.workers,
            "progress": show,
        }
        found: Any
        if len(learners) > 1:
            found = trainability(
                request.problem, request.asked, request.trials, learners=learners, **common
            )
        else:
            found = estimate(
                request.problem,
                request.asked,
                request.trials,
                method=learners[0],
                precision=request.precision,
                **common,
            )
    if request.as_json:
        print_json({**asked(request.problem, request.asked), **found.to_dict()})
        return
    typer.echo(str(found))
    if len(learners) == 1:
        typer.echo(f"{found.seconds:.1f} s")


def fresh(request: Request, count: int) -> None:
    """The error on fresh samples after a match, exact or within eps."""
    from sublearn._errors import BadInputError
    from sublearn.estimates import Generalisation, generalisation
    from sublearn.matchers import Budget

    if request.precision is not None:
        raise BadInputError("--precision belongs to shares; --fresh measures errors.")
    options: dict[str, Any] = {}
    if request.eps is not None:
        learners = request.learners()
        if len(learners) > 1:
            raise BadInputError("--fresh takes one learner in --method.")
        options = {
            "eps": request.eps,
            "method": learners[0],
            "steps": request.steps,
            "starts": request.starts,
        }
    elif request.method not in (None, "ladder"):
        raise BadInputError(f"--fresh with --method {request.method} needs --within EPS.")
    elif request.starts is not None:
        options = {"budget": Budget(starts=request.starts)}
    with progress_bar(request.trials, "estimate") as advance:

        def show(now: Generalisation) -> None:
            advance(now.trials, f"{now.solved} solved")

        found = generalisation(
            request.problem,
            request.asked,
            request.trials,
            fresh=count,
            seed=request.seed,
            workers=request.workers,
            progress=show,
            **options,
        )
    if request.as_json:
        print_json({**asked(request.problem, request.asked), **found.to_dict()})
        return
    typer.echo(str(found))
    typer.echo(f"{found.seconds:.1f} s")
