"""estimate: exact matches, matches within eps, labels, and what a match is worth on fresh samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from sublearn._errors import BadInputError
from sublearn._interrupts import INTERRUPTED
from sublearn.cli._asking import Instances, Learnable
from sublearn.cli._options import LEARNER_NAMES, JsonOption
from sublearn.cli._out import Out, tell_written
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import ask_again, print_json, say, tell_next
from sublearn.cli._show import asked as asked_for
from sublearn.cli._train import read_learner

if TYPE_CHECKING:
    from sublearn.ensembles import Problem

# The questions; below, the options that only some of them take.
EXACT, WITHIN, SEVERAL = "an exact match", "--within", "several learners"
FRESH, FRESH_WITHIN, LABELS = "--fresh", "--fresh --within", "--labels"
_TRAINING = (WITHIN, SEVERAL, FRESH_WITHIN, LABELS)
TRIALS = "trials.json"


@dataclass(frozen=True)
class EstimateOut(Out):
    """Where an estimate is written; trials that are there are not written over, but go on."""

    out: Annotated[
        str | None,
        "DIR|FILE",
        "A folder for picture, table, mask and trials, or a .json for the trials; trials that "
        "are there already are not run again.",
    ] = None

    name = "estimate"
    files = ("mask.json",)

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
class Instead:
    """Other questions than whether a match exists."""

    panel: ClassVar[str] = "Another question than exact matches"
    within: Annotated[
        float | None,
        "EPS",
        "Count instances that a learner brings to a mean squared error below EPS: the "
        "paper's criterion for ReLU networks, and not an exact match.",
    ] = None
    fresh: Annotated[
        int | None,
        typer.Option(
            min=1, help="After a match, the error on so many fresh samples of the teacher."
        ),
    ] = None
    labels: Annotated[
        bool,
        "With --data: train with --learner and count instances with every label right, as in "
        "Figure 3c.",
    ] = False


@dataclass(frozen=True)
class Exactly:
    """What only exact matches take."""

    panel: ClassVar[str] = "For exact matches"
    method: Annotated[
        str | None,
        "How exact matches are decided: 'ladder' (default), or 'reference' for the paper's "
        "protocol.",
    ] = None
    count: Annotated[bool, "Let certify count complex solutions first."] = False
    always: Annotated[bool, "Sample even where certify knows the answer."] = False


@dataclass(frozen=True)
class Trained:
    """What only learners take."""

    panel: ClassVar[str] = "For --within and --labels"
    learner: Annotated[
        str | None,
        "NAME[,NAME...]",
        f"With --within, or --labels: {LEARNER_NAMES} (default levenberg-marquardt; with "
        "--labels adam). Several with --within make a table.",
    ] = None
    steps: Annotated[int | None, typer.Option(min=1, help="Of the learner, per start.")] = None
    rate: Annotated[float | None, "Of the learner."] = None


_TAKEN = {
    "precision": (EXACT, WITHIN),
    **{option.name: (EXACT,) for option in fields(Exactly)},
    **{option.name: _TRAINING for option in fields(Trained)},
}


@dataclass(frozen=True)
class Options(Trained, Exactly, Instead):
    """What is counted, and how."""

    trials: Annotated[int, "How many instances to decide."] = 1000
    precision: Annotated[
        float | None, "Stop when the 95% interval is this far from its middle."
    ] = None
    starts: Annotated[
        int | None, typer.Option(min=1, help="Random starts of the search at most.")
    ] = None
    workers: Annotated[int, "Processes."] = 1
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0
    as_json: JsonOption = False

    @property
    def names(self) -> list[str]:
        """The learners that are asked for, where one is."""
        return (self.learner or ("adam" if self.labels else "levenberg-marquardt")).split(",")

    @property
    def question(self) -> str:
        """Which of the questions above it is."""
        if self.labels:
            return LABELS
        if self.fresh is not None:
            return FRESH if self.within is None else FRESH_WITHIN
        if self.within is None:
            return EXACT
        return SEVERAL if len(self.names) > 1 else WITHIN

    def check(self, problem: Problem) -> None:
        """Refuse options that say nothing about the question."""
        if self.labels and self.within is not None:
            raise BadInputError(
                "--labels asks for right labels, and --within for small errors: give one."
            )
        if self.labels and not problem.source.is_labelled:
            raise BadInputError(
                "--labels needs --data mnist, digits or a folder, whose labels are to become right."
            )
        for name, questions in _TAKEN.items():
            value = getattr(self, name)
            if value is None or value is False or self.question in questions:
                continue
            words = f"--{name}" if value is True else f"--{name} {value}"
            raise BadInputError(
                f"{words} goes with {' or '.join(questions)}, and not with {self.question}."
            )
        if len(self.names) > 1 and self.question != SEVERAL:
            raise BadInputError(
                f"{self.question} takes one learner in --learner, not {self.learner!r}."
            )

    def verb(self) -> tuple[Callable[..., Any], type[Any], dict[str, Any]]:
        """The verb that answers the question, the kind of its result, and what it takes."""
        from sublearn import estimates
        from sublearn.matchers import Budget

        learners = [read_learner(name, self.rate) for name in self.names]
        budget = None if self.starts is None else Budget(starts=self.starts)
        training = {"eps": self.within, "steps": self.steps, "starts": self.starts}
        options: dict[str, Any]
        if self.question == EXACT:
            options = {"budget": budget, "precision": self.precision, "count": self.count}
            options |= {"method": self.method or "ladder", "sample_always": self.always}
            return estimates.estimate, estimates.Estimate, options
        if self.question == WITHIN:
            options = {"learner": learners[0], "precision": self.precision, **training}
            return estimates.estimate_within, estimates.WithinEstimate, options
        if self.question == SEVERAL:
            options = {"learners": learners, **training}
            return estimates.trainability, estimates.WithinEstimate, options
        if self.question == LABELS:
            options = {"steps": self.steps or 4000, "starts": self.starts or 1}
            options["learner"] = learners[0]
            return estimates.estimate_solved, estimates.SolvedEstimate, options
        by: Any = budget
        if self.within is not None:
            by = estimates.Within(self.within, learners[0], self.steps, self.starts)
        options = {"fresh": self.fresh, "by": by}
        return estimates.generalisation, estimates.Generalisation, options


def estimate(
    context: typer.Context,
    about: Instances,
    learnable: Learnable,
    asked: Options,
    place: EstimateOut,
) -> None:
    """Decide many instances, and say how often a match exists.

    A rule such as W:first-rows=5 draws an allocation anew for each trial, as the paper does; with
    seed=0 behind it one allocation is drawn and kept. With --within the question is another one: how
    many instances does a learner bring within eps? With --fresh it is what a match is worth on samples
    that it was not made for. What --data FILE.npz holds is the same in every trial, and what it lacks
    is drawn for each. With --out the trials are kept, and more of them can be added later.
    """
    from sublearn.estimates import Unfinished
    from sublearn.training import LEARNERS

    problem, _ = about.read()
    rules = learnable.each_trial(problem)
    if (
        asked.method is not None
        and asked.learner is None
        and asked.method.split(",")[0] in LEARNERS
    ):
        # Another spelling, as train has it too.
        asked = replace(asked, learner=asked.method, method=None)
    asked.check(problem)
    verb, result, options = asked.verb()
    several = asked.question == SEVERAL
    if several and (place.is_file or place.goes_on):
        raise BadInputError(
            f"--out {place.out} would keep trials to go on from, and a table of several learners is made "
            "in one go: give another folder."
        )
    if place.goes_on:
        options["go_on"] = result.load(place.file(TRIALS), problem, rules)
    trials, names = asked.trials, asked.names
    with progress_bar(trials * len(names), "estimate") as advance:

        def show(now: Any) -> None:
            before = names.index(now.learner.name) if several else 0
            advance(before * trials + now.trials, now.brief)

        try:
            options |= {"seed": asked.seed, "workers": asked.workers, "progress": show}
            answer, unfinished = verb(problem, rules, trials, **options), False
        except Unfinished as stopped:  # what was counted is printed all the same
            answer, unfinished = stopped.estimate, True
    more = {} if several else {TRIALS: answer.save}
    if not isinstance(rules, Mapping):
        more["mask.json"] = rules.save
    saved = place.write(answer, more)
    if asked.as_json:
        question = asked_for(problem, rules)
        print_json({**question, **answer.to_dict(), "unfinished": unfinished, "saved": saved})
    else:
        begun = f"unfinished, {answer.trials} of {trials} trials: " if unfinished else ""
        if place.goes_on and answer.trials > trials:
            begun = f"all {answer.trials} trials that were kept, more than {trials}: "
        say("\n".join([f"{begun}{answer}", *answer.details]))
        tell_written(saved)
        if asked.question == EXACT and answer.undecided:
            tell_next(_next_step(context, problem, answer))
    if unfinished:
        raise typer.Exit(INTERRUPTED)


def _next_step(context: typer.Context, problem: Problem, answer: Any) -> str:
    """What to do about trials that nothing decided."""
    from sublearn.matchers import Budget
    from sublearn.verdicts.counts import msolve_wanted

    if install := msolve_wanted(problem.network):
        return f"{install}, which decides more; then ask again."
    budget = answer.question.budget or Budget()
    trials = ("--trials", str(answer.trials), "--seed", str(answer.seed))
    return ask_again(context, "estimate", *trials, "--starts", str(4 * budget.starts))
