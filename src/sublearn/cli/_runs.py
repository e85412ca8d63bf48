"""reproduce, sweep, runs and report."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn.cli._options import JsonOption
from sublearn.cli._out import check_folder
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from sublearn.runs import Experiment, Progress, Run

FolderArgument = Annotated[str, typer.Argument(metavar="DIR", help="The folder of a run.")]
OutOption = Annotated[
    str | None,
    typer.Option("--out", metavar="DIR", help="The run's folder; a run that is there goes on."),
]
WorkersOption = Annotated[int, typer.Option("--workers", help="Processes.")]
DaskOption = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="A Dask scheduler, such as tcp://host:8786."),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, help="Of the draws, instead of the declared one.")
]
RedrawOption = Annotated[bool, typer.Option("--redraw", help="Draw the pictures again.")]


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments; none means all.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The budget: for a paper, or for a look.")
    ] = False,
    out: OutOption = None,
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    seed: SeedOption = None,
    redraw: RedrawOption = False,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Redraw the figures of the paper and the slides, with decided numbers beside them.

    Stop it when you like: the same command goes on where it was.
    """
    from sublearn.experiments import ALL, find

    chosen = [find(name) for name in dict.fromkeys(names or ALL)]
    budget = "full" if full else "quick"
    if listing:
        _list(chosen, as_json)
        return
    chosen = _that_can_run(chosen, named=bool(names))
    if full:
        hours = sum(e.hours for e in chosen)
        typer.echo(
            f"the full budget of {_several(len(chosen), 'experiment')} is expected to take "
            f"{hours:.1f} hours on 2 cores",
            err=True,
        )
    _execute(chosen, budget, out or f"runs/{budget}", workers, dask, seed, redraw, as_json)


def _that_can_run(chosen: list[Experiment], named: bool) -> list[Experiment]:
    """Leave out what needs a package that is not here, with a word; refuse it if it was named."""
    from sublearn._errors import BadInputError

    for e in chosen:
        if not e.can_run and named:
            raise BadInputError(
                f"experiment {e.name} needs the package {e.needs}: pip install 'sublearn[{e.needs}]'."
            )
        if not e.can_run:
            typer.echo(f"{e.name} is skipped: the package {e.needs} is not installed", err=True)
    return [e for e in chosen if e.can_run]


def sweep(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml", help="The sweep, declared.")],
    out: OutOption = None,
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    seed: SeedOption = None,
    redraw: RedrawOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a sweep of your own: every combination of the axes that a TOML file lists."""
    from sublearn.experiments.tasks import TASKS
    from sublearn.runs import sweep_from_file

    asked = sweep_from_file(spec, TASKS)
    _execute([asked], "full", out or f"runs/{asked.name}", workers, dask, seed, redraw, as_json)


def runs(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Say how far a run is: what is done, what is left, what failed, how much disk it takes."""
    from sublearn.runs import open as open_run
    from sublearn.runs import summary

    found = summary(open_run(folder))
    if as_json:
        print_json(found)
        return
    rows = found["experiments"]
    wide = max(len(row["experiment"]) for row in rows)
    for row in rows:
        state = "done" if row["finished"] else f"{row['trials'] - row['trials_done']} trials left"
        if row["failures"]:
            state += f", {_several(row['failures'], 'failure')}"
        typer.echo(
            f"{row['experiment']:<{wide}}  {row['budget']:<5}  "
            f"{row['points_done']:>4} of {row['points']:<4} points  "
            f"{row['trials_done']:>8} of {row['trials']:<8} trials  {_size(row['bytes']):>9}  {state}"
        )
    typer.echo(f"{_size(found['bytes'])} on disk; computed for {_time(found['seconds'])}")
    for failure in found["failures"]:
        where = ", ".join(f"{name}={value}" for name, value in failure.get("params", {}).items())
        what = f"{failure['experiment']}, {failure['step']}" + (f", {where}" if where else "")
        typer.echo(f"failed: {what}: {failure['error'].splitlines()[0]}")
    if found["damaged"]:
        typer.echo(f"set aside as damaged: {', '.join(found['damaged'])}")


def report(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Write the page that shows a run: report.html, which opens offline."""
    from sublearn.reports import write

    path = write(folder)
    if as_json:
        print_json({"report": str(path)})
    else:
        typer.echo(str(path))


def _list(chosen: list[Experiment], as_json: bool) -> None:
    listed: list[dict[str, Any]] = [
        {
            "name": e.name,
            "title": e.title,
            "source": e.source,
            "claim": e.claim,
            "quick": {"points": len(e.quick.points), "trials": e.quick.trials},
            "full": {"points": len(e.full.points), "trials": e.full.trials, "hours": e.hours},
        }
        for e in chosen
    ]
    if as_json:
        print_json({"experiments": listed})
        return
    wide = max(len(e.name) for e in chosen)
    for entry in listed:
        typer.echo(
            f"{entry['name']:<{wide}}  {entry['title']} "
            f"(full: {entry['full']['hours']:.1f} hours on 2 cores)"
        )


def _execute(
    chosen: list[Experiment],
    budget: str,
    out: str,
    workers: int,
    dask: str | None,
    seed: int | None,
    redraw: bool,
    as_json: bool,
) -> None:
    from sublearn.reports import write
    from sublearn.runs import execute, summary

    check_folder(out)
    try:
        with _watching(chosen, budget) as show:
            found = execute(
                chosen,
                out=out,
                budget=budget,
                seed=seed,
                workers=workers,
                dask=dask,
                redraw=redraw,
                progress=show,
            )
    except KeyboardInterrupt:
        typer.echo("stopped; what was finished is kept, and the same command goes on", err=True)
        raise
    page = write(found.folder)
    failed = [f for f in found.failures if f["experiment"] in {e.name for e in chosen}]
    if as_json:
        print_json({**summary(found), "report": str(page)})
    else:
        _tell(found, [e.name for e in chosen])
        typer.echo(f"report: {page}")
    if failed:
        typer.echo(
            f"{_several(len(failed), 'failure')}, listed in {found.folder / 'failures.json'}; "
            "the same command tries again",
            err=True,
        )
        raise typer.Exit(1)


def _tell(found: Run, names: Iterable[str]) -> None:
    for name in names:
        if words := found.finds(name):
            typer.echo(f"{name}: {words}\n")
        elif found.table(name):
            typer.echo(f"{name}: {found.folder / name / 'table.csv'}")


@contextmanager
def _watching(chosen: list[Experiment], budget: str) -> Iterator[Callable[[Progress], None]]:
    """A bar with the time left where somebody looks; else one line per point that ends."""
    total = sum(e.plan(budget).trials for e in chosen)
    terminal = sys.stderr.isatty()
    with progress_bar(total, "run", time_left=False) as advance:
        latest = "first point"

        def show(now: Progress) -> None:
            nonlocal latest
            left = "" if now.seconds_left is None else f"about {_time(now.seconds_left)} left"
            latest = now.news or latest
            advance(now.done, f"{left or 'starting'}, {_shortened(latest)}")
            if now.news and not terminal:
                share = f"{now.done / now.trials:4.0%}"
                typer.echo(f"{share}  {now.news}" + (f"  ({left})" if left else ""), err=True)

        yield show


def _shortened(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _several(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
