"""reproduce, sweep, runs and report."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import printable
from sublearn._files import check_out
from sublearn._limits import check_workers, in_units
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
RetriesOption = Annotated[
    int,
    typer.Option("--retries", min=0, help="How often a chunk is tried again that fails or hangs."),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Say what it would compute, and the time and disk; write nothing."
    ),
]

_COLUMNS = 100  # of a line about one of several experiments


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
    retries: RetriesOption = 2,
    dry_run: DryRunOption = False,
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
    if full and not dry_run:
        hours = sum(e.hours for e in chosen)
        typer.echo(
            f"the full budget of {_several(len(chosen), 'experiment')} is expected to take "
            f"{_time(3600 * hours)} on 2 cores",
            err=True,
        )
    how = {"seed": seed, "dask": dask, "redraw": redraw, "retries": retries}
    folder = f"runs/{budget}" if out is None else out
    _Order(chosen, budget, folder, workers, as_json, how).carry_out(dry_run)


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
    retries: RetriesOption = 2,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a sweep of your own: every combination of the axes that a TOML file lists."""
    from sublearn.experiments.tasks import TASKS
    from sublearn.runs import sweep_from_file

    asked = sweep_from_file(spec, TASKS)
    how = {"seed": seed, "dask": dask, "redraw": redraw, "retries": retries}
    folder = f"runs/{asked.name}" if out is None else out
    _Order([asked], "full", folder, workers, as_json, how).carry_out(dry_run)


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
        left = row["trials"] - row["trials_done"]
        state = "done" if row["finished"] else f"{left} trials left" if left else "no table yet"
        if row["failures"]:
            state += f", {_several(row['failures'], 'failure')}"
        typer.echo(
            f"{row['experiment']:<{wide}}  {row['budget']:<5}  "
            f"{row['points_done']:>4} of {row['points']:<4} points  "
            f"{row['trials_done']:>8} of {row['trials']:<8} trials  {in_units(row['bytes']):>9}  {state}"
        )
    typer.echo(f"{in_units(found['bytes'])} on disk; computed for {_time(found['seconds'])}")
    for failure in found["failures"]:
        where = ", ".join(f"{name}={value}" for name, value in failure.get("params", {}).items())
        what = f"{failure['experiment']}, {failure['step']}" + (f", {where}" if where else "")
        error = (failure["error"].splitlines() or [""])[0]
        typer.echo(printable(f"failed: {what}: {error}"))
    for sentence in found["damage"]:
        typer.echo(printable(f"{sentence.rstrip('.')}; the same command makes it anew"))
    if found["damaged"]:
        typer.echo(printable(f"set aside as damaged: {', '.join(found['damaged'])}"))


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
            f"(full: {_time(3600 * entry['full']['hours'])} on 2 cores)"
        )


@dataclass(frozen=True)
class _Order:
    """What is to be run, where, and how: the rest of what ``execute`` takes."""

    chosen: list[Experiment]
    budget: str
    out: str
    workers: int
    as_json: bool
    how: dict[str, Any]

    def carry_out(self, dry_run: bool) -> None:
        if dry_run:
            self._forecast()
        else:
            self._execute()

    def _forecast(self) -> None:
        """What --dry-run says; the folder is looked at, and nothing is written."""
        from sublearn.runs import forecast

        check_out(self.out, "--out")
        check_workers(self.workers)
        options: dict[str, Any] = {"out": self.out, "budget": self.budget, "seed": self.how["seed"]}
        with progress_bar(len(self.chosen), "look") as advance:
            found = forecast(self.chosen, progress=lambda done: advance(done, ""), **options)
        seconds, size = sum(f.seconds for f in found), sum(f.bytes for f in found)
        if self.as_json:
            together = {"workers": self.workers, "seconds": seconds / self.workers, "bytes": size}
            experiments = [f.to_dict() for f in found]
            print_json({"folder": self.out, "experiments": experiments, **together})
            return
        wide = max(len(f.experiment) for f in found)
        for f in found:
            typer.echo(
                f"{f.experiment:<{wide}}  {_several(f.points, 'point'):>12}  "
                f"{f.trials_left:>9} of {f.trials:<9} trials to compute  "
                f"about {_time(f.seconds):>9} of one core, at most {in_units(f.bytes):>9}"
            )
        typer.echo(
            f"about {_time(seconds / self.workers)} on {_several(self.workers, 'worker')}, from a few "
            f"trials of each experiment; at most {in_units(size)} in {self.out}; nothing was written"
        )

    def _execute(self) -> None:
        from sublearn.reports import write
        from sublearn.runs import execute, summary

        check_folder(self.out)
        options = {"out": self.out, "budget": self.budget, "workers": self.workers, **self.how}
        try:
            with _watching(self.chosen, self.budget) as show:
                found = execute(self.chosen, progress=show, **options)
        except KeyboardInterrupt:
            typer.echo("stopped; what was finished is kept, and the same command goes on", err=True)
            raise
        page = write(found.folder)
        names = [e.name for e in self.chosen]
        failed = [f for f in found.failures if f["experiment"] in names]
        if self.as_json:
            print_json({**summary(found), "report": str(page)})
        else:
            _tell(found, names)
            typer.echo(f"report: {page}")
        if failed:
            typer.echo(
                f"{_several(len(failed), 'failure')}, listed in {found.folder / 'failures.json'}; "
                "the same command tries again",
                err=True,
            )
            raise typer.Exit(1)


def _tell(found: Run, names: list[str]) -> None:
    """What was found: whole for one experiment, a line each for several, whose words the report has."""
    width = max(len(name) for name in names) + 2
    for name in names:
        words = [printable(line) for line in (found.finds(name) or "").splitlines()]
        if not words and found.table(name):
            words = [str(found.folder / name / "table.csv")]
        if words and len(names) == 1:
            typer.echo(f"{name}: " + "\n".join(words) + "\n")
        elif words:
            typer.echo(f"{name:<{width}}{_shortened(words[0], _COLUMNS - width)}")


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


def _several(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
