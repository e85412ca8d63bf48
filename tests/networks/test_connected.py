"""Weights that do not exist are 0, and neither learnable, random, noisy nor counted, in every verb."""

import copy
import itertools
import json
import pickle
from pathlib import Path

import flint
import numpy as np
import pytest

import sublearn as sl
from sublearn.ensembles import Normal, draw_weights
from sublearn.matchers.proofs._balls import precision
from sublearn.networks import network_from_text
from sublearn.noise import candidate_placements
from sublearn.verdicts import is_affine

RNG = np.random.default_rng(5)
W = RNG.random((5, 5)) < 0.5
WIN = RNG.random((5, 2)) < 0.5


def sparse(**fields: object) -> sl.Network:
    given = {"n": 5, "b": 2, "d": 2, "T": 3, "leak": 0.5, **fields}
    return sl.RateRNN(**given).with_connections({"W": W, "Win": WIN})


def weights_of(net: sl.Network, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=s) * net.existing(name) for name, s in net.shapes.items()}


def test_size_text_and_equality():
    net = sparse()
    assert net.size == W.sum() + WIN.sum() + 10 and net.cells == 25 + 10 + 10
    assert network_from_text(net.spec) == net and hash(network_from_text(net.spec)) == hash(net)
    assert net != sparse(leak=0.6) != net.base
    again = net.with_connections({"W": np.tri(5, dtype=int)})
    np.testing.assert_array_equal(again.existing("W"), W & np.tri(5, dtype=bool))
    np.testing.assert_array_equal(again.existing("Win"), WIN)
    plain = sl.FeedForward((3, 4, 2), "tanh", "tanh").with_connections(
        {"W1": np.eye(4, 3, dtype=bool)}
    )
    assert network_from_text(plain.spec) == plain
    assert plain.layered is None and plain.before_output().base.output == "linear"
    linear = sl.LinearRNN(3, 1, 1, 2).with_connections({"W": np.eye(3, dtype=bool)})
    assert linear.recurrence is None


def test_words_count_connections_and_do_not_spell_them() -> None:
    net = sparse()
    counted = f"(W: {W.sum()} of 25, Win: {WIN.sum()} of 10 exist)"
    assert net.title == f"{net.base.spec} {counted}" and net.base.title == net.base.spec
    assert len(repr(net)) < 200 and f"W: {W.sum()} of 25" in repr(net)
    weights, x = weights_of(net), np.ones(net.input_shape(3))
    y = net.forward(weights, x)
    bits = net.spec.partition("connections=")[2]
    held = sl.Allocation.whole(net, ["W"])
    instance = sl.Instance.given(net, held, weights, x, y)
    for said in (str(net.check(weights, x, y)), repr(instance), repr(sl.Problem(net, samples=3))):
        assert bits not in said and str(W.sum()) in said


def test_weights_that_do_not_fit_are_refused_with_a_way_out() -> None:
    net = sl.RateRNN(4, 2, 1, 2, bias=True).with_connections({"W": np.tri(4, k=-1, dtype=bool)})
    weights, x = weights_of(net), np.ones(net.input_shape(3))

    def refused(**changed: np.ndarray) -> str:
        with pytest.raises(sl.BadInputError) as caught:
            net.forward({**weights, **changed}, x)
        return str(caught.value)

    assert refused(b=np.ones(4)).endswith("not (4,). It is a column: give b[:, None].")
    assert refused(W=weights["W"].T).endswith("Is it transposed?")
    assert "must be 0, not nan." in refused(W=weights["W"] * np.nan)
    with pytest.raises(sl.BadInputError, match=r"missing: c \(zeros, where there is none\)"):
        net.forward({name: weights[name] for name in ("W", "Win", "D", "b")}, x)
    with pytest.raises(sl.BadInputError, match="say W != 0 if those that are not 0 exist"):
        net.base.with_connections({"W": weights["W"]})


