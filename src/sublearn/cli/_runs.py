"""reproduce, sweep, runs and report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import printable
from sublearn._files import check_out
from sublearn._limits import check_workers, in_time, in_units
from sublearn._tables import aligned
from sublearn.cli._options import JsonOption
from sublearn.cli._out import check_folder
from sublearn.cli._progress import progress_bar
from sublearn.cli._show import COLUMNS, print_json, say

if TYPE_CHECKING:
    from sublearn.runs import Experiment, Progress, Run

FolderArgument = Annotated[str, typer.Argument(metavar="DIR", help="The folder of a run.")]


@dataclass(frozen=True)
class Order:
    """Where a run goes, who computes it, and how."""

    out: Annotated[str | None, "DIR", "The run's folder; a run that is there goes on."] = None
    workers: Annotated[int, "Processes."] = 1
    dask: Annotated[str | None, "ADDRESS", "A Dask scheduler, such as tcp://host:8786."] = None
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of the draws, instead of the declared one.")
    ] = None
    redraw: Annotated[bool, "Draw the pictures again."] = False
    retries: Annotated[
        int, typer.Option(min=0, help="How often a chunk is tried again that fails or hangs.")
    ] = 2
    dry_run: Annotated[bool, "Say what it would compute, and the time and disk; write nothing."] = (
        False
    )
    as_json: JsonOption = False

    def carry_out(self, chosen: list[Experiment], budget: str, usual: str) -> None:
        """Run the experiments into --out, or where it is ``usual``; with --dry-run only say what it takes."""
        folder = f"runs/{usual}" if self.out is None else self.out
        if self.dry_run:
            self._forecast(chosen, budget, folder)
        else:
            self._execute(chosen, budget, folder)

    def _forecast(self, chosen: list[Experiment], budget: str, folder: str) -> None:
        """What --dry-run says; the folder is looked at, and nothing is written."""
        from sublearn.runs import forecast

        check_out(folder, "--out")
        check_workers(self.workers)
        options: dict[str, Any] = {"out": folder, "budget": budget, "seed": self.seed}
        with progress_bar(len(chosen), "look") as advance:
            forecasts = forecast(chosen, progress=lambda done: advance(done, ""), **options)
        seconds, size = sum(f.seconds for f in forecasts), sum(f.bytes for f in forecasts)
        if self.as_json:
            together = {"workers": self.workers, "seconds": seconds / self.workers, "bytes": size}
            experiments = [f.to_dict() for f in forecasts]
            print_json({"folder": folder, "experiments": experiments, **together})
            return
        cells = [("experiment", "points", "trials to compute", "of one core", "disk at most")]
        for f in forecasts:
            left = f"{f.trials_left} of {f.trials}"
            cells.append((f.experiment, str(f.points), left, in_time(f.seconds), in_units(f.bytes)))
        say("\n".join(aligned(cells)))
        say(
            f"{in_time(seconds / self.workers, about=True)} on {_several(self.workers, 'worker')}, from a "
            f"few trials of each experiment; at most {in_units(size)} in {folder}; nothing was written"
        )

    def _execute(self, chosen: list[Experiment], budget: str, folder: str) -> None:
        from sublearn.reports import write
        from sublearn.runs import execute, summary

        check_folder(folder)
        how = {
            name: getattr(self, name) for name in ("seed", "workers", "dask", "redraw", "retries")
        }
        try:
            with _watching(chosen, budget) as show:
                run = execute(chosen, out=folder, budget=budget, progress=show, **how)
        except KeyboardInterrupt:
            typer.echo("stopped; what was finished is kept, and the same command goes on", err=True)
            raise
        page = write(run.folder)
        names = [e.name for e in chosen]
        failed = [f for f in run.failures if f["experiment"] in names]
        if self.as_json:
            print_json({**summary(run), "report": str(page)})
        else:
            _tell(run, names)
            typer.echo(f"report: {page}")
        if failed:
            typer.echo(
                f"{_several(len(failed), 'failure')}, listed in {run.folder / 'failures.json'}; "
                "the same command tries again",
                err=True,
            )
            raise typer.Exit(1)


def _names() -> list[str]:
    """For the shell's completion."""
    from sublearn.experiments import ALL

    return list(ALL)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Experiments; none means all.", autocompletion=_names
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The budget: for a paper, or for a look.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    *,
    order: Order,
) -> None:
    """Redraw the figures of the paper and the slides, with decided numbers beside them.

    Stop it when you like: the same command goes on where it was.
    """
    from sublearn.experiments import ALL, find

    chosen = [find(name) for name in dict.fromkeys(names or ALL)]
    budget = "full" if full else "quick"
    if listing:
        _list(chosen, order.as_json)
        return
    chosen = _that_can_run(chosen, named=bool(names))
    if full and not order.dry_run:
        hours = sum(e.hours for e in chosen)
        typer.echo(
            f"the full budget of {_several(len(chosen), 'experiment')} is expected to take "
            f"{in_time(3600 * hours)} on 2 cores",
            err=True,
        )
    order.carry_out(chosen, budget, usual=budget)


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
    order: Order,
) -> None:
    """Run a sweep of your own: every combination of the axes that a TOML file lists."""
    from sublearn.experiments.tasks import TASKS
    from sublearn.runs import sweep_from_file

    sweep = sweep_from_file(spec, TASKS)
    order.carry_out([sweep], "full", usual=sweep.name)


