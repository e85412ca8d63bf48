"""estimate, decide, check and doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn.cli._counts import counted, show_counts
from sublearn.cli._options import (
    LEARNER_NAMES,
    DataOption,
    FileOption,
    InputRankOption,
    JsonOption,
    LearnOption,
    NetworkOption,
    SamplesOption,
    TeacherOption,
    WeightOption,
    read_learn,
    read_problem,
)
from sublearn.cli._out import check_file
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import asked as asked_for
from sublearn.cli._show import print_json
from sublearn.cli._within import Request
from sublearn.cli._within import fresh as run_fresh
from sublearn.cli._within import labels as run_labels
from sublearn.cli._within import within as run_within

if TYPE_CHECKING:
    from sublearn.estimates import Estimate


def estimate(
    network: NetworkOption,
    samples: SamplesOption,
    learn: LearnOption = None,
    allocation: FileOption = None,
    weight: WeightOption = None,
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
    data: DataOption = None,
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
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draws.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Decide many instances, and say how often a match exists.

    A rule such as W:first-rows=5 draws an allocation anew for each trial, as the paper does; with
    seed=0 behind it one allocation is drawn and kept. With --within the question is another one: how
    many instances does a learner bring within eps? With --fresh it is what a match is worth on samples
    that it was not made for.
    """
    from dataclasses import replace

    from sublearn._errors import BadInputError
    from sublearn.estimates import estimate as verb
    from sublearn.matchers import Budget
    from sublearn.training import LEARNERS

    problem = read_problem(network, samples, input_rank, teacher, data)
    asked = read_learn(problem, learn, allocation, weight)
    if method is not None and (within is not None or labels or method.split(",")[0] in LEARNERS):
        # Another spelling of --learner, as train has it too.
        learner, method = learner or method, None
    request = Request(
        problem,
        asked,
        trials,
        within,
        learner,
        steps,
        starts,
        rate,
        seed,
        precision,
        workers,
        as_json,
    )
    if labels:
        if data is None or within is not None or precision is not None or count or always:
            raise BadInputError(
                "--labels needs --data, and goes without --within, --precision, --count and --always."
            )
        run_labels(request)
        return
    if (within is not None or fresh is not None) and (count or always):
        raise BadInputError("--count and --always do not go with --within or --fresh.")
    for option, value in (("--learner", learner), ("--steps", steps), ("--rate", rate)):
        if within is None and value is not None:
            raise BadInputError(
                f"{option} {value} is for a match within eps: give --within EPS with it, or --labels."
            )
    if fresh is not None:
        if method not in (None, "ladder"):
            raise BadInputError(
                f"--fresh goes without --method {method}: it decides by the ladder."
            )
        run_fresh(request, fresh)
        return
    if within is not None:
        run_within(request)
        return
    budget = Budget() if starts is None else replace(Budget(), starts=starts)
    with progress_bar(trials, "estimate") as advance:

        def show(now: Estimate) -> None:
            low, high = now.bracket
            counts = f"{now.matched} matched, {now.refuted} refuted, {now.undecided} undecided"
            advance(now.trials, f"{counts}  [{low:.3f}, {high:.3f}]")

        found, unfinished = counted(
            lambda: verb(
                problem,
                asked,
                trials,
                seed=seed,
                precision=precision,
                budget=budget,
                method=method,
                count=count,
                sample_always=always,
                workers=workers,
                progress=show,
            )
        )
    question = asked_for(problem, asked)
    show_counts(question, found, unfinished, trials, as_json, lambda: _tell_how(found))


def _tell_how(found: Estimate) -> None:
    if found.sampled:
        rungs = ", ".join(f"{rung} {count}" for rung, count in found.rungs.items())
        typer.echo(f"decided by: {rungs or 'none'}")
        if found.curve:
            typer.echo(f"restarts against matches: {_curve(found.curve)}")
        typer.echo(f"{found.seconds:.1f} s")


def _curve(curve: list[tuple[int, int]]) -> str:
    """A few points of the saturation curve: matches after 1, 2, 5, 10, ... starts."""
    marks = [0, 1, 2, 5, 10, 20, 50, 100, 200, 400, 1000, 3000]
    last = curve[-1][0]
    shown = []
    for mark in [m for m in marks if m < last] + [last]:
        matches = max((total for starts, total in curve if starts <= mark), default=0)
        shown.append(f"{matches} by {mark}")
    return ", ".join(shown)


