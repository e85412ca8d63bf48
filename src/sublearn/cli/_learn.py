"""learn: the commands on learning under noise, one file each."""

from __future__ import annotations

import typer

from sublearn.cli._learn_place import place
from sublearn.cli._learn_rate import rate
from sublearn.cli._learn_size import size
from sublearn.cli._learn_steady import steady
from sublearn.cli._usage import add_commands

learn_app = typer.Typer(
    no_args_is_help=True,
    help="Learning under noise: how fast, at which size, how far, and where plastic weights should sit.",
)
add_commands(learn_app, rate, size, steady, place)
