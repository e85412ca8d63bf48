"""Counts of patterns against listing them all."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest

import sublearn as sl


def _sums(k: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Row sums (2^km, k) and smallest column sums (2^km,) of all 0/1 matrices."""
    bits = (np.arange(2 ** (k * m))[:, None] >> np.arange(k * m)) & 1
    tables = bits.reshape(-1, k, m)
    return tables.sum(axis=2), tables.sum(axis=1).min(axis=1)


def _check_all(most: int) -> int:
    cases = 0
    for k in range(1, most + 1):
        for m in range(1, most // k + 1):
            rows, columns = _sums(k, m)
            for counts in combinations_with_replacement(range(m + 1), k):
                passing = (rows >= np.array(counts)).all(axis=1)
                for d in range(1, k + 1):
                    enough = columns >= d
                    wanted = (2 ** (k * m), enough.sum(), passing.sum(), (enough & passing).sum())
                    assert (
                        tuple(sl.patterns.pattern_counts(d, m, counts).to_dict().values()) == wanted
                    )
                    cases += 1
    return cases


def test_counts_equal_brute_force_up_to_nine() -> None:
    assert _check_all(9) > 400


@pytest.mark.slow
def test_counts_equal_brute_force_up_to_sixteen() -> None:
    assert _check_all(16) > 2000


def test_order_of_rows_does_not_matter() -> None:
    one = sl.patterns.pattern_counts(4, 6, [6, 1, 3, 2, 5, 4, 3])
    other = sl.patterns.pattern_counts(4, 6, [1, 2, 3, 3, 4, 5, 6])
    assert one == other


def test_the_example_of_appendix_d() -> None:
    # k = d leaves one pattern, as the paper says below Lemma D.3.
    assert (
        sl.patterns.pattern_counts(4, 6, [6] * 4).both
        == sl.patterns.pattern_counts(4, 6, [1] * 4).enough_rows
        == 1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ([(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)], 486),
        ([(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (3, 2)], 505),
    ],
)
def test_full_rank_depends_on_the_columns(entries: list[tuple[int, int]], wanted: int) -> None:
    network = sl.FeedForward((3, 4, 2), activation="relu")
    held = sl.Allocation.from_entries(network, {"W1": entries})
    assert sl.patterns.full_rank_patterns(sl.Problem(network, 3), held) == wanted


def test_full_rank_against_ranks_in_floating_point() -> None:
    network = sl.FeedForward((3, 3, 1), activation="relu")
    entries = [(0, 0), (0, 1), (1, 1)]
    held = sl.Allocation.from_entries(network, {"W1": entries})
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((3, 3)), rng.standard_normal(2)
    found = 0
    for number in range(2**6):
        gates = ((number >> np.arange(6)) & 1).reshape(2, 3)
        columns = [w[i] * gates[i] * x[j] for i, j in entries]
        found += np.linalg.matrix_rank(np.array(columns)) == 3
    assert sl.patterns.full_rank_patterns(sl.Problem(network, 3), held) == found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outputs": 0}, "outputs"),
        ({"samples": 0}, "samples"),
        ({"row_counts": []}, "row_counts"),
        ({"row_counts": [-1]}, "row_counts"),
        ({"samples": 1000, "outputs": 10}, "states"),
    ],
)
def test_bad_counts(change: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"outputs": 2, "samples": 3, "row_counts": [1, 1], **change}
    with pytest.raises(sl.BadInputError, match=words):
        sl.patterns.pattern_counts(**given)  # type: ignore[arg-type]


def test_listing_has_an_end() -> None:
    network = sl.FeedForward((6, 8, 4), activation="relu")
    held = sl.Allocation.from_rows(network, "W1", [0, 1, 2, 3])
    with pytest.raises(sl.BadInputError, match="2\\^24"):
        sl.patterns.full_rank_patterns(sl.Problem(network, 6), held)


def test_counts_say_and_tabulate_themselves() -> None:
    counts = sl.patterns.pattern_counts(2, 3, [2, 2, 1, 1])
    assert [row["count"] for row in counts.table()] == [4096, 1331, 784, 529]
    assert str(counts).splitlines()[-1].split() == ["both", "529"]
    more = replace(counts, full_rank=3)
    assert (more.to_dict()["full_rank"], more.table()[-1]["count"]) == (3, 3)
