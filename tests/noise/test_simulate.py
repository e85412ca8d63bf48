"""Simulations against loops written with the derivatives of the networks room."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from noise.given import given
from sublearn.experiments.raman2019 import deep_noise, deep_sigmoid
from sublearn.noise import Noise, step_correlation

NETWORKS = [
    sl.LinearEstimator(inputs=4, outputs=3),
    sl.FeedForward((3, 5, 4, 2), activation="sigmoid", output="sigmoid", bias=True),
    sl.FeedForward((16, 17, 16), activation="tanh"),  # large enough for BLAS
    sl.FeedForward((3, 6, 2), activation="relu", bias=True),
    sl.LinearRNN(n=4, b=2, d=2, T=3),
    sl.RNN(n=4, b=1, d=2, T=3, activation="tanh"),
]


def lesson(network: sl.Network, samples: int = 6, seed: int = 0):
    rng = np.random.default_rng([seed, network.size])
    draw = {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
    other = {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
    x = rng.standard_normal(network.input_shape(samples))
    return draw, x, network.forward(other, x)


def layers_of(network: sl.Network) -> list[list[str]]:
    out: list[list[str]] = []
    for step in network.steps:
        groups = [[step.encoder]] if step.encoder else []
        groups.append([step.weight, step.bias] if step.bias else [step.weight])
        out += [group for group in groups if group not in out]
    return out


def length(network: sl.Network, parts, norm: str) -> float:
    squares = [sum((parts[name] ** 2).sum() for name in group) for group in layers_of(network)]
    return sum(np.sqrt(squares)) if norm == "layers" else np.sqrt(sum(squares))


def descend(network, weights, x, y, masks, step, norm, cycles):
    """Steps of fixed length along the gradient, by the networks room's own derivatives."""
    w = {name: np.array(value) for name, value in weights.items()}
    errors = []
    for _ in range(cycles):
        gap = network.forward(w, x) - y
        errors.append((gap**2).sum() / (2 * gap.shape[1]))
        g = {name: masks[name] * part for name, part in network.vjp(w, x, gap).items()}
        size = length(network, g, norm)
        w = {name: w[name] - step * g[name] / size for name in w}
    return np.array(errors), w


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.spec)
@pytest.mark.parametrize("norm", ["l2", "layers"])
@pytest.mark.parametrize("subset", [False, True])
def test_without_noise_it_is_gradient_descent(network, norm: str, subset: bool) -> None:
    w, x, y = lesson(network)
    allocation = None
    masks = {name: np.ones(shape) for name, shape in network.shapes.items()}
    if subset:
        rng = np.random.default_rng(1)
        masks = {name: rng.random(shape) < 0.4 for name, shape in network.shapes.items()}
        masks[next(iter(masks))][0, 0] = True
        allocation = sl.Allocation.from_masks(network, masks)
    wanted, last = descend(network, w, x, y, masks, 0.1, norm, 15)
    for precision, close in (("double", 1e-9), ("single", 1e-3)):
        noise = Noise((0.05, 0, 0), T=2.0, norm=norm)
        asked = given(network, w, x, y, allocation)
        run = sl.simulate(asked, noise, cycles=15, repeats=1, precision=precision)
        np.testing.assert_allclose(run.errors[0], wanted, rtol=close, atol=close)
        for name, matrix in last.items():
            np.testing.assert_allclose(run.weights[name][0], matrix, rtol=close, atol=close)


def test_many_samples_of_a_linear_network_are_shortened_without_loss() -> None:
    network = sl.LinearEstimator(inputs=5, outputs=3)
    w, x, _ = lesson(network, samples=40)
    y = np.random.default_rng(4).standard_normal((3, 40))  # no linear map meets these
    masks = {"W": np.ones((3, 5))}
    wanted, _ = descend(network, w, x, y, masks, 0.1, "l2", 10)
    run = sl.simulate(given(network, w, x, y), Noise((0.1, 0, 0)), cycles=10, repeats=2)
    np.testing.assert_allclose(run.errors, [wanted, wanted], rtol=1e-10)


