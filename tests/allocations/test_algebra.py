"""Allocations as sets: the laws, moves, selections, equality and the digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublearn as sl
from networks.reference import one_sentence
from sublearn import Allocation, BadInputError

NET = sl.LinearRNN(n=3, b=2, d=2, T=2)  # W 3 x 3, B 3 x 2, D 2 x 3
LABELS = [(name, i, j) for name, (r, c) in NET.shapes.items() for i in range(r) for j in range(c)]
OTHER = Allocation.whole(sl.LinearRNN(n=4, b=2, d=2, T=2))
label_sets = st.sets(st.sampled_from(LABELS))


def _make(labels: set[tuple[str, int, int]]) -> Allocation:
    entries: dict[str, list[tuple[int, int]]] = {}
    for name, i, j in labels:
        entries.setdefault(name, []).append((i, j))
    return Allocation.from_entries(NET, entries)


@given(label_sets, label_sets)
def test_operations_are_those_of_sets(p: set, q: set) -> None:
    a, b = _make(p), _make(q)
    assert set((a | b).labels()) == p | q
    assert set((a - b).labels()) == p - q
    assert set((a & b).labels()) == p & q
    assert a.union(b) == a | b and a.difference(b) == a - b and a.intersection(b) == a & b
    assert (a == b) == (p == q)
    assert a != b or hash(a) == hash(b)
    assert (a.digest == b.digest) == (p == q)


@given(label_sets, label_sets, label_sets)
def test_laws(p: set, q: set, r: set) -> None:
    a, b, c = _make(p), _make(q), _make(r)
    assert a | b == b | a and a & b == b & a
    assert (a | b) | c == a | (b | c) and (a & b) & c == a & (b & c)
    assert a & (b | c) == (a & b) | (a & c)
    assert a - (b | c) == (a - b) - c
    assert (a - b) | (a & b) == a
    assert len(a | b) == len(a) + len(b) - len(a & b)


@given(label_sets.filter(lambda s: 0 < len(s) < len(LABELS)), st.data())
def test_moving_there_and_back(p: set, data: st.DataObject) -> None:
    a = _make(p)
    name, i, j = data.draw(st.sampled_from(sorted(p)))
    free = [label for label in LABELS if label not in p and label[0] == name]
    if not free:
        return
    _, k, m = data.draw(st.sampled_from(free))
    moved = a.move(name, (i, j), (k, m))
    assert set(moved.labels()) == p - {(name, i, j)} | {(name, k, m)}
    assert moved != a and moved.move(name, (k, m), (i, j)) == a


@given(label_sets, st.data())
def test_selecting_by_position(p: set, data: st.DataObject) -> None:
    a = _make(p)
    assert a.labels() == sorted(p, key=LABELS.index)
    positions = data.draw(st.lists(st.integers(0, len(p) - 1))) if p else []
    chosen = a.select(positions)
    assert chosen.labels() == [a.labels()[k] for k in sorted(set(positions))]
    assert a.select(range(len(a))) == a
    assert len(a.select(np.array([], dtype=np.int64))) == 0


def test_labels_are_the_order_of_jacobian_columns() -> None:
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=shape) for name, shape in NET.shapes.items()}
    x = rng.normal(size=NET.input_shape(2))
    a = _make({LABELS[k] for k in (0, 4, 7, 10, 11, 20)})
    J = NET.jacobian(weights, x, a)
    for column, (name, i, j) in enumerate(a.labels()):
        nudged = {n: m.copy() for n, m in weights.items()}
        nudged[name][i, j] += 1e-6
        slope = (NET.forward(nudged, x) - NET.forward(weights, x)).ravel() / 1e-6
        assert np.allclose(J[:, column], slope, atol=1e-4)
        one = NET.jacobian(weights, x, a.select([column]))
        assert np.array_equal(one, J[:, [column]])


def test_equality_with_others() -> None:
    a = Allocation.diagonal(NET, "W")
    assert a != "W" and a != a.labels() and a != OTHER
    # The same entries of a network with other shapes are another allocation.
    pairs = {"W": [(0, 0), (1, 1), (2, 2)]}
    assert Allocation.from_entries(NET, pairs) == a
    assert Allocation.from_entries(sl.LinearRNN(n=4, b=2, d=2, T=2), pairs) != a
    # T is no shape: networks that differ only in T share their allocations.
    assert Allocation.from_entries(sl.LinearRNN(n=3, b=2, d=2, T=5), pairs) == a
    assert {a: 1}[Allocation.from_entries(NET, pairs)] == 1


@given(label_sets)
def test_digest_by_hand(p: set) -> None:
    # The definition again: a title, then for each weight its name and shape as JSON, followed by
    # its flat indices as 8-byte little-endian integers.
    stream = b"sublearn allocation 1\n"
    for name, (rows, columns) in NET.shapes.items():
        stream += f'["{name}", {rows}, {columns}]'.encode()
        for k in sorted(i * columns + j for n, i, j in p if n == name):
            stream += k.to_bytes(8, "little")
    assert _make(p).digest == hashlib.sha256(stream).hexdigest()


def test_golden_digests() -> None:
    empty, diagonal = Allocation(NET.shapes, {}), Allocation.diagonal(NET, "W")
    assert empty.digest == "1f334d7d835edaf71459ca3cd4f474a4a752403b48fd90615b47eeb1e08b2823"
    assert diagonal.digest == "e354d42344b7c32a5d0c6e094d10f01072ee9bcf1a547fba43724771acd5a97f"


def test_repr_counts_by_weight() -> None:
    assert repr(Allocation(NET.shapes, {})) == "<Allocation empty>"
    assert (
        repr(Allocation.spread(NET, {"W": 4, "D": 1}))
        == "<Allocation W: 4 of 3 x 3, D: 1 of 2 x 3>"
    )


A = Allocation.diagonal(NET, "W")
BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: A | OTHER, "networks of different shapes"),
    (lambda: A - OTHER, "networks of different shapes"),
    (lambda: A & OTHER, "networks of different shapes"),
    (lambda: A | {"W": [(0, 0)]}, "combined with another"),  # type: ignore[operator]
    (lambda: A.move("W", (0, 1), (0, 2)), r"\(0, 1\) of W is not learnable, so it cannot move"),
    (lambda: A.move("W", (0, 0), (1, 1)), r"\(1, 1\) of W is learnable already"),
    (lambda: A.move("W", (0, 0), (0, 0)), "learnable already"),
    (lambda: A.move("W", (0, 0), (3, 0)), r"\(3, 0\) lies outside W, which has rows 0\.\.2 and"),
    (lambda: A.move("W", (-1, 0), (0, 1)), "lies outside"),
    (lambda: A.move("V", (0, 0), (0, 1)), "weight name must be one of W, B, D"),
    (lambda: A.move("W", (0, 0), (0, 1.5)), "must be a whole number"),  # type: ignore[arg-type]
    (lambda: A.move("W", (0, 0, 0), (0, 1)), "must be a pair"),
    (lambda: A.select([3]), r"positions must lie in 0\.\.2"),
    (lambda: A.select([-1]), r"positions must lie in 0\.\.2"),
]


@pytest.mark.parametrize(("make", "match"), BAD)
def test_bad_operations_get_one_sentence(make: Callable[[], object], match: str) -> None:
    with pytest.raises(BadInputError, match=match) as caught:
        make()
    assert one_sentence(caught.value)
