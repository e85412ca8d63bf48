"""models: which weights of one's own model to tune, whether they are enough, how choices compare."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sublearn._errors import BadInputError, first_line, one_of
from sublearn.cli._options import JsonOption, read_numbers
from sublearn.cli._out import Out, check_file, tell_written
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import print_json
from sublearn.cli._usage import add_commands

# What a maker's dict may hold besides the model and its samples.
_OPTIONAL = ("loss", "step", "loop", "metric", "forward", "test")
MakerOption = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:FUNCTION",
        help="A function without arguments, in a module or a file ending in .py, that returns (model, "
        "inputs, labels), or a dict of these and of loss, step, loop, metric, forward or test.",
    ),
]


@dataclass(frozen=True)
class ShortRuns:
    """What a rule's worth is read from."""

    steps: Annotated[int, "Of each short run."] = 60
    folds: Annotated[int, "Parts of the samples held out in turn."] = 3


@dataclass(frozen=True)
class Runners(ShortRuns):
    """Who chooses: a race, or one rule alone."""

    method: Annotated[str, "'race', or one rule alone, such as 'pursuit'."] = "race"
    rules: Annotated[
        str | None, "Who runs, such as pursuit,last,magnitude (default: every rule)."
    ] = None
    resume: Annotated[str | None, "FILE", "Keep the race here, and go on from it."] = None


@dataclass(frozen=True)
class Eligible:
    """Which weights may be chosen."""

    within: Annotated[list[str] | None, "Choose from this layer; may be repeated."] = None
    forbidden: Annotated[list[str] | None, "Leave out; may be repeated."] = None
    required: Annotated[list[str] | None, "Choose in any case; may be repeated."] = None
    at_most: Annotated[int | None, "The largest number in any one layer."] = None
    unit: Annotated[str, "'entry', or 'row' for whole rows."] = "entry"


SeedOption = Annotated[int, typer.Option(min=0, help="Of all that is random.")]