@pytest.mark.parametrize("norm", ["l2", "layers"])
@pytest.mark.parametrize("noise_on", ["plastic", "all"])
def test_lengths_of_the_noisy_parts(norm: str, noise_on: str) -> None:
    network = NETWORKS[1]
    w, x, y = lesson(network)
    mask = {name: np.random.default_rng(2).random(s) < 0.5 for name, s in network.shapes.items()}
    allocation = sl.Allocation.from_masks(network, mask)

    def change(gamma):
        noise = Noise(gamma, T=4.0, on=noise_on, norm=norm)
        run = sl.simulate(given(network, w, x, y, allocation), noise, cycles=1, repeats=3)
        return [{n: run.weights[n][k] - w[n] for n in w} for k in range(3)]

    for moved in change((0.0, 0.5, 0.0)):
        assert length(network, moved, norm) == pytest.approx(0.5 * 4.0, rel=1e-5)
        assert all(np.all(moved[n][~mask[n]] == 0) and np.all(moved[n][mask[n]] != 0) for n in w)
    touched = len(allocation) if noise_on == "plastic" else network.size
    for moved in change((0.0, 0.0, 0.2)):
        assert length(network, moved, norm) == pytest.approx(0.2 * np.sqrt(touched * 4.0), rel=1e-5)
        assert sum(np.count_nonzero(m) for m in moved.values()) == touched


def test_task_irrelevant_directions_are_correlated_as_told() -> None:
    network = sl.LinearEstimator(inputs=40, outputs=25)
    w, x, y = lesson(network, samples=1)

    def steps(mixing: float):
        asked, noise = given(network, w, x, y), Noise((0.0, 1.0, 0.0), mixing=mixing)
        runs = [sl.simulate(asked, noise, cycles=k, repeats=1) for k in range(1, 14)]
        at = [run.weights["W"][0] for run in runs]
        moves = np.diff(at, axis=0).reshape(12, -1)
        return (moves[1:] * moves[:-1]).sum(axis=1)

    assert steps(0.0).mean() == pytest.approx(0.0, abs=4 / np.sqrt(11 * 1000))
    assert steps(0.4).mean() == pytest.approx(step_correlation(0.4), abs=4 / np.sqrt(11 * 1000))


@pytest.mark.parametrize("noise_on", ["plastic", "all"])
def test_mean_of_one_cycle_is_the_mean_rate(noise_on: str) -> None:
    network = sl.LinearEstimator(inputs=8, outputs=5)
    w, x, y = lesson(network, samples=12)
    allocation = sl.Allocation.spread(network, {"W": 17})
    asked, noise = given(network, w, x, y, allocation), Noise((0.3, 1.0, 0.1), 2.0, on=noise_on)
    run = sl.simulate(asked, noise, cycles=2, repeats=1200)
    rates = (1 - run.errors[:, 1] / run.errors[:, 0]) / noise.T
    error = rates.std(ddof=1) / np.sqrt(rates.size)
    assert rates.mean() == pytest.approx(
        sl.local_geometry(asked, on=noise_on).rate(noise), abs=4 * error
    )


def test_a_repeat_depends_on_seed_and_number_alone() -> None:
    network = NETWORKS[1]
    w, x, y = lesson(network)
    asked, noise = given(network, w, x, y), Noise((0.1, 0.3, 0.05), mixing=0.2)
    whole = sl.simulate(asked, noise, cycles=30, repeats=5)
    threads = sl.simulate(asked, noise, cycles=30, repeats=5, workers=3)
    part = sl.simulate(asked, noise, cycles=30, repeats=range(3, 5))
    other = sl.simulate(asked, noise, cycles=30, repeats=5, seed=1)
    assert whole.errors.tobytes() == threads.errors.tobytes()
    assert (whole.errors[3:] == part.errors).all()
    assert (whole.weights["W2"][3:] == part.weights["W2"]).all()
    assert (whole.errors[:, 1:] != other.errors[:, 1:]).all()
    assert np.unique(whole.errors[:, -1]).size == 5


def test_several_instances_give_every_repeat_its_own() -> None:
    network, noise = NETWORKS[4], Noise((0.1, 0.3, 0.05))
    lessons = [given(network, *lesson(network, seed=k)) for k in range(3)]
    together = sl.simulate(lessons, noise, cycles=10, repeats=3)
    for k, one in enumerate(lessons):
        alone = sl.simulate(one, noise, cycles=10, repeats=range(k, k + 1))
        assert (alone.errors[0] == together.errors[k]).all()


def test_fresh_inputs_follow_the_teacher() -> None:
    network = sl.LinearEstimator(inputs=6, outputs=4)
    w, _, _ = lesson(network)
    teacher = sl.FeedForward((6, 5, 4))
    t = lesson(teacher)[0]
    whole, x = sl.Allocation.whole(network), np.zeros((6, 20))
    taught = sl.Instance.from_teacher(network, whole, w, x, t, teacher)
    still = sl.simulate(taught, Noise((0, 0, 0)), cycles=4000, repeats=1, fresh=True)
    # E |(W - V) x|^2 / 2 = |W - V|^2 / 2 for standard normal x.
    expected = ((w["W"] - t["W2"] @ t["W1"]) ** 2).sum() / 2
    error = still.errors.std() / np.sqrt(still.errors.size)
    assert still.errors.mean() == pytest.approx(expected, abs=4 * error)
    own = sl.Instance.from_teacher(network, whole, w, x, w)
    same = sl.simulate(own, Noise((1, 0, 0)), cycles=5, repeats=1, fresh=True)
    assert (same.errors == 0).all()  # and a gradient of zero moves nothing
    assert (same.weights["W"][0] == w["W"]).all()


