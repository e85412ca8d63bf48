"""Gates that draws really have: proved by a point at which they hold.

Pre-activations that are not 0 keep their sign nearby, so a point with settled gates shows an open set
of weights and inputs with the same gates. It has positive probability: scaling weights, biases and
inputs, those of a recurrent network step by step, by suitable powers of a small number changes no gate
and brings the set as near to 0 as one likes, where every law with a density here has one.
"""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array
from sublearn.ensembles import Problem, draw_weights
from sublearn.networks import Gates, Network
from sublearn.verdicts import doubt_of, settled_gates

ATTEMPTS = 8
_ALTERNATIONS = 200


def realise(problem: Problem, gates: Gates, rng: np.random.Generator) -> bool:
    """Whether a point with these gates was found; False says nothing.

    Layer by layer: the pre-activations of the first layer may be any matrix of the rank that inputs and
    weights allow; the rows of a later layer see fixed states, and each solves linear inequalities.
    """
    network = problem.network
    if network.layered is None:
        return False
    for attempt in range(ATTEMPTS):
        point = _attempt(problem, network, gates, rng, drawn=attempt % 2 == 1)
        if point is None:
            continue
        settled = settled_gates(network, *point, doubt_of(problem, point[1]))
        if settled is not None:
            is_on, free = settled
            if all(((is_on[p] == gates[p]) | free[p]).all() for p in gates):
                return True
    return False


def _attempt(
    problem: Problem, network: Network, gates: Gates, rng: np.random.Generator, *, drawn: bool
) -> tuple[dict[str, Array], Array] | None:
    """Weights and inputs that should have the gates; with ``drawn`` inputs as the ensemble draws them."""
    law = problem.ensemble.inputs
    weights = draw_weights(network, problem.ensemble.weights, rng)
    state = inputs = law.draw(rng, network.input_shape(problem.samples))
    for position, step in enumerate(network.steps):
        bias = None if step.bias is None else weights[step.bias]
        if position in gates:
            signs = 2 * gates[position] - 1
            if position == 0 and not drawn:
                features = inputs.shape[0]
                rank = law.rank_of(features)
                weights[step.weight], inputs = _factors(signs, features, rank, rng)
                state = inputs
                if bias is not None:  # small beside every pre-activation
                    least = np.abs(weights[step.weight] @ inputs).min()
                    bias *= 0.01 * least / np.abs(bias).max()
            else:
                seen = state if bias is None else np.vstack([state, np.ones(state.shape[1])])
                rows = _rows(signs, seen, rng)
                if rows is None:
                    return None
                weights[step.weight] = rows[:, : state.shape[0]]
                if step.bias is not None:
                    bias = weights[step.bias] = rows[:, state.shape[0] :]
        state = weights[step.weight] @ state + (0.0 if bias is None else bias)
        if position in gates:
            state = np.maximum(state, 0.0)
    return weights, inputs


def _factors(
    signs: Array, features: int, rank: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """W and X, the latter of this rank, such that W X has these signs, as nearly as was found.

    Alternating projections between matrices of the rank and matrices with the signs; where the rank is
    no limit the first matrix does.
    """
    wanted = signs * (0.5 + rng.random(signs.shape))
    for _ in range(_ALTERNATIONS):
        left, values, right = np.linalg.svd(wanted, full_matrices=False)
        left, values, right = left[:, :rank], values[:rank], right[:rank]
        near = (left * values) @ right
        if (near * signs > 0).all():
            break
        wanted = signs * np.maximum(near * signs, 0.1)
    kept = values.size
    mix = rng.standard_normal((features, kept))
    return (left * values) @ np.linalg.pinv(mix), mix @ right


def _rows(signs: Array, seen: Array, rng: np.random.Generator) -> Array | None:
    """Rows w with the signs of w . seen, sample by sample, wherever a sample is not 0."""
    live = np.abs(seen).max(axis=0) > 0
    columns, wanted = seen[:, live], signs[:, live]
    if np.linalg.matrix_rank(columns) == columns.shape[1]:
        return np.asarray((wanted * (0.5 + rng.random(wanted.shape))) @ np.linalg.pinv(columns))
    from scipy.optimize import linprog

    rows = []
    for row in wanted:
        program = -(row * columns).T
        solved = linprog(
            rng.random(columns.shape[0]), program, -np.ones(row.size), bounds=(-1e6, 1e6)
        )
        if solved.status != 0:
            return None
        rows.append(solved.x)
    return np.array(rows)