def runs(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Say how far a run is: what is done, what is left, what failed, how much disk it takes."""
    from sublearn.runs import open as open_run
    from sublearn.runs import summary

    account = summary(open_run(folder))
    if as_json:
        print_json(account)
        return
    cells = [("experiment", "budget", "points", "trials", "disk", "state")]
    for row in account["experiments"]:
        left = row["trials"] - row["trials_done"]
        state = "done" if row["finished"] else f"{left} trials left" if left else "no table yet"
        if row["failures"]:
            state += f", {_several(row['failures'], 'failure')}"
        points = f"{row['points_done']} of {row['points']}"
        trials = f"{row['trials_done']} of {row['trials']}"
        size = in_units(row["bytes"])
        cells.append((row["experiment"], row["budget"], points, trials, size, state))
    say("\n".join(aligned(cells)))
    typer.echo(f"{in_units(account['bytes'])} on disk; computed for {in_time(account['seconds'])}")
    for failure in account["failures"]:
        where = ", ".join(f"{name}={value}" for name, value in failure.get("params", {}).items())
        what = f"{failure['experiment']}, {failure['step']}" + (f", {where}" if where else "")
        error = (failure["error"].splitlines() or [""])[0]
        say(printable(f"failed: {what}: {error}"))
    for sentence in account["damage"]:
        say(printable(f"{sentence.rstrip('.')}; the same command makes it anew"))
    if account["damaged"]:
        say(printable(f"set aside as damaged: {', '.join(account['damaged'])}"))


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
        say(
            f"{entry['name']:<{wide}}  {entry['title']} "
            f"(full: {in_time(3600 * entry['full']['hours'])} on 2 cores)"
        )


def _tell(run: Run, names: list[str]) -> None:
    """What was found: whole for one experiment, a line each for several, whose words the report has."""
    from sublearn.experiments import answer

    width = max(len(name) for name in names)
    for name in names:
        finding = "\n".join(map(printable, (run.finds(name) or "").splitlines()))
        table = run.table(name)
        said = answer(name, run.declared(name)["title"], table, finding)
        if len(names) > 1:
            line = f"{name:<{width}}  {said.word:<11}  {printable(said.question)}"
            typer.echo(_shortened(line, COLUMNS))
            continue
        if said.word and not finding.lower().startswith(said.word):
            say(f"{printable(said.question)} {said.word.capitalize()}: {printable(said.sentence)}.")
        if finding or table:
            say(f"{name}: {finding or run.folder / name / 'table.csv'}\n")


@contextmanager
def _watching(chosen: list[Experiment], budget: str) -> Iterator[Callable[[Progress], None]]:
    """A bar with the time left where somebody looks; else one line per point that ends."""
    total = sum(e.plan(budget).trials for e in chosen)
    terminal = sys.stderr.isatty()
    with progress_bar(total, "run", time_left=False) as advance:
        latest = "first point"

        def show(now: Progress) -> None:
            nonlocal latest
            left = (
                "" if now.seconds_left is None else f"{in_time(now.seconds_left, about=True)} left"
            )
            left = left * (now.done < now.trials)
            latest = now.news or latest
            advance(now.done, f"{left or 'starting'}, {_shortened(latest)}")
            if now.news and not terminal:
                share = f"{now.done / now.trials:4.0%}"
                behind = f"  ({left})" if left else ""
                news = _shortened(now.news, COLUMNS - len(share) - len(behind) - 2)
                typer.echo(f"{share}  {news}{behind}", err=True)

        yield show


def _shortened(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _several(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
