"""noise: the commands on learning under noise, one file each."""

from __future__ import annotations

import typer

from sublearn.cli._usage import add_commands
from sublearn.cli.noise._place import place
from sublearn.cli.noise._rate import rate
from sublearn.cli.noise._size import size
from sublearn.cli.noise._steady import steady

noise_app = typer.Typer(
    no_args_is_help=True,
    help="Learning under noise: how fast, at which size, how far, and where plastic weights should sit.",
)
add_commands(noise_app, rate, size, steady, place)
