"""What singular values say about a Jacobian that comes in blocks of columns: rank, gap, leverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError

Blocks = Callable[[], Iterator[Array]]

TOLERANCE = {"double": 1e-10, "single": 1e-6}
"""Singular values below this share of the largest count as zero."""
CLEAR_GAP = 100.0
"""A jump by less than this at the rank is no gap."""
STRONG = 1e-2
"""Directions with singular values above this share of the largest are reached by few steps."""
DENSE = 1 << 25
"""Numbers of a Jacobian that is decomposed in one piece (256 MB)."""
_PROJECTIONS = 6


def precision_of(rounding: float) -> str:
    """The precision of numbers with this unit of rounding; no rank is seen through half of it."""
    if rounding > 1e-6:
        raise BadInputError(
            "the model computes in half precision (bfloat16 or float16), whose rounding hides the rank: let "
            "it compute in float32 or float64 for the audit."
        )
    return "double" if rounding < 1e-12 else "single"


@dataclass(frozen=True)
class Spectrum:
    """Singular values of J (rows x columns), their rank, and what each column contributes.

    ``leverage`` h_e is the squared length of row e of the right singular vectors that belong to
    non-zero singular values: between 0 and 1, and the sum over e is the rank. ``gap`` is the ratio of
    the last singular value counted to the first that is not, or to the tolerance where all count.
    ``lengths`` are those of the columns; ``parallel`` lists groups of columns that are multiples of
    each other; ``reachable`` is the share of the given residual in the span of the strong directions.
    """

    values: Array
    rank: int
    gap: float
    leverage: Array
    lengths: Array
    parallel: tuple[tuple[int, ...], ...]
    reachable: float | None

    @property
    def clear(self) -> bool:
        """Whether the singular values jump at the rank."""
        return self.gap >= CLEAR_GAP


def spectrum(
    blocks: Blocks, rows: int, columns: int, *, precision: str, residual: Array | None = None
) -> Spectrum:
    """Decompose the Jacobian whose columns ``blocks()`` yields in order, as often as it is called.

    >>> J = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    >>> found = spectrum(lambda: iter([J[:, :2], J[:, 2:]]), 2, 3, precision="double")
    >>> found.rank, found.leverage.round(3).tolist(), found.parallel
    (2, [0.2, 0.8, 1.0], ((0, 1),))
    """
    tolerance = TOLERANCE[precision]
    small = rows * columns <= DENSE
    if small:
        whole = np.concatenate(list(blocks()), axis=1)
        left, values, right = np.linalg.svd(whole, full_matrices=False)
        kept: Blocks = lambda: iter([whole])  # noqa: E731
    else:
        # J' = Q R block by block: R alone has the singular values, and nothing is squared.
        triangle = np.zeros((0, rows))
        for block in blocks():
            stacked = np.concatenate([triangle, block.T])
            triangle = qr(stacked, mode="r", check_finite=False)[0][:rows]
        left, values, _ = np.linalg.svd(triangle.T, full_matrices=False)
        right, kept = None, blocks
    values = values[: min(rows, columns)]
    top = float(values[0]) if values.size else 0.0
    rank = int((values > tolerance * top).sum()) if top > 0 else 0
    gap = _gap(values, rank, tolerance, max(rows, columns))
    lengths, marks = _columns(kept, rows)
    if rank == 0:
        leverage = np.zeros(columns)
    elif right is not None:
        leverage = np.square(right[:rank]).sum(axis=0)
    else:
        leverage = _leverage(blocks, left[:, :rank], values[:rank])
    reachable = None
    if residual is not None:
        total = float(residual @ residual)
        strong = left[:, : int((values > STRONG * top).sum())] if top > 0 else left[:, :0]
        reachable = float(np.square(strong.T @ residual).sum() / total) if total > 0 else 1.0
    return Spectrum(
        values, rank, gap, leverage, lengths, _parallel(lengths, marks, tolerance), reachable
    )


def _gap(values: Array, rank: int, tolerance: float, size: int) -> float:
    if rank == 0:
        return float("inf")
    # Below the rounding of the largest there is only noise: a jump beyond it means nothing more.
    floor = float(values[0]) * float(np.finfo(np.float64).eps) * math.sqrt(size)
    if rank == values.size:
        return float(values[-1]) / (tolerance * float(values[0]))
    return float(values[rank - 1]) / max(float(values[rank]), floor)


def _leverage(blocks: Blocks, left: Array, values: Array) -> Array:
    """|V_e|^2 with V = J'U/s, brought back to orthogonal columns, which small s spoil."""
    gram = np.zeros((values.size, values.size))
    basis = left / values
    for block in blocks():
        part = block.T @ basis
        gram += part.T @ part
    basis = basis @ np.linalg.inv(np.linalg.cholesky(gram)).T
    return np.concatenate([np.square(block.T @ basis).sum(axis=1) for block in blocks()])


def _columns(blocks: Blocks, rows: int) -> tuple[Array, Array]:
    """Lengths of the columns, and their products with a few random vectors."""
    probes = np.random.default_rng(0).standard_normal((_PROJECTIONS, rows))
    lengths, marks = [], []
    for block in blocks():
        lengths.append(np.sqrt(np.einsum("ij,ij->j", block, block)))
        marks.append(probes @ block)
    return np.concatenate(lengths), np.concatenate(marks, axis=1)


def zero_columns(lengths: Array, precision: str) -> Mask:
    """Columns that move no output, up to rounding."""
    top = float(lengths.max(initial=0.0))
    return np.asarray(lengths <= TOLERANCE[precision] * 1e-2 * top)


def even_columns(block: Array, samples: int, precision: str) -> Mask:
    """Columns that move the outputs of every sample alike, up to rounding.

    >>> even_columns(np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 2.0], [0.0, 0.0]]), 2, "double")
    array([ True, False])
    """
    by_sample = block.reshape(samples, -1, block.shape[1])
    low, high = by_sample.min(axis=0), by_sample.max(axis=0)
    largest = np.maximum(np.abs(low), np.abs(high)).max(axis=0)
    return np.asarray((high - low).max(axis=0) <= TOLERANCE[precision] * largest)


def _parallel(lengths: Array, marks: Array, tolerance: float) -> tuple[tuple[int, ...], ...]:
    """Groups of non-zero columns that are multiples of each other, found by random products.

    Products with a few random vectors agree for directions that agree, and by chance alone almost
    never: as numerical as the rank itself.
    """
    alive = np.flatnonzero(lengths > tolerance * 1e-2 * lengths.max(initial=0.0))
    unit = marks[:, alive] / lengths[alive]
    unit *= np.where(unit[0] < 0, -1.0, 1.0)
    order = np.argsort(unit[0], kind="stable")
    unit = unit[:, order]
    near = 1e3 * tolerance if tolerance > 1e-8 else 1e-9
    same = np.abs(np.diff(unit, axis=1)).max(axis=0, initial=0.0) < near
    groups = np.split(alive[order], np.flatnonzero(~same) + 1)
    return tuple(sorted(tuple(np.sort(ids).tolist()) for ids in groups if ids.size > 1))
