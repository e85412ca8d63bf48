"""The paper's heuristic: how many equations stay truly quadratic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.networks import Layers, Recurrence


@dataclass(frozen=True)
class Equations:
    """Counts of the lifted system of Lemma 3.3 (rows), Lemma B.7 (columns) or eqs. (4.1)-(4.3).

    The states are extra unknowns, so that every equation is linear or quadratic. ``left`` is what
    remains of the quadratic ones after the learnable weights, which enter them linearly, have been
    eliminated: T b k - d m for k rows of the recurrent matrix with r = d m. The paper expects the
    match probability to rise with it.
    """

    linear: int
    quadratic: int
    left: int


@dataclass(frozen=True)
class EquationCounts:
    """The two ways to lift: by rows (states) and by columns (readouts)."""

    by_rows: Equations
    by_columns: Equations


def equation_counts(problem: Problem, allocation: Allocation) -> EquationCounts | None:
    """Counts for an allocation of a linear network; None for networks with a nonlinearity.

    >>> import numpy as np, sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    >>> a = problem.draw_allocation({"W": sl.FirstRows(5)}, np.random.default_rng(0))
    >>> equation_counts(problem, a).by_rows      # T b k - d m = 20 - 16
    Equations(linear=28, quadratic=20, left=4)
    """
    network, samples = problem.network, problem.effective_samples
    if network.recurrence is not None:
        return _recurrent(network.recurrence, samples, allocation)
    if network.layered is None or not network.is_linear:
        return None
    if len(network.layered.weights) == 1:
        linear = Equations(network.output_size * samples, 0, 0)
        return EquationCounts(linear, linear)
    return _layers(network.layered, samples, allocation)


def _recurrent(form: Recurrence, samples: int, allocation: Allocation) -> EquationCounts:
    n, b, d, T = form.n, form.b, form.d, form.T
    W, B, D = (allocation.flat(name).size for name in (form.weight, form.encoder, form.readout))
    # W g_B(F) = F gives T b equations per row of W; D F X = Y gives m per row of D, which stay
    # linear as long as F is not an unknown.
    rows = int(np.count_nonzero(allocation.row_counts(form.weight)))
    readouts = int(np.count_nonzero(allocation.row_counts(form.readout))) if W or B else 0
    quadratic = T * b * rows + samples * readouts
    total = T * b * n + d * samples
    eliminated = W + (D if readouts else 0)
    by_rows = _counted(total, quadratic, eliminated, d * samples)
    # g_D(F) W = F gives T d equations per column of W; F (I x B) X = Y is bilinear if B is learned.
    columns = int(np.count_nonzero(allocation.column_counts(form.weight)))
    encoded = bool(B and (W or D))
    quadratic = T * d * columns + (d * samples if encoded else 0)
    total = T * d * n + d * samples
    eliminated = W + (B if encoded else 0)
    return EquationCounts(by_rows, _counted(total, quadratic, eliminated, d * samples))


def _counted(total: int, quadratic: int, eliminated: int, equations: int) -> Equations:
    """At most as many weights are eliminated as there are outputs; what is left is never negative."""
    left = max(0, quadratic - min(eliminated, equations))
    return Equations(total - quadratic, quadratic, left)


def _layers(layers: Layers, samples: int, allocation: Allocation) -> EquationCounts:
    names, sizes, d = layers.weights, layers.sizes, layers.sizes[-1]
    learnable = [allocation.flat(name).size for name in names]
    # A learnable bias makes the state that leaves its layer an unknown as well.
    biases = [allocation.flat(name).size for name in layers.biases] or [0] * len(names)
    moving = [count + bias for count, bias in zip(learnable, biases, strict=True)]
    by_rows = quadratic = eliminated = 0
    for layer, name in enumerate(names):
        if sum(moving[:layer]):  # an earlier layer moves, so what enters this one is an unknown
            quadratic += samples * int(np.count_nonzero(allocation.row_counts(name)))
            eliminated += learnable[layer]
        by_rows += samples * sizes[layer + 1]
    rows = _counted(by_rows, quadratic, eliminated, d * samples)
    # Mirrored: the readouts of the layers are unknowns, and the first one times X is Y.
    by_columns, quadratic, eliminated = d * samples, 0, 0
    for layer, name in enumerate(names):
        if sum(learnable[layer + 1 :]):  # a later layer moves: the readout of this one is unknown
            quadratic += d * int(np.count_nonzero(allocation.column_counts(name)))
            eliminated += learnable[layer]
        by_columns += d * sizes[layer]
    columns = _counted(by_columns, quadratic, eliminated, d * samples)
    return EquationCounts(rows, columns)
