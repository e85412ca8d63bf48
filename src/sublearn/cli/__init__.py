"""The command line. It parses, calls the verbs and prints; it holds no science."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from sublearn._errors import BadInputError, printable
from sublearn._interrupts import INTERRUPTED, ending, interrupted
from sublearn.cli._decide import check, decide, decide_within, doctor
from sublearn.cli._estimates import QUESTIONS
from sublearn.cli._models import models_app
from sublearn.cli._noise import noise_app
from sublearn.cli._runs import report, reproduce, runs, sweep
from sublearn.cli._train import train
from sublearn.cli._usage import add_commands, sentence
from sublearn.cli._verdicts import census, certify, design, patterns, repair

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="If only some of a network's weights may change: which ones, is it enough, how sure?",
)
add_commands(app, certify, design, repair, census, *QUESTIONS, train, decide, decide_within)
add_commands(app, check, doctor, patterns, reproduce, sweep, runs, report)
app.add_typer(noise_app, name="noise")
app.add_typer(models_app, name="models")


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


def _fail(message: str) -> NoReturn:
    typer.echo(f"sublearn: {printable(message)}", err=True)
    raise SystemExit(2)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2, Ctrl-C with 130."""
    with ending():
        try:
            code = app(standalone_mode=False)
        except typer.TyperException as problem:  # an option that is missing, unknown or unreadable
            message = sentence(problem)
            if not message:  # no command at all: the help has been printed
                raise SystemExit(problem.exit_code) from None
            _fail(message)
        except BadInputError as problem:
            _fail(str(problem))
        except MemoryError:
            _fail("this does not fit into memory: ask for fewer samples or a smaller network.")
        except OSError as problem:
            _fail(f"{problem.filename or 'a file'}: {problem.strerror or problem}.")
        if code == INTERRUPTED or interrupted():
            with suppress(BrokenPipeError):
                typer.echo("interrupted", err=True)
            code = INTERRUPTED
        raise SystemExit(code)
