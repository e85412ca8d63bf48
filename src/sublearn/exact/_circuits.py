"""Which columns depend on which: dependencies and small circuits.

A circuit is a minimal dependent set of columns. For a column j outside the column rank profile
there is exactly one dependency with coefficient 1 on j and support in the pivots before j; its
support is the fundamental circuit of j (Oxley, "Matroid Theory", 2nd ed. 2011, section 1.2).
"""

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices
from sublearn._compile import compiled
from sublearn.exact._elimination import Echelon
from sublearn.exact._factors import within
from sublearn.exact._scalars import dot, reciprocal, remainder

FEW = 24  # dependencies up to which dot products beat small matrix products
MOST = 24  # dependencies looked at when there are more
LARGE = 512  # size from which fewer are looked at, to stay below a tenth of the elimination


@compiled
def _back_substitute(
    matrix: Array, pivots: Indices, first: int, sums: Array, solution: Array, p: float
) -> None:
    """Solve rows first, first+1, ... of U for the pivot coefficients, last row first.

    `sums` holds what the other columns contribute: non-pivots, and pivots beyond these rows.
    `solution` has one entry per column of U, so that rows of U are read where they lie.
    """
    inverse = 1.0 / p
    many, count = sums.shape
    end = pivots[first + count - 1] + 1
    # One inverse for the whole block, unwound by products: Euclid is slow (Montgomery's trick).
    running = np.empty(count)
    product = 1.0
    for k in range(count):
        running[k] = product
        product = remainder(product * matrix[first + k, pivots[first + k]], p, inverse)
    scale = -reciprocal(product, p)
    for k in range(count - 1, -1, -1):
        pivot = pivots[first + k]
        row = matrix[first + k, pivot + 1 : end]
        factor = remainder(scale * running[k], p, inverse)
        scale = remainder(scale * matrix[first + k, pivot], p, inverse)
        for c in range(many):
            value = remainder(sums[c, k] + dot(row, solution[c, pivot + 1 : end]), p, inverse)
            solution[c, pivot] = remainder(value * factor, p, inverse)


def _free_columns(echelon: Echelon) -> Indices:
    """The columns that are not pivots."""
    return np.setdiff1d(np.arange(echelon.matrix.shape[1]), echelon.pivots, assume_unique=True)


def dependencies(echelon: Echelon, which: ArrayLike | None = None) -> Array:
    """For each non-pivot column j, the unique z with A z = 0, z_j = 1 and z = 0 elsewhere off the
    pivots before j; one row of the result per column of `which` (default: all non-pivots).

    >>> from sublearn.exact import PrimeField, eliminate
    >>> dependencies(eliminate(PrimeField(8388593), np.array([[1.0, 0, 2], [0, 1, 3]])))
    array([[-2., -3.,  1.]])
    """
    field, matrix, pivots = echelon.field, echelon.matrix, echelon.pivots
    width = matrix.shape[1]
    if which is None:
        chosen = _free_columns(echelon)
    else:
        chosen = within("which must hold columns", np.reshape(which, -1), width)
        if np.isin(chosen, pivots).any():
            raise ValueError("which must hold non-pivot columns only")
    last = int(np.searchsorted(pivots, chosen.max())) if chosen.size else 0
    edge = int(pivots[last - 1]) + 1 if last else 0
    # Row k of U says something about column j only if its pivot comes before j.
    known = np.where(chosen[:, None] > pivots[:last], matrix[:last, chosen].T, 0.0)
    solution = np.zeros((chosen.size, width))
    block = 256 if chosen.size <= FEW else 32
    for stop in range(last, 0, -block):
        start = max(0, stop - block)
        end = int(pivots[stop - 1]) + 1
        sums = known[:, start:stop]
        if end < edge:
            sums += field.matmul(solution[:, end:edge], matrix[start:stop, end:edge].T)
        _back_substitute(matrix, pivots, start, sums, solution, float(field.p))
    solution[np.arange(chosen.size), chosen] = 1.0
    return field.reduce(solution)


@compiled
def _repivot(space: Array, picks: Indices, p: float) -> None:
    """Bring the rows of `space` to systematic form on the first columns in `picks` that allow it.

    Afterwards each row is a circuit: the only dependency, up to scale, that avoids the pivots of
    the other rows. Should the picks not suffice, all columns follow.
    """
    inverse = 1.0 / p
    done = 0
    for step in range(picks.size + space.shape[1]):
        if done == space.shape[0]:
            return
        column = picks[step] if step < picks.size else step - picks.size
        pivot = -1
        for row in range(done, space.shape[0]):
            if space[row, column] != 0.0:
                pivot = row
                break
        if pivot < 0:
            continue
        scale = reciprocal(space[pivot, column], p)
        for j in range(space.shape[1]):
            kept = space[done, j]
            space[done, j] = remainder(space[pivot, j] * scale, p, inverse)
            if pivot != done:
                space[pivot, j] = kept
        for row in range(space.shape[0]):
            factor = space[row, column]
            if row != done and factor != 0.0:
                for j in range(space.shape[1]):
                    space[row, j] = remainder(space[row, j] - factor * space[done, j], p, inverse)
        done += 1


@compiled
def _shortest(space: Array, picks: Indices, p: float) -> Array:
    """The row with fewest nonzeros among `space` and its systematic forms for these picks."""
    best: Array = space[0].copy()
    fewest = space.shape[1] + 1
    for attempt in range(picks.shape[0] + 1):
        if attempt > 0:
            _repivot(space, picks[attempt - 1], p)
        for row in range(space.shape[0]):
            size = np.count_nonzero(space[row])
            if size < fewest:
                fewest = size
                best[:] = space[row]
    return best


def smallest_circuit(echelon: Echelon, rng: np.random.Generator, tries: int = 8) -> Indices:
    """The columns, increasing, of the smallest circuit found: dependent, each proper part not.

    Looks at fundamental circuits, then moves `tries` times to another systematic form of the
    dependencies, as information-set decoding does for short codewords (Prange, "The use of
    information sets in decoding cyclic codes", IRE Trans. Inf. Theory 8, 1962). Where there are
    many dependencies only some are looked at, so that from size 512 on the work stays below a
    tenth of the elimination's. The result is a circuit always, a smallest one only with luck.

    >>> from sublearn.exact import PrimeField, eliminate
    >>> echelon = eliminate(PrimeField(8388593), np.array([[1.0, 0, 1, 0], [0, 1, 2, 3]]))
    >>> smallest_circuit(echelon, np.random.default_rng(0)).tolist()
    [1, 3]
    """
    free = _free_columns(echelon)
    if free.size == 0:
        raise ValueError("the columns are independent, so there is no circuit")
    size = min(echelon.matrix.shape)
    sampled = min(MOST, size // 160) if size >= LARGE else MOST
    if free.size > sampled:
        # Early columns see few pivots, so their circuits are short; the others are for variety.
        early = sampled // 2
        others = rng.permutation(free[early:])[: sampled - early]
        free = np.concatenate([free[:early], others])
    space = dependencies(echelon, free)
    support = np.flatnonzero(space.any(axis=0))
    space = np.ascontiguousarray(space[:, support])
    # A single dependency has only one form.
    attempts = tries if free.size > 1 else 0
    picks = rng.integers(support.size, size=(attempts, 4 * free.size))
    shortest = _shortest(space, picks, float(echelon.field.p))
    return support[np.flatnonzero(shortest)]
