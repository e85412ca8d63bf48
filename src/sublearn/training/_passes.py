"""The passes of networks/ over a folded chain, batched: derivatives by its learnable values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sublearn._arrays import Floats, Indices
from sublearn._compile import compiled
from sublearn.networks import Arrays, Cotangents, Dual, Duals, Trace, gradient_term, uses, walk
from sublearn.training._folding import Folded, Slot

Weights = Mapping[str, Any]


def weights_at(folded: Folded, values: Floats) -> Weights:
    """The weights of the chain at learnable ``values`` (batch, r)."""
    return {**folded.matrices, **folded.views(folded.buffer(values))}


def weights_along(folded: Folded, values: Floats, tangent: Floats) -> Weights:
    """The same as dual numbers along ``tangent`` (batch, r)."""
    # The frozen entries of a slot do not move.
    moved = folded.views(folded.buffer(tangent) - folded.frozen)
    here = folded.views(folded.buffer(values))
    return {**folded.matrices, **{name: Dual(here[name], moved[name]) for name in here}}


def outputs(folded: Folded, values: Floats) -> Floats:
    """The outputs (batch, d, m) alone."""
    out: Floats = walk(folded.steps, weights_at(folded, values), Arrays(slopes=False)).outputs
    return out


def pull(folded: Folded, weights: Weights, trace: Trace, cotangent: Floats) -> Floats:
    """Gradient (batch, r) of sum(cotangent * outputs)."""
    out = _room(folded, cotangent)
    terms = folded.views(out)
    for name, left, right in uses(trace, weights, Cotangents(), cotangent, folded.slots):
        terms[name] += gradient_term(left, right)
    return folded.gather(out)


def pull_second(
    folded: Folded, weights: Weights, trace: Trace, cotangent: Dual
) -> tuple[Floats, Floats]:
    """:func:`pull` of a trace in dual numbers, and its derivative along their direction."""
    out, out_dot = _room(folded, cotangent.value), _room(folded, cotangent.value)
    terms, terms_dot = folded.views(out), folded.views(out_dot)
    for name, left, right in uses(trace, weights, Duals(), cotangent, folded.slots):
        terms[name] += gradient_term(left.value, right.value if isinstance(right, Dual) else right)
        for term in Duals.derivative_terms(left, right):
            terms_dot[name] += term
    return folded.gather(out), folded.gather(out_dot)


def _room(folded: Folded, cotangent: Floats) -> Floats:
    return np.zeros((cotangent.shape[0], folded.frozen.shape[-1]), dtype=folded.frozen.dtype)


def jacobian(folded: Folded, weights: Weights, trace: Trace) -> Floats:
    """d outputs / d values, (batch, d m, r), rows ordered (output, sample)."""
    batch, d, samples = trace.outputs.shape
    out = np.zeros((batch, folded.places.shape[1], d, samples), dtype=trace.outputs.dtype)
    numbers = Arrays()
    unit = numbers.unit(trace.outputs)
    for name, left, right in uses(trace, weights, numbers, unit, folded.slots):
        _add(out, folded, folded.slots[name], left, right)
    return np.swapaxes(out.reshape(batch, -1, d * samples), -1, -2)


def _add(out: Floats, folded: Folded, slot: Slot, left: Floats, right: Floats) -> None:
    """Add left[., o, i, s] right[., j, s] for every value that goes to entry (i, j) of the slot."""
    # Shapes and types vary little, layouts a lot: the kernel is compiled for one.
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    for place in range(folded.places.shape[-1]):
        places = np.ascontiguousarray(folded.places[..., place])
        add_products(out, places, slot.start, slot.stop, slot.columns, left, right)


@compiled
def add_products(
    out: Floats,
    places: Indices,
    start: int,
    stop: int,
    columns: int,
    left: Floats,
    right: Floats,
) -> None:
    """out[b, a, o, s] += left[b, o, i, s] right[b, j, s] where value a goes to entry (i, j) of a slot.

    ``start`` and ``stop`` are the slot's stretch of the buffer, ``columns`` its width. Of ``places``,
    ``left`` and ``right`` the first axis may have length 1, and so may the last of the latter two.
    """
    batch, values, outputs, samples = out.shape
    for b in range(batch):
        at = b if places.shape[0] > 1 else 0
        at_left = b if left.shape[0] > 1 else 0
        at_right = b if right.shape[0] > 1 else 0
        for a in range(values):
            place = places[at, a]
            if place < start or place >= stop:
                continue
            i, j = (place - start) // columns, (place - start) % columns
            for o in range(outputs):
                for s in range(samples):
                    s_left = s if left.shape[3] > 1 else 0
                    s_right = s if right.shape[2] > 1 else 0
                    out[b, a, o, s] += left[at_left, o, i, s_left] * right[at_right, j, s_right]
