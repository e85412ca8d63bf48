"""Linear chains, relaxed: what a row with learnable weights puts out may be anything that its inputs span.

Call a row of a weight active if some entry of it (or of its bias) is learnable. In a linear chain every
state is a combination of the inputs so far, and of 1 where there are biases, so an active row puts out
some combination of these too; which one, no longer matters. With the active rows replaced by free
combinations the outputs are affine in their coefficients, and every output of the network is among
those of the relaxed one: what is out of reach there is out of reach. Where nothing before a row is
active its true columns are used, the frozen entries of the row stay, and nothing is relaxed.

For the linear RNN this is Lemma 3.3 of the paper, with targets replaced by bands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn.matchers._behind import behind_output
from sublearn.matchers.proofs._balls import BALLS, Ball, BallMatrix
from sublearn.matchers.within._affine import settle
from sublearn.matchers.within._linear import MOST_ENTRIES

if TYPE_CHECKING:
    from sublearn.ensembles import Instance

MOST_COLUMNS = 2**12


def out_of_relaxation(instance: Instance, eps: float) -> str | None:
    """Why the relaxed chain does not come within eps of the targets, or None."""
    inner = behind_output(instance)
    if not inner.network.is_linear or not inner.network.is_plain or inner.inputs_are_rounded:
        return None
    _, refuted = settle(instance, eps, lambda: _relaxed(inner))
    if refuted is None or isinstance(refuted, str):
        return refuted
    return (
        "even with free numbers in the place of what every learnable row puts out, one of "
        f"{refuted[0]} outputs is farther than eps"
    )


def _relaxed(instance: Instance) -> tuple[BallMatrix, list[Ball]] | None:
    """J and c of the relaxed chain, in the coefficients of its active rows."""
    network, allocation = instance.network, instance.allocation
    blocks = network.split_inputs(instance.inputs)
    m, steps = instance.samples, network.steps
    masks = {name: allocation.mask(name) for name in network.shapes}
    ones = np.ones((1, m))
    # Active rows as (step, whether they enter it or leave it, row, their columns).
    active: list[tuple[int, bool, int, BallMatrix]] = []
    passing: list[BallMatrix] = []  # what each step does to what was freed before it
    seen: list[Array] = []  # the inputs so far, and 1: what states are combinations of
    state: BallMatrix | None = None
    for position, step in enumerate(steps):
        if step.block is not None:
            block = np.ascontiguousarray(blocks[step.block])
            seen.append(block)
            injected = BALLS.exact(block)
            if step.encoder is not None:
                mask = masks[step.encoder]
                # A row of the encoder acts on this block alone.
                for i in np.flatnonzero(mask.any(axis=1)).tolist():
                    active.append((position, False, i, BALLS.exact(block[mask[i]])))
                injected = BALLS.exact(instance.weights[step.encoder]) * injected
            state = injected if state is None else state + injected
        assert state is not None
        mask, weight = masks[step.weight], np.array(instance.weights[step.weight])
        constant = np.zeros(len(weight), dtype=bool)
        offset = np.zeros((len(weight), 1))
        if step.bias is not None:
            constant, offset = masks[step.bias][:, 0], np.array(instance.weights[step.bias])
            seen.append(ones)
        known, rows = not active, state.tolist()
        for i in np.flatnonzero(mask.any(axis=1) | constant).tolist():
            if known or not mask[i].any():
                flat = [e for j in np.flatnonzero(mask[i]) for e in rows[j]]
                flat += [1] * (m if constant[i] else 0)
                active.append((position, True, i, BALLS.matrix(len(flat) // m, m, flat)))
            else:
                weight[i], offset[i] = 0.0, 0.0
                active.append((position, True, i, BALLS.exact(_span(seen, m))))
        passing.append(BALLS.exact(weight))
        state = passing[-1] * state + BALLS.exact(offset) * BALLS.exact(ones)
    assert state is not None
    width = sum(columns.nrows() for *_, columns in active)
    if width > MOST_COLUMNS or width * instance.equations > MOST_ENTRIES:
        return None
    return _jacobian(instance, active, passing, width), list(state.entries())


def _span(seen: list[Array], m: int) -> Array:
    """Vectors that span what was seen: all of R^m, where there are as many."""
    table = np.vstack(seen)
    return table if len(table) < m else np.eye(m)


def _jacobian(
    instance: Instance,
    active: list[tuple[int, bool, int, BallMatrix]],
    passing: list[BallMatrix],
    width: int,
) -> BallMatrix:
    d, m = instance.network.output_size, instance.samples
    adjoints = [BALLS.exact(np.eye(d))]  # by what enters each step, and by what leaves the last
    for matrix in reversed(passing):
        adjoints.insert(0, adjoints[0] * matrix)
    flat: list[Ball] = [0] * (d * m * width)
    at = 0
    for position, leaves, i, columns in active:
        left, right = adjoints[position + leaves], columns.tolist()
        for o in range(d):
            for s in range(m):
                start = (o * m + s) * width + at
                for offset, row in enumerate(right, start):
                    flat[offset] = left[o, i] * row[s]
        at += len(right)
    return BALLS.matrix(d * m, width, flat)
