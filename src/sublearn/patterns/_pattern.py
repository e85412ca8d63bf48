"""Activation patterns: read off weights, and Lemmas D.1, D.3 and D.4 as predicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Mask
from sublearn._errors import BadInputError, whole_number
from sublearn.networks import Network
from sublearn.patterns._shallow import require_shallow

Pattern = Mask


def activation_pattern(
    network: Network, weights: Mapping[str, ArrayLike], inputs: ArrayLike
) -> Pattern:
    """P_is = whether unit i is on for sample s: (W1 x_s)_i > 0, in float64; (n, m) booleans.

    >>> import sublearn as sl
    >>> net = sl.FeedForward((2, 3, 1), activation="relu")
    >>> weights = {"W1": [[1, 0], [0, 1], [-1, -1]], "W2": [[1, 1, 1]]}
    >>> sl.patterns.activation_pattern(net, weights, [[1, -1], [2, 3]]).astype(int).tolist()
    [[1, 0], [1, 1], [0, 0]]
    """
    shallow = require_shallow(network)
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in weights.items()}
    network.check_weights(arrays)
    x = np.asarray(inputs, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] != shallow.sizes[0]:
        raise BadInputError(f"inputs must have shape ({shallow.sizes[0]}, m), not {x.shape}.")
    before = arrays[shallow.weights[0]] @ x
    if shallow.biases:
        before = before + arrays[shallow.biases[0]]
    gates: Pattern = before > 0
    return gates


def pattern_agrees(pattern: ArrayLike, before: ArrayLike) -> bool:
    """Lemma D.1: (2 P - I) v >= 0, which holds if and only if relu(v) = P v.

    Where v is exactly 0 both values of P agree: the paper's proof says "negative" there.

    >>> from sublearn.patterns import pattern_agrees
    >>> pattern_agrees([1, 0, 0], [2.0, -1.0, 0.0]), pattern_agrees([1, 1, 0], [2.0, -1.0, 0.0])
    (True, False)
    """
    v = np.asarray(before, dtype=np.float64)
    p = as_pattern(pattern, v.shape)
    return bool((np.where(p, v, -v) >= 0).all())


def enough_rows(pattern: ArrayLike, outputs: int) -> bool:
    """Lemma D.3: every sample (column) has at least d rows that are on.

    ``pattern`` has the k learnable rows only. Without it W2^1 P_s has rank below d, and the d equations
    of sample s hold for targets in a set of measure 0.

    >>> from sublearn.patterns import enough_rows
    >>> enough_rows([[1, 1], [1, 0], [0, 1]], 2), enough_rows([[1, 1], [1, 0], [0, 0]], 2)
    (True, False)
    """
    p = as_pattern(pattern)
    return bool((p.sum(axis=0) >= whole_number("outputs", outputs, least=1)).all())


def enough_samples(pattern: ArrayLike, row_counts: Sequence[int], outputs: int) -> bool:
    """Lemma D.4: row i is on for at least r_i samples; with a surplus, in the sum.

    A row that is on for p_i samples adds at most min(r_i, p_i) to the rank, so rank d m needs
    sum_i min(r_i, p_i) >= d m. With r = d m learnable weights that is p_i >= r_i for every row, which
    is the lemma; with r > d m the lemma's own condition is not necessary, and this one is.

    >>> from sublearn.patterns import enough_samples
    >>> enough_samples([[1, 1], [1, 0]], [2, 2], 2), enough_samples([[1, 1], [1, 1]], [2, 2], 2)
    (False, True)
    """
    p = as_pattern(pattern)
    counts = check_counts(row_counts)
    if len(counts) != p.shape[0]:
        raise BadInputError(
            f"row_counts must have one number per row of the pattern, {p.shape[0]}, not {len(counts)}."
        )
    reached = int(np.minimum(np.array(counts), p.sum(axis=1)).sum())
    needed = whole_number("outputs", outputs, least=1) * int(p.shape[1])
    return reached >= needed


def as_pattern(pattern: ArrayLike, shape: tuple[int, ...] | None = None) -> Pattern:
    """A boolean array; anything but 0, 1, True and False is an error."""
    values = np.asarray(pattern)
    if (shape is None and values.ndim != 2) or (shape is not None and values.shape != shape):
        wanted = "rows of samples" if shape is None else f"of shape {shape}"
        raise BadInputError(f"pattern must be {wanted}, not of shape {values.shape}.")
    if values.dtype != np.bool_ and not np.isin(values, (0, 1)).all():
        raise BadInputError("pattern must hold 0 or 1 only.")
    return values.astype(np.bool_)


def check_counts(row_counts: Sequence[int]) -> list[int]:
    """r_1 .. r_k as plain ints."""
    counts = [whole_number("row_counts", c, least=0) for c in row_counts]
    if not counts:
        raise BadInputError("row_counts must name at least one row.")
    return counts
