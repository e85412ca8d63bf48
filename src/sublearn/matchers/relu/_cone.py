"""The cone test: the targets of a sample must be a nonnegative combination of columns of W2."""

from __future__ import annotations

from sublearn.exact import Infeasible, Rational, Table, decide_program
from sublearn.patterns import System


def cone_contradiction(system: System) -> str | None:
    """Why some R_s lies outside the cone of the columns w_i, or None.

    A linear program in fractions for each sample: sum_i w_i a_i = R_s, a >= 0.
    """
    readout = system.readout
    if system.lower is not None:
        readout = [[*a, *b] for a, b in zip(readout, system.lower, strict=True)]
    for s in range(system.m):
        if outside_cone(readout, [row[s] for row in system.rest]):
            if system.lower is not None:
                return f"on sample {s} no outputs >= 0 of the ReLU units give the targets"
            return (
                f"on sample {s} the targets lie outside the cone of the {system.k} units' columns of "
                "W2: no outputs >= 0 give them"
            )
    return None


def outside_cone(readout: Table, target: list[Rational]) -> bool:
    """Whether it is proved that no a >= 0 has readout a = target."""
    program = [[*row, value] for row, value in zip(readout, target, strict=True)]
    return isinstance(decide_program(program, [True] * len(readout[0])), Infeasible)
