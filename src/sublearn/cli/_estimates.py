"""estimate: exact matches, matches within eps, labels, and what a match is worth on fresh samples."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sublearn._errors import BadInputError
from sublearn._interrupts import INTERRUPTED
from sublearn.cli._asking import asking
from sublearn.cli._options import LEARNER_NAMES, JsonOption
from sublearn.cli._out import check_file
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import asked as asked_for
from sublearn.cli._show import print_json
from sublearn.cli._train import read_learner

# The questions, and the options that only some of them take.
EXACT, WITHIN, SEVERAL = "an exact match", "--within", "several learners"
FRESH, FRESH_WITHIN, LABELS = "--fresh", "--fresh --within", "--labels"
_TRAINING = (WITHIN, SEVERAL, FRESH_WITHIN, LABELS)
_TAKEN = {
    "--method": (EXACT,),
    "--precision": (EXACT, WITHIN),
    "--learner": _TRAINING,
    "--steps": _TRAINING,
    "--rate": _TRAINING,
    "--count": (EXACT,),
    "--always": (EXACT,),
    "--out": (EXACT, WITHIN, FRESH, FRESH_WITHIN, LABELS),
}


@asking
def estimate(
    problem: Any,
    learnable: Any,
    own: Any,
    trials: Annotated[int, typer.Option("--trials", help="How many instances to decide.")] = 1000,
    precision: Annotated[
        float | None,
        typer.Option("--precision", help="Stop when the 95% interval is this far from its middle."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="How exact matches are decided: 'ladder' (default), or 'reference' for the paper's "
            "protocol.",
        ),
    ] = None,
    starts: Annotated[
        int | None, typer.Option("--starts", min=1, help="Random starts of the search at most.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            "--within",
            metavar="EPS",
            help="Count instances that a learner brings to a mean squared error below EPS: the "
            "paper's criterion for ReLU networks, and not an exact match.",
        ),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            "--learner",
            metavar="NAME[,NAME...]",
            help=f"With --within, or --labels: {LEARNER_NAMES} (default levenberg-marquardt; with "
            "--labels adam). Several with --within make a table.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Of the learner, per start.")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Of the learner.")] = None,
    fresh: Annotated[
        int | None,
        typer.Option(
            "--fresh",
            min=1,
            help="After a match, the error on so many fresh samples of the teacher.",
        ),
    ] = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels",
            help="With --data: train with --learner and count instances with every label right, as in "
            "Figure 3c.",
        ),
    ] = False,
    count: Annotated[
        bool, typer.Option("--count", help="Let certify count complex solutions first.")
    ] = False,
    always: Annotated[
        bool, typer.Option("--always", help="Sample even where certify knows the answer.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", help="Processes.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draws.")] = 0,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Save the trials as .json; those that are there already are not run again.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decide many instances, and say how often a match exists.

    A rule such as W:first-rows=5 draws an allocation anew for each trial, as the paper does; with
    seed=0 behind it one allocation is drawn and kept. With --within the question is another one: how
    many instances does a learner bring within eps? With --fresh it is what a match is worth on samples
    that it was not made for. With --out the trials are kept, and more of them can be added later.
    """
    from sublearn.estimates import (
        Estimate,
        Generalisation,
        SolvedEstimate,
        Unfinished,
        Within,
        WithinEstimate,
        estimate_solved,
        estimate_within,
        generalisation,
        trainability,
    )
    from sublearn.estimates import estimate as estimate_matches
    from sublearn.matchers import Budget
    from sublearn.training import LEARNERS

    if own is not None:
        raise BadInputError(
            f"--data {own.path} is one instance, and estimate counts many that it draws: decide and train "
            "take arrays of your own."
        )
    if method is not None and learner is None and method.split(",")[0] in LEARNERS:
        learner, method = method, None  # another spelling, as train has it too
    if labels and within is not None:
        raise BadInputError(
            "--labels asks for right labels, and --within for small errors: give one."
        )
    names = (learner or ("adam" if labels else "levenberg-marquardt")).split(",")
    question = _question(labels, fresh is not None, within is not None, len(names) > 1)
    if labels and not problem.source.is_labelled:
        raise BadInputError("--labels needs --data, whose labels are to become right.")
    _check_taken(
        question,
        {
            "--method": method,
            "--precision": precision,
            "--learner": learner,
            "--steps": steps,
            "--rate": rate,
            "--count": count,
            "--always": always,
            "--out": out,
        },
    )
    if len(names) > 1 and question != SEVERAL:
        raise BadInputError(f"{question} takes one learner in --learner, not {learner!r}.")
    learners = [read_learner(name, rate) for name in names]
    budget = None if starts is None else Budget(starts=starts)
    verb: Any
    options: dict[str, Any]
    result: Any
    training = {"eps": within, "steps": steps, "starts": starts}
    if question == EXACT:
        verb, result = estimate_matches, Estimate
        options = {"budget": budget, "precision": precision, "count": count}
        options |= {"method": method or "ladder", "sample_always": always}
    elif question == WITHIN:
        verb, result = estimate_within, WithinEstimate
        options = {"learner": learners[0], "precision": precision, **training}
    elif question == SEVERAL:
        verb, result, options = trainability, WithinEstimate, {"learners": learners, **training}
    elif question == LABELS:
        verb, result = estimate_solved, SolvedEstimate
        options = {"learner": learners[0], "steps": steps or 4000, "starts": starts or 1}
    else:
        verb, result = generalisation, Generalisation
        by = budget if within is None else Within(within, learners[0], steps, starts)
        options = {"fresh": fresh, "by": by}
    file = check_file(out, (".json",))
    if file is not None and file.exists():
        options["go_on"] = result.load(file, problem, learnable)
    with progress_bar(trials * len(names), "estimate") as advance:

        def show(now: Any) -> None:
            before = names.index(now.learner.name) if question == SEVERAL else 0
            advance(before * trials + now.trials, now.brief)

        try:
            options |= {"seed": seed, "workers": workers, "progress": show}
            found, unfinished = verb(problem, learnable, trials, **options), False
        except Unfinished as stopped:  # what was counted is printed all the same
            found, unfinished = stopped.estimate, True
    if file is not None:
        found.save(file)
    if as_json:
        saved = {} if file is None else {"saved": out}
        asked = asked_for(problem, learnable)
        print_json({**asked, **found.to_dict(), "unfinished": unfinished, **saved})
    else:
        begun = f"unfinished, {found.trials} of {trials} trials: " if unfinished else ""
        kept = [] if file is None else [f"{found.trials} trials kept in {file}"]
        typer.echo("\n".join([f"{begun}{found}", *found.details, *kept]))
    if unfinished:
        raise typer.Exit(INTERRUPTED)


def _question(labels: bool, fresh: bool, within: bool, several: bool) -> str:
    if labels:
        return LABELS
    if fresh:
        return FRESH_WITHIN if within else FRESH
    return (SEVERAL if several else WITHIN) if within else EXACT


def _check_taken(question: str, given: dict[str, Any]) -> None:
    """Refuse an option that says nothing about the question."""
    for option, value in given.items():
        if value is None or value is False or question in _TAKEN[option]:
            continue
        words = option if value is True else f"{option} {value}"
        raise BadInputError(
            f"{words} goes with {' or '.join(_TAKEN[option])}, and not with {question}."
        )
