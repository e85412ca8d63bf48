"""Residual pursuit: entries whose derivatives point at what is left of the target, round by round.

With J the derivatives of the outputs on the samples (rows: sample, output) and T the change of the
outputs that is wanted, every round adds the unused entries of the largest

    (J_e . R)^2 / (|J_e|^2 + rho)

and fits the chosen ones by ridge regression: K = J_S J_S', R = lambda (K + lambda)^-1 T. All that is
asked of the model are three sums over J; J itself is never formed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array, Mask
from sublearn._errors import whole_number
from sublearn.models._limits import Chosen, Limits, Picked, layer_of
from sublearn.models._masks import entries_in

ROUNDS = 10
RHO = 0.1  # of the 99th percentile of the squared norms
RIDGE = 0.1  # of the mean diagonal of K
POOL = 5  # times the size of a round: the entries among which one at a time is chosen
_SAMPLED = 1 << 22  # more squared norms than this are thinned out before their percentile is taken


class DerivativeSums(Protocol):
    """What pursuit asks of a model: three sums over the derivatives J of its outputs.

    Rows of J are (sample, output), sample by sample; its columns are the entries of the weights, name
    by name in the order of ``shapes``, in C order within a name.
    """

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of every weight, by name."""

    @property
    def outputs(self) -> Array:
        """(samples, outputs): where J was taken."""

    def scores(self, cotangents: Array) -> Mapping[str, NDArray[Any]]:
        """J' R for every entry, where R has the shape of the outputs; the caller may overwrite it."""

    def squared_norms(self) -> Mapping[str, NDArray[Any]]:
        """The sum of squares of every column of J."""

    def gather(self, masks: Mapping[str, Mask]) -> NDArray[Any]:
        """The columns of J for the entries that the masks hold."""


def wanted_change(
    outputs: Array, labels: NDArray[Any] | None = None, targets: Array | None = None
) -> Array:
    """T: targets - outputs for numbers; for classes, from the outputs to scaled and centred labels.

    With f the outputs centred over the d classes, T = tau (onehot - 1/d) - f, where tau is
    sqrt(d / (d - 1)) times the mean length of f over the samples: labels as long as the outputs are.
    Nothing is wanted where a label is negative, as that is which torch's cross-entropy leaves out.
    """
    if targets is not None:
        return np.asarray(targets, dtype=np.float64).reshape(outputs.shape) - outputs
    assert labels is not None
    samples, classes = outputs.shape
    centred = outputs - outputs.mean(axis=1, keepdims=True)
    if classes == 1:
        return -centred
    size = np.sqrt(classes / (classes - 1)) * np.linalg.norm(centred, axis=1).mean()
    # Outputs that are all equal give no scale; any positive one has the same choice.
    size = size if size > 0 else 1.0
    ones = np.zeros((samples, classes))
    ones[np.arange(samples), np.maximum(labels, 0)] = 1.0
    change: Array = size * (ones - 1.0 / classes) - centred
    change[labels < 0] = 0.0
    return change


