"""Dependencies vanish; circuits are minimal."""

from __future__ import annotations

import numpy as np
import pytest

from exact.reference import FIELD, SMALL_FIELD, flint_rank, sample_matrices
from sublearn.exact import PrimeField, dependencies, eliminate, smallest_circuit


def assert_is_circuit(matrix: np.ndarray, circuit: np.ndarray) -> None:
    """Dependent, and every deletion of one column independent."""
    assert np.all(np.diff(circuit) > 0)
    chosen = matrix[:, circuit]
    assert flint_rank(chosen) == circuit.size - 1
    for k in range(circuit.size):
        assert flint_rank(np.delete(chosen, k, axis=1)) == circuit.size - 1


@pytest.mark.parametrize("largest", [8, 30])
def test_dependencies_and_circuits(largest: int) -> None:
    rng = np.random.default_rng(largest)
    seen = 0
    for matrix in sample_matrices(rng, 120, largest):
        echelon = eliminate(FIELD, matrix.copy())
        width = matrix.shape[1]
        found = dependencies(echelon)
        free = np.setdiff1d(np.arange(width), echelon.pivots)
        assert found.shape == (free.size, width)
        assert not FIELD.matmul(matrix, found.T).any()
        assert np.array_equal(found[:, free], np.eye(free.size))
        for row, column in zip(found, free, strict=True):
            assert not row[column + 1 :].any()
        if free.size:
            circuit = smallest_circuit(echelon, rng)
            assert_is_circuit(matrix, circuit)
            assert circuit.size <= np.count_nonzero(found, axis=1).min() or free.size > 24
            seen += 1
        else:
            with pytest.raises(ValueError, match="independent"):
                smallest_circuit(echelon, rng)
    assert seen > 60


@pytest.mark.parametrize("field", [FIELD, SMALL_FIELD])
def test_large_dependencies_vanish(field: PrimeField) -> None:
    rng = np.random.default_rng(11)
    matrix = field.matmul(field.random(rng, (640, 600)), field.random(rng, (600, 900)))
    matrix[:, 10:200:7] = 0.0
    echelon = eliminate(field, matrix.copy())
    found = dependencies(echelon)
    assert found.shape == (900 - echelon.rank, 900)
    assert not field.matmul(matrix, found.T).any()
    free = np.setdiff1d(np.arange(900), echelon.pivots)
    some = rng.permutation(free.size)[:20]
    assert np.array_equal(dependencies(echelon, free[some]), found[some])
    assert np.array_equal(dependencies(echelon, free[some[:5]]), found[some[:5]])
    assert smallest_circuit(echelon, rng).size == 1


def test_a_large_circuit_is_minimal() -> None:
    """Rank one below the size, and a dependency without zeros: no proper part is dependent."""
    rng = np.random.default_rng(26)
    matrix = FIELD.matmul(FIELD.random(rng, (560, 530)), FIELD.random(rng, (530, 550)))
    circuit = smallest_circuit(eliminate(FIELD, matrix.copy()), rng)
    chosen = np.ascontiguousarray(matrix[:, circuit])
    assert flint_rank(chosen) == circuit.size - 1
    (dependency,) = dependencies(eliminate(FIELD, chosen.copy()))
    assert dependency.all()
    assert not FIELD.matmul(chosen, dependency).any()


def test_a_planted_circuit_is_found() -> None:
    """Five columns in a space of dimension four, hidden among generic ones."""
    rng = np.random.default_rng(12)
    matrix = FIELD.random(rng, (60, 60))
    planted = np.sort(rng.choice(60, 5, replace=False))
    matrix[:, planted] = FIELD.matmul(FIELD.random(rng, (60, 4)), FIELD.random(rng, (4, 5)))
    echelon = eliminate(FIELD, matrix.copy())
    assert smallest_circuit(echelon, rng).tolist() == planted.tolist()


def test_repivoting_finds_what_fundamental_circuits_miss() -> None:
    """Columns 0..5 generic in F^4, column 6 parallel to column 4: neither 4 nor 6 is a pivot."""
    rng = np.random.default_rng(13)
    matrix = FIELD.random(rng, (4, 7))
    matrix[:, 6] = FIELD.multiply(matrix[:, 4], 3.0)
    echelon = eliminate(FIELD, matrix.copy())
    assert np.count_nonzero(dependencies(echelon), axis=1).min() == 5
    assert smallest_circuit(echelon, rng, tries=30).tolist() == [4, 6]


def test_only_non_pivots_have_dependencies() -> None:
    echelon = eliminate(FIELD, np.array([[1.0, 2.0, 0.0]]))
    with pytest.raises(ValueError, match="non-pivot"):
        dependencies(echelon, [0])
    with pytest.raises(ValueError, match=r"0\.\.2"):
        dependencies(echelon, [3])
    assert dependencies(echelon, []).shape == (0, 3)
    assert dependencies(echelon, [2, 1]).tolist() == [[0.0, 0.0, 1.0], [-2.0, 1.0, 0.0]]
