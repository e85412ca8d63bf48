"""The loops of the search against plain linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl
from sublearn.matchers.search._chain import all_outer
from sublearn.matchers.search._chain_kernel import Shortest, chain_room, jacobian, shortest
from sublearn.matchers.search._dogleg import (
    add_product,
    dogleg,
    eliminate,
    factor,
    reflect,
    solve,
    solve_again,
)
from sublearn.matchers.search._lifted import Recurrent, recurrent
from sublearn.matchers.search._lifted_kernel import (
    condensed,
    condensed_step,
    descent,
    evaluate,
    full,
    full_step,
    residual,
)

Array = NDArray[np.float64]


@pytest.mark.parametrize("imaginary", [0, 1j], ids=["real", "complex"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 13, 32])
def test_solve(size: int, imaginary: complex) -> None:
    parts = np.random.default_rng(size).standard_normal((2, size, size + 2))
    numbers = parts[0] + imaginary * parts[1] if imaginary else parts[0]
    A, solutions = numbers[:, :size], numbers[:, size:]
    rights = A @ solutions
    room, place = np.ascontiguousarray(np.c_[A, rights[:, 0]]), np.zeros(size, np.int64)
    x = np.zeros_like(rights[:, 0])
    assert solve(room, place, x)
    np.testing.assert_allclose(x, solutions[:, 0], rtol=1e-9, atol=1e-9)
    solve_again(room, place, np.ascontiguousarray(rights[:, 1]), x)
    np.testing.assert_allclose(x, solutions[:, 1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("rows", "count"), [(4, 3), (6, 4), (7, 5), (9, 8)])
def test_elimination_of_some_columns_leaves_what_is_outside_their_range(
    rows: int, count: int
) -> None:
    """A right side in the range of the columns is brought to 0 below them, as in each row of a path."""
    rng = np.random.default_rng(rows)
    A, place = rng.standard_normal((rows, count + 1)), np.zeros(rows, np.int64)
    A[:, count] = A[:, :count] @ rng.standard_normal(count)
    assert eliminate(A, place, count, count + 1)
    assert np.abs(A[count:, count]).max() < 1e-12
    assert sorted(place) == list(range(rows))


def test_solve_says_singular() -> None:
    assert not solve(np.zeros((3, 4)), np.zeros(3, np.int64), np.ones(3))


@pytest.mark.parametrize(("height", "inner", "width"), [(1, 1, 1), (2, 4, 3), (5, 7, 6), (4, 9, 1)])
def test_add_product(height: int, inner: int, width: int) -> None:
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((height, inner)), rng.standard_normal((inner, width))
    Y = rng.standard_normal((height, width))
    expected = Y - X @ A
    add_product(X, A, Y, -1.0)
    np.testing.assert_allclose(Y, expected, atol=1e-13)


@pytest.mark.parametrize(("height", "count"), [(1, 1), (4, 3), (4, 4), (9, 2)])
def test_reflections_leave_the_part_outside_the_range(height: int, count: int) -> None:
    rng = np.random.default_rng(1)
    A, v = rng.standard_normal((height, count)), rng.standard_normal(height)
    Q, tau, turned = np.ascontiguousarray(A.T), np.zeros(count), v[None].copy()
    factor(Q, tau, count)
    for e in range(count):
        reflect(Q, tau, e, turned, 0)
    turned[0, :count] = 0.0
    for e in range(count - 1, -1, -1):
        reflect(Q, tau, e, turned, 0)
    expected = v - A @ np.linalg.lstsq(A, v, rcond=None)[0]
    np.testing.assert_allclose(turned[0], expected, atol=1e-12)


@pytest.mark.parametrize("radius", [1e-3, 0.1, 0.5, 1.0, 100.0])
def test_dogleg_keeps_its_promises(radius: float) -> None:
    rng = np.random.default_rng(2)
    J, f = rng.standard_normal((5, 5)), rng.standard_normal(5)
    newton, gradient, step = -np.linalg.solve(J, f), J.T @ f, np.zeros(5)
    curvature = float(np.sum((J @ gradient) ** 2))
    length, fall = dogleg(newton, gradient, curvature, float(f @ f), radius, step)
    assert length <= radius * (1 + 1e-12)
    assert np.linalg.norm(step) == pytest.approx(length)
    assert fall == pytest.approx(f @ f - np.sum((f + J @ step) ** 2))
    # No worse than the best point along the gradient within the radius.
    reach = min(gradient @ gradient / curvature, radius / np.linalg.norm(gradient))
    assert fall >= f @ f - np.sum((f - reach * J @ gradient) ** 2) - 1e-12


def _forms() -> dict[str, Recurrent]:
    """Lifts by states and by readouts, with one and several encoder columns, with and without inputs."""
    net, wide = sl.LinearRNN(n=7, b=1, d=2, T=4), sl.LinearRNN(n=6, b=2, d=3, T=3)
    rows = {"W": sl.FirstRows(4)}
    asked = {
        "rows": (net, 4, rows),
        "all rows": (net, 4, {"W": sl.FirstRows(7)}),
        "columns": (net, 4, {"W": sl.FirstColumns(2)}),
        "inputs": (net, 3, rows),
        "b = 2": (wide, 6, {"W": sl.FirstRows(5)}),
        "b = 2, inputs": (wide, 4, rows),
    }
    forms = {}
    for name, (network, samples, rule) in asked.items():
        form = recurrent(sl.draw(sl.Problem(network, samples), rule, seed=7, trial=0))
        assert form is not None
        forms[name] = form
    return forms


FORMS = _forms()


def _states(form: Recurrent, g: float, U_of: Array) -> None:
    """The states must obey the frozen rows and the targets: straight from eq. (3.3)."""
    b = form.B.shape[1]
    W = form.W / g
    np.testing.assert_allclose(U_of[:b], form.B.T)
    np.testing.assert_allclose(U_of[b:, form.k :], U_of[:-b] @ W[form.k :].T, atol=1e-9)
    outputs = U_of[b:] @ form.D.T * np.repeat(g ** np.arange(1.0, form.T + 1), b)[:, None]
    if form.mix.size:
        outputs = form.mix.T @ outputs
    np.testing.assert_allclose(outputs, form.targets, atol=1e-8)


@pytest.mark.parametrize("name", FORMS)
def test_residual_and_steps(name: str) -> None:
    form, g = FORMS[name], 1.4
    S, k, b = form.unknowns, form.k, form.B.shape[1]
    ready = form.at_scale(g)
    assert ready is not None
    (lift, _, point, other, work, _), _ = ready
    rng = np.random.default_rng(3)
    z = rng.standard_normal(S)
    point.x[0] = z
    cost = evaluate(lift, point, work)
    _states(form, g, point.U)

    # Each row's weights by least squares, and what lies outside.
    before, after = point.U[:-b], point.U[b:]
    E = np.zeros((len(before), k))
    outside = []
    for i in range(k):
        learnable = form.columns[form.rows == i]
        A = before[:, learnable]
        f = after[:, i] - before @ lift.W[i]
        x = np.linalg.lstsq(A, f, rcond=None)[0]
        np.testing.assert_allclose(point.values[form.rows == i], x, rtol=1e-6, atol=1e-8)
        E[:, i] = f - A @ x
        rotation = np.linalg.svd(A)[0]
        outside.append(rotation[:, len(learnable) :])
    assert cost == pytest.approx(float(np.sum(E**2)))
    residual(lift, point, work)
    np.testing.assert_allclose(work.E, E, atol=1e-9)

    # With the weights held the residual is affine in z: differences are derivatives.
    J = np.zeros((sum(q.shape[1] for q in outside), S))
    for e in range(S):
        other.x[0] = z
        other.x[0, e] += 1.0
        evaluate(lift, other, work)
        change = other.U - point.U
        moved = change[b:, :k] - change[:-b] @ point.W[:k].T
        J[:, e] = np.concatenate([q.T @ moved[:, i] for i, q in enumerate(outside)])
    f = np.concatenate([q.T @ E[:, i] for i, q in enumerate(outside)])
    residual(lift, point, work)
    gradient, newton = np.zeros(S), np.zeros(S)
    curvature = descent(lift, point, work, gradient)
    np.testing.assert_allclose(gradient, J.T @ f, rtol=1e-7, atol=1e-8 * np.abs(f).max())
    assert curvature == pytest.approx(float(np.sum((J @ gradient) ** 2)), rel=1e-7)
    expected = -np.linalg.solve(J, f)
    assert condensed_step(condensed(lift), lift, point, work, newton)
    np.testing.assert_allclose(newton, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    if not form.mix.size:
        assert full_step(full(lift, form.impulse(g), S), lift, point, work, newton)
        np.testing.assert_allclose(newton, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_the_lift_with_fewer_unknowns_is_taken() -> None:
    # d = 2, b = 1, T = 4: rows leave T b (k - d), columns T d (c - b).
    assert FORMS["rows"].unknowns == 4 * (FORMS["rows"].k - 2)
    assert FORMS["columns"].unknowns == 8 * (FORMS["columns"].k - 1)
    assert FORMS["columns"].D.shape[0] == 1
    assert FORMS["inputs"].unknowns == 4 * FORMS["inputs"].k - 2 * 3


@pytest.mark.parametrize(
    "network",
    [
        sl.LinearRNN(n=4, b=2, d=3, T=3),
        sl.FeedForward((3, 4, 5, 2), bias=True),
        sl.LinearEstimator(inputs=3, outputs=2),
    ],
    ids=lambda network: network.spec,
)
def test_chain_derivatives(network: sl.Network) -> None:
    rng = np.random.default_rng(4)
    allocation = sl.Allocation.whole(network)
    weights = {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
    inputs = rng.standard_normal(network.input_shape(3))
    targets = rng.standard_normal((network.output_size, 3))
    instance = sl.Instance(network, allocation, weights, inputs, targets)
    x = rng.standard_normal(len(allocation))
    chain = all_outer(instance)
    outputs, columns = np.zeros((1, targets.size)), np.zeros((x.size, targets.size))
    jacobian(chain, x, chain_room(chain), outputs, columns)
    np.testing.assert_allclose(outputs[0], instance.residual(x).ravel(), atol=1e-12)
    expected = network.jacobian(instance.with_values(x), inputs, allocation)
    np.testing.assert_allclose(columns.T, expected, atol=1e-12)


@pytest.mark.parametrize(("unknowns", "equations", "inner"), [(4, 6, 2), (7, 6, 2), (9, 4, 0)])
def test_newton_step_is_the_shortest(unknowns: int, equations: int, inner: int) -> None:
    rng = np.random.default_rng(5)
    columns, outside = (
        rng.standard_normal((unknowns, equations)),
        rng.standard_normal((1, equations)),
    )
    step, q = np.zeros(unknowns), equations - inner
    room, place = np.zeros((q, unknowns + 1)), np.zeros(q, np.int64)
    solver = Shortest(room, place, np.zeros(equations), np.zeros((1, unknowns)))
    assert shortest(solver, columns, outside, inner, step)
    expected = -np.linalg.pinv(columns[:, inner:].T) @ outside[0, inner:]
    np.testing.assert_allclose(step, expected, atol=1e-10)
