"""certify, design, repair and census."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sublearn.cli._options import (
    EffortOption,
    ErrorOption,
    FileOption,
    ForbiddenOption,
    InputRankOption,
    JsonOption,
    LearnOption,
    NetworkOption,
    OutOption,
    OwnOption,
    OwnSamplesOption,
    RequiredOption,
    SamplesOption,
    ScoresOption,
    SeedOption,
    TeacherOption,
    WeightOption,
    read_allocation,
    read_asked,
    read_entries,
    read_problem,
    read_scores,
)
from sublearn.cli._out import check_file
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import (
    ask_again,
    asked,
    entries,
    label,
    make_console,
    print_json,
    show_picture,
    show_verdict,
)

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.cli._own import OwnData
    from sublearn.designs import Design
    from sublearn.ensembles import Problem


def certify(
    context: typer.Context,
    network: NetworkOption,
    samples: OwnSamplesOption = None,
    learn: LearnOption = None,
    allocation: FileOption = None,
    weight: WeightOption = None,
    data: OwnOption = None,
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
    count: Annotated[
        bool, typer.Option("--count", help="Count complex solutions too: odd means maximal.")
    ] = False,
    theorems: Annotated[
        bool, typer.Option("--theorems", help="What the sources' theorems say of it, in full.")
    ] = False,
    error: ErrorOption = 1e-12,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Say, without sampling, whether an allocation can match always, never, or sometimes."""
    from sublearn.verdicts import certify as verb

    problem, own = _read_own(network, samples, input_rank, teacher, data)
    held = read_allocation(problem, learn, allocation, weight)
    verdict = verb(problem, held, count=count, error=error, seed=seed)
    if as_json:
        here = {} if own is None else own.tell_rank(problem, held, error, seed, as_json)
        print_json({**asked(problem, held), **verdict.to_dict(), **here})
        return
    console = make_console()
    show_picture(console, held, verdict.idle if verdict.circuit is not None else None)
    show_verdict(console, verdict, theorems=theorems)
    if own is not None:
        own.tell_rank(problem, held, error, seed, as_json)
    if verdict.kind == "between" and own is None:
        typer.echo(f"next: {ask_again(context, 'estimate')}")
    elif verdict.kind == "between" and own is not None and own.targets is not None:
        typer.echo(f"next: {ask_again(context, 'decide', '--within', '0.001')}")


