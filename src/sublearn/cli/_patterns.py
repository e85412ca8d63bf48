"""patterns."""

from __future__ import annotations

from typing import Annotated

import typer

from sublearn.cli._asking import Drawn, Learnable
from sublearn.cli._options import JsonOption, SeedOption
from sublearn.cli._show import asked, print_json


def patterns(
    about: Drawn,
    learnable: Learnable,
    rank: Annotated[bool, "Also count those of full rank; k m at most 16."] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Count the activation patterns that Lemmas D.3 and D.4 leave to a shallow ReLU network."""
    from sublearn.patterns import allocation_patterns, full_rank_patterns, learnable_rows

    problem = about.problem
    held = learnable.once(problem)
    counts = allocation_patterns(problem, held)
    full = full_rank_patterns(problem, held, seed=seed) if rank else None
    rows = learnable_rows(held)
    if as_json:
        found = {"rows": rows, **counts.to_dict(), "full_rank": full}
        print_json({**asked(problem, held), **found})
        return
    sizes = ", ".join(f"{count} in row {row}" for row, count in rows.items())
    typer.echo(f"learnable: {sizes}; {problem.samples} samples")
    typer.echo(f"patterns                                 {counts.all}")
    typer.echo(f"enough rows on for each sample (D.3)     {counts.enough_rows}")
    typer.echo(f"enough samples on for each row (D.4)     {counts.enough_samples}")
    typer.echo(f"both                                     {counts.both}")
    if full is not None:
        typer.echo(f"of full rank                             {full}")