def test_autapses_are_the_mask_without_the_diagonal():
    net = sl.RateRNN(4, 2, 1, 2, autapses=False)
    np.testing.assert_array_equal(net.existing("W"), ~np.eye(4, dtype=bool))
    assert net.size == 12 + 8 + 4 and network_from_text(net.spec) == net
    both = net.with_connections({"W": np.tri(4, dtype=bool)})
    np.testing.assert_array_equal(both.existing("W"), np.tri(4, k=-1, dtype=bool))


def test_what_cannot_be_meant_is_refused_in_a_sentence():
    net = sparse()
    i, j = (int(v) for v in np.argwhere(~W)[0])
    with pytest.raises(
        sl.BadInputError, match=rf"W\({i}, {j}\) does not exist, so it cannot be learn"
    ):
        sl.Allocation.from_entries(net, {"W": [(i, j)]})
    dense = sl.Allocation.whole(net.base)
    x = np.zeros(net.input_shape(2))
    for ask in (
        lambda: sl.certify(sl.Problem(net, samples=2), dense),
        lambda: sl.Instance(net, dense, weights_of(net), x, np.zeros((2, 2))),
        lambda: sl.Allocation.from_masks(net, {"W": np.ones((5, 5), dtype=bool)}),
    ):
        with pytest.raises(sl.BadInputError, match="does not exist, so it cannot be learnable"):
            ask()
    with pytest.raises(sl.BadInputError, match="does not exist, so its weight must be 0"):
        net.forward({name: np.ones(s) for name, s in net.shapes.items()}, x)
    for masks, word in (
        ({}, "must map"), ({"V": W}, "V"), ({"W": WIN}, "shape"), ({"W": W * 1.0}, "true and false"),
        ({n: np.zeros(s, dtype=bool) for n, s in net.shapes.items()}, "at least one"),
    ):  # fmt: skip
        with pytest.raises(sl.BadInputError, match=word):
            net.base.with_connections(masks)
    for text in (
        net.spec[:-1],
        net.base.spec + ",connections=W:!!",
        net.base.spec + ",connections=W",
    ):
        with pytest.raises(sl.BadInputError, match="cannot be read"):
            network_from_text(text)


def test_allocations_stay_within_what_exists():
    net = sparse()
    assert sl.Allocation.whole(net, ["W"]).mask("W").tolist() == W.tolist()
    assert sl.Allocation.from_rows(net, "W", [1, 2]).mask("W").tolist() == (
        W & np.isin(np.arange(5), [1, 2])[:, None]
    ).tolist()  # fmt: skip
    spread = sl.Allocation.spread(net, {"W": 6})
    assert len(spread) == 6 and not (spread.mask("W") & ~W).any()
    assert spread.row_counts("W").max() <= 2
    problem = sl.Problem(net, samples=2)
    for rule in (sl.Anywhere(4), sl.FirstRows(3, 4), sl.FirstColumns(4, 4)):
        for seed in range(20):
            drawn = problem.draw_allocation({"W": rule}, np.random.default_rng(seed))
            assert len(drawn) == 4 and not (drawn.mask("W") & ~W).any()


def test_first_rows_are_uniform_over_what_exists():
    exists = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1]], dtype=bool)
    net = sl.FeedForward((3, 3)).with_connections({"W1": exists})
    problem = sl.Problem(net, samples=2)  # at most two in a row
    cells = [c for c in np.flatnonzero(exists).tolist() if c < 6]
    sets = [s for s in itertools.combinations(cells, 3)]
    counts = dict.fromkeys(sets, 0)
    rng = np.random.default_rng(0)
    for _ in range(4000):
        counts[tuple(problem.draw_allocation({"W1": sl.FirstRows(2, 3)}, rng).flat("W1"))] += 1
    expected = 4000 / len(sets)
    assert sum((c - expected) ** 2 / expected for c in counts.values()) < 20  # 3 degrees of freedom