def test_deep_sigmoid_cells_pair_up() -> None:
    # Same teacher, start and inputs: before any change the padded network has the small one's errors.
    small = deep_sigmoid(5, deep_noise(0.0), cycles=1, repeats=3, earlier_cycles=50)
    large = deep_sigmoid(12, deep_noise(0.0), cycles=1, repeats=3, earlier_cycles=50)
    np.testing.assert_allclose(small.errors, large.errors, rtol=1e-4)
    assert np.unique(small.errors).size == 3
    untrained = deep_sigmoid(5, deep_noise(0.0), cycles=1, repeats=3, earlier_cycles=0)
    assert (untrained.errors != small.errors).all()


BAD = [
    (dict(cycles=0), "cycles"),
    (dict(repeats=0), "repeats"),
    (dict(repeats=range(0)), "repeats"),
    (dict(precision="half"), "precision"),
    (dict(workers=0), "workers"),
    (dict(seed=-1), "seed"),
    (dict(noise=(0.1, 0.1, 0.1)), "noise must be a Noise"),
    (dict(instance=3), "instance must be an Instance"),
    (dict(fresh=True), "fresh samples need an instance with a teacher"),
]


@pytest.mark.parametrize("change, named", BAD, ids=[f"{next(iter(c))}-{n}" for c, n in BAD])
def test_bad_input_is_named(change: dict, named: str) -> None:
    network = NETWORKS[0]
    good = dict(instance=given(network, *lesson(network)), noise=Noise((0.1, 0.1, 0.1)))
    good |= dict(cycles=2, repeats=2)
    with pytest.raises(sl.BadInputError, match=named):
        sl.simulate(**{**good, **change})


def test_instances_that_do_not_go_together_are_refused() -> None:
    network, noise = NETWORKS[0], Noise((0.1, 0, 0))
    w, x, y = lesson(network)
    one = given(network, w, x, y)
    row = one.with_allocation(sl.Allocation.from_rows(network, "W", [0]))
    for other, words in ((row, "one network and one allocation"), (one.only([0]), "samples each")):
        with pytest.raises(sl.BadInputError, match=words):
            sl.simulate([one, other], noise, repeats=2)
    with pytest.raises(sl.BadInputError, match="one, or 3, one per repeat, not 2"):
        sl.simulate([one, one], noise, repeats=3)
    with pytest.raises(sl.BadInputError, match="overflow"):
        sl.simulate(given(network, w, x * 1e200, y), noise, repeats=1)


def test_a_simulation_shows_itself() -> None:
    network = NETWORKS[0]
    run = sl.simulate(
        given(network, *lesson(network)), Noise((0.1, 0.1, 0.1)), cycles=60, repeats=2
    )
    assert str(run.steady_state) in str(run)
    plain = run.to_dict()
    assert (plain["cycles"], plain["repeats"], plain["gamma"]) == (60, 2, [0.1, 0.1, 0.1])
    assert plain["start"] == pytest.approx(run.errors[0, 0])
    page = run._repr_html_()
    assert page.startswith("<pre>error at the start") and "data:image/png;base64," in page
    (line,) = run.plot().axes[0].get_lines()
    np.testing.assert_allclose(line.get_ydata(), run.errors.mean(axis=0))


@pytest.mark.slow
def test_deep_sigmoid_picture() -> None:
    # 36 paired repeats: without noise the smallest network is worst; at gamma3 = .1 the largest is.
    def final(width: int, gamma3: float) -> np.ndarray:
        return deep_sigmoid(width, deep_noise(gamma3), repeats=36).final()

    def margin(one: np.ndarray, two: np.ndarray) -> float:
        return (one - two).mean() / ((one - two).std(ddof=1) / np.sqrt(one.size))

    quiet = {width: final(width, 0.0) for width in (5, 8, 12, 45)}
    assert all(margin(quiet[5], quiet[width]) > 1 for width in (8, 12, 45))
    assert margin(quiet[5], quiet[45]) > 3
    noisy = {width: final(width, 0.1) for width in (8, 12, 45)}
    best = min((8, 12), key=lambda width: noisy[width].mean())
    assert margin(noisy[45], noisy[best]) > 3
