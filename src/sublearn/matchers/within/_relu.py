"""Shallow ReLU networks within eps: branch and bound over the patterns, with bands for the targets.

The tree, its linear programs and its proofs are those of exact matches (``matchers/relu``). A band
low <= z <= high on one output and sample is one more unit, which puts out a number between 0 and high - low
on that sample and nothing elsewhere: the units' outputs and its own add up to high. Its corners are 0 and
high - low (a ray where the band has no lower end), all on one side of 0, so that nothing ever branches
on it. Where only the lower end is finite the unit is subtracted from it.

A pattern that survives is solved by one more program in float64, and the weights are then proved, or not,
by running the network. Patterns are finite in number and each is a closed linear program: the infimum is
reached, and no limit at infinity has to be thought of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Mask
from sublearn.exact import Feasible, Rational, to_floats
from sublearn.matchers._behind import behind_output
from sublearn.matchers._decision import REFUTED, Effort
from sublearn.matchers.proofs._balls import precision
from sublearn.matchers.relu._branch import decide_by_branching
from sublearn.matchers.within._bands import BITS, Bands, bands, rational
from sublearn.matchers.within._linear import deepest
from sublearn.matchers.within._points import largest_error
from sublearn.patterns import (
    Corner,
    System,
    Unit,
    build_program,
    build_system,
    choose_units,
    why_no_system,
)

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


MOST_PAIRS = 512  # of units and samples, with those that stand for bands


def refused(instance: Instance) -> str | None:
    """Why the instance is no shallow ReLU system, up to an output activation, of a fitting size."""
    inner = behind_output(instance)
    why = why_no_system(inner)
    if why is not None:
        return why
    rows = len({row for _, row, _ in instance.allocation.labels()})
    pairs = (rows + instance.equations) * instance.samples
    return f"{pairs} pairs with those of the bands are too many" if pairs > MOST_PAIRS else None


def branch(
    instance: Instance, eps: float, nodes: int, rng: np.random.Generator
) -> tuple[Array | None, str | None, str, Effort]:
    """(weights proved within eps; why no weights are; else why neither; work)."""
    with precision(BITS):
        allowed = bands(instance, eps)
    if isinstance(allowed, str):
        return None, allowed, "", Effort()
    plain = build_system(behind_output(instance))
    system, units = _with_bands(plain, choose_units(plain), allowed)
    program = build_program(system, units)
    proved: list[Array] = []
    tried: set[bytes] = set()

    def decide(_: System, pattern: Mask) -> Feasible | None:
        mine = pattern.reshape(-1)[: plain.pairs].reshape(plain.k, plain.m)
        if mine.tobytes() in tried:
            return None
        tried.add(mine.tobytes())
        values = _solve(plain, mine, allowed)
        if values is None or largest_error(instance, values, eps) is None:
            return None
        proved.append(values)
        return Feasible({})

    result = decide_by_branching(system, nodes, rng, program, decide)
    effort = Effort(nodes=result.nodes)
    if proved:
        return proved[0], None, "", effort
    if result.kind == REFUTED:
        why = f"all 2^{plain.pairs} patterns are cut off, by {result.leaves} Farkas vectors"
        return None, why, "", effort
    note = result.note or f"{result.nodes} nodes over the patterns settled nothing"
    return None, None, note, effort


def _with_bands(plain: System, units: list[Unit], allowed: Bands) -> tuple[System, list[Unit]]:
    """The system with one more unit per band, two where nothing is asked."""
    from flint import fmpq

    d, m = plain.d, plain.m
    zero = fmpq(0)
    readout = [list(row) for row in plain.readout]
    rest = [list(row) for row in plain.rest]
    frozen, added = [list(row) for row in plain.frozen], []

    def add(o: int, s: int, sign: int, length: Rational | None) -> None:
        """A unit that puts out 0 to ``length`` (None: any number >= 0) on sample s."""
        for row, line in enumerate(readout):
            line.append(fmpq(sign if row == o else 0))
        end = [zero] * m
        end[s] = fmpq(1) if length is None else length
        added.append(Unit([Corner([zero] * m, True), Corner(end, length is not None)]))
        frozen.append([zero] * m)

    for at in range(d * m):
        o, s = divmod(at, m)
        low, high = rational(allowed.low[at], upper=False), rational(allowed.high[at], upper=True)
        if allowed.no_low[at] and allowed.no_high[at]:
            add(o, s, 1, None)
            add(o, s, -1, None)
        elif allowed.no_high[at]:
            rest[o][s] += low
            add(o, s, -1, None)
        else:
            rest[o][s] += high
            add(o, s, 1, None if allowed.no_low[at] else high - low)
    more = len(added)
    system = replace(
        plain,
        units=(*plain.units, *range(-more, 0)),
        columns=(*plain.columns, *[()] * more),
        places=(*plain.places, *[()] * more),
        readout=readout,
        rest=rest,
        frozen=frozen,
    )
    return system, [*units, *added]


def _solve(system: System, pattern: Mask, allowed: Bands) -> Array | None:
    """Weights with this pattern, as far inside the bands as they get; in float64."""
    k, m, d, r = system.k, system.m, system.d, system.size
    inputs, readout = to_floats(system.inputs), to_floats(system.readout)
    slopes = np.zeros((k, m, r))
    for i in range(k):
        for j, place in zip(system.columns[i], system.places[i], strict=True):
            slopes[i, :, place] += inputs[j]
    frozen, rest = to_floats(system.frozen), to_floats(system.rest)
    middle, half = allowed.middle_and_half()
    on = pattern[:, :, None] * slopes
    jacobian = np.einsum("oi,isr->osr", readout, on).reshape(d * m, r)
    constants = (readout @ (pattern * frozen) - rest).reshape(-1)
    up, down = ~allowed.no_high, ~allowed.no_low
    signs = np.where(pattern, -1.0, 1.0).reshape(-1)
    side = slopes.reshape(k * m, r) * signs[:, None]
    with np.errstate(all="ignore"):
        scaled = jacobian / half[:, None]
        off = (constants - middle) / half
    table = np.vstack([scaled[up], -scaled[down]])
    right = np.r_[(1.0 - off)[up], (1.0 + off)[down], -signs * frozen.reshape(-1)]
    if not all(np.isfinite(part).all() for part in (table, side, right)):
        return None
    solved = deepest(table, right, side)
    return np.asarray(solved.x[:r], dtype=np.float64) if solved.status == 0 else None
