"""Rank, gap, leverage and the like of given matrices; no torch needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.dense import DenseDerivatives
from sublearn.models import _spectrum
from sublearn.models._audit import audit_derivatives
from sublearn.models._spectrum import spectrum


def _given(rows: int, columns: int, rank: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 6), st.integers(0, 99), st.booleans())
def test_rank_and_leverage(rows: int, columns: int, rank: int, seed: int, blocks: bool) -> None:
    rank = min(rows, columns, rank)
    J = _given(rows, columns, rank, seed)

    def pieces() -> object:
        return iter(np.array_split(J, min(3, columns), axis=1))

    old = _spectrum.DENSE
    try:
        _spectrum.DENSE = 0 if blocks else old
        found = spectrum(pieces, rows, columns, precision="double")  # type: ignore[arg-type]
    finally:
        _spectrum.DENSE = old
    assert found.rank == rank
    assert abs(found.leverage.sum() - rank) < 1e-6
    assert (found.leverage > -1e-9).all() and (found.leverage < 1 + 1e-9).all()
    # The diagonal of the projection onto the row space, by the pseudoinverse.
    assert np.allclose(found.leverage, np.diag(np.linalg.pinv(J, rcond=1e-9) @ J), atol=1e-6)
    assert np.allclose(found.lengths, np.linalg.norm(J, axis=0))


def test_a_slow_decay_is_no_gap() -> None:
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((40, 40)))[0] for _ in range(2))
    J = U @ np.diag(np.logspace(0, -14, 40)) @ V
    found = spectrum(lambda: iter([J]), 40, 40, precision="double")
    assert not found.clear and 20 < found.rank < 35
    derivatives = DenseDerivatives(J, {"w": (40,)}, np.zeros((40, 1)))
    report = audit_derivatives(derivatives, {"w": np.ones(40, bool)})
    assert report.verdict == "warn" and "no clear gap" in report.reasons[0]


def test_reachable_share_is_that_of_the_strong_directions() -> None:
    J = np.diag([1.0, 0.5, 1e-3, 0.0])
    residual = np.array([1.0, 2.0, 3.0, 4.0])
    found = spectrum(lambda: iter([J]), 4, 4, precision="double", residual=residual)
    assert found.reachable == pytest.approx(5 / 30)


def test_parallel_columns() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 6))
    J = np.stack([a, b, -2 * a, c, np.zeros(6), 1e-3 * b, a + 1e-4 * b], axis=1)
    found = spectrum(lambda: iter([J]), 6, 7, precision="double")
    assert found.parallel == ((0, 2), (1, 5))


def test_layers_add_up() -> None:
    J = _given(20, 9, 5, 1)
    J[:, 3] = 0
    shapes = {"a": (2, 3), "b": (3,)}
    masks = {"a": np.ones((2, 3), bool), "b": np.array([True, False, True])}
    found = audit_derivatives(DenseDerivatives(J, shapes, np.zeros((10, 2))), masks)
    assert found.count == 8 and found.needed == 20 and found.samples == 10 and found.outputs == 2
    assert sum(row.rank for row in found.layers) == pytest.approx(found.rank)
    assert [row.count for row in found.layers] == [6, 2]
    assert found.layers[0].zero == 1 and found.wasted == 8 - 5
    assert found.verdict == "warn"
    assert {"rank", "wasted", "layers", "verdict", "grade"} <= set(found.to_dict())
    assert "rank 5 of 8" in str(found)


def test_plain_numbers_also_where_rounding_fills_the_gap() -> None:
    """A report in JSON knows no truth values of numpy."""
    J = np.outer([1.0, 2.0, 3.0], [1.0, 1.0])
    J[0, 0] += 1e-15
    found = spectrum(lambda: iter([J]), 3, 2, precision="double")
    assert found.rank == 1 and type(found.gap) is float and type(found.clear) is bool