def test_random_weights_have_the_variance_of_the_in_degree():
    mask = np.zeros((2, 400), dtype=bool)
    mask[0], mask[1, :4] = True, True
    net = sl.FeedForward((400, 2)).with_connections({"W1": mask})
    rows = np.stack(
        [draw_weights(net, Normal(), np.random.default_rng(s))["W1"] for s in range(200)]
    )
    assert (rows[:, ~mask] == 0).all()
    assert rows[:, 0].var() * 400 == pytest.approx(1, rel=0.05)
    assert rows[:, 1, :4].var() * 4 == pytest.approx(1, rel=0.15)
    instance = sl.draw(sl.Problem(net, samples=1), {"W1": sl.Anywhere(2)}, seed=0, trial=0)
    assert (instance.weights["W1"][~mask] == 0).all()
    assert (instance.teacher.weights["W1"][~mask] == 0).all()


def outputs_in_digits(
    net: sl.Network, w: dict, x: np.ndarray, place: tuple, step: flint.arb
) -> list:
    """The outputs of a sparse rate network with one weight moved, in balls, as one would write it."""
    base = net.base
    kept, leak = flint.arb(1 - base.leak), flint.arb(base.leak)
    phi = {
        "tanh": lambda z: z.tanh(),
        "linear": lambda z: z,
        "sigmoid": lambda z: 1 / (1 + (-z).exp()),
    }

    def entry(name: str, i: int, j: int) -> flint.arb:
        return flint.arb(w[name][i, j]) + (step if (name, i, j) == place else 0)

    out = []
    for s in range(x.shape[-1]):
        h, read = [flint.arb(0)] * base.n, []
        for t in range(base.T):
            z = [
                flint.arb(0)
                + sum(entry("W", i, j) * h[j] for j in range(base.n) if net.existing("W")[i, j])
                + (entry("Win", i, 0) * flint.arb(x[t, 0, s]) if net.existing("Win")[i, 0] else 0)
                + (entry("b", i, 0) if base.bias else 0)
                for i in range(base.n)
            ]
            h = [kept * a + leak * phi[base.activation](b) for a, b in zip(h, z, strict=True)]
            read += [
                flint.arb(0)
                + sum(entry("D", o, i) * h[i] for i in range(base.n))
                + (entry("c", o, 0) if base.bias else 0)
                for o in range(base.d)
            ]
        out.append(read if base.readout == "every" else read[-base.d :])
    return [value for sample in out for value in sample]


def size(value: flint.arb) -> float:
    return abs(float(value.mid()))


def rank_in_digits(net: sl.Network, w: dict, x: np.ndarray, allocation: sl.Allocation) -> int:
    """The rank of differences in 180 digits, by elimination with full pivoting."""
    with precision(600):
        step = flint.arb(10) ** -60
        begin = outputs_in_digits(net, w, x, ("", 0, 0), step)
        rows = []
        for place in allocation.labels():
            moved = outputs_in_digits(net, w, x, place, step)
            rows.append([(a - b) / step for a, b in zip(moved, begin, strict=True)])
        rank = 0
        while rows and max(size(v) for row in rows for v in row) > 1e-40:
            r, c = max(
                itertools.product(range(len(rows)), range(len(rows[0]))),
                key=lambda at: size(rows[at[0]][at[1]]),
            )
            pivot = rows.pop(r)
            rows = [
                [v - row[c] / pivot[c] * p for v, p in zip(row, pivot, strict=True)] for row in rows
            ]
            rank += 1
        return rank


@pytest.mark.parametrize("activation", ["linear", "tanh", "sigmoid"])
@pytest.mark.parametrize("bias", [False, True])
def test_exact_ranks_agree_with_many_digits(activation, bias):
    seen = refused = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, T = 4, int(rng.integers(1, 4))
        leak, readout = float(rng.choice([1.0, 0.3])), str(rng.choice(["last", "every"]))
        net = sl.RateRNN(n, 1, 1, T, activation, leak, bias, readout)
        net = net.with_connections({"W": rng.random((n, n)) < 0.4, "Win": rng.random((n, 1)) < 0.6})
        w, x = weights_of(net, seed), rng.standard_normal(net.input_shape(3))
        for names in (["W"], ["Win", "D"], list(net.shapes)):
            allocation = sl.Allocation.whole(net, names)
            if not len(allocation):
                continue
            try:
                verdict = sl.certify(sl.Problem(net, samples=3), allocation)
            except sl.BadInputError as error:
                assert "are not known with" in str(error)
                refused += 1
                continue
            assert verdict.rank == rank_in_digits(net, w, x, allocation), (seed, names)
            seen += 1
    assert refused == 0 or activation != "linear"
    assert seen > 6 or (activation, bias) == ("sigmoid", False)


