"""estimate and its kin, one command for each question that is asked of many instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._interrupts import INTERRUPTED
from sublearn.cli._asking import Instances
from sublearn.cli._options import LEARNER_NAMES, JsonOption
from sublearn.cli._out import Out, tell_written
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import ask_again, described, print_json, say, tell_next
from sublearn.cli._train import Trained

if TYPE_CHECKING:
    from sublearn.estimates import Counted
    from sublearn.matchers import Budget

TRIALS = "trials.json"
EpsOption = Annotated[
    float,
    "EPS",
    "A mean squared error below EPS is within eps: the paper's criterion for ReLU networks, and "
    "not an exact match.",
]
PrecisionOption = Annotated[float | None, "Stop when the 95% interval is this far from its middle."]
StartsOption = Annotated[
    int | None, typer.Option(min=1, help="Random starts of the search at most.")
]
FreshOption = Annotated[int, typer.Option(min=1, help="So many fresh samples of the teacher.")]


class TableOut(Out):
    name, files = "estimate", ("mask.json",)


@dataclass(frozen=True)
class TrialsOut(TableOut):
    """The same for trials that are kept: those that are there are not written over, but go on."""

    out: Annotated[
        str | None,
        "DIR|FILE",
        "A folder for picture, table, mask and trials, or a .json for the trials; trials that "
        "are there already are not run again.",
    ] = None

    @property
    def endings(self) -> tuple[str, ...]:
        return (".json",)

    def refuse_to_replace(self) -> None:
        if not self.goes_on:
            super().refuse_to_replace()

    @property
    def goes_on(self) -> bool:
        """Whether trials are there that may be continued."""
        return self.out is not None and not self.overwrite and self.file(TRIALS).is_file()


@dataclass(frozen=True)
class Counting(Instances):
    """How many of them are drawn, and how they are gone through."""

    trials: Annotated[int, "How many instances to draw."] = 1000
    workers: Annotated[int, "Processes."] = 1
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0
    as_json: JsonOption = False


@dataclass(frozen=True)
class Newton(Trained):
    learner: Annotated[str, "NAME", f"{LEARNER_NAMES}."] = "levenberg-marquardt"


@dataclass(frozen=True)
class Several(Trained):
    learner: Annotated[str, "NAME,NAME...", "Those that are compared."] = LEARNER_NAMES


def estimate(
    context: typer.Context,
    asked: Counting,
    place: TrialsOut,
    starts: StartsOption = None,
    method: Annotated[str, "'ladder', or 'reference' for the paper's protocol."] = "ladder",
    count: Annotated[bool, "Let certify count complex solutions first."] = False,
    always: Annotated[bool, "Sample even where certify knows the answer."] = False,
    precision: PrecisionOption = None,
) -> None:
    """Decide many instances, and say how often a match exists.

    A rule such as W:first-rows=5 draws an allocation anew for each trial, as the paper does; with
    seed=0 behind it one allocation is drawn and kept. What --data FILE.npz holds is the same in every
    trial, and what it lacks is drawn for each. With --out the trials are kept, and more of them can be
    added later.
    """
    from sublearn import estimates

    options: dict[str, Any] = {"method": method, "count": count, "precision": precision}
    options |= {"sample_always": always, "budget": _budget(starts)}
    ask = partial(estimates.estimate, **options)
    _count(ask, estimates.Estimate, asked, place, context)


def estimate_within(
    eps: EpsOption, by: Newton, asked: Counting, place: TrialsOut, precision: PrecisionOption = None
) -> None:
    """Train many instances, those of estimate, and say how often a learner comes within eps.

    Not reached is not "no": the share says what this learner does within its steps and starts. Unless
    told, Levenberg-Marquardt has 200 steps and the others 2000, from each of 10 starts.
    """
    from sublearn import estimates

    ask = partial(estimates.estimate_within, eps=eps, precision=precision, **by.options)
    _count(ask, estimates.WithinEstimate, asked, place)


def trainability(eps: EpsOption, by: Several, asked: Counting, place: TableOut) -> None:
    """Train the same instances with several learners, and say how often each comes within eps.

    Unless told, they have the steps and starts that they have in estimate-within.
    """
    from sublearn import estimates

    learners = [by.read(name) for name in by.learner.replace(" ", "").split(",")]
    ask = partial(estimates.trainability, learners=learners, steps=by.steps, starts=by.starts)
    _count(partial(ask, eps=eps), None, asked, place, names=[one.name for one in learners])


def estimate_solved(by: Trained, asked: Counting, place: TrialsOut) -> None:
    """Train many instances, and say how often every label of --data is right, as in Figure 3c.

    Where there are no labels, solved is a mean squared error below 0.01. Unless told, a learner has 4000
    steps from one start.
    """
    from sublearn import estimates

    ask = partial(estimates.estimate_solved, **by.options)
    _count(ask, estimates.SolvedEstimate, asked, place)


def generalisation(
    asked: Counting, place: TrialsOut, starts: StartsOption = None, fresh: FreshOption = 1000
) -> None:
    """Match many instances exactly, and say what the matches are worth on fresh samples."""
    from sublearn import estimates

    ask = partial(estimates.generalisation, fresh=fresh, by=_budget(starts))
    _count(ask, estimates.Generalisation, asked, place)


def generalisation_within(
    eps: EpsOption, by: Newton, asked: Counting, place: TrialsOut, fresh: FreshOption = 1000
) -> None:
    """Train many instances, and say what those within eps are worth on fresh samples."""
    from sublearn import estimates

    within = estimates.Within(eps, **by.options)
    ask = partial(estimates.generalisation, fresh=fresh, by=within)
    _count(ask, estimates.Generalisation, asked, place)


QUESTIONS = (
    *(estimate, estimate_within, trainability, estimate_solved),
    *(generalisation, generalisation_within),
)


def _count(
    ask: Callable[..., Any],
    kind: type[Counted[Any, Any]] | None,
    asked: Counting,
    place: Out,
    context: typer.Context | None = None,
    names: Sequence[str] = ("",),
) -> None:
    """Ask, going on from trials of this kind that are kept; write and print what is answered."""
    from sublearn.estimates import Unfinished

    problem, _ = asked.read()
    rules = asked.each_trial(problem)
    trials, more = asked.trials, {}
    goes_on = isinstance(place, TrialsOut) and place.goes_on
    if kind is not None and goes_on:
        ask = partial(ask, go_on=kind.load(place.file(TRIALS), problem, rules))
    with progress_bar(trials * len(names), "estimate") as advance:

        def show(now: Any) -> None:
            before = names.index(now.learner.name) if len(names) > 1 else 0
            advance(before * trials + now.trials, now.brief)

        try:
            how = {"seed": asked.seed, "workers": asked.workers, "progress": show}
            answer, unfinished = ask(problem, rules, trials, **how), False
        except Unfinished as stopped:  # what was counted is printed all the same
            answer, unfinished = stopped.estimate, True
    if kind is not None:
        more[TRIALS] = answer.save
    if not isinstance(rules, Mapping):
        more["mask.json"] = rules.save
    saved = place.write(answer, more)
    if asked.as_json:
        question = described(problem, rules)
        print_json({**question, **answer.to_dict(), "unfinished": unfinished, "saved": saved})
    else:
        begun = f"unfinished, {answer.trials} of {trials} trials: " if unfinished else ""
        if goes_on and answer.trials > trials:
            begun = f"all {answer.trials} trials that were kept, more than {trials}: "
        say("\n".join([f"{begun}{answer}", *answer.details]))
        tell_written(saved)
        if context is not None and answer.undecided:
            tell_next(_next_step(context, answer))
    if unfinished:
        raise typer.Exit(INTERRUPTED)


def _budget(starts: int | None) -> Budget | None:
    from sublearn.matchers import Budget

    return None if starts is None else Budget(starts=starts)


def _next_step(context: typer.Context, answer: Any) -> str:
    """What to do about trials that nothing decided."""
    from sublearn.matchers import Budget
    from sublearn.verdicts.counts import msolve_wanted

    if install := msolve_wanted(answer.problem.network):
        return f"{install}, which decides more; then ask again."
    budget = answer.question.budget or Budget()
    trials = ("--trials", str(answer.trials), "--seed", str(answer.seed))
    return ask_again(context, "estimate", *trials, "--starts", str(4 * budget.starts))
