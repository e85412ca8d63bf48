"""The ways into an allocation agree with masks, and bad input is refused by name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublearn as sl
from networks.reference import NETWORKS, by_spec, one_sentence
from sublearn import Allocation, BadInputError
from sublearn.networks import Network

NET = sl.LinearRNN(n=4, b=2, d=3, T=2)  # W 4 x 4, B 4 x 2, D 3 x 4
FFN = sl.FeedForward((3, 5))  # W1 5 x 3


def _masks(network: Network, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.random(shape) < 0.4 for name, shape in network.shapes.items()}


@pytest.mark.parametrize("network", NETWORKS, ids=by_spec)
def test_masks_entries_counts_and_labels_agree(network: Network) -> None:
    masks = _masks(network, 1)
    a = Allocation.from_masks(network, masks)
    pairs = {name: list(map(tuple, np.argwhere(mask).tolist())) for name, mask in masks.items()}
    shuffled = {name: pairs[name][::-1] for name in reversed(pairs)}
    assert a == Allocation.from_entries(network, shuffled)
    rows = {name: np.argwhere(mask) for name, mask in masks.items()}
    assert a == Allocation.from_entries(network, rows)
    several = {name: tuple(found) for name, found in rows.items() if len(found) != 2}
    found = Allocation.from_entries(network, several)
    assert all(found.entries[name] == a.entries[name] for name in several)
    assert dict(a.entries) == {name: tuple(sorted(p)) for name, p in pairs.items()}
    assert len(a) == sum(int(mask.sum()) for mask in masks.values())
    assert a.names == tuple(name for name in network.shapes if masks[name].any())
    assert a.labels() == [(name, i, j) for name in network.shapes for i, j in sorted(pairs[name])]
    for name, mask in masks.items():
        assert np.array_equal(a.mask(name), mask)
        assert a.row_counts(name).tolist() == mask.sum(axis=1).tolist()
        assert a.column_counts(name).tolist() == mask.sum(axis=0).tolist()
        assert a.flat(name).tolist() == np.flatnonzero(mask).tolist()
    assert dict(a.shapes) == network.shapes


def test_masks_may_be_lists_integers_or_booleans() -> None:
    lists = [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [1, 1, 0]]
    made = [lists, np.array(lists), np.array(lists, dtype=bool)]
    assert {Allocation.from_masks(FFN, {"W1": mask}).entries["W1"] for mask in made} == {
        ((0, 0), (1, 2), (4, 0), (4, 1))
    }


def test_rows_columns_blocks_and_wholes() -> None:
    everything = {name: np.ones(shape, dtype=bool) for name, shape in NET.shapes.items()}
    assert Allocation.whole(NET) == Allocation.from_masks(NET, everything)
    assert Allocation.whole(NET, ["D", "B"]).names == ("B", "D")
    for rows, columns in product(([0], [2, 0], range(4), []), ([1], [0, 3], [])):
        mask = np.zeros((4, 4), dtype=bool)
        for i in rows:
            for j in columns:
                mask[i, j] = True
        assert np.array_equal(Allocation.block(NET, "W", rows, columns).mask("W"), mask)
    assert Allocation.from_rows(NET, "D", [2, 1]).entries["D"] == tuple(product((1, 2), range(4)))
    assert Allocation.from_columns(NET, "B", [1]).entries["B"] == ((0, 1), (1, 1), (2, 1), (3, 1))
    assert Allocation.block(NET, "W") == Allocation.whole(NET, ["W"])


@given(st.integers(1, 6), st.integers(1, 6), st.integers(-5, 5))
def test_diagonals_equal_numpy(rows: int, columns: int, offset: int) -> None:
    net = sl.FeedForward((columns, rows))
    mask = np.eye(rows, columns, offset, dtype=bool)
    if mask.any():
        assert np.array_equal(Allocation.diagonal(net, "W1", offset).mask("W1"), mask)
    else:
        with pytest.raises(BadInputError, match=f"offset {offset} leaves no entry of W1"):
            Allocation.diagonal(net, "W1", offset)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 6, 9])
def test_spread_is_even_for_every_count(rows: int, columns: int) -> None:
    net = sl.FeedForward((columns, rows))
    for count in range(rows * columns + 1):
        a = Allocation.spread(net, {"W1": count})
        assert len(a) == len(set(a.entries["W1"])) == count
        assert np.ptp(a.row_counts("W1")) <= 1
        assert np.ptp(a.column_counts("W1")) <= 1


def test_spread_over_several_weights() -> None:
    a = Allocation.spread(NET, {"D": 5, "W": 7})
    assert (a.flat("W").size, a.flat("B").size, a.flat("D").size) == (7, 0, 5)


def test_nothing_in_an_allocation_can_be_changed() -> None:
    mask = np.eye(4, dtype=bool)
    a = Allocation.from_masks(NET, {"W": mask})
    before = a.digest
    mask[0, 1] = True
    a.mask("W")[0, 1] = True
    for broken in (
        lambda: a.flat("W").__setitem__(0, 3),
        lambda: a.entries.__setitem__("W", ()),  # type: ignore[attr-defined]
        lambda: a.shapes.__setitem__("W", (9, 9)),  # type: ignore[attr-defined]
        lambda: setattr(a, "names", ()),
        lambda: setattr(a, "_flat", {}),
    ):
        with pytest.raises((ValueError, AttributeError)):
            broken()
    assert a.entries["W"] == ((0, 0), (1, 1), (2, 2), (3, 3))
    assert Allocation.from_masks(NET, {"W": np.eye(4, dtype=bool)}).digest == before == a.digest


def test_arrays_that_were_handed_in_stay_the_callers() -> None:
    index = np.array([0, 5], dtype=np.int64)
    a = Allocation(NET.shapes, {"W": index})
    index[0] = 3
    assert a.entries["W"] == ((0, 0), (1, 1))


def test_copies_and_pickles_are_equal_and_closed_too() -> None:
    a = Allocation.spread(NET, {"W": 5, "B": 2})
    for again in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert again == a and again.digest == a.digest and again.entries == a.entries
        assert not again.flat("W").flags.writeable


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: Allocation.from_entries(NET, {"W": [(4, 0)]}), r"entry \(4, 0\) lies outside W"),
    (lambda: Allocation.from_entries(NET, {"W": [(0, -1)]}), r"entry \(0, -1\) lies outside W"),
    (lambda: Allocation.from_entries(NET, {"D": [(3, 0)]}), "rows 0..2 and columns 0..3"),
    (
        lambda: Allocation.from_entries(NET, {"W": [(0, 1), (0, 1)]}),
        r"\(0, 1\) of W is given twice",
    ),
    (lambda: Allocation.from_entries(NET, {"W": [(0, 1, 2)]}), "must be a pair"),
    (lambda: Allocation.from_entries(NET, {"W": [0, 1]}), "must be a pair"),  # type: ignore
    (lambda: Allocation.from_entries(NET, {"W": 3}), "must be a list of pairs"),  # type: ignore
    # Of two entries, rows and columns apart have the shape of two pairs.
    (lambda: Allocation.from_entries(NET, {"W": np.eye(4)[:3].nonzero()}), "np.argwhere"),  # type: ignore
    (lambda: Allocation.from_entries(NET, {"W": np.eye(4)[:2].nonzero()}), "np.argwhere"),  # type: ignore
    (lambda: Allocation.from_entries(NET, [(0, 0)]), "entries must be given by weight name"),  # type: ignore
    (lambda: Allocation.from_entries(NET, {"W": [(0.0, 1)]}), "a row of W must be a whole number"),  # type: ignore
    (lambda: Allocation.from_entries(NET, {"W": [(0, True)]}), "a column of W must be .* not True"),
    (lambda: Allocation.from_entries(NET, {"W": [("0", 1)]}), "a row of W must be .* not '0'"),  # type: ignore
    (
        lambda: Allocation.from_entries(NET, {"V": []}),
        "weight name must be one of W, B, D, not 'V'",
    ),
    (lambda: Allocation.from_entries(FFN, {"W11": []}), "Did you mean 'W1'"),
    (lambda: Allocation.from_masks(NET, {"W": np.ones((4, 3))}), r"shape \(4, 4\), not \(4, 3\)"),
    (lambda: Allocation.from_masks(NET, {"W": np.full((4, 4), 2)}), "only 0 and 1"),
    (lambda: Allocation.from_masks(NET, {"W": np.full((4, 4), np.nan)}), "only 0 and 1"),
    (lambda: Allocation.from_masks(NET, {"W": np.full((4, 4), "1")}), "only 0 and 1"),
    (lambda: Allocation.from_masks(NET, {"B": [[1, 0], [1], [1], [1]]}), "rows of equal length"),
    (lambda: Allocation.from_masks(NET, np.ones((4, 4))), "masks must be given by weight name"),  # type: ignore
    (lambda: Allocation.from_masks(NET, {"X": []}), "weight name must be"),
    (lambda: Allocation.from_rows(NET, "W", [4]), r"rows of W must lie in 0..3, not 4"),
    (lambda: Allocation.from_rows(NET, "W", [-1]), "rows of W must lie in 0..3, not -1"),
    (lambda: Allocation.from_rows(NET, "W", 1), "rows of W must be a list"),  # type: ignore
    (lambda: Allocation.from_columns(NET, "B", [1, 1]), "columns of B must not be given twice"),
    (lambda: Allocation.from_columns(NET, "B", [0.5]), "columns of B must be a whole number"),  # type: ignore
    (lambda: Allocation.whole(NET, ["W", "E"]), "weight name must be"),
    (lambda: Allocation.diagonal(NET, "W", 0.5), "offset in W must be a whole number"),  # type: ignore
    (lambda: Allocation.spread(NET, {"W": 17}), "at most its 16 entries, not 17"),
    (lambda: Allocation.spread(NET, {"W": -1}), "count for W must be a whole number"),
    (lambda: Allocation.spread(NET, {"W": 1.5}), "count for W must be a whole number"),  # type: ignore
    (lambda: Allocation.spread(NET, 4), "counts must be given by weight name"),  # type: ignore
    (lambda: Allocation.whole(NET).mask("V"), "weight name must be"),
    (lambda: Allocation.whole(NET).flat("V"), "weight name must be"),
    (lambda: Allocation.whole(NET).row_counts("V"), "weight name must be"),
    (lambda: Allocation.whole(NET).column_counts("V"), "weight name must be"),
]


@pytest.mark.parametrize(("make", "match"), BAD)
def test_bad_input_gets_one_sentence(make: Callable[[], object], match: str) -> None:
    with pytest.raises(BadInputError, match=match) as caught:
        make()
    assert one_sentence(caught.value)


def test_the_picture_shows_each_learnable_entry_where_it_is() -> None:
    a = Allocation.from_entries(NET, {"W": [(0, 1), (3, 2)], "D": [(1, 0)]})
    wasted = Allocation.from_entries(NET, {"W": [(3, 2)]})
    figure = a.plot(wasted=wasted, circuit=wasted)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["W: 2 of 4 x 4", "D: 1 of 3 x 4"]
    cells = figure.axes[0].get_images()[0].get_array()
    assert np.array_equal(np.asarray(cells)[:, :, 3] > 0, a.mask("W"))
    assert not np.array_equal(cells[3, 2], cells[0, 1]), "wasted has a colour of its own"
    assert len(figure.axes[0].patches) == 1
    assert a._repr_html_().startswith("<pre>W: 2 of 4 x 4, D: 1 of 3 x 4<")
