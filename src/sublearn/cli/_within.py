"""What estimate does with learners: a match within eps, several of them, fresh samples, labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from sublearn.cli._counts import counted, show_counts
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import asked
from sublearn.cli._train import read_learner

if TYPE_CHECKING:
    from sublearn.allocations import Allocation, Rule
    from sublearn.ensembles import Problem
    from sublearn.training import Learner


@dataclass(frozen=True)
class Request:
    """What was asked on the command line."""

    problem: Problem
    asked: Allocation | Mapping[str, Rule]
    trials: int
    eps: float | None
    learner: str | None
    steps: int | None
    starts: int | None
    rate: float | None
    seed: int
    precision: float | None
    workers: int
    as_json: bool

    def learners(self, default: str = "levenberg-marquardt") -> list[Learner]:
        """The learners that --learner names, separated by commas."""
        return [read_learner(name, self.rate) for name in (self.learner or default).split(",")]

    def one_learner(self, default: str, why: str) -> Learner:
        """The learner, where only one makes sense."""
        from sublearn._errors import BadInputError

        found = self.learners(default)
        if len(found) > 1:
            raise BadInputError(f"{why} takes one learner in --learner, not {self.learner!r}.")
        return found[0]

    def show(self, found: Any, unfinished: bool) -> None:
        """Print what was found, and how long it took; a table has the seconds of each learner."""
        from sublearn.estimates import Trainability

        def seconds() -> None:
            if not isinstance(found, Trainability):
                typer.echo(f"{found.seconds:.1f} s")

        question = asked(self.problem, self.asked)
        show_counts(question, found, unfinished, self.trials, self.as_json, seconds)


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

        def count() -> Any:
            if len(learners) > 1:
                return trainability(
                    request.problem, request.asked, request.trials, learners=learners, **common
                )
            return estimate(
                request.problem,
                request.asked,
                request.trials,
                method=learners[0],
                precision=request.precision,
                **common,
            )

        found, unfinished = counted(count)
    request.show(found, unfinished)


def fresh(request: Request, count: int) -> None:
    """The error on fresh samples after a match, exact or within eps."""
    from sublearn._errors import BadInputError
    from sublearn.estimates import Generalisation, generalisation
    from sublearn.matchers import Budget

    if request.precision is not None:
        raise BadInputError("--precision belongs to shares; --fresh measures errors.")
    options: dict[str, Any] = {}
    if request.eps is not None:
        options = {
            "eps": request.eps,
            "method": request.one_learner("levenberg-marquardt", "--fresh"),
            "steps": request.steps,
            "starts": request.starts,
        }
    elif request.starts is not None:
        options = {"budget": Budget(starts=request.starts)}
    with progress_bar(request.trials, "estimate") as advance:

        def show(now: Generalisation) -> None:
            advance(now.trials, f"{now.solved} solved")

        found, unfinished = counted(
            lambda: generalisation(
                request.problem,
                request.asked,
                request.trials,
                fresh=count,
                seed=request.seed,
                workers=request.workers,
                progress=show,
                **options,
            )
        )
    request.show(found, unfinished)


def labels(request: Request) -> None:
    """How many instances have every label right after training."""
    from sublearn.estimates import SolvedEstimate, estimate_solved

    learner = request.one_learner("adam", "--labels")
    with progress_bar(request.trials, "estimate") as advance:

        def show(now: SolvedEstimate) -> None:
            advance(now.trials, f"{now.solved} solved  [{now.share:.3f}]")

        found, unfinished = counted(
            lambda: estimate_solved(
                request.problem,
                request.asked,
                request.trials,
                learner=learner,
                steps=4000 if request.steps is None else request.steps,
                starts=1 if request.starts is None else request.starts,
                seed=request.seed,
                workers=request.workers,
                progress=show,
            )
        )
    request.show(found, unfinished)
