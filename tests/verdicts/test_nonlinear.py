"""tanh, sigmoid and ReLU: exact ranks, with fixed gates, with sampled ones and over all of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import oracle
import sublearn as sl
from sublearn.verdicts import generic_rank
from sublearn.verdicts._gates import GATED_POINTS, occurring_gates

SMOOTH = ["ffn:3-4-2,activation=tanh", "ffn:3-4-2,activation=sigmoid", "rnn:n=4,b=1,d=2,T=3"]


@pytest.mark.parametrize("text", SMOOTH)
def test_a_readout_of_full_rank_is_maximal_by_proof(text: str) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), 3)
    name = "D" if text.startswith("rnn") else "W2"
    last = sl.Allocation.whole(problem.network, [name])
    verdict = sl.certify(problem, last)
    assert (verdict.rank, verdict.needed, verdict.kind) == (6, 6, "maximal")
    assert {verdict.grade.kind, verdict.rank_grade.kind, verdict.needed_grade.kind} == {"proof"}
    assert verdict.gates is None and verdict.to_dict()["gates"] is None


@pytest.mark.parametrize("text", SMOOTH)
def test_a_row_of_the_readout_that_lacks_weights_is_minimal(text: str) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), 3)
    name = "D" if text.startswith("rnn") else "W2"
    uneven = {name: [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]}
    verdict = sl.certify(problem, sl.Allocation.from_entries(problem.network, uneven))
    assert (verdict.kind, verdict.rank, verdict.wasted) == ("minimal", 5, 1)
    assert verdict.grade.kind == "proof"  # row 0 has four weights and m = 3 samples to use them on
    assert verdict.circuit is not None and verdict.circuit.entries[name] == tuple(
        (0, j) for j in range(4)
    )


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_a_row_that_is_too_full(activation: str) -> None:
    # Unit 0 alone: its 4 weights move m = 3 numbers, so rank 3 of 6.
    problem = sl.Problem(sl.FeedForward((4, 3, 2), activation=activation), 3)
    verdict = sl.certify(problem, sl.Allocation.from_rows(problem.network, "W1", [0, 1]))
    assert (verdict.rank, verdict.needed) == (6, 6)
    row = sl.certify(problem, sl.Allocation.from_rows(problem.network, "W1", [0]))
    assert (row.rank, row.kind, str(row.grade)) == (3, "minimal", "proof")


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu"])
def test_ranks_agree_with_finite_differences(activation: str) -> None:
    network = sl.FeedForward((3, 3, 2), activation=activation)
    problem = sl.Problem(network, 2)
    rng = np.random.default_rng(0)
    for _ in range(10):
        held = sl.Allocation.whole(network).select(rng.permutation(network.size)[:4])
        best = 0
        for _ in range(60 if activation == "relu" else 3):
            weights = {k: rng.standard_normal(s) for k, s in network.shapes.items()}
            inputs = rng.standard_normal((3, 2))
            columns = []
            for name, i, j in held.labels():
                moved = []
                for step in (1e-6, -1e-6):
                    other = {k: v.copy() for k, v in weights.items()}
                    other[name][i, j] += step
                    moved.append(network.forward(other, inputs).ravel())
                columns.append((moved[0] - moved[1]) / 2e-6)
            values = np.linalg.svd(np.array(columns), compute_uv=False)
            best = max(best, int((values > 1e-6 * values[0]).sum()) if values[0] else 0)
        assert sl.certify(problem, held).rank == best


# ReLU.


def gated_columns(
    network: sl.FeedForward, gates: np.ndarray, labels: list[oracle.Label], seed: int
) -> list[list[int]]:
    """Columns of W2 P_s W1 x_s, eq. (5.1), one sample at a time."""
    samples = gates.shape[1]
    point = oracle.draw(network, samples, seed)
    columns = []
    for name, i, j in labels:
        assert name == "W1"
        E = oracle.unit(*network.shapes[name], i, j)
        column = []
        for s in range(samples):
            x = oracle.matrix([[int(point.inputs[0][k, s])] for k in range(network.sizes[0])])
            P = oracle.matrix(
                [
                    [int(gates[r, s]) if r == c else 0 for c in range(len(gates))]
                    for r in range(len(gates))
                ]
            )
            column += [int(v) for v in oracle.product(point.weights["W2"], P, E, x).entries()]
        columns.append(column)
    return columns


def test_gated_rank_against_the_oracle() -> None:
    network = sl.FeedForward((3, 4, 2), activation="relu")
    problem = sl.Problem(network, 3)
    rng = np.random.default_rng(0)
    for k in range(40):
        held = sl.Allocation.whole(network, ["W1"]).select(rng.permutation(12)[:6])
        gates = rng.integers(0, 2, (4, 3))
        found = sl.verdicts.gated_rank(problem, held, {0: gates})
        assert found.rank == oracle.rank_of(gated_columns(network, gates, held.labels(), k))
        assert found.grade.kind == "proof" or found.grade.error <= 1e-12


def test_open_gates_are_the_linear_network() -> None:
    linear = sl.Problem(sl.FeedForward((3, 3, 3, 2)), 2)
    gated = sl.Problem(sl.FeedForward((3, 3, 3, 2), activation="relu"), 2)
    rng = np.random.default_rng(1)
    for _ in range(20):
        held = sl.Allocation.whole(linear.network).select(rng.permutation(24)[:5])
        gates = {0: np.ones((3, 2)), 1: np.ones((3, 2))}
        assert sl.verdicts.gated_rank(gated, held, gates).rank == sl.certify(linear, held).rank


def test_no_pattern_of_gates_exceeds_the_bound_over_all() -> None:
    network = sl.FeedForward((3, 3, 2), activation="relu")
    problem = sl.Problem(network, 2)
    rng = np.random.default_rng(2)
    reached = 0
    for k in range(12):
        held = sl.Allocation.whole(network, ["W1"]).select(rng.permutation(9)[:4])
        bound = generic_rank(problem, held, error=1e-12, seed=0, free_gates=True).rank
        ranks = [
            oracle.rank_of(gated_columns(network, np.reshape(bits, (3, 2)), held.labels(), k))
            for bits in product((0, 1), repeat=6)
        ]
        assert max(ranks) <= bound
        reached += max(ranks) == bound
    assert reached >= 10, "the bound over all gates is nearly always reached by some pattern"


def test_relu_verdicts_do_not_change_with_the_seed() -> None:
    # The counterexample to section 5, and a row that is too full.
    problem = sl.Problem(sl.FeedForward((5, 4, 2), activation="relu"), 3)
    column = {"W1": [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)]}
    row = {"W1": [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0)]}
    for entries, kind in ((column, "between"), (row, "minimal")):
        held = sl.Allocation.from_entries(problem.network, entries)
        assert {sl.certify(problem, held, seed=seed).kind for seed in range(8)} == {kind}


def test_relu_minimal_sets_silent_teachers_aside() -> None:
    """A target of 0 can be met by chance: here by both networks being switched off.

    d = 1, m = 2, one hidden unit: a single weight cannot follow two numbers, yet the outputs are
    equal whenever both units are off on both samples.
    """
    problem = sl.Problem(sl.FeedForward((2, 1, 1), activation="relu"), 2)
    held = sl.Allocation.from_entries(problem.network, {"W1": [(0, 0)]})
    verdict = sl.certify(problem, held)
    assert (verdict.kind, verdict.rank, verdict.needed) == ("minimal", 1, 2)
    assert any("set aside" in reason for reason in verdict.reasons)
    rng = np.random.default_rng(0)
    W, W_, X = (rng.standard_normal((2000, *shape)) for shape in ((1, 2), (1, 2), (2, 2)))
    silent = ((W_ @ X) < 0).all(axis=(1, 2)) & ((W @ X) < 0).all(axis=(1, 2))
    assert silent.mean() > 0.05


def test_a_relu_readout_is_not_maximal() -> None:
    """W2 alone solves a linear system, but units that are off can make it singular.

    With tanh the same system is regular with probability 1.
    """
    shares = {}
    for activation in ("relu", "tanh"):
        network = sl.FeedForward((3, 3, 2), activation=activation)
        problem = sl.Problem(network, 3)
        verdict = sl.certify(problem, sl.Allocation.whole(network, ["W2"]))
        assert verdict.affine and (verdict.rank, verdict.needed) == (6, 6)
        assert verdict.kind == ("maximal" if activation == "tanh" else "between")
        rng = np.random.default_rng(0)
        phi = np.tanh if activation == "tanh" else lambda a: np.maximum(a, 0)
        hidden = phi(rng.standard_normal((500, 3, 3)) @ rng.standard_normal((500, 3, 3)))
        shares[activation] = float(np.mean(np.linalg.matrix_rank(hidden) < 3))
    assert shares["tanh"] == 0.0 < 0.1 < shares["relu"]


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ({}, "steps [0]"),
        ({0: np.ones((3, 2)), 1: np.ones((2, 2))}, "steps [0]"),
        ({0: np.ones((2, 2))}, "shape (3, 2)"),
        ({0: np.full((3, 2), 2)}, "0 or 1"),
    ],
)
def test_bad_gates(gates: dict[int, np.ndarray], message: str) -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2), activation="relu"), 2)
    held = sl.Allocation.whole(problem.network, ["W1"])
    with pytest.raises(sl.BadInputError) as caught:
        sl.verdicts.gated_rank(problem, held, gates)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["ffn:3-3-2", "ffn:3-3-2,activation=tanh"])
def test_gates_are_for_relu(text: str) -> None:
    problem = sl.Problem(sl.networks.network_from_text(text), 2)
    with pytest.raises(sl.BadInputError, match="ReLU"):
        sl.verdicts.gated_rank(problem, sl.Allocation.whole(problem.network), {0: np.ones((3, 2))})


def test_relu_ranks_that_were_only_seen_name_no_wasted_weights() -> None:
    problem = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), 4)
    spread = sl.Allocation.spread(problem.network, {"W1": 16})
    for seed in range(6):
        verdict = sl.certify(problem, spread, seed=seed)
        assert verdict.kind == "between" and verdict.circuit is None


def test_the_range_over_gates_is_that_of_the_columns() -> None:
    """Ranks by the oracle, at the gates of real points drawn here; the range holds them all."""
    network = sl.FeedForward((3, 4, 2), activation="relu")
    problem = sl.Problem(network, 3)
    rng = np.random.default_rng(5)
    for k in range(4):
        held = sl.Allocation.whole(network, ["W1"]).select(np.sort(rng.permutation(12)[:6]))
        verdict = sl.certify(problem, held)
        gates = verdict.gates
        assert gates is not None and gates.sampled == GATED_POINTS
        assert gates.largest == verdict.rank and 1 <= gates.at_largest <= gates.sampled
        ranks = []
        for _ in range(60):
            signs = rng.standard_normal((4, 3)) @ rng.standard_normal((3, 3)) > 0
            columns = gated_columns(network, signs.astype(int), held.labels(), k)
            ranks.append(oracle.rank_of(columns))
        assert gates.smallest < gates.largest == max(ranks)
        share = gates.at_largest / gates.sampled
        assert abs(share - np.mean(np.array(ranks) == max(ranks))) < 0.35
        assert f"rank {gates.smallest} to {gates.largest} of 6" in str(verdict)
        assert verdict.to_dict()["gates"]["largest"] == gates.largest


def test_words_about_waste_hold_for_every_gate() -> None:
    """No weight of W3 is without effect: at the gates of most draws each one moves the outputs."""
    network = sl.FeedForward((64, 128, 64, 10), activation="relu", bias=True)
    problem = sl.Problem(network, 32)
    held = sl.Allocation.spread(network, {"W3": 172})
    verdict = sl.certify(problem, held)
    assert (verdict.kind, str(verdict.grade)) == (
        "minimal",
        "proof",
    )  # 172 < 320, whatever the gates
    assert (verdict.learnable, verdict.needed) == (172, 320)
    assert verdict.circuit is None and not any("at all" in reason for reason in verdict.reasons)
    assert verdict.gates is not None and verdict.gates.smallest < verdict.gates.largest <= 172
    # d y / d W3(i, j) is unit j of the second layer: a weight is idle only where that is off.
    rng = np.random.default_rng(0)
    on = np.zeros(64)
    for _ in range(40):
        W1, W2 = rng.standard_normal((128, 64)) / 8, rng.standard_normal((64, 128)) / 128**0.5
        b1, b2 = rng.standard_normal((128, 1)), rng.standard_normal((64, 1))
        first = np.maximum(W1 @ rng.standard_normal((64, 32)) + b1, 0)
        on += (W2 @ first + b2 > 0).any(axis=1)
    assert on.min() > 10


def test_a_weight_without_effect_is_named_where_that_holds_for_every_gate() -> None:
    """A row of four weights on three samples; the fourth repeats the others, on or off."""
    problem = sl.Problem(sl.FeedForward((5, 4, 2), activation="relu"), 3)
    row = {"W1": [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0)]}
    verdict = sl.certify(problem, sl.Allocation.from_entries(problem.network, row))
    assert (verdict.kind, str(verdict.grade)) == ("minimal", "proof")
    assert verdict.circuit is not None
    assert verdict.circuit.entries["W1"] == ((0, 0), (0, 1), (0, 2), (0, 3))


def test_full_rank_at_gates_that_occur_is_a_proof_of_positive_probability() -> None:
    problem = sl.Problem(sl.FeedForward((3, 4, 2), activation="relu"), 2)
    held = sl.Allocation.from_rows(problem.network, "W1", [0, 1, 2, 3])
    verdict = sl.certify(problem, held)
    assert (verdict.kind, str(verdict.grade)) == ("between", "proof")
    assert verdict.rank == verdict.needed == 4
    assert any("the match probability is positive" in reason for reason in verdict.reasons)
    # A student whose learnable weights are the teacher's is matched: some draws near it are.
    assert sl.estimate(problem, held, trials=20).matched > 0


def test_gates_that_no_rounding_decides() -> None:
    """Every gate is the sign of the pre-activation in rationals."""
    network = sl.FeedForward((2, 3, 3, 1), activation="relu", bias=True)
    problem = sl.Problem(network, 4)
    for seed in range(10):
        gates = occurring_gates(problem, network, np.random.default_rng(seed))
        rng = np.random.default_rng(seed)  # the first draw is beyond doubt, so it is the one used
        weights = {}
        for name, (rows, columns) in network.shapes.items():
            weights[name] = rng.standard_normal((rows, columns)) / np.sqrt(columns)
        inputs = rng.standard_normal((2, 4))
        for s in range(4):
            state = [Fraction(x) for x in inputs[:, s].tolist()]
            for layer in (1, 2):
                matrix, bias = weights[f"W{layer}"].tolist(), weights[f"b{layer}"].tolist()
                before = [
                    sum(Fraction(w) * x for w, x in zip(row, state, strict=True)) + Fraction(b[0])
                    for row, b in zip(matrix, bias, strict=True)
                ]
                assert [float(z > 0) for z in before] == gates[layer - 1][:, s].tolist()
                state = [max(z, Fraction(0)) for z in before]


def test_silent_layers_do_not_hang() -> None:
    """All units of a layer off: the next layer sees exactly 0, which no draw changes."""
    problem = sl.Problem(sl.FeedForward((1, 1, 1, 1), activation="relu"), 3)
    verdict = sl.certify(problem, sl.Allocation.whole(problem.network, ["W2"]))
    assert verdict.gates is not None and verdict.gates.smallest == 0
    sparse = sl.Problem(problem.network, 3, sl.Ensemble(weights=sl.ensembles.Sparse(density=0.1)))
    assert sl.certify(sparse, sl.Allocation.whole(problem.network, ["W2"])).kind == "unknown"


@pytest.mark.parametrize(
    "law",
    [
        sl.ensembles.Normal(1e300),
        sl.ensembles.Normal(1e-300),
        sl.ensembles.StudentT(df=0.02),
        sl.ensembles.Uniform(1e200),
    ],
)
def test_scales_beyond_float64_change_nothing(law: sl.ensembles.Normal) -> None:
    """Gates do not depend on the scale of weights and inputs, and ranks are taken modulo primes."""
    network = sl.FeedForward((2, 3, 3, 1), activation="relu")
    problem = sl.Problem(network, 2, sl.Ensemble(law, law, law))
    verdict = sl.certify(problem, sl.Allocation.whole(network, ["W1"]))
    assert (verdict.kind, verdict.rank, verdict.needed) == ("between", 2, 2)
    assert verdict.gates is not None and verdict.gates.smallest < 2
    curved = sl.Problem(sl.FeedForward((2, 3, 3, 1), "tanh"), 2, sl.Ensemble(law, law, law))
    assert str(sl.certify(curved, sl.Allocation.whole(network, ["W3"])).grade) == "proof"


def test_relu_design_looks_at_several_points() -> None:
    problem = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), 4)
    for seed in range(4):
        chosen = sl.design(problem, ["W1"], want="best-score", seed=seed)
        assert len(chosen) == 16


def test_minimal_says_which_teachers_it_sets_aside() -> None:
    """A teacher that is silent on both samples is matched by silence, with probability 1/16 at least."""
    relu = sl.Problem(sl.FeedForward((1, 2, 1), activation="relu"), 2)
    held = sl.Allocation.from_entries(relu.network, {"W1": [(0, 0)]})
    verdict = sl.certify(relu, held)
    words = (
        "a match exists with probability 0, unless gates leave the teacher fewer than 2 dimensions"
    )
    assert verdict.kind == "minimal" and verdict.set_aside
    assert str(verdict).splitlines()[0] == f"minimal (proof): {words}"
    assert verdict.to_dict()["meaning"] == words and verdict.to_dict()["set_aside"] is True
    matched = 0
    for trial in range(60):
        instance = sl.draw(relu, held, seed=0, trial=trial)
        off = np.array([-np.sign(instance.inputs[0, 0])])
        matched += bool(np.abs(instance.residual(off)).max() == 0)
    assert matched > 0
    for other in (sl.FeedForward((1, 2, 1)), sl.FeedForward((1, 2, 1), activation="tanh")):
        plain = sl.certify(sl.Problem(other, 2, teacher=sl.Targets()), held)
        assert plain.kind == "minimal" and not plain.set_aside and "unless" not in str(plain)
