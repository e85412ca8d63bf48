"""The rank at random real points in float64, where no exact arithmetic applies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from sublearn.allocations import Allocation
from sublearn.ensembles import Problem, draw_weights
from sublearn.networks import Network
from sublearn.verdicts._points import generator

Positions = NDArray[np.int64]

POINTS = 5
# The rank of a ReLU network depends on its gates, so more of them are tried.
GATED_POINTS = 50


@dataclass(frozen=True)
class NumericalRank:
    """The largest rank seen at random points, and the gap in the singular values that shows it.

    ``gap`` is the ratio of the last singular value counted to the first one not counted; infinite
    when none is left out (``full``) or the others are exactly 0. Columns are scaled to length 1 first.
    """

    rank: int
    gap: float
    basis: Positions
    idle: Positions
    circuit: Positions
    full: bool

    @property
    def rest(self) -> str:
        """What came after the singular values that were counted, in words."""
        if self.full:
            return "none left out"
        return (
            "the others exactly 0" if np.isinf(self.gap) else f"a drop by {self.gap:.1e} after them"
        )


def draw_point(
    problem: Problem, network: Network, rng: np.random.Generator
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Weights of ``network`` and inputs, as the ensemble draws them (appendix E.3 scaling)."""
    ensemble = problem.ensemble
    weights = draw_weights(network, ensemble.weights, rng)
    return weights, ensemble.inputs.draw(rng, network.input_shape(problem.samples))


def numerical_rank(
    problem: Problem, network: Network, allocation: Allocation, *, seed: int
) -> NumericalRank:
    """The best of a few random points: analytic networks have their generic rank at almost all."""
    rng = generator(seed, "numerical", problem.digest, network.spec, allocation.digest)
    best: NumericalRank | None = None
    for _ in range(GATED_POINTS if network.is_piecewise_linear else POINTS):
        weights, inputs = draw_point(problem, network, rng)
        found = _rank_of(network.jacobian(weights, inputs, allocation))
        if best is None or (found.rank, found.gap) > (best.rank, best.gap):
            best = found
        if best.full:
            break
    assert best is not None
    return best


def _rank_of(jacobian: NDArray[np.float64]) -> NumericalRank:
    norms = np.linalg.norm(jacobian, axis=0)
    scaled = jacobian / np.where(norms > 0, norms, 1.0)
    values = np.linalg.svd(scaled, compute_uv=False)
    cut = max(scaled.shape) * np.finfo(float).eps * values[0]
    rank = int((values > cut).sum())
    gap = (
        float(values[rank - 1] / values[rank])
        if 0 < rank < values.size and values[rank]
        else np.inf
    )
    upper, order = qr(scaled, mode="r", pivoting=True)
    basis, idle = np.sort(order[:rank]), np.sort(order[rank:])
    circuit = np.empty(0, dtype=np.int64)
    if rank < jacobian.shape[1]:
        # What the idle columns are made of, in the basis; the shortest one is the witness.
        mix = np.linalg.lstsq(upper[:rank, :rank], upper[:rank, rank:], rcond=None)[0]
        used = np.abs(mix) > 1e-8
        shortest = int(used.sum(axis=0).argmin())
        circuit = np.sort(np.append(order[:rank][used[:, shortest]], order[rank + shortest]))
    return NumericalRank(
        rank,
        gap,
        basis.astype(np.int64),
        idle.astype(np.int64),
        circuit.astype(np.int64),
        rank == values.size,
    )