def decide(
    network: NetworkOption,
    samples: SamplesOption,
    learn: LearnOption = None,
    allocation: FileOption = None,
    weight: WeightOption = None,
    within: Annotated[
        float | None,
        typer.Option(
            "--within",
            metavar="EPS",
            help="Ask instead whether some weights bring every output within EPS of its target.",
        ),
    ] = None,
    trial: Annotated[int, typer.Option("--trial", min=0, help="Which instance to draw.")] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draw.")] = 0,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Save the certificate as .json.")
    ] = None,
    data: DataOption = None,
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide one instance, the trial that estimate would draw, and save its certificate.

    With --within the question is not an exact match but whether max |output - target| can be at most
    EPS, over all values of the learnable weights. (estimate --within asks a third one: what a learner
    reaches.)
    """
    from sublearn._errors import BadInputError
    from sublearn.ensembles import draw
    from sublearn.matchers import decide as verb
    from sublearn.matchers import decide_within

    check_file(out)
    if out is not None and within is not None:
        raise BadInputError(
            f"--out {out} goes without --within: weights within eps need no certificate, since running "
            "the network shows it; --json prints them."
        )
    problem = read_problem(network, samples, input_rank, teacher, data)
    asked = read_learn(problem, learn, allocation, weight)
    instance = draw(problem, asked, seed=seed, trial=trial)
    found = (
        verb(instance, seed=seed) if within is None else decide_within(instance, within, seed=seed)
    )
    saved = out if out is not None and found.certificate is not None else None
    if saved is not None and found.certificate is not None:
        found.certificate.save(saved)
    if as_json:
        values = None if found.values is None else found.values.tolist()
        grade = None if found.grade is None else found.grade.to_dict()
        # The rules, if there are any, and in every case the entries that were decided about.
        question = {**asked_for(problem, asked), **asked_for(problem, instance.allocation)}
        question |= {"seed": seed, "trial": trial} | ({} if within is None else {"within": within})
        plain = {"kind": found.kind, "rung": found.rung, "reason": found.reason, "grade": grade}
        tail = {"values": values, "effort": vars(found.effort), "saved": saved}
        print_json({**question, **plain, **tail})
        return
    typer.echo(str(found))
    if saved is not None:
        typer.echo(f"certificate written to {saved}; check it with: sublearn check {saved}")
    elif out is not None:
        typer.echo(f"{out} not written: only a match that is proved has a certificate")


def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A saved certificate.")],
    as_json: JsonOption = False,
) -> None:
    """Verify a saved certificate again, from its numbers alone."""
    from sublearn.matchers import Certificate

    certificate = Certificate.load(file)
    found = certificate.check()
    if as_json:
        print_json({"valid": bool(found), "reason": found.reason})
    else:
        typer.echo(f"{'valid' if found else 'NOT valid'}: {found.reason}")
    if not found:
        raise typer.Exit(1)


def doctor(
    compile_all: Annotated[
        bool, typer.Option("--compile", help="Compile all machine code now, a minute or two, once.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what is installed: versions, optional parts, threads."""
    if compile_all:
        from sublearn.experiments import ALL, rehearse

        chosen = list(ALL.values())
        with progress_bar(2 * len(chosen), "compile") as advance:
            rehearse(chosen, advance)
    found = _examine()
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        missing = (
            f"not found: pip install 'sublearn[{_EXTRA[name]}]'" if name in _EXTRA else "not found"
        )
        typer.echo(f"{name:<14} {missing if value is None else value}")


_NEEDED = ("numpy", "scipy", "numba", "python-flint", "matplotlib", "pyarrow", "typer", "rich")
_EXTRA = {"mlxtend": "data", "scikit-learn": "data", "jax": "jax", "distributed": "dask"}


def _examine() -> dict[str, Any]:
    import os
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from sublearn import __version__
    from sublearn.matchers._threads import _controller
    from sublearn.verdicts.counts import find_msolve, msolve_version

    out: dict[str, Any] = {"sublearn": __version__, "python": platform.python_version()}
    for package in (*_NEEDED, *_EXTRA):
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = None
    path = find_msolve()
    out["msolve"] = None if path is None else f"{msolve_version() or 'found'}"
    out["cores"] = os.cpu_count()
    pools = _controller().info()
    blas = [f"{pool['internal_api']} {pool['num_threads']}" for pool in pools]
    out["blas threads"] = ", ".join(sorted(set(blas)))
    return out
