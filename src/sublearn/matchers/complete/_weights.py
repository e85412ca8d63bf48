"""Complex solutions followed in the weights themselves: any linear network, its chain in complex numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sublearn._arrays import Array, Complex, Indices, zeros
from sublearn._compile import lean, serves
from sublearn.ensembles import Instance
from sublearn.matchers.complete._tracker import correct, end_at, follow, largest, tangent_of
from sublearn.matchers.search._chain import all_outer
from sublearn.matchers.search._chain_kernel import ChainRoom, SplitChain, chain_room, jacobian
from sublearn.matchers.search._dogleg import solve, solve_again


def complex_chain(instance: Instance) -> tuple[SplitChain, Complex, bool]:
    """The chain with targets 0, its targets flat, and whether the inputs are divided out of both.

    They are where Y = R X with a square X that is regular enough: R = Y X^-1 are then the outputs for the
    unit inputs. The division rounds, so roots of the result are only near those of the instance: whatever
    is concluded has to be proved on the instance itself.
    """
    network, inputs, targets = instance.network, instance.inputs, instance.targets
    m = instance.samples
    # Of a recurrence R_p multiplies the inputs p steps before the end.
    back = -1 if network.recurrence is not None else 1
    mix = inputs[::back].reshape(-1, m)
    layers = network.layered
    apart = network.recurrence is not None or (
        layers is not None and not layers.biases and len(layers.weights) > 1
    )
    divided = apart and len(mix) == m and bool(np.linalg.cond(mix) < 1e12)
    if divided:
        targets = np.asarray(np.linalg.solve(mix.T, targets.T).T, dtype=np.float64)
        inputs = np.eye(m).reshape(inputs.shape)[::back]
    chain = all_outer(instance)
    zeros = np.zeros(targets.shape, np.complex128)
    chain = chain._replace(
        weights=chain.weights.astype(np.complex128),
        inputs=np.ascontiguousarray(inputs.reshape(-1, m)),
        targets=zeros,
    )
    return chain, np.ascontiguousarray(targets, dtype=np.complex128).ravel(), divided


class WeightPath(NamedTuple):
    """A chain, and how the targets move."""

    chain: SplitChain
    begin: Complex
    move: Complex
    settles: bool  # no: what is polished already is a solution


class WeightRoom(NamedTuple):
    """Room for one evaluation and its linear system."""

    at: ChainRoom
    outputs: Complex  # (1, d m)
    matrix: Complex  # (d m, d m + 1): the system, its right side last
    place: Indices


def weight_room(chain: SplitChain) -> WeightRoom:
    size = chain.targets.size
    outputs, matrix = zeros((1, size), (size, size + 1), dtype=np.complex128)
    return WeightRoom(chain_room(chain), outputs, matrix, np.zeros(size, np.int64))


@serves(correct, WeightPath)
@lean
def _correct(
    path: WeightPath, room: WeightRoom, here: Complex, x: Complex, time: float, change: Complex
) -> float:
    columns, size = room.at.columns, x.size
    jacobian(path.chain, x, room.at, room.outputs, columns)
    for i in range(size):
        room.matrix[i, size] = path.begin[i] + time * path.move[i] - room.outputs[0, i]
        for e in range(size):
            room.matrix[i, e] = columns[e, i]
    if not solve(room.matrix, room.place, change):
        return -1.0
    return largest(change) / max(largest(here), 1e-300)


@serves(tangent_of, WeightPath)
@lean
def _tangent(path: WeightPath, room: WeightRoom, out: Complex) -> None:
    solve_again(room.matrix, room.place, path.move, out)


@serves(end_at, WeightPath)
@lean
def _end(path: WeightPath, room: WeightRoom, x: Complex, weights: Complex) -> None:
    for e in range(x.size):
        weights[e] = x[e]


@lean
def _polish(
    path: WeightPath, room: WeightRoom, points: Complex, out: Complex, error: Array, change: Complex
) -> None:
    for number in range(points.shape[0]):
        here = out[number]
        for _ in range(6):
            size = correct(path, room, points[number], here, 0.0, change)
            if not (size >= 0.0 and size < 0.5 * error[number]):
                break
            for e in range(change.size):
                here[e] += change[e]
            error[number] = size


def evaluate(chain: SplitChain, room: WeightRoom, weights: Complex) -> tuple[Complex, Complex]:
    """The outputs (d m,) and their Jacobian at one point."""
    jacobian(chain, weights, room.at, room.outputs, room.at.columns)
    return room.outputs[0].copy(), room.at.columns.T.copy()


def polish(
    chain: SplitChain, room: WeightRoom, points: Complex, targets: Complex
) -> tuple[Complex, Array]:
    """Newton's method at each row of ``points`` until rounding ends it.

    Returns the points and their last corrections, relative to the point; infinite where it fails.
    """
    out, error = points.copy(), np.full(len(points), np.inf)
    path = WeightPath(chain, targets, np.zeros_like(targets), False)
    _polish(path, room, points, out, error, np.zeros_like(targets))
    return out, error


def track(
    chain: SplitChain,
    room: WeightRoom,
    points: Complex,
    begin: Complex,
    end: Complex,
    most_steps: int,
) -> tuple[Complex, Indices, Indices]:
    """Follow a path from each row of ``points``, a solution for the targets ``begin``, to ``end``.

    Returns the end points, what became of each path (0: it arrived) and the steps it took.
    """
    path = WeightPath(chain, begin, end - begin, False)
    return follow(path, room, points, points.shape[1], most_steps)
