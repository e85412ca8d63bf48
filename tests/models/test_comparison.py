"""Tables of comparisons, from given scores: means, paired intervals, files and the picture."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sublearn.models._compare import Comparison, Result, _read_methods, paired_difference

SCORES = {
    ("race", 10): [0.9, 0.8, 0.7],
    ("last", 10): [0.8, 0.75, 0.7],
    ("race", 100): [0.95, 0.9, 0.85],
    ("last", 100): [0.96, 0.9, 0.9],
}


def example() -> Comparison:
    rows = [
        Result(method, budget, seed, score, "last", 0.1, 0.5, budget, "accuracy")
        for (method, budget), scores in SCORES.items()
        for seed, score in reversed(list(enumerate(scores)))  # in any order
    ]
    return Comparison(tuple(rows))


def test_paired_differences_are_students() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random(8), rng.random(8)
    found = paired_difference(first, second)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx((first - second).mean())
    alone = paired_difference([0.5], [0.25])
    assert str(alone) == "+0.250" and alone.low == float("-inf")


@pytest.mark.filterwarnings("error")
def test_scores_that_are_no_numbers_are_told_without_warnings() -> None:
    """They are minus infinity, of which nothing can be taken away."""
    inf = float("inf")
    for one, other in (([-inf, -inf], [-inf, -inf]), ([-inf, 0.5], [0.4, 0.5])):
        gap = paired_difference(one, other)
        assert not np.isfinite(gap.mean) and (gap.low, gap.high, gap.pairs) == (-inf, inf, 2)
        assert str(gap) == "unknown"
    rows = [
        Result(m, 10, s, score, "last", 0.1, score, 10, "own")
        for m, scores in (("race", (-inf, -inf)), ("last", (-inf, -inf)), ("random", (0.5, -inf)))
        for s, score in enumerate(scores)
    ]
    found = Comparison(tuple(rows))
    assert "-inf" in str(found)
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [gap["mean"] for gap in content["differences"]] == [None, None]
    assert [row["score"] for row in content["results"]] == [None] * 4 + [0.5, None]
    assert found.plot().axes


def test_pairs_go_by_seed() -> None:
    found = example()
    assert found.scores("race", 10) == [0.9, 0.8, 0.7]
    assert found.difference("race", "last", 10).mean == pytest.approx(0.05)
    assert found.difference("race", "last", 100).mean == pytest.approx(-0.02)
    assert (
        found.methods == ["race", "last"]
        and found.budgets == [10, 100]
        and found.seeds == [0, 1, 2]
    )


def test_what_is_printed() -> None:
    lines = str(example()).splitlines()
    assert lines[0] == "accuracy on test samples, mean over 3 seeds"
    assert lines[1].split() == ["method", "r", "=", "10", "r", "=", "100"]
    assert lines[2].split() == ["race", "0.800", "0.900"]
    assert lines[3].split() == ["last", "0.750", "0.920"]
    assert lines[4] == "race minus (95% interval)"
    assert lines[5].split()[:2] == ["last", "+0.050"]


def test_files_and_picture(tmp_path: Path) -> None:
    found = example()
    names = [path.name for path in found.write_files(tmp_path / "out", "results")]
    assert sorted(names) == ["results.csv", "results.png", "results.svg"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "results.csv").read_text())))
    assert len(rows) == 12 and rows[0]["method"] == "race" and float(rows[0]["score"]) == 0.7
    (ax,) = found.plot().axes
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["10", "100"]
    assert {line.get_label() for line in ax.lines} == {"race", "last"}
    differences = found.to_dict()["differences"]
    assert [(row["second"], row["budget"]) for row in differences] == [("last", 10), ("last", 100)]


def test_a_method_that_is_named_twice_is_shown_once() -> None:
    rules, shown = _read_methods(["last", "race", "last"])
    assert (list(rules), shown) == (["last"], ["last", "race"])
