"""learn: the commands on learning under noise, one file each."""

from __future__ import annotations

import typer

from sublearn.cli._learn_rate import rate
from sublearn.cli._learn_size import size

learn_app = typer.Typer(
    no_args_is_help=True, help="How fast a network learns under noise, and which size is best."
)
for command in (rate, size):
    learn_app.command()(command)