def design(
    network: NetworkOption,
    learn: Annotated[
        list[str], typer.Option("--learn", metavar="NAME", help="A weight to choose from.")
    ],
    samples: OwnSamplesOption = None,
    scores: ScoresOption = None,
    forbidden: ForbiddenOption = None,
    required: RequiredOption = None,
    plastic: Annotated[
        str | None,
        typer.Option(
            "--plastic",
            metavar="COUNT",
            help="A budget: 200 | 20% (of the weights that may be chosen) | '2 per row' | '3 per column'.",
        ),
    ] = None,
    no_autapses: Annotated[
        bool, typer.Option("--no-autapses", help="No unit is connected to itself.")
    ] = False,
    want: Annotated[
        str | None, typer.Option("--want", help="'maximal' or 'best score'.", show_default=False)
    ] = None,
    data: OwnOption = None,
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
    effort: EffortOption = None,
    error: ErrorOption = 1e-12,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose an allocation: proved to match always, or with the best score, as far as that is proved."""
    from sublearn.designs import EFFORT
    from sublearn.designs import design as verb

    _check_out(out)
    problem, own = _read_own(network, samples, input_rank, teacher, data)
    worth = read_scores(problem.network.shapes, scores)
    barred, must = read_entries(problem, forbidden), read_entries(problem, required)
    with progress_bar(1, "design") as advance:
        chosen = verb(
            problem,
            learn,
            scores=worth,
            forbidden=barred,
            required=must,
            want=want,
            count=plastic,
            autapses=not no_autapses,
            effort=EFFORT if effort is None else effort,
            error=error,
            seed=seed,
            progress=lambda done, of: advance(done / of, ""),
        )
    _show_design(problem, chosen, error, seed, out, as_json, own=own)


def _read_own(
    network: str,
    samples: int | None,
    input_rank: int | None,
    teacher: str | None,
    data: str | None,
) -> tuple[Problem, OwnData | None]:
    """The problem, and arrays of one's own; labelled data have no density, hence no generic verdict."""
    from sublearn._errors import BadInputError
    from sublearn.cli._own import is_own

    if data is not None and not is_own(data):
        raise BadInputError(
            f"--data must name a .npz file with inputs, targets or weights, not {data!r}: labelled data "
            "are for estimate, decide and train."
        )
    return read_asked(network, samples, input_rank, teacher, data)


def _check_out(out: str | None) -> None:
    from sublearn.allocations import SUFFIXES

    check_file(out, SUFFIXES)


def _show_design(
    problem: Problem,
    chosen: Design,
    error: float,
    seed: int,
    out: str | None,
    as_json: bool,
    before: Allocation | None = None,
    own: OwnData | None = None,
) -> None:
    """Save and print what was chosen, with what moved since ``before``, and its verdict."""
    from sublearn.verdicts import certify as check

    verdict = check(problem, chosen, error=error, seed=seed)
    if out is not None:
        chosen.save(out)
    left, came = (chosen, chosen) if before is None else (before - chosen, chosen - before)
    if as_json:
        moved = {} if before is None else {"removed": entries(left), "added": entries(came)}
        said = {**asked(problem, chosen), **moved, "design": chosen.to_dict()}
        here = {} if own is None else own.tell_rank(problem, chosen, error, seed, as_json)
        print_json({**said, **verdict.to_dict(), **here})
        return
    console = make_console()
    if not len(left):
        console.print("nothing to repair: no weight is wasted")
    show_picture(console, chosen, None)
    if before is not None:
        for gone, new in zip(left.labels(), came.labels(), strict=True):
            console.print(f"moved {label(gone)} to {label(new)}", highlight=False, markup=False)
    console.print(chosen.words, highlight=False, markup=False)
    show_verdict(console, verdict)
    if own is not None:
        own.tell_rank(problem, chosen, error, seed, as_json)
    if out is not None:
        console.print(f"written to {out}", highlight=False, markup=False)


def repair(
    network: NetworkOption,
    samples: SamplesOption,
    learn: LearnOption = None,
    allocation: FileOption = None,
    weight: WeightOption = None,
    scores: ScoresOption = None,
    forbidden: ForbiddenOption = None,
    into: Annotated[
        list[str] | None,
        typer.Option("--into", metavar="NAME", help="Weights that may take what moves."),
    ] = None,
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
    effort: EffortOption = None,
    error: ErrorOption = 1e-12,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move the fewest weights such that none is wasted, as far as that is proved."""
    from sublearn.designs import EFFORT
    from sublearn.designs import repair as verb

    _check_out(out)
    problem = read_problem(network, samples, input_rank, teacher)
    before = read_allocation(problem, learn, allocation, weight)
    worth, barred = read_scores(problem.network.shapes, scores), read_entries(problem, forbidden)
    with progress_bar(1, "repair") as advance:
        mended = verb(
            problem,
            before,
            scores=worth,
            forbidden=barred,
            learn=into,
            effort=EFFORT if effort is None else effort,
            error=error,
            seed=seed,
            progress=lambda done, of: advance(done / of, ""),
        )
    _show_design(problem, mended, error, seed, out, as_json, before)


def census(
    network: NetworkOption,
    samples: SamplesOption,
    learn: Annotated[str, typer.Option("--learn", metavar="NAME", help="The weight to look at.")],
    draws: Annotated[
        int | None, typer.Option("--draws", min=1, help="Draw so many instead of all.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Count the allocations of one weight that keep all degree bounds and still cannot match."""
    from dataclasses import asdict

    from sublearn.verdicts import census as verb

    problem = read_problem(network, samples, None, None)
    with progress_bar(1, "census") as advance:
        count = verb(
            problem, learn, draws=draws, seed=seed, progress=lambda done, of: advance(done / of, "")
        )
    if as_json:
        print_json(
            {**asked(problem), "weight": learn, **asdict(count), "grade": count.grade.to_dict()}
        )
        return
    size = problem.effective_equations
    looked = "random allocations" if count.drawn else "allocations"
    share = f" ({count.deficient / count.feasible:.1%})" if count.feasible else ""
    lines = [f"{count.total} {looked} of {size} weights of {learn}"]
    if not count.drawn:
        lines.append(f"{count.feasible} of them keep every degree bound")
    lines.append(f"{count.deficient} of these {count.feasible} are deficient all the same{share}")
    if count.unbound:
        lines.append(f"{count.unbound} break a bound and have full rank")
    lines.append(f"grade: {count.grade}")
    typer.echo("\n".join(lines))
