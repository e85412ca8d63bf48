"""Counting deficient allocations, all of them or many drawn ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import sublearn as sl
from oracle import oracle_of


@pytest.mark.parametrize(
    ("text", "samples", "counts"),
    [("ffn:3-3-2", 2, (9, 90, 126)), ("ffn:4-4-3", 3, (1680, 5776, 11440))],
)
def test_the_published_counts(text: str, samples: int, counts: tuple[int, int, int]) -> None:
    count = sl.census(sl.Problem(sl.networks.network_from_text(text), samples), "W1")
    assert (count.deficient, count.feasible, count.total) == counts
    assert (count.unbound, count.drawn) == (0, False)
    assert count.grade.kind == "probability" and count.grade.error <= 1e-12


@pytest.mark.parametrize(
    ("text", "samples", "name"),
    [
        ("linear:inputs=3,outputs=2", 2, "W"),
        ("ffn:3-3-3-2", 2, "W2"),
        ("ffn:3-4-2", 2, "W2"),
        ("ffn:3-2-3-3", 3, "W3"),
        ("lrnn:n=3,b=1,d=2,T=2", 2, "W"),
        ("lrnn:n=3,b=3,d=2,T=1", 2, "B"),
        ("lrnn:n=3,b=1,d=2,T=2", 2, "D"),
        ("lrnn:n=3,b=3,d=3,T=2", 1, "W"),
        ("lrnn:n=3,b=1,d=1,T=2", 5, "W"),
    ],
)
def test_against_brute_force(text: str, samples: int, name: str) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), samples)
    truth = oracle_of(problem)
    size = problem.effective_equations
    bounds = problem.network.degree_bounds(name, problem.effective_samples)
    assert bounds.column is not None
    total = feasible = deficient = 0
    for chosen in combinations([x for x in truth.labels if x[0] == name], size):
        rows, columns = [x[1] for x in chosen], [x[2] for x in chosen]
        fits = (
            max(map(rows.count, rows)) <= bounds.row
            and max(map(columns.count, columns)) <= bounds.column
        )
        full = truth.rank(chosen) == size
        assert fits or not full, "a bound that full rank breaks is no bound"
        total += 1
        feasible += fits
        deficient += fits and not full
    count = sl.census(problem, name)
    assert (count.total, count.feasible, count.deficient) == (total, feasible, deficient)
    assert count.unbound == 0
    assert (count.grade.kind == "proof") == (feasible == total and not deficient)


def test_drawn_allocations_keep_the_bounds_and_the_share() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2)), 2)
    count = sl.census(problem, "W1", draws=400, seed=1)
    assert (count.total, count.feasible, count.drawn, count.unbound) == (400, 400, True, 0)
    # 10 % of the 90, four standard deviations either way.
    assert abs(count.deficient - 40) < 4 * np.sqrt(400 * 0.1 * 0.9)
    assert sl.census(problem, "W1", draws=400, seed=1) == count


def test_wider_layers_are_less_often_deficient() -> None:
    # At d = m = 3 the share falls slowly, from 29 % at n = 4; it is still 17 % at n = 2 d.
    shares = []
    for n in (4, 6, 9):
        count = sl.census(sl.Problem(sl.FeedForward((n, n, 3)), 3), "W1", draws=300)
        shares.append(count.deficient / count.feasible)
    assert shares == sorted(shares, reverse=True)
    assert shares == pytest.approx([0.29, 0.17, 0.09], abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "share", "within"), [(9, 0.85, 0.04), (16, 0.025, 0.015)])
def test_layers_with_eight_outputs_and_samples(n: int, share: float, within: float) -> None:
    # d = m = 8: mostly deficient at n = 9, hardly ever at n = 2 d.
    count = sl.census(sl.Problem(sl.FeedForward((n, n, 8)), 8), "W1", draws=1500)
    assert count.deficient / count.feasible == pytest.approx(share, abs=within)


def test_the_recurrent_matrix() -> None:
    count = sl.census(sl.Problem(sl.LinearRNN(n=4, b=2, d=2, T=2), 4), "W")
    assert (count.total, count.unbound) == (12870, 0)
    assert 0 < count.deficient < count.feasible


@pytest.mark.parametrize(
    ("problem", "name", "draws", "message"),
    [
        (
            sl.Problem(sl.FeedForward((3, 3, 2), activation="relu"), 2),
            "W1",
            None,
            "depend on gates",
        ),
        (
            sl.Problem(sl.FeedForward((3, 3, 2)), 2, sl.Ensemble(inputs=sl.ensembles.Rademacher())),
            "W1",
            None,
            "density",
        ),
        (sl.Problem(sl.FeedForward((2, 2, 2)), 2), "W9", None, "weight name must be one of"),
        (sl.Problem(sl.LinearRNN(n=2, b=1, d=2, T=2), 2), "B", None, "fewer than the 4 needed"),
        (sl.Problem(sl.FeedForward((9, 9, 6)), 6), "W1", None, "give a number of draws"),
        (sl.Problem(sl.FeedForward((3, 3, 2)), 2), "W1", 0, "draws must be"),
    ],
)
def test_what_a_census_refuses(
    problem: sl.Problem, name: str, draws: int | None, message: str
) -> None:
    with pytest.raises(sl.BadInputError, match=message):
        sl.census(problem, name, draws=draws)
