"""The command line. It parses, calls the verbs and prints; it holds no science."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from sublearn.allocations import Allocation
    from sublearn.ensembles import Problem

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="If only some of a network's weights may change: which ones, is it enough, how sure?",
)

NetworkOption = Annotated[
    str,
    typer.Option(
        "--network",
        metavar="SPEC",
        help="lrnn:n=8,b=1,d=4,T=4 | ffn:4-8-8-6[,activation=relu][,output=..][,bias=yes] | "
        "rnn:n=..,b=..,d=..,T=..,activation=tanh | linear:inputs=..,outputs=..",
    ),
]
SamplesOption = Annotated[int, typer.Option("--samples", help="The number m of samples to match.")]
LearnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--learn",
        metavar="NAME:WHAT",
        help="Learnable entries; give it several times for a union. W:first-rows=5,seed=0 | "
        "W:first-columns=3,count=8 | W:entries=0.0/1.2 | W:rows=0-3 | W:columns=0/2 | W:diagonal | "
        "W:block=0-3x0-3 | W:spread=16 | W:all",
    ),
]
FileOption = Annotated[
    str | None,
    typer.Option("--allocation", metavar="FILE", help="Read it from .json, .npz or .csv."),
]
WeightOption = Annotated[
    str | None, typer.Option("--weight", metavar="NAME", help="The weight a .csv mask belongs to.")
]
InputRankOption = Annotated[
    int | None, typer.Option("--input-rank", help="Inputs of this rank: dependent samples.")
]
TeacherOption = Annotated[
    str | None,
    typer.Option("--teacher", metavar="SPEC", help="Another teacher network, or 'none'."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
OutOption = Annotated[
    str | None, typer.Option("--out", metavar="FILE", help="Write the allocation to this file.")
]
ErrorOption = Annotated[
    float, typer.Option("--error", help="Largest probability of error where chance is involved.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of the random points and primes.")]
ScoresOption = Annotated[
    list[str] | None,
    typer.Option("--scores", metavar="NAME:FILE", help="Scores as .csv or .npy, higher is better."),
]
ForbiddenOption = Annotated[
    list[str] | None,
    typer.Option("--forbidden", metavar="NAME:WHAT", help="Entries that must stay frozen."),
]
RequiredOption = Annotated[
    list[str] | None,
    typer.Option("--required", metavar="NAME:WHAT", help="Entries that must be learnable."),
]


def _version(wanted: bool) -> None:
    if wanted:
        from sublearn import __version__

        typer.echo(f"sublearn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def certify(
    network: NetworkOption,
    samples: SamplesOption,
    learn: LearnOption = None,
    allocation: FileOption = None,
    weight: WeightOption = None,
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
    error: ErrorOption = 1e-12,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Say, without sampling, whether an allocation can match always, never, or sometimes."""
    from sublearn.verdicts import certify as verb

    problem = _problem(network, samples, input_rank, teacher)
    held = _allocation(problem, learn, allocation, weight)
    verdict = verb(problem, held, error=error, seed=seed)
    if as_json:
        _print_json({**_asked(problem, held), **verdict.to_dict()})
        return
    console = _console()
    _show_picture(console, held, verdict.idle if verdict.wasted else None)
    _show_verdict(console, verdict)


