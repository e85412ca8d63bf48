"""Two ways to the same Jacobian modulo a prime, and to its rank."""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
import pytest

import sublearn as sl
from sublearn.exact import PrimeField, eliminate, random_prime
from sublearn.verdicts import PrimePoint
from sublearn.verdicts._recheck import Place, is_prime, jacobian_modulo, rank_modulo, whole_gates

MASK = np.random.default_rng(5).random((4, 4)) < 0.7
NETWORKS = [
    sl.LinearEstimator(3, 2),
    sl.LinearRNN(n=4, b=2, d=2, T=3),
    sl.RNN(n=4, b=1, d=2, T=3),
    sl.RNN(n=4, b=1, d=2, T=3, activation="sigmoid"),
    sl.FeedForward((3, 4, 2), "tanh", bias=True),
    sl.FeedForward((3, 4, 3, 2), "relu", bias=True),
    sl.RateRNN(n=4, b=2, d=2, T=3, leak=0.3, bias=True, readout="every", start="weights"),
    sl.RateRNN(n=4, b=2, d=2, T=3, activation="relu", leak=0.5),
    sl.RateRNN(n=4, b=2, d=2, T=3, activation="linear", leak=0.25, autapses=False),
    sl.RateRNN(n=4, b=2, d=1, T=3).with_connections({"W": MASK}),
]


@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.spec[:40])
@pytest.mark.parametrize("input_rank", [None, 2])
def test_forward_and_backward_agree(net: sl.Network, input_rank: int | None) -> None:
    law = sl.ensembles.Normal() if input_rank is None else sl.ensembles.LowRank(rank=input_rank)
    problem = sl.Problem(net, 3, sl.ensembles.Ensemble(inputs=law))
    whole = sl.Allocation.whole(net)
    place = Place(random_prime(np.random.default_rng(3)), 11)
    point = PrimePoint(problem, net, place, free_gates=True)
    ours = jacobian_modulo(problem, net, place, whole.labels())
    theirs = point.columns(whole).astype(np.int64) % place.prime
    assert np.array_equal(ours, theirs)
    assert rank_modulo(ours, place.prime) == eliminate(point.field, point.columns(whole)).rank


@pytest.mark.parametrize("net", [net for net in NETWORKS if net.has_gates], ids=str)
def test_gates_are_those_of_a_plain_loop_in_fractions(net: sl.Network) -> None:
    problem, place = sl.Problem(net, 3), Place(8388593, 4)
    gates = whole_gates(problem, net, place)
    assert gates is not None
    weights = {
        name: np.where(net.existing(name), place.integers(f"weight {name}", shape), 0)
        for name, shape in net.shapes.items()
    }
    x = place.integers("inputs", net.input_shape(3))
    if isinstance(net, sl.FeedForward):
        h = x
        for k in (1, 2):
            z = weights[f"W{k}"] @ h + weights[f"b{k}"]
            assert np.array_equal(gates[k - 1], z > 0)
            h = np.where(z > 0, z, 0)
    else:
        h = np.zeros((4, 3), dtype=object)
        for t in range(3):
            z = weights["W"] @ h + weights["Win"] @ x[t]
            assert np.array_equal(gates[t], z > 0)
            h = h * Fraction(1, 2) + np.where(z > 0, z, 0) * Fraction(1, 2)


def test_rank_against_flint() -> None:
    rng = np.random.default_rng(0)
    p = 4194319
    assert is_prime(p) and not is_prime(p - 2) and not is_prime(1)
    for rows, columns, rank in ((5, 5, 5), (6, 4, 3), (3, 9, 2), (7, 7, 0), (1, 1, 1)):
        left = rng.integers(0, p, (rows, max(rank, 1)))
        matrix = left @ rng.integers(0, 5, (max(rank, 1), columns)) * (rank > 0)
        wanted = flint.nmod_mat(rows, columns, (matrix % p).ravel().tolist(), p).rank()
        assert rank_modulo(matrix, p) == wanted


def test_coordinates_are_what_the_page_says() -> None:
    """SHAKE-256 of three lines, eight bytes each, the lowest first."""
    import hashlib

    raw = hashlib.shake_256(b"sublearn point\n7\nweight W").digest(48)
    wanted = [int.from_bytes(raw[8 * k : 8 * k + 8], "little") % 8388593 for k in range(6)]
    assert Place(8388593, 7).residues("weight W", (2, 3)).ravel().tolist() == wanted
    assert PrimeField(8388593).p == 8388593
