"""The rate network against loops in numpy: values, derivatives, ranks, decisions, learning."""

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np
import pytest

import sublearn as sl
from sublearn.networks import factors, network_from_text
from sublearn.verdicts import is_affine

PHI = {
    "linear": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-z)),
}
CASES = [
    sl.RateRNN(4, 2, 2, 3, activation, leak, bias, readout, start)
    for activation, leak, bias, readout, start in itertools.product(
        PHI, (1.0, 0.3), (False, True), ("last", "every"), ("zero", "weights")
    )
]


def loop(net: sl.RateRNN, w: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """The outputs, as one would write the network down."""
    m = x.shape[-1]
    h = np.zeros((net.n, m)) if net.start == "zero" else w["h0"] @ np.ones((1, m))
    out = []
    for t in range(net.T):
        z = w["W"] @ h + w["Win"] @ x[t]
        if net.bias:
            z = z + w["b"]
        h = (1 - net.leak) * h + net.leak * PHI[net.activation](z)
        y = w["D"] @ h
        out.append(y + w["c"] if net.bias else y)
    return np.vstack(out) if net.readout == "every" else out[-1]


def point(net: sl.RateRNN, seed: int = 0, samples: int = 5) -> tuple[dict, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    return weights, rng.standard_normal(net.input_shape(samples))


def along(net: sl.RateRNN, w: dict, x: np.ndarray, v: dict, step: float = 1e-6) -> np.ndarray:
    """The derivative of the loop along v, by central differences."""
    up, down = ({name: w[name] + s * step * v[name] for name in w} for s in (1, -1))
    return (loop(net, up, x) - loop(net, down, x)) / (2 * step)


def by_complex_steps(
    net: sl.RateRNN, w: dict, x: np.ndarray, allocation: sl.Allocation
) -> np.ndarray:
    """The Jacobian of the loop, to the last digits, where the activation is analytic."""
    columns = []
    for name, i, j in allocation.labels():
        moved = {key: value.astype(complex) for key, value in w.items()}
        moved[name][i, j] += 1e-30j
        columns.append(loop(net, moved, x).imag.ravel() / 1e-30)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("net", CASES, ids=lambda net: net.spec)
def test_values_and_derivatives_are_those_of_the_loop(net):
    w, x = point(net)
    v, _ = point(net, seed=1)
    y, moved = loop(net, w, x), along(net, w, x, v)
    np.testing.assert_allclose(net.forward(w, x), y, rtol=0, atol=1e-12)
    np.testing.assert_allclose(net.jvp(w, x, v), moved, atol=1e-6)
    flat = np.concatenate([v[name].ravel() for name in net.shapes])
    np.testing.assert_allclose((net.jacobian(w, x) @ flat).reshape(y.shape), moved, atol=1e-6)
    c = np.random.default_rng(2).standard_normal(y.shape)
    g = net.vjp(w, x, c)
    assert sum(np.sum(g[name] * v[name]) for name in g) == pytest.approx(
        np.sum(c * moved), abs=1e-5
    )
    h = net.hvp(w, x, c, v)
    up, down = (net.vjp({n: w[n] + s * 1e-6 * v[n] for n in w}, x, c) for s in (1, -1))
    for name in h:
        np.testing.assert_allclose(h[name], (up[name] - down[name]) / 2e-6, atol=1e-4)


@pytest.mark.parametrize("net", CASES, ids=lambda net: net.spec)
def test_text_and_equality(net):
    assert network_from_text(net.spec) == net


def test_the_paper_s_formula_is_told_from_the_usual_one():
    net = sl.RateRNN(n=6, b=2, d=2, T=4, leak=0.2)
    w, x = point(net)
    outputs = loop(net, w, x)
    assert net.check(w, x, outputs, tolerance=1e-12)
    other = sl.RNN(n=6, b=2, d=2, T=4)
    answer = other.check({"W": w["W"], "B": w["Win"], "D": w["D"]}, x, outputs)
    assert not answer
    assert "is not the model that made these outputs" in str(answer)
    assert not dataclasses.replace(net, leak=0.21).check(w, x, outputs)


@pytest.mark.parametrize(
    ("given", "word"),
    [({"leak": 0}, "leak"), ({"leak": 1.5}, "leak"), ({"leak": float("nan")}, "leak"),
     ({"bias": 1}, "bias"), ({"readout": "first"}, "readout"), ({"start": "one"}, "start"),
     ({"activation": "softplus"}, "activation"), ({"n": 0}, "n must"), ({"T": 1}, "T must")],
)  # fmt: skip
def test_bad_fields_are_named(given, word):
    with pytest.raises(sl.BadInputError, match=word):
        sl.RateRNN(**{"n": 4, "b": 2, "d": 2, "T": 3, **given})


def test_it_is_never_taken_for_a_form_of_the_paper():
    for net in CASES:
        assert net.recurrence is None and net.layered is None
        assert not net.is_plain and net.is_sequence


def test_residues_are_those_of_fractions():
    from fractions import Fraction

    from sublearn.exact import PrimeField

    net, field = (
        sl.RateRNN(2, 1, 1, 2, "linear", 0.1, readout="every", start="weights"),
        PrimeField(8388593),
    )
    rng = np.random.default_rng(0)
    w = {name: rng.integers(-9, 10, shape).astype(float) for name, shape in net.shapes.items()}
    x = rng.integers(-9, 10, net.input_shape(1)).astype(float)
    leak, kept = Fraction(0.1), Fraction(1 - 0.1)
    h = [Fraction(v) for v in w["h0"][:, 0]]
    outputs = []
    for t in range(2):
        z = [sum(Fraction(w["W"][i, j]) * h[j] for j in range(2)) + Fraction(w["Win"][i, 0] * x[t, 0, 0])
             for i in range(2)]  # fmt: skip
        h = [kept * h[i] + leak * z[i] for i in range(2)]
        outputs.append(sum(Fraction(w["D"][0, i]) * h[i] for i in range(2)))
    found = sl.networks.run(net, w, x, field).outputs[:, 0]
    for value, residue in zip(outputs, found, strict=True):
        assert (value.numerator - int(residue) * value.denominator) % field.p == 0
    assert set(factors(net, w, x, field)) == set(net.shapes)


@pytest.mark.parametrize("activation", ["linear", "tanh", "sigmoid"])
@pytest.mark.parametrize("readout", ["last", "every"])
def test_exact_ranks_agree_with_singular_values(activation, readout):
    for seed, (leak, bias, start) in enumerate(
        [(0.4, False, "zero"), (0.4, True, "weights"), (1.0, True, "zero")]
    ):
        net = sl.RateRNN(3, 1, 2, 3, activation, leak, bias, readout, start)
        problem = sl.Problem(net, samples=3)
        rng = np.random.default_rng(seed)
        for names in (("W",), ("Win", "D"), tuple(net.shapes)):
            flat = {n: np.flatnonzero(rng.random(np.prod(net.shapes[n])) < 0.8) for n in names}
            allocation = sl.Allocation(net.shapes, flat)
            w, x = point(net, seed, samples=3)
            columns = by_complex_steps(net, w, x, allocation)
            np.testing.assert_allclose(net.jacobian(w, x, allocation), columns, atol=1e-12)
            sizes = np.linalg.svd(columns, compute_uv=False)
            assert sl.certify(problem, allocation).rank == np.sum(sizes > 1e-12 * sizes[0]), names


def test_gates_of_a_relu_network_are_certified():
    net = sl.RateRNN(4, 2, 2, 2, "relu", 0.5, True)
    problem = sl.Problem(net, samples=2)
    verdict = sl.certify(problem, sl.Allocation.whole(net, ["W"]))
    assert verdict.kind in ("between", "minimal") and verdict.gates is not None
    assert sl.certify(problem, sl.Allocation.whole(net)).kind == "maximal"


def test_affine_is_counted_over_all_paths():
    linear = sl.RateRNN(3, 2, 2, 3, "linear", 0.5, True, "every", "weights")
    answers = {
        name: is_affine(linear, sl.Allocation.whole(linear, [name])) for name in linear.shapes
    }
    assert answers == {"W": False, "Win": True, "D": True, "b": True, "c": True, "h0": True}
    assert not is_affine(linear, sl.Allocation.whole(linear, ["Win", "D"]))
    assert is_affine(linear, sl.Allocation.whole(linear, ["Win", "b", "h0"]))
    bent = sl.RateRNN(3, 2, 2, 3, "tanh", 0.5, True)
    answers = {name: is_affine(bent, sl.Allocation.whole(bent, [name])) for name in bent.shapes}
    assert answers == {"W": False, "Win": False, "D": True, "b": False, "c": True}
    # One step: W has nothing to act on, and with two it acts once.
    assert is_affine(
        sl.RateRNN(3, 2, 2, 2, "linear"), sl.Allocation.whole(sl.RateRNN(3, 2, 2, 2), ["W"])
    )


def planted(net: sl.RateRNN, names: tuple[str, ...], samples: int, seed: int = 0) -> sl.Instance:
    """An instance that the weights of ``point`` solve; the loop makes its targets."""
    w, x = point(net, seed, samples)
    return sl.Instance(net, sl.Allocation.whole(net, names), w, x, loop(net, w, x))


@pytest.mark.parametrize("readout", ["last", "every"])
def test_affine_instances_are_decided_exactly(readout):
    net = sl.RateRNN(4, 2, 2, 2, "linear", 0.25, True, readout)
    problem = sl.Problem(net, samples=2)
    found = sl.decide(sl.draw(problem, sl.Allocation.whole(net, ["Win", "b"]), seed=0, trial=0))
    w, x = point(net, samples=5)
    short = sl.Instance(net, sl.Allocation.whole(net, ["Win"]), w, x, loop(net, w, x) + 1.0)
    refuted = sl.decide(short)
    assert (refuted.kind, refuted.rung) == ("refuted", "affine")
    if readout == "last":
        assert (found.kind, str(found.grade), found.rung) == ("matched", "proof", "affine")
        assert found.certificate is not None and found.certificate.check()


@pytest.mark.parametrize(
    "net",
    [
        sl.RateRNN(5, 1, 2, 3, "linear", 0.5),
        sl.RateRNN(5, 1, 2, 3, "tanh", 0.5, True),
        sl.RateRNN(5, 1, 1, 3, "sigmoid", 0.5, False, "every", "weights"),
    ],
    ids=lambda net: net.spec,
)
def test_planted_instances_are_matched_and_proved(net):
    found = sl.decide(planted(net, ("W",), samples=2))
    assert (found.kind, str(found.grade)) == ("matched", "proof")
    assert found.certificate is not None and found.certificate.check()
    instance = planted(net, ("W",), samples=2)
    off = loop(net, found.weights, instance.inputs) - instance.targets
    assert np.abs(off).max() < 1e-6


def test_targets_out_of_reach_are_refuted():
    net = sl.RateRNN(3, 1, 1, 2, "tanh", 0.5)
    w, x = point(net, samples=1)
    most = np.abs(w["D"]).sum() * 0.75  # |h_2| is below 0.5 + 0.5 * 0.5
    for factor, kind in ((1.01, "refuted"), (-1.01, "refuted")):
        instance = sl.Instance(
            net, sl.Allocation.whole(net, ["W", "Win"]), w, x, np.full((1, 1), factor * most)
        )
        assert sl.decide(instance).kind == kind


def test_training_and_estimates():
    net = sl.RateRNN(5, 2, 1, 3, "tanh", 0.5, True)
    instance = planted(net, ("W", "b"), samples=3)
    run = sl.train(instance, steps=400, seed=0)
    assert run.loss == pytest.approx(
        np.mean((loop(net, run.weights, instance.inputs) - instance.targets) ** 2), rel=1e-9
    )
    estimate = sl.estimate(sl.Problem(net, samples=2), {"W": sl.Anywhere(4)}, trials=4, seed=0)
    assert estimate.matched + estimate.refuted + estimate.undecided == 4


def test_a_design_is_certified():
    net = sl.RateRNN(5, 2, 2, 3, "tanh", 0.5, True)
    problem = sl.Problem(net, samples=3)
    design = sl.design(problem, ["W", "b"], want="best score")
    assert sl.certify(problem, design).rank == len(design) == 6


def vectors(net: sl.RateRNN, w: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(w[name]).ravel() for name in net.shapes])


def error(net: sl.RateRNN, w: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    return float(np.sum((loop(net, w, x) - y) ** 2) / (2 * x.shape[-1]))


def descended(
    net: sl.RateRNN, lesson: sl.Instance, masks: Mapping[str, np.ndarray], rate: float, steps: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Errors and weights of the loop under normalised gradient descent on what the masks leave."""
    w, errors = {name: value.copy() for name, value in lesson.start.items()}, []
    for _ in range(steps):
        errors.append(error(net, w, lesson.inputs, lesson.targets))
        gradient = {name: np.zeros_like(value) for name, value in w.items()}
        for name, mask in masks.items():
            for place in np.argwhere(mask):
                ends = []
                for sign in (1, -1):
                    moved = {key: array.copy() for key, array in w.items()}
                    moved[name][tuple(place)] += sign * 1e-6
                    ends.append(error(net, moved, lesson.inputs, lesson.targets))
                gradient[name][tuple(place)] = (ends[0] - ends[1]) / 2e-6
        length = np.linalg.norm(vectors(net, gradient))
        w = {name: w[name] - rate * gradient[name] / length for name in w}
    return np.array(errors), w


@pytest.mark.parametrize(
    "net",
    [
        sl.RateRNN(4, 2, 2, 3, "tanh", 0.3, True),
        sl.RateRNN(4, 2, 2, 3, "sigmoid", 0.3, True, "every", "weights"),
        sl.RateRNN(4, 2, 2, 3, "relu", 1.0, False, "every"),
        sl.RateRNN(4, 2, 2, 3, "linear", 0.5, False, "last", "weights"),
    ],
    ids=lambda net: net.spec,
)
def test_simulated_learning_follows_the_gradient_of_the_loop(net):
    w, x = point(net, samples=6)
    y = np.random.default_rng(3).standard_normal((net.output_size, 6))
    instance = sl.Instance(net, sl.Allocation.whole(net), w, x, y)
    run = sl.simulate(instance, sl.Noise((0.05, 0.0, 0.0)), cycles=6, repeats=1)
    every = {name: np.ones(shape) for name, shape in net.shapes.items()}
    errors, w = descended(net, instance, every, 0.05, 6)
    np.testing.assert_allclose(run.errors[0, :6], errors, rtol=1e-9)
    for name in net.shapes:
        np.testing.assert_allclose(run.weights[name][0], w[name], atol=1e-6)
    single = sl.simulate(
        instance, sl.Noise((0.05, 0.0, 0.0)), cycles=6, repeats=1, precision="single"
    )
    np.testing.assert_allclose(single.errors, run.errors, rtol=1e-3)


def sparse_lesson(seed: int = 4) -> tuple[sl.RateRNN, sl.Instance, dict[str, np.ndarray]]:
    """A dense network, an instance of it with some of W, and the masks of what learns."""
    net = sl.RateRNN(5, 2, 2, 3, "tanh", 0.4)
    exists = np.random.default_rng(seed).random((5, 5)) < 0.4
    sparse = net.with_connections({"W": exists})
    w, x = point(net, seed, samples=6)
    w["W"] = w["W"] * exists
    y = np.random.default_rng(3).standard_normal((2, 6))
    plastic = sl.Allocation.whole(sparse, ["W"])
    masks = {name: np.zeros(shape) for name, shape in net.shapes.items()} | {"W": 1.0 * exists}
    return net, sl.Instance(sparse, plastic, w, x, y), masks


def test_placing_on_sparse_connections_follows_the_loop():
    net, lesson, masks = sparse_lesson()
    found = sl.place(
        lesson, {"all": lesson.allocation}, sl.Noise((0.05, 0.0, 0.0)), cycles=6, repeats=1
    )
    errors, _ = descended(net, lesson, masks, 0.05, 6)
    np.testing.assert_allclose(found.best.curve, errors / errors[0], rtol=1e-6)


def test_training_on_sparse_connections_is_that_of_the_loop():
    net, lesson, masks = sparse_lesson()
    run = sl.train(lesson, "gradient-descent", steps=30, start="given")
    assert not run.weights["W"][masks["W"] == 0].any()
    for name in ("Win", "D"):
        np.testing.assert_array_equal(run.weights[name], lesson.start[name])
    began = np.mean((loop(net, lesson.start, lesson.inputs) - lesson.targets) ** 2)
    ended = np.mean((loop(net, run.weights, lesson.inputs) - lesson.targets) ** 2)
    assert run.loss == pytest.approx(ended, rel=1e-9) and ended < began
    assert run.starts.curve[0, 0] == pytest.approx(began, rel=1e-9)


def test_geometry_is_that_of_the_loop():
    net = sl.RateRNN(3, 2, 1, 2, "tanh", 0.4, True)
    w, x = point(net, samples=4)
    y = np.random.default_rng(3).standard_normal((1, 4))
    geometry = sl.local_geometry(sl.Instance(net, sl.Allocation.whole(net), w, x, y))
    size, step = net.size, 1e-4
    at = vectors(net, w)

    def value(moved: np.ndarray) -> float:
        parts = np.split(moved, np.cumsum([np.prod(s) for s in net.shapes.values()])[:-1])
        named = {n: p.reshape(net.shapes[n]) for n, p in zip(net.shapes, parts, strict=True)}
        return error(net, named, x, y)

    eye = step * np.eye(size)
    gradient = [(value(at + e) - value(at - e)) / (2 * step) for e in eye]
    trace = sum((value(at + e) - 2 * value(at) + value(at - e)) / step**2 for e in eye)
    assert geometry.gradient_norm == pytest.approx(np.linalg.norm(gradient), rel=1e-6)
    assert geometry.trace == pytest.approx(trace, rel=1e-4)


def test_a_torch_module_is_the_same_network():
    torch = pytest.importorskip("torch")
    from sublearn.models import as_torch

    for net in CASES[::3]:
        w, x = point(net)
        module = as_torch(net, w)
        given = torch.as_tensor(np.moveaxis(x, -1, 0).copy())
        np.testing.assert_allclose(module(given).detach().numpy().T, loop(net, w, x), atol=1e-12)