def round_sizes(count: int, rounds: int) -> list[int]:
    """``count`` cut into rounds whose sizes differ by at most one, the larger ones first.

    >>> round_sizes(25, 10)
    [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]
    """
    rounds = min(rounds, count)
    return [count // rounds + (i < count % rounds) for i in range(rounds)]


def pursue(
    derivatives: DerivativeSums,
    target: Array,
    budget: int,
    limits: Limits,
    *,
    rounds: int = ROUNDS,
) -> Chosen:
    """Choose ``budget`` entries by residual pursuit, in rounds of nearly equal size.

    A round takes its entries one by one among the POOL times as many that score highest, and after
    each takes from the others what they share with it. Whole rows are taken as they score.
    """
    rounds = whole_number("rounds", rounds, least=1)
    goal = np.asarray(target, dtype=np.float64).reshape(-1)
    norms = derivatives.squared_norms()
    rho = RHO * _percentile(norms, limits)
    taken = limits.start()
    fit = _Ridge(goal, budget)
    if any(mask.any() for mask in taken.values()):
        fit.add(derivatives.gather({name: mask for name, mask in taken.items() if mask.any()}))
    gaps: list[float] = []
    residuals: list[float] = []
    left = budget - entries_in(taken)
    sizes = round_sizes(left, rounds)
    for number, size in enumerate(sizes):
        residual = fit.residual() if fit.count else goal
        if fit.count:
            residuals.append(float(residual @ residual / (goal @ goal or 1.0)))
        products = derivatives.scores(residual.reshape(derivatives.outputs.shape))
        scores = {name: _score(products[name], norms[name], rho) for name in limits.shapes}
        del products
        columns: Array | None = None
        if limits.unit == "entry":
            new = limits.pick(scores, POOL * size, taken)
        else:
            new = limits.pick(scores, left, taken, enough=size)
        del scores  # as large as the model: let go before columns or the next round's are made
        if limits.unit == "entry":
            new, columns = _one_by_one(derivatives, new, residual, rho, size, limits, taken)
        if new.gap is not None:
            gaps.append(new.gap)
        if new.count == 0:
            break
        for name, ids in new.entries.items():
            taken[name].reshape(-1)[ids] = True
        left -= new.count
        if number < len(sizes) - 1:
            fit.add(derivatives.gather(new.masks(limits.shapes)) if columns is None else columns)
    return Chosen(taken, min(gaps, default=None), tuple(residuals))


def _score(product: NDArray[Any], norm: NDArray[Any], rho: float) -> NDArray[Any]:
    """(J_e . R)^2 / (|J_e|^2 + rho), where the products were."""
    score = np.square(product, out=product)
    if rho > 0:  # else every norm is 0, nothing moves the outputs, and every score is 0
        score /= norm + np.asarray(rho, dtype=norm.dtype)
    return score


def _one_by_one(
    derivatives: DerivativeSums,
    pool: Picked,
    residual: Array,
    rho: float,
    size: int,
    limits: Limits,
    taken: Mapping[str, Mask],
) -> tuple[Picked, Array]:
    """Greedy within the pool: h <- h - G_e h_e / (|J_e|^2 + rho), with h = J'R and G = J'J."""
    masks = pool.masks(limits.shapes)
    columns = np.asarray(derivatives.gather(masks), dtype=np.float64)
    ids = {name: np.flatnonzero(mask) for name, mask in masks.items()}
    owner = np.concatenate([np.full(len(some), k) for k, some in enumerate(ids.values())])
    entry = np.concatenate(list(ids.values()))
    names = list(ids)
    layers = [layer_of(name) for name in names]
    left = limits.left(taken)
    product = residual @ columns
    divisor = np.einsum("ij,ij->j", columns, columns) + rho
    if not (divisor > 0).all():  # nothing moves the outputs at all
        divisor = np.ones_like(divisor)
    free = np.ones(len(entry), dtype=bool)
    chosen: list[int] = []
    gap = None
    while len(chosen) < size and free.any():
        score = np.where(free, product * product / divisor, -1.0)
        best = int(np.argmax(score))
        if len(chosen) == size - 1 and score[best] > 0 and free.sum() > 1:
            second = np.partition(score, -2)[-2]
            gap = float((score[best] - second) / score[best])
        free[best] = False
        layer = layers[owner[best]]
        if left.get(layer, 1) <= 0:
            continue
        if layer in left:
            left[layer] -= 1
        chosen.append(best)
        product = product - (columns[:, best] @ columns) * (product[best] / divisor[best])
    picks = np.sort(np.array(chosen, dtype=np.int64))  # the order of gather
    entries = {names[k]: entry[picks[owner[picks] == k]] for k in np.unique(owner[picks])}
    return Picked(entries, gap), columns[:, picks]


def _percentile(norms: Mapping[str, NDArray[Any]], limits: Limits) -> float:
    """The 99th percentile of the squared norms of what may be chosen; of every so many, if many."""
    step = -(-sum(mask.size for mask in limits.allowed.values()) // _SAMPLED)
    parts = [
        norms[name].reshape(-1)[::step][mask.reshape(-1)[::step]]
        for name, mask in limits.allowed.items()
    ]
    whole = np.concatenate(parts).astype(np.float64)
    return float(np.quantile(whole, 0.99)) if len(whole) else 0.0


class _Ridge:
    """R = lambda (K + lambda)^-1 T with lambda = RIDGE times the mean diagonal of K = J_S J_S'.

    Where there are far more rows than the ``most`` columns that will come, by J_S' J_S instead.
    """

    def __init__(self, goal: Array, most: int) -> None:
        self._goal = goal
        self._kernel = np.zeros((len(goal), len(goal))) if len(goal) <= 2 * most else None
        self._columns: list[Array] = []
        self.count = 0

    def add(self, columns: NDArray[Any]) -> None:
        new = np.asarray(columns, dtype=np.float64)
        self.count += new.shape[1]
        if self._kernel is None:
            self._columns.append(new)
        else:
            self._kernel += new @ new.T

    def residual(self) -> Array:
        from scipy.linalg import cho_factor, cho_solve

        goal = self._goal
        if self._kernel is not None:
            ridge = RIDGE * float(np.trace(self._kernel)) / len(goal)
            if ridge == 0.0:  # the chosen entries move nothing
                return goal
            shifted = self._kernel + ridge * np.eye(len(goal))
            return ridge * cho_solve(cho_factor(shifted, lower=True), goal)
        columns = np.concatenate(self._columns, axis=1)
        ridge = RIDGE * float(np.einsum("ij,ij->", columns, columns)) / len(goal)
        if ridge == 0.0:
            return goal
        # T - J_S (J_S' J_S + lambda)^-1 J_S' T.
        shifted = columns.T @ columns + ridge * np.eye(columns.shape[1])
        solution = cho_solve(cho_factor(shifted, lower=True), columns.T @ goal)
        return goal - columns @ solution