def test_paper_s_rnn_with_missing_connections_has_exact_ranks():
    mask = np.random.default_rng(1).random((5, 5)) < 0.5
    net = sl.RNN(5, 1, 2, 3).with_connections({"W": mask})
    w, x = weights_of(net), np.random.default_rng(2).standard_normal(net.input_shape(3))
    for names in (["W"], ["B"], ["W", "B", "D"]):
        allocation = sl.Allocation.whole(net, names)
        sizes = np.linalg.svd(net.jacobian(w, x, allocation), compute_uv=False)
        assert sl.certify(sl.Problem(net, samples=3), allocation).rank == np.sum(
            sizes > 1e-12 * sizes[0]
        )


def test_the_affine_test_follows_the_paths_that_exist():
    chain = np.eye(4, k=-1, dtype=bool)  # unit i hears unit i - 1 alone
    net = sl.RateRNN(4, 1, 1, 4, "linear").with_connections({"W": chain})
    assert not is_affine(net, sl.Allocation.whole(net, ["W"]))
    assert is_affine(net, sl.Allocation.from_entries(net, {"W": [(2, 1)]}))
    assert not is_affine(net.base, sl.Allocation.from_entries(net.base, {"W": [(2, 1)]}))


def test_all_weights_that_exist_are_maximal_and_no_theorem_speaks():
    net = sl.LinearRNN(4, 1, 2, 3).with_connections({"W": ~np.eye(4, dtype=bool)})
    problem = sl.Problem(net, samples=2)
    verdict = sl.certify(problem, sl.Allocation.whole(net))
    assert verdict.kind == "maximal"
    assert not sl.certify(problem, sl.Allocation.spread(net, {"W": 4})).theorems
    assert sl.census(problem, "B").total == 1


def test_designs_and_placements_use_what_exists():
    net = sparse(bias=True)
    problem = sl.Problem(net, samples=2)
    chosen = sl.design(problem, ["W", "Win"], want="best score")
    assert sl.certify(problem, chosen).rank == len(chosen)
    assert not (chosen.mask("W") & ~W).any() and not (chosen.mask("Win") & ~WIN).any()
    loopless = sl.RateRNN(4, 2, 1, 3, autapses=False)
    barred = sl.design(sl.Problem(loopless, samples=2), ["W"], want="best score", autapses=False)
    assert len(barred) == 2 and not np.diag(barred.mask("W")).any()
    for allocation in candidate_placements(problem, 8).values():
        net.check_allocation(allocation)
        assert len(allocation) == 8


def test_decisions_training_and_estimates():
    net = sparse(activation="linear")
    problem = sl.Problem(net, samples=2)
    allocation = sl.Allocation.whole(net, ["D"])
    found = sl.decide(sl.draw(problem, allocation, seed=0, trial=0))
    assert (found.kind, found.rung) == ("matched", "affine") and found.certificate.check()
    bent = sl.Problem(sparse(), samples=1)
    instance = sl.draw(bent, {"W": sl.Anywhere(4)}, seed=0, trial=0)
    run = sl.train(instance, steps=50, seed=0)
    assert (run.weights["W"][~W] == 0).all()
    estimate = sl.estimate(bent, {"W": sl.Anywhere(4)}, trials=3, seed=0)
    assert estimate.matched + estimate.refuted + estimate.undecided == 3