@app.command()
def design(
    network: NetworkOption,
    samples: SamplesOption,
    learn: Annotated[
        list[str], typer.Option("--learn", metavar="NAME", help="A weight to choose from.")
    ],
    scores: ScoresOption = None,
    forbidden: ForbiddenOption = None,
    required: RequiredOption = None,
    want: Annotated[
        str | None, typer.Option("--want", help="'maximal' or 'best score'.", show_default=False)
    ] = None,
    input_rank: InputRankOption = None,
    teacher: TeacherOption = None,
    error: ErrorOption = 1e-12,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the best allocation: proved to match always, or with the best score."""
    from sublearn.designs import design as verb
    from sublearn.ensembles import learn_from_text
    from sublearn.verdicts import certify as check

    problem = _problem(network, samples, input_rank, teacher)
    net = problem.network
    chosen = verb(
        problem,
        learn,
        scores=_scores(net.shapes, scores),
        forbidden=learn_from_text(net, forbidden or []).draw(problem),
        required=learn_from_text(net, required or []).draw(problem),
        want=want,
        error=error,
        seed=seed,
    )
    verdict = check(problem, chosen, error=error, seed=seed)
    if out is not None:
        chosen.save(out)
    if as_json:
        _print_json({**_asked(problem, chosen), **verdict.to_dict()})
        return
    console = _console()
    _show_picture(console, chosen, None)
    _show_verdict(console, verdict)
    if out is not None:
        console.print(f"written to {out}", highlight=False, markup=False)


@app.command()
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
    error: ErrorOption = 1e-12,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move the fewest weights such that none is wasted."""
    from sublearn.designs import repair as verb
    from sublearn.ensembles import learn_from_text
    from sublearn.verdicts import certify as check

    problem = _problem(network, samples, input_rank, teacher)
    held = _allocation(problem, learn, allocation, weight)
    mended = verb(
        problem,
        held,
        scores=_scores(problem.network.shapes, scores),
        forbidden=learn_from_text(problem.network, forbidden or []).draw(problem),
        learn=into,
        error=error,
        seed=seed,
    )
    verdict = check(problem, mended, error=error, seed=seed)
    left, came = held - mended, mended - held
    if out is not None:
        mended.save(out)
    if as_json:
        moved = {"removed": _entries(left), "added": _entries(came)}
        _print_json({**_asked(problem, mended), **moved, **verdict.to_dict()})
        return
    console = _console()
    if not len(left):
        console.print("nothing to repair: no weight is wasted")
    _show_picture(console, mended, None)
    for gone, new in zip(left.labels(), came.labels(), strict=True):
        console.print(f"moved {_label(gone)} to {_label(new)}", highlight=False, markup=False)
    _show_verdict(console, verdict)
    if out is not None:
        console.print(f"written to {out}", highlight=False, markup=False)


@app.command()
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

    problem = _problem(network, samples, None, None)
    count = verb(problem, learn, draws=draws, seed=seed)
    if as_json:
        asked = {"network": problem.network.spec, "samples": samples, "weight": learn}
        _print_json({**asked, **asdict(count), "grade": count.grade.to_dict()})
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


def _problem(network: str, samples: int, input_rank: int | None, teacher: str | None) -> Problem:
    from sublearn.ensembles import Ensemble, LowRank, Normal, Problem, Targets
    from sublearn.networks import Network, network_from_text

    inputs = Normal() if input_rank is None else LowRank(rank=input_rank)
    other: Network | Targets | None = None
    if teacher is not None:
        other = Targets() if teacher == "none" else network_from_text(teacher)
    return Problem(network_from_text(network), samples, Ensemble(inputs=inputs), other)


def _allocation(
    problem: Problem, learn: list[str] | None, file: str | None, weight: str | None
) -> Allocation:
    from sublearn._errors import BadInputError
    from sublearn.allocations import Allocation
    from sublearn.ensembles import learn_from_text

    if not learn and file is None:
        raise BadInputError("say what is learnable, with --learn NAME:WHAT or --allocation FILE.")
    held = learn_from_text(problem.network, learn or []).draw(problem)
    return held if file is None else held | Allocation.load(file, problem.network, weight)


def _scores(shapes: dict[str, tuple[int, int]], texts: list[str] | None) -> dict[str, Any] | None:
    import numpy as np

    from sublearn._errors import BadInputError, one_of

    if not texts:
        return None
    out = {}
    for text in texts:
        name, colon, path = text.partition(":")
        one_of("weight name", name, shapes)
        if not colon or Path(path).suffix not in (".csv", ".npy"):
            raise BadInputError(f"--scores {text!r} must read NAME:FILE with a .csv or .npy file.")
        try:
            numpy_file = path.endswith(".npy")
            out[name] = np.load(path) if numpy_file else np.loadtxt(path, delimiter=",", ndmin=2)
        except (OSError, ValueError) as problem:
            raise BadInputError(f"{path} cannot be read as scores ({problem}).") from None
    return out


def _entries(allocation: Allocation) -> dict[str, list[list[int]]]:
    return {name: [list(e) for e in allocation.entries[name]] for name in allocation.names}


def _asked(problem: Problem, allocation: Allocation) -> dict[str, Any]:
    from sublearn import __version__

    return {
        "sublearn": __version__,
        "network": problem.network.spec,
        "samples": problem.samples,
        "entries": _entries(allocation),
        "digest": allocation.digest,
    }


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, indent=1, allow_nan=False))


