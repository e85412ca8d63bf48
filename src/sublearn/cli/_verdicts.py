"""certify, design, repair, census and patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import BadInputError
from sublearn._kinds import BETWEEN, UNKNOWN
from sublearn.cli._asking import DrawnProblem, Learnable, OwnProblem
from sublearn.cli._options import (
    AutapsesOption,
    ForbiddenOption,
    InputRankOption,
    JsonOption,
    SeedOption,
    TeacherOption,
    read_entries,
    read_problem,
    read_scores,
)
from sublearn.cli._out import Out, ProofOut, tell_written
from sublearn.cli._progress import progress_bar, working
from sublearn.cli._show import (
    ask_again,
    described,
    entries,
    label,
    make_console,
    print_json,
    say,
    show_picture,
    show_verdict,
    tell_next,
)

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.cli._own import OwnData
    from sublearn.designs import Design
    from sublearn.ensembles import Problem


@dataclass(frozen=True)
class Sureness:
    """How sure a verdict has to be, and how it is told."""

    error: Annotated[float, "Largest probability of error where chance is involved."] = 1e-12
    seed: SeedOption = 0
    as_json: JsonOption = False

    def rank_given(self, own: OwnData | None, problem: Problem, mask: Allocation) -> dict[str, Any]:
        """Tell the rank at the weights and inputs of --data, or return it for JSON."""
        if own is None:
            return {}
        return own.tell_rank(problem, mask, self.error, self.seed, self.as_json)


@dataclass(frozen=True)
class VerdictOut(Out):
    """Where an allocation and its verdict are written."""

    out: Annotated[
        str | None,
        "DIR|FILE",
        "A folder for picture, table and mask; or a .json, .npz, .npy or .csv for the mask.",
    ] = None

    name = "verdict"
    files = ("mask.json",)

    @property
    def endings(self) -> tuple[str, ...]:
        from sublearn.allocations import SUFFIXES

        return SUFFIXES


class CertifiedOut(ProofOut):
    name = "verdict"


def certify(
    context: typer.Context,
    about: OwnProblem,
    learnable: Learnable,
    sure: Sureness,
    place: CertifiedOut,
    count: Annotated[bool, "Count complex solutions too: odd means maximal."] = False,
    theorems: Annotated[bool, "What the sources' theorems say of it, in full."] = False,
) -> None:
    """Say, without sampling, whether an allocation can match always, never, or sometimes."""
    from sublearn.verdicts import certify as verb

    problem, own = about.read()
    without = ""
    with working("certify"):
        mask = learnable.once(problem)
        files: dict[str, Any] = {"mask.json": mask.save}
        verdict = verb(problem, mask, count=count, error=sure.error, seed=sure.seed)
        if place.out is not None:
            try:
                files = {"certificate.json": verdict.certificate().save, **files}
            except BadInputError as why:  # a folder has other files to take
                if place.is_file:
                    raise
                without = str(why)
    saved = place.write(verdict, files)
    if sure.as_json:
        here = sure.rank_given(own, problem, mask)
        print_json({**described(problem, mask), **verdict.to_dict(), **here, "saved": saved})
        return
    console = make_console()
    show_picture(console, mask, verdict.idle if verdict.circuit is not None else None)
    show_verdict(console, verdict, theorems=theorems)
    sure.rank_given(own, problem, mask)
    tell_written(saved)
    if without:
        say(f"no certificate: {without}")
    elif saved:
        say(f"check it with: sublearn check {place.file('certificate.json')}")
    if verdict.kind in (BETWEEN, UNKNOWN):
        if own is None or own.targets is None:
            tell_next(ask_again(context, "estimate"))
        else:  # measured targets are matched up to a tolerance
            tell_next(ask_again(context, "decide-within", "--eps", "0.001"))


@dataclass(frozen=True)
class Choosing(Sureness):
    """How an allocation is chosen: what entries are worth, which are barred, and for how long one looks."""

    scores: Annotated[
        list[str] | None, "NAME:FILE", "Scores as .csv or .npy, higher is better."
    ] = None
    forbidden: ForbiddenOption = None
    effort: Annotated[
        int | None,
        typer.Option(min=0, help="Steps of the search over gates (ReLU).", show_default="2000"),
    ] = None

    @contextmanager
    def options(self, problem: Problem, what: str) -> Iterator[dict[str, Any]]:
        """What both verbs take of this, with a bar that shows how far they are."""
        from sublearn.designs import EFFORT

        with progress_bar(1, what) as advance:
            yield {
                "scores": read_scores(problem.network.shapes, self.scores),
                "forbidden": read_entries(problem, self.forbidden),
                "effort": EFFORT if self.effort is None else self.effort,
                "error": self.error,
                "seed": self.seed,
                "progress": _parts(advance),
            }

    def show(
        self,
        problem: Problem,
        chosen: Design,
        place: VerdictOut,
        before: Allocation | None = None,
        own: OwnData | None = None,
    ) -> None:
        """Save and print what was chosen, with what moved since ``before``, and its verdict."""
        from sublearn.verdicts import certify as check

        with working("certify"):
            verdict = check(problem, chosen, error=self.error, seed=self.seed)
        saved = place.write(verdict, {"mask.json": chosen.save})
        left, came = (chosen, chosen) if before is None else (before - chosen, chosen - before)
        if self.as_json:
            moved = {} if before is None else {"removed": entries(left), "added": entries(came)}
            said = {**described(problem, chosen), **moved, "design": chosen.to_dict()}
            here = self.rank_given(own, problem, chosen)
            print_json({**said, **verdict.to_dict(), **here, "saved": saved})
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
        self.rank_given(own, problem, chosen)
        tell_written(saved)


def _parts(advance: Callable[[float, str], None]) -> Callable[[int, int], None]:
    return lambda done, of: advance(done / of, "")


def design(
    about: OwnProblem,
    learn: Annotated[list[str], "NAME", "A weight to choose from."],
    required: Annotated[
        list[str] | None,
        "NAME:WHAT|FILE",
        "Entries that must be learnable: as in --learn, or a file as in --forbidden.",
    ] = None,
    plastic: Annotated[
        str | None,
        "COUNT",
        "A budget: 200 | 20% (of the weights that may be chosen) | '2 per row' | '3 per column'.",
    ] = None,
    no_autapses: AutapsesOption = False,
    want: Annotated[
        str | None, typer.Option(help="'maximal' or 'best score'.", show_default=False)
    ] = None,
    *,
    choice: Choosing,
    place: VerdictOut,
) -> None:
    """Choose an allocation: proved to match always, or with the best score, as far as that is proved."""
    from sublearn.designs import CountError
    from sublearn.designs import design as verb

    problem, own = about.read()
    must = read_entries(problem, required)
    with choice.options(problem, "design") as options:
        options |= {"want": want, "count": plastic, "autapses": not no_autapses}
        try:
            chosen = verb(problem, learn, required=must, **options)
        except CountError as why:  # it says count, as Python does
            raise BadInputError(f"--plastic: the {why}") from None
    choice.show(problem, chosen, place, own=own)


def repair(
    about: DrawnProblem,
    learnable: Learnable,
    choice: Choosing,
    place: VerdictOut,
    into: Annotated[list[str] | None, "NAME", "Weights that may take what moves."] = None,
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
) -> None:
    """Move the fewest weights such that none is wasted, as far as that is proved."""
    from sublearn.designs import repair as verb

    problem = read_problem(about.network, about.samples, input_rank, teacher)
    before = learnable.once(problem)
    with choice.options(problem, "repair") as options:
        mended = verb(problem, before, learn=into, **options)
    choice.show(problem, mended, place, before)


def census(
    about: DrawnProblem,
    learn: Annotated[str, "NAME", "The weight to look at."],
    draws: Annotated[int | None, typer.Option(min=1, help="Draw so many instead of all.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Count the allocations of one weight that keep all degree bounds and still cannot match."""
    from sublearn.verdicts import census as verb

    problem = about.problem
    with progress_bar(1, "census") as advance:
        count = verb(problem, learn, draws=draws, seed=seed, progress=_parts(advance))
    if as_json:
        print_json({**described(problem), **count.to_dict()})
        return
    typer.echo(str(count))


def patterns(
    about: DrawnProblem,
    learnable: Learnable,
    rank: Annotated[bool, "Also count those of full rank; k m at most 16."] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Count the activation patterns that Lemmas D.3 and D.4 leave to a shallow ReLU network."""
    from sublearn.patterns import allocation_patterns, full_rank_patterns, learnable_rows

    problem = about.problem
    mask = learnable.once(problem)
    full = full_rank_patterns(problem, mask, seed=seed) if rank else None
    counts = replace(allocation_patterns(problem, mask), full_rank=full)
    rows = learnable_rows(mask)
    if as_json:
        print_json(
            {**described(problem, mask), "rows": rows, **counts.to_dict(), "full_rank": full}
        )
        return
    sizes = ", ".join(f"{count} in row {row}" for row, count in rows.items())
    typer.echo(f"learnable: {sizes}; {problem.samples} samples")
    typer.echo(str(counts))
