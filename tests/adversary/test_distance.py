"""Distances, budgets and chains of the second implementation, by hand and against HiGHS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flint import arb, fmpq
from scipy.optimize import linprog

import sublearn as sl
from adversary import distance
from adversary.network import float_phi, forward, layout
from adversary.truth import bent, read, truth
from adversary.verbs import derivative


@pytest.mark.parametrize("trial", range(12))
def test_circuits_agree_with_highs(trial: int) -> None:
    rng = np.random.default_rng(trial)
    A, b = rng.integers(-3, 4, (5, 2)), rng.integers(-4, 5, 5)
    ones = np.ones((5, 1))
    least = linprog(
        [0, 0, 1],
        A_ub=np.block([[A, -ones], [-A, -ones]]),
        b_ub=np.concatenate([b, -b]),
        bounds=[(None, None)] * 2 + [(0, None)],
    ).fun
    rows = [[fmpq(int(v)) for v in row] for row in A]
    for eps, wanted in ((least - 1e-6, True), (least + 1e-6, False)):
        bands = [(arb(int(v)) - eps, arb(int(v)) + eps) for v in b]
        assert distance.no_solution(rows, bands) == (wanted and least > 0)


def test_circuits_with_open_bands() -> None:
    # w >= 1 and w <= 0.
    rows = [[fmpq(1)], [fmpq(2)]]
    assert distance.no_solution(rows, [(arb(1), None), (None, arb(0))])
    assert not distance.no_solution(rows, [(arb(1), None), (None, arb(2))])


def _asked(given: sl.Instance) -> distance.Question:
    asked, phi = read(given)
    return replace(asked, wanted=bent(phi, asked.wanted))


def test_distances_by_hand() -> None:
    one = np.ones((1, 1))
    # y = w x through (1, 1), (2, 2.2), (3, 2.9): 0.16 at w = 1.02.
    line = sl.LinearEstimator(inputs=1, outputs=1)
    inputs, targets = np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 2.2, 2.9]])
    asked = _asked(sl.Instance(line, sl.Allocation.whole(line), {"W": one}, inputs, targets))
    assert distance.refuted(asked, arb(0.1599)) and not distance.refuted(asked, arb(0.1601))
    _, far = distance.Nearby(asked).best(np.random.default_rng(0))
    assert abs(far - 0.16) < 1e-9
    # relu(w) and relu(-w) to be 1 both: 1 at best.
    net = sl.FeedForward((1, 1, 1), "relu")
    both = sl.Instance(
        net,
        sl.Allocation.whole(net, ["W1"]),
        {"W1": one, "W2": one},
        np.array([[1.0, -1.0]]),
        np.ones((1, 2)),
    )
    assert distance.refuted(_asked(both), arb(0.999)) and not distance.refuted(_asked(both), arb(1))
    # w^2 = -1 through two steps: 1 at best.
    rnn = sl.LinearRNN(n=1, b=1, d=1, T=2)
    x, held = np.array([[[1.0]], [[0.0]]]), {name: one for name in "WBD"}
    square = sl.Instance(rnn, sl.Allocation.whole(rnn, ["W"]), held, x, np.array([[-1.0]]))
    assert distance.refuted(_asked(square), arb(0.99))
    assert not distance.refuted(_asked(square), arb(1.01))
    # tanh(w) and tanh(-w) to be 0.5 both: 0.5 at best.
    bend = sl.FeedForward((1, 1, 1), "tanh")
    curved = sl.Instance(
        bend,
        sl.Allocation.whole(bend, ["W1"]),
        {"W1": one, "W2": one},
        np.array([[1.0, -1.0]]),
        np.full((1, 2), 0.5),
    )
    assert distance.refuted(_asked(curved), arb(0.49))
    assert not distance.refuted(_asked(curved), arb(0.51))


@pytest.mark.parametrize("readout", ["last", "every"])
@pytest.mark.parametrize("start", ["zero", "weights"])
def test_rate_networks_are_the_formula(readout: str, start: str) -> None:
    net = sl.RateRNN(3, 2, 2, 3, "tanh", 0.1, True, readout, start)
    rng = np.random.default_rng(1)
    w = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    x = rng.standard_normal((3, 2, 4))
    h, out = w.get("h0", np.zeros((3, 1))) * np.ones(4), []
    for block in x:
        h = (1 - 0.1) * h + 0.1 * np.tanh(w["W"] @ h + w["Win"] @ block + w["b"])
        out.append(w["D"] @ h + w["c"])
    wanted = np.concatenate(out if readout == "every" else out[-1:])
    found = forward(layout(net), w, list(x), float_phi)
    assert np.allclose(np.array(found), wanted, atol=1e-14)


def test_rate_truth_by_hand() -> None:
    # h1 = V x1 / 2, h2 = h1 / 2 + (w h1 + V x2) / 2: with x = (4, 0), y = 1 + w.
    net = sl.RateRNN(1, 1, 1, 2, "linear", 0.5)
    one = {name: np.ones((1, 1)) for name in net.shapes}
    x = np.array([[[4.0, 0.0]], [[0.0, 2.0]]])
    for second, kind in (
        (1.0, "matched"),
        (1.5, "refuted"),
    ):  # the second sample knows nothing of w
        given = sl.Instance(net, sl.Allocation.whole(net, ["W"]), one, x, np.array([[7.0, second]]))
        assert truth(given).kind == kind
    # tanh: h2 = h1 / 2 + tanh(w h1 + x2) / 2 lies within 1/2 of h1 / 2.
    net = sl.RateRNN(1, 1, 1, 2, "tanh", 0.5)
    h1 = np.tanh(1.0) / 2
    for target, kind in ((h1 / 2 + 0.49, "matched"), (h1 / 2 + 0.51, "refuted")):
        given = sl.Instance(
            net, sl.Allocation.whole(net, ["W"]), one, np.ones((2, 1, 1)), np.array([[target]])
        )
        assert truth(given).kind == kind


def test_gates_by_hand() -> None:
    # y = w2 g (w1 x): by w1 it is w2 g x, by w2 it is g w1 x.
    chain = layout(sl.FeedForward((1, 1, 1), "relu"))
    point = {"W1": [[3]], "W2": [[5]]}, [[7, 11]]
    assert derivative(chain, point, ("W1", 0, 0), (1, 0)) == [35, 0]
    assert derivative(chain, point, ("W2", 0, 0), (0, 1)) == [0, 33]
