"""The tracker in the states, against the outputs of the network and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from sublearn._arrays import Complex, Indices
from sublearn.ensembles import draw
from sublearn.matchers.complete._product_kernel import chain_of, evaluate
from sublearn.matchers.complete._state_kernel import (
    Room,
    States,
    affine_part,
    drift,
    free_part,
    linearize,
    new_room,
)
from sublearn.matchers.complete._state_tracker import states_of, track_states
from sublearn.matchers.complete._tracker import ARRIVED
from sublearn.verdicts.counts._product import product_form, product_numbers

NETWORKS = [
    # n, b, d, T, entries of W: the second is lifted by columns, the third has two inputs.
    (8, 1, 4, 4, [(i, (i + 2 * j) % 8) for i in range(5) for j in range(4 if i == 0 else 3)]),
    (6, 2, 1, 3, [(0, 0), (2, 0), (3, 1), (5, 1), (4, 2), (1, 2)]),
    (5, 2, 2, 2, [(0, 1), (0, 2), (0, 4), (1, 0), (1, 3), (2, 2), (2, 3), (2, 4)]),
    (7, 1, 3, 3, [(0, 0), (0, 3), (1, 1), (1, 5), (2, 2), (2, 6), (3, 0), (3, 4), (3, 6)]),
]


Parts = tuple[Complex, Indices, Indices, Indices, Indices, Complex]


def lifted(case: int) -> tuple[States, Parts, Complex]:
    n, b, d, T, entries = NETWORKS[case]
    network = sl.LinearRNN(n=n, b=b, d=d, T=T)
    allocation = sl.Allocation.from_entries(network, {"W": entries})
    instance = draw(sl.Problem(network, samples=T * b), allocation, seed=case)
    form = product_form(network, allocation, T * b)
    assert form is not None
    numbers = product_numbers(form, instance)
    chain, targets = chain_of(form, numbers)
    states = states_of(form, numbers, chain, targets)
    assert states is not None
    return states, chain.parts, targets


def room_at(states: States, targets: Complex, z: Complex) -> Room:
    room = new_room(states)
    affine_part(states, targets[states.order], 1.0, room.U[states.begin.shape[0] :])
    assert linearize(states, z, room)
    return room


def normal(seed: int, size: int) -> Complex:
    parts = np.random.default_rng(seed).standard_normal((2, size))
    return np.asarray((parts[0] + 1j * parts[1]) / 2)


@pytest.mark.parametrize("case", range(len(NETWORKS)))
def test_planted_weights_are_a_zero_and_are_recovered(case: int) -> None:
    states, parts, targets = lifted(case)
    weights = normal(case, targets.size)
    values, _ = evaluate(*parts, weights)
    z = np.zeros(states.unit.shape[0], dtype=np.complex128)
    free_part(states, weights, z)
    room = room_at(states, values, z)
    assert np.abs(room.E).max() < 1e-12
    found = np.empty_like(weights)
    found[states.labels] = room.weights
    np.testing.assert_allclose(found, weights, rtol=1e-8)


@pytest.mark.parametrize("case", range(len(NETWORKS)))
def test_derivatives(case: int) -> None:
    """At a solution the elimination may exchange rows freely, so E is followed with N_i held."""
    states, parts, targets = lifted(case)
    weights = normal(case + 10, targets.size)
    values, _ = evaluate(*parts, weights)
    z = np.zeros(states.unit.shape[0], dtype=np.complex128)
    free_part(states, weights, z)
    room = room_at(states, values, z)
    b, free, h = states.begin.shape[0], states.impulse.shape[1], 1e-6
    along, step = normal(case + 20, z.size), normal(case + 30, targets.size)
    expected = room.matrix @ (along / np.repeat(room.size[b:], free))
    ahead = room_at(states, values, z + h * along).E
    back = room_at(states, values, z - h * along).E
    np.testing.assert_allclose((ahead - back) / (2 * h), expected, rtol=1e-5, atol=1e-6)
    moved, out = np.zeros_like(room.U[b:]), np.empty_like(z)
    affine_part(states, step[states.order], 0.0, moved)
    drift(states, room, moved, out)
    ahead = room_at(states, values + h * step, z).E
    back = room_at(states, values - h * step, z).E
    np.testing.assert_allclose((back - ahead) / (2 * h), out, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", range(len(NETWORKS)))
def test_paths_arrive_at_solutions(case: int) -> None:
    states, parts, targets = lifted(case)
    arrived = 0
    for seed in range(4):
        weights = normal(seed, targets.size)
        begin, _ = evaluate(*parts, weights)
        ends, status, _ = track_states(states, weights[None, :], begin, targets, 2000)
        if status[0] == ARRIVED:
            arrived += 1
            values, jacobian = evaluate(*parts, ends[0])
            step = np.linalg.solve(jacobian, targets - values)
            assert np.abs(step).max() <= 1e-6 * np.abs(ends[0]).max()
    assert arrived >= 3


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
        form = product_form(owner, allocation, samples)
        assert form is not None
        numbers = product_numbers(form, instance)
        assert states_of(form, numbers, *chain_of(form, numbers)) is None
