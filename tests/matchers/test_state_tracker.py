"""The tracker in the states, against the outputs of the network and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from sublearn._arrays import Complex
from sublearn.ensembles import draw
from sublearn.matchers.complete._states import (
    Lifted,
    StatePath,
    StateRoom,
    _reordered,
    drift,
    lifted,
    linearize,
    track_states,
)
from sublearn.matchers.complete._tracker import ARRIVED, largest
from sublearn.matchers.complete._weights import WeightRoom, complex_chain, evaluate, weight_room
from sublearn.matchers.search._chain_kernel import SplitChain

NETWORKS = [
    # n, b, d, T, entries of W: the second is lifted by columns, the third has two inputs.
    (8, 1, 4, 4, [(i, (i + 2 * j) % 8) for i in range(5) for j in range(4 if i == 0 else 3)]),
    (6, 2, 1, 3, [(0, 0), (2, 0), (3, 1), (5, 1), (4, 2), (1, 2)]),
    (5, 2, 2, 2, [(0, 1), (0, 2), (0, 4), (1, 0), (1, 3), (2, 2), (2, 3), (2, 4)]),
    (7, 1, 3, 3, [(0, 0), (0, 3), (1, 1), (1, 5), (2, 2), (2, 6), (3, 0), (3, 4), (3, 6)]),
]


Chain = tuple[SplitChain, WeightRoom]


def lift_of(case: int) -> tuple[Lifted, Chain, Complex]:
    n, b, d, T, entries = NETWORKS[case]
    network = sl.LinearRNN(n=n, b=b, d=d, T=T)
    allocation = sl.Allocation.from_entries(network, {"W": entries})
    instance = draw(sl.Problem(network, samples=T * b), allocation, seed=case)
    chain, targets, divided = complex_chain(instance)
    lift = lifted(instance, divided)
    assert lift is not None
    return lift, (chain, weight_room(chain)), targets


def path_of(lift: Lifted, targets: Complex, move: Complex | None = None) -> StatePath:
    moved = lift.affine_part(np.zeros_like(targets) if move is None else move, 0.0)
    return StatePath(lift.states, lift.affine_part(targets), moved, True)


def room_at(lift: Lifted, targets: Complex, z: Complex) -> StateRoom:
    """A copy of the room at z."""
    assert linearize(path_of(lift, targets), 0.0, z, lift.room)
    return StateRoom(*(part.copy() for part in lift.room))


def normal(seed: int, size: int) -> Complex:
    parts = np.random.default_rng(seed).standard_normal((2, size))
    return np.asarray((parts[0] + 1j * parts[1]) / 2)


@pytest.mark.parametrize("case", range(len(NETWORKS)))
def test_planted_weights_are_a_zero_and_are_recovered(case: int) -> None:
    lift, chain, targets = lift_of(case)
    weights = normal(case, targets.size)
    values, _ = evaluate(*chain, weights)
    z = lift.free_part(weights[None])[0]
    room = room_at(lift, values, z)
    assert np.abs(room.E).max() < 1e-12
    found = np.empty_like(weights)
    found[lift.states.labels] = room.weights
    np.testing.assert_allclose(found, weights, rtol=1e-8)


@pytest.mark.parametrize("case", range(len(NETWORKS)))
def test_derivatives(case: int) -> None:
    """At a solution the elimination may exchange rows freely, so E is followed with N_i held."""
    lift, chain, targets = lift_of(case)
    weights = normal(case + 10, targets.size)
    values, _ = evaluate(*chain, weights)
    z = lift.free_part(weights[None])[0]
    room = room_at(lift, values, z)
    free, h = lift.form.k - len(lift.form.D), 1e-6
    along, step = normal(case + 20, z.size), normal(case + 30, targets.size)
    expected = room.matrix[:, :-1] @ along.reshape(-1, free).T.ravel()
    ahead = room_at(lift, values, z + h * along).E
    back = room_at(lift, values, z - h * along).E
    np.testing.assert_allclose((ahead - back) / (2 * h), expected, rtol=1e-5, atol=1e-6)
    drift(path_of(lift, values, step), room)
    ahead = room_at(lift, values + h * step, z).E
    back = room_at(lift, values - h * step, z).E
    np.testing.assert_allclose((back - ahead) / (2 * h), room.right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", range(len(NETWORKS)))
def test_paths_arrive_at_solutions(case: int) -> None:
    lift, chain, targets = lift_of(case)
    arrived = 0
    for seed in range(4):
        weights = normal(seed, targets.size)
        begin, _ = evaluate(*chain, weights)
        ends, status, _ = track_states(lift, weights[None, :], begin, targets, 2000)
        if status[0] == ARRIVED:
            arrived += 1
            values, jacobian = evaluate(*chain, ends[0])
            step = np.linalg.solve(jacobian, targets - values)
            assert np.abs(step).max() <= 1e-6 * np.abs(ends[0]).max()
    assert arrived >= 3


def test_a_step_with_a_nan_has_no_size_wherever_it_stands() -> None:
    lift, _, targets = lift_of(0)
    room = room_at(lift, targets, normal(0, targets.size))
    for at in range(room.step.size):
        room.step[:] = 1e-9
        assert 0 < _reordered(lift.states, room, np.empty_like(room.step)) < 1
        for value in (complex(np.nan, 1.0), complex(0.0, np.nan)):
            room.step[at] = value
            out = np.zeros_like(room.step)
            assert np.isnan(_reordered(lift.states, room, out)) and np.isnan(out).sum() == 1
            assert np.isnan(largest(room.step)) and largest(np.array([3 + 4j, 1.0])) == 5.0


def test_where_there_is_no_lift() -> None:
    """Inputs that cannot be divided out, weights outside W, and layers are followed in the weights."""
    network = sl.LinearRNN(n=4, b=1, d=2, T=3)
    mixed = sl.Allocation.from_entries(network, {"W": [(0, 0), (0, 1), (1, 2), (2, 3)]})
    outside = sl.Allocation.from_entries(
        network, {"W": [(0, 0), (0, 1), (1, 2), (2, 3)], "B": [(0, 0), (1, 0)]}
    )
    layers = sl.FeedForward((2, 3, 2))
    last = sl.Allocation.from_entries(layers, {"W2": [(0, 0), (0, 1), (1, 0), (1, 2)]})
    cases: list[tuple[sl.Network, sl.Allocation, int]] = [
        (network, mixed, 2),
        (network, outside, 3),
        (layers, last, 2),
    ]
    for owner, allocation, samples in cases:
        instance = draw(sl.Problem(owner, samples=samples), allocation, seed=1)
        assert lifted(instance, complex_chain(instance)[2]) is None