def choose(
    maker: MakerOption,
    budget: Annotated[int, "How many weights may be tuned."],
    runners: Runners,
    limits: Eligible,
    out: Annotated[str | None, "FILE", "Write the choice to this .npz file."] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Choose which weights of a torch or JAX model to tune on your samples.

    By default rules and rates race on held-out parts of the samples, and the winner chooses again by
    all of them. What it will cost is said first; the model is left as it was.
    """
    file = check_file(out, (".npz",))
    made = read_maker(maker)
    made.pop("test", None)
    from sublearn.models import choose as verb

    with _watched("race") as watch:
        choice = verb(
            **made,
            budget=budget,
            **{**vars(runners), "rules": _words(runners.rules)},
            **{name: None if value == [] else value for name, value in vars(limits).items()},
            seed=seed,
            watch=watch,
            say=_say,
        )
    if file is not None:
        choice.save(file)
    if as_json:
        print_json({**choice.to_dict(), "saved": None if file is None else str(file)})
        return
    typer.echo(str(choice))
    if file is not None:
        typer.echo(f"written to {file}")


def audit(
    maker: MakerOption,
    mask: Annotated[
        str | None,
        "FILE",
        "A choice that was saved (default: the parameters that require a gradient).",
    ] = None,
    outputs: Annotated[
        int | None, "Look at so many outputs of each sample, drawn at random."
    ] = None,
    perturb: Annotated[
        float, "How far trainable weights are moved beforehand, in their size."
    ] = 0.01,
    precision: Annotated[str, "'double', 'single' or 'auto'."] = "auto",
    fail_on: Annotated[str, "Exit with 1 on 'warn', on 'fail', or 'never'."] = "fail",
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the report to this file.")
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Audit the weights of a model that may change: can they move the outputs at all?

    Rank, waste by layer with known causes, and a verdict: ok, warn or fail. It rests on floating
    point, and rank is a veto, no ranking. The model is left as it was.
    """
    one_of("--fail-on", fail_on, ("warn", "fail", "never"))
    file = check_file(json_file, (".json",), "--json")
    made = read_maker(maker, labelled=False)
    from sublearn.models import audit as verb

    report = verb(
        made["model"],
        made["inputs"],
        None if mask is None else Path(mask),
        made.get("labels") if outputs is None else None,
        outputs=outputs,
        forward=made.get("forward"),
        perturb=perturb,
        precision=precision,
        seed=seed,
    )
    typer.echo(str(report))
    if file is not None:
        report.save(file)
        typer.echo(f"written to {file}")
    raise typer.Exit(report.exit_code(fail_on))


class ComparisonOut(Out):
    name = "results"


def compare(
    maker: MakerOption,
    budget: Annotated[str, "One or more, such as 100,1000."],
    runs: ShortRuns,
    methods: Annotated[
        str | None, "Such as race,pursuit,last,all (default: race and every rule)."
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many repetitions.")] = 5,
    *,
    place: ComparisonOut,
    as_json: JsonOption = False,
) -> None:
    """Compare ways to choose weights on your own samples: methods x budgets x seeds.

    Every method's rate is tuned by the same folds with the same effort, and it is tested once on
    samples that nobody saw. Differences are paired by seed, with 95% intervals.
    """
    budgets = read_numbers("--budget", budget, int)
    made = read_maker(maker)
    from sublearn.models import compare as verb

    with _watched("comparison") as watch:
        comparison = verb(
            **made,
            budgets=budgets,
            methods=_words(methods),
            seeds=seeds,
            **vars(runs),
            watch=watch,
            say=_say,
        )
    saved = place.write(comparison)
    if as_json:
        print_json({**comparison.to_dict(), "saved": saved})
        return
    typer.echo(str(comparison))
    tell_written(saved)


def read_maker(text: str, labelled: bool = True) -> dict[str, Any]:
    """Call what ``MODULE:FUNCTION`` names; its answer as a dict with model, inputs and labels.

    Labels may be left out unless ``labelled``.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise BadInputError(
            f"the maker must be MODULE:FUNCTION, such as my_module:make, not {text!r}."
        )
    function = getattr(_module(place), name, None)
    if not callable(function):
        raise BadInputError(f"{place} has no function {name!r}.")
    with _own(f"{text} ended in"):
        made = function()
    keys = ("model", "inputs", "labels")
    needed = keys if labelled else keys[:2]
    if isinstance(made, tuple) and len(needed) <= len(made) <= 3:
        made = dict(zip(keys, made, strict=False))
    if not isinstance(made, Mapping) or not set(needed) <= set(made):
        parts = f" of {len(made)}" if isinstance(made, (tuple, list, Mapping)) else ""
        raise BadInputError(
            f"{text} must return ({', '.join(needed)}) or a dict with these keys, not "
            f"{type(made).__name__}{parts}."
        )
    unknown = sorted(set(made) - {"model", "inputs", "labels", *_OPTIONAL})
    if unknown:
        raise BadInputError(
            f"{text} returns {unknown[0]!r}, which is none of model, inputs, labels, "
            f"{', '.join(_OPTIONAL)}."
        )
    return dict(made)


@contextmanager
def _own(happened: str, *but: type[Exception]) -> Iterator[None]:
    """Within, a person's own code runs: one sentence says what it ended in, its traceback the cause."""
    try:
        yield
    except Exception as problem:
        if isinstance(problem, (BadInputError, *but)):
            raise
        raise BadInputError(
            f"{happened} {type(problem).__name__}: {first_line(problem)}"
        ) from problem


def _module(place: str) -> Any:
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise BadInputError(f"there is no file {place}.")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        with _own(f"{place} cannot be read:"):
            spec.loader.exec_module(module)
        return module
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with _own(f"{place} cannot be read:", ModuleNotFoundError):
            return importlib.import_module(place)
    except ModuleNotFoundError as problem:
        if problem.name is not None and problem.name != place.partition(".")[0]:
            raise BadInputError(
                f"{place} needs the package {problem.name}, which is not here."
            ) from None
        raise BadInputError(f"there is no module {place} here or on the path.") from None


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _say(words: str) -> None:
    typer.echo(words, err=True)


@contextmanager
def _watched(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Our bar, which learns how much there is when the first step is told."""
    with progress_bar(1000, what) as advance:
        yield lambda done, total, words: advance(1000 * done / max(total, 1), words)


models_app = typer.Typer(
    no_args_is_help=True,
    help="Your own model, in torch or JAX: which weights to tune, are they enough, how the choices compare.",
)
add_commands(models_app, choose, audit, compare)
