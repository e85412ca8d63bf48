"""A ReLU instance whose first layer learns as a complementarity problem, in rationals.

Let units 1..k have learnable weights in W1, w_i the columns of W2 that belong to them, and R_s what is
left of the targets of sample s when the other units have done their part. A match is (Lemma D.2)

    sum_i w_i a_is = R_s,     a_is - u_is = z_is,     a, u >= 0,     a_is u_is = 0,

where z_i, the pre-activations of unit i, range over c_i + V_i: c_i is the frozen part and V_i the span
of the input rows J_i that unit i may weigh. With N_i a basis of the vectors orthogonal to V_i, the
middle equation is N_i (a_i - u_i) = N_i c_i. So: G v = h, v = (a, u) >= 0, one of each pair zero
(``_program.py``). No bound on any number enters. (With r = d m learnable weights there are k m equations
for k m pairs.)

Frozen ReLU layers behind are of the same kind. The pre-activations a_js - u_js of a unit j there are what it
receives: sum_i W_ji a_is - a_js + u_js = 0, one more equation of sample s. So j is one more unit, with
w_j = (-1 in its own equation, its weights in those of the next layer), weights w'_j = 1 on u_js in its own
equation (``lower``), and z_j anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._errors import BadInputError
from sublearn.ensembles import Instance, check_instance
from sublearn.exact import Dyadics, Table
from sublearn.patterns._shallow import learnable_rows, why_not_deep, why_not_shallow

MOST_PAIRS = 128  # the tableaux of a branch then fit in 50 MB
MOST_PRODUCTS = 200_000


@dataclass(frozen=True, eq=False)
class System:
    """The numbers of the problem, exactly."""

    units: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]  # J_i, rows of the inputs; the last one is 1 with a bias
    places: tuple[tuple[int, ...], ...]  # the same entries as positions in the allocation
    readout: Table  # (d, k): w_i as columns
    rest: Table  # (d, m): R
    frozen: Table  # (k, m): c
    inputs: Table  # (q or q + 1, m)
    lower: Table | None = None  # (d, k): what u_is is weighed with, where that is not 0
    free: int = 0  # the last units, of deeper layers: their pre-activations are any numbers

    @property
    def k(self) -> int:
        """The number of units with learnable weights."""
        return len(self.units)

    @property
    def d(self) -> int:
        """The number of outputs."""
        return len(self.readout)

    @property
    def m(self) -> int:
        """The number of samples."""
        return len(self.inputs[0])

    @property
    def pairs(self) -> int:
        """k m."""
        return self.k * self.m

    @property
    def size(self) -> int:
        """The number r of learnable weights."""
        return sum(len(places) for places in self.places)


def why_no_system(instance: Instance, deep: bool = False) -> str | None:
    """Why an instance is no ReLU system of a size that is worth building, or None.

    ``deep``: of any depth, and of a size that is worth building for one sample at least.
    """
    network, allocation = instance.network, instance.allocation
    why = why_not_deep(network, allocation) if deep else why_not_shallow(network, allocation)
    if why is not None:
        return why
    asking = instance.asking
    if asking is not None and not asking[0].is_rational:
        return "the targets are not rational numbers"
    pairs = len(learnable_rows(allocation)) * instance.samples
    if deep and network.layered is not None:
        pairs = pairs // instance.samples + sum(network.layered.sizes[2:-1])
    if pairs > MOST_PAIRS:
        return f"k m = {pairs} pairs of unit and sample are more than {MOST_PAIRS}"
    work = network.size * instance.samples
    if work > MOST_PRODUCTS:
        return f"{work} exact products are more than {MOST_PRODUCTS}"
    return None


def build_system(instance: Instance) -> System:
    """The system of an instance that :func:`why_no_system` lets pass."""
    from flint import fmpq, fmpq_mat

    def rationals(name: str) -> Table:
        return Dyadics.of(np.asarray(instance.weights[name])).rationals()

    layers = instance.network.layered
    assert layers is not None, "why_no_system lets layers pass"
    m = instance.samples
    first, inputs = rationals(layers.weights[0]), instance.exact_inputs.rationals()
    targets = instance.exact_targets
    assert targets is not None, "why_no_system lets rational targets pass"
    zero, deep = fmpq(0), layers.sizes[2:-1]
    # The equations of a sample: one for each unit of the layers behind the first, then the outputs.
    rest = [[zero] * m for _ in range(sum(deep))] + targets.rationals()
    if layers.biases:
        biases, *shifts = map(rationals, layers.biases)
        first = [[*row, *bias] for row, bias in zip(first, biases, strict=True)]
        inputs.append([fmpq(1)] * m)
        offsets = [shift[0] for layer in shifts for shift in layer]
        rest = [[x - shift for x in row] for row, shift in zip(rest, offsets, strict=True)]
    entries: dict[int, list[tuple[int, int]]] = {}
    for place, (name, row, column) in enumerate(instance.allocation.labels()):
        at = layers.sizes[0] if name in layers.biases else column
        entries.setdefault(row, []).append((at, place))
    units = tuple(sorted(entries))
    before = (fmpq_mat(first) * fmpq_mat(inputs)).tolist()
    readout, *others = map(rationals, layers.weights[1:])
    for s in range(m):
        for i in range(len(before)):
            if i not in entries and before[i][s] > 0:
                for row, line in zip(rest, readout, strict=False):
                    row[s] -= line[i] * before[i][s]
    columns = tuple(tuple(j for j, _ in entries[i]) for i in units)
    frozen = [before[i] for i in units]
    kept = [[row[i] for i in units] for row in readout]
    places = tuple(tuple(place for _, place in entries[i]) for i in units)
    if not deep:
        return System(units, columns, places, kept, rest, frozen, inputs)
    more = sum(deep)
    none: tuple[tuple[int, ...], ...] = ((),) * more
    kept += [[zero] * len(units) for _ in range(len(rest) - len(kept))]
    own = [[fmpq(int(row == j)) for j in range(more)] for row in range(len(rest))]
    after = [[-x for x in line] for line in own]
    start = 0
    for width, weights in zip(deep, others, strict=True):
        for row, line in enumerate(weights, start + width):
            after[row][start : start + width] = [
                x + y for x, y in zip(after[row][start : start + width], line, strict=True)
            ]
        start += width
    return System(
        (*units, *range(-more, 0)),
        columns + none,
        places + none,
        [[*a, *b] for a, b in zip(kept, after, strict=True)],
        rest,
        frozen + [[zero] * m] * more,
        inputs,
        [[*[zero] * len(units), *line] for line in own],
        more,
    )


def require_system(instance: Instance) -> System:
    """The system of an instance, or a :class:`BadInputError` that says why it has none."""
    why = why_no_system(check_instance(instance))
    if why is not None:
        raise BadInputError(f"{why}.")
    return build_system(instance)