def _label(label: tuple[str, int, int]) -> str:
    name, i, j = label
    return f"{name}({i}, {j})"


# Colours of Okabe and Ito (2008), which the colour-blind can tell apart; the marks differ as well.
_COLOURS = {"label": "dim", "frozen": "dim", "learnable": "#0072B2 bold", "wasted": "#D55E00 bold"}
_LARGEST_PICTURE = 64


def _console() -> Console:
    from rich.console import Console

    return Console(soft_wrap=False)


def _show_picture(console: Console, allocation: Allocation, wasted: Allocation | None) -> None:
    from rich.text import Text

    from sublearn.allocations import cells

    widest = max(max(allocation.shapes[name]) for name in allocation.names)
    lines = cells(allocation, wasted) if widest <= _LARGEST_PICTURE else []
    if not lines or max(sum(len(t) for t, _ in line) for line in lines) > console.width:
        for name in allocation.names:
            rows, columns = allocation.shapes[name]
            count = allocation.flat(name).size
            lost = 0 if wasted is None else wasted.flat(name).size
            note = f", {lost} of them wasted" if lost else ""
            console.print(f"{name} ({rows} x {columns}): {count} learnable{note}", highlight=False)
        return
    for line in lines:
        console.print(Text.assemble(*((text, _COLOURS[meaning]) for text, meaning in line)))
    legend = [("#", "learnable", "learnable"), (".", "frozen", "frozen")]
    if wasted is not None:
        legend.insert(1, ("x", "wasted", "learnable but wasted"))
    marks = [((mark, _COLOURS[key]), f" {words}   ") for mark, key, words in legend]
    console.print(Text.assemble(*(piece for pair in marks for piece in pair)))


_KIND_COLOURS = {
    "maximal": "bold #009E73",
    "minimal": "bold #D55E00",
    "between": "bold #0072B2",
    "unknown": "bold #CC79A7",
}


def _show_verdict(console: Console, verdict: Any) -> None:
    from rich.padding import Padding
    from rich.text import Text

    first, second, *rest = str(verdict).splitlines()
    console.print()
    head = Text(first)
    head.stylize(_KIND_COLOURS[verdict.kind], 0, len(verdict.kind))
    console.print(head)
    console.print(Text(second))
    for line in rest:
        console.print(Padding(Text(line.removeprefix("- ")), (0, 0, 0, 2)))
    if verdict.counts is not None:
        rows, columns = verdict.counts.by_rows.left, verdict.counts.by_columns.left
        heuristic = f"quadratic equations left: {rows} by rows, {columns} by columns"
        console.print(Text(heuristic, style="dim"))


def _fail(message: str) -> NoReturn:
    typer.echo(f"sublearn: {message}", err=True)
    raise SystemExit(2)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    run: Callable[..., Any] = app
    from sublearn._errors import BadInputError

    try:
        run()
    except BadInputError as problem:
        _fail(str(problem))
    except OSError as problem:
        _fail(f"{problem.filename or 'a file'}: {problem.strerror}.")
    except KeyboardInterrupt:
        with suppress(BrokenPipeError):
            typer.echo("interrupted", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