def test_the_rank_at_given_numbers_knows_leaks_and_connections():
    net = sparse(activation="linear", readout="every")
    w, x = weights_of(net), np.random.default_rng(3).standard_normal(net.input_shape(2))
    whole = sl.Allocation.whole(net)
    found = sl.rank_at(net, whole, w, x)
    assert found.rank == np.linalg.matrix_rank(net.jacobian(w, x, whole))
    with pytest.raises(sl.BadInputError, match="cannot be learnable"):
        sl.rank_at(net, sl.Allocation.whole(net.base), w, x)


def test_noise_leaves_what_does_not_exist_alone():
    net = sparse(bias=True)
    w, rng = weights_of(net), np.random.default_rng(1)
    x, y = rng.normal(size=net.input_shape(4)), rng.normal(size=(2, 4))
    instance = sl.Instance(net, sl.Allocation.whole(net, ["W"]), w, x, y)
    noise = sl.Noise((0.1, 0.1, 0.1), on="all")
    run = sl.simulate(instance, noise, cycles=5, repeats=2)
    for name in net.shapes:
        exists = net.existing(name)
        assert (run.weights[name][:, ~exists] == 0).all()
        assert (run.weights[name][:, exists] != w[name][exists]).all()
    geometry = sl.local_geometry(instance, on="all")
    assert (geometry.noisy, geometry.size, geometry.plastic) == (net.size, net.size, W.sum())
    at, step = {name: value.copy() for name, value in w.items()}, 1e-4

    def error() -> float:
        return float(np.sum((net.base.forward(at, x) - y) ** 2) / 8)

    middle, trace = error(), 0.0
    for name in net.shapes:
        for place in np.argwhere(net.existing(name)):
            here = tuple(place)
            at[name][here] += step
            up = error()
            at[name][here] -= 2 * step
            trace += (up - 2 * middle + error()) / step**2
            at[name][here] += step
    assert geometry.noise_trace == pytest.approx(trace, rel=1e-4)


def test_a_sparse_network_is_sent_and_copied_as_it_is() -> None:
    """Whether its masks were looked at or not: workers and torch modules carry networks about."""
    net = sl.RNN(n=3, b=1, d=1, T=2).with_connections({"W": np.tri(3, dtype=bool)})
    for made in (net, sl.RateRNN(n=3, b=1, d=1, T=2, autapses=False)):
        assert made.size < made.cells
        for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
            assert again == made and again.size == made.size


def test_connections_are_an_argument_where_a_text_is_read() -> None:
    mask = np.tri(3, dtype=bool)
    made = sl.networks.network_from_text("rnn:n=3,b=1,d=1,T=2", connections={"W": mask})
    assert made == sl.RNN(n=3, b=1, d=1, T=2).with_connections({"W": mask})


def test_the_command_line_reads_connections_from_a_file(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from sublearn.cli import app

    mask, path = np.tri(4, dtype=bool), tmp_path / "exists.npz"
    np.savez(path, W=mask)
    made = sl.RNN(n=4, b=1, d=2, T=3).with_connections({"W": mask})
    spec = f"rnn:n=4,b=1,d=2,T=3,connections={path}"
    asked = ["--network", spec, "--samples", "2", "--learn", "W:spread=4", "--json"]
    found = CliRunner().invoke(app, ["certify", *asked])
    assert found.exit_code == 0, found.output
    said = json.loads(found.output)
    assert said["network"] == made.spec
    held = sl.Allocation.spread(made, {"W": 4})
    assert said["digest"] == held.digest
    noise = ["noise", "rate", "--gamma", ".1,.1,.01", *asked[:4], "--json"]
    assert CliRunner().invoke(app, noise).exit_code == 0
    for arrays, words in (
        ({"W": mask[:3]}, "shape"),
        ({"V": mask}, "weight name"),
        ({"W": mask * 0.5}, "true and false"),
    ):
        np.savez(path, **arrays)
        refused = CliRunner().invoke(app, ["certify", *asked])
        assert isinstance(refused.exception, sl.BadInputError) and words in str(refused.exception)
    path.unlink()
    refused = CliRunner().invoke(app, ["certify", *asked])
    assert "there is no file" in str(refused.exception)
    with pytest.raises(sl.BadInputError):  # a file that names another is not followed
        sl.networks.network_from_text(spec)
