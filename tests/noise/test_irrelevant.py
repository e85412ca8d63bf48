"""Task-irrelevant change that the weights decide, against plain loops; and formulas that decline it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import sublearn as sl
from noise.given import given
from sublearn.noise import Homeostasis, Noise, SecondTask

Parts = dict[str, np.ndarray]

NETWORKS = [
    sl.LinearEstimator(inputs=4, outputs=3),
    sl.FeedForward((3, 5, 2), activation="tanh", bias=True),
    sl.LinearRNN(n=4, b=2, d=2, T=3),
]
EACH_NETWORK = pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.spec)


def drawn(network: sl.Network, samples: int, seed: int) -> tuple[Parts, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, network.size])
    start, teacher = (
        {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}
        for _ in range(2)
    )
    x = rng.standard_normal(network.input_shape(samples))
    return start, x, network.forward(teacher, x)


def unit(parts: Parts, masks: Parts) -> Parts:
    held = {name: masks[name] * part for name, part in parts.items()}
    size = math.sqrt(sum(float(np.sum(part**2)) for part in held.values()))
    return {name: part / size if size else 0.0 * part for name, part in held.items()}


def loop(
    network: sl.Network,
    start: Parts,
    task: tuple[np.ndarray, np.ndarray],
    masks: Parts,
    downhill: Callable[[Parts], Parts],
    noise: Noise,
    cycles: int,
) -> tuple[list[float], Parts]:
    """dw = -T (gamma1 g/|g| + gamma2 d/|d|), both directions taken before the change."""
    w, (x, y) = {name: part.copy() for name, part in start.items()}, task
    errors = []
    for _ in range(cycles):
        gap = network.forward(w, x) - y
        errors.append(float(np.sum(gap**2)) / (2 * y.shape[1]))
        useful, other = unit(network.vjp(w, x, gap), masks), unit(downhill(w), masks)
        g1, g2, _ = noise.gamma
        w = {name: w[name] - noise.T * (g1 * useful[name] + g2 * other[name]) for name in w}
    return errors, w


def some(network: sl.Network, subset: bool) -> tuple[sl.Allocation, Parts]:
    if not subset:
        return sl.Allocation.whole(network), {n: np.ones(s) for n, s in network.shapes.items()}
    rng = np.random.default_rng(5)
    masks = {name: rng.random(shape) < 0.5 for name, shape in network.shapes.items()}
    masks[next(iter(masks))][0, 0] = True
    return sl.Allocation.from_masks(network, masks), masks


@EACH_NETWORK
@pytest.mark.parametrize("subset", [False, True])
def test_a_second_task_is_a_step_down_its_own_loss(network: sl.Network, subset: bool) -> None:
    start, x, y = drawn(network, 6, seed=0)
    _, x2, y2 = drawn(network, 9, seed=1)  # more samples: another shape, and shortened if linear
    allocation, masks = some(network, subset)
    second = given(network, start, x2, y2)
    noise = Noise((0.05, 0.03, 0.0), T=2.0, irrelevant=SecondTask(second))

    def downhill(w: Parts) -> Parts:
        return network.vjp(w, x2, network.forward(w, x2) - y2)

    wanted, last = loop(network, start, (x, y), masks, downhill, noise, 20)
    asked = given(network, start, x, y, allocation)
    for precision, close in (("double", 1e-8), ("single", 2e-3)):
        run = sl.simulate(asked, noise, cycles=20, repeats=2, precision=precision)
        np.testing.assert_allclose(run.errors, [wanted, wanted], rtol=close)
        for name, part in last.items():
            np.testing.assert_allclose(run.weights[name][1], part, rtol=close, atol=close)
    # The second task's own errors: what it would have if it were the first.
    swapped = Noise((0.03, 0.05, 0.0), T=2.0, irrelevant=SecondTask(asked))
    other = sl.simulate(second.with_allocation(allocation), swapped, cycles=20, repeats=1)
    run = sl.simulate(asked, noise, cycles=20, repeats=1)
    assert run.other_errors is not None and other.other_errors is not None
    np.testing.assert_allclose(run.other_errors, other.errors, rtol=1e-8)
    np.testing.assert_allclose(run.errors, other.other_errors, rtol=1e-8)


@EACH_NETWORK
@pytest.mark.parametrize("subset", [False, True])
@pytest.mark.parametrize("norm", [None, 1.5])
def test_homeostasis_pulls_rows_to_a_norm(
    network: sl.Network, subset: bool, norm: float | None
) -> None:
    start, x, y = drawn(network, 6, seed=2)
    allocation, masks = some(network, subset)
    biases = {step.bias for step in network.steps}

    def lengths(w: Parts) -> Parts:
        return {name: np.sqrt(np.sum(part**2, axis=1, keepdims=True)) for name, part in w.items()}

    goal = {n: v if norm is None else 0.0 * v + norm for n, v in lengths(start).items()}

    def downhill(w: Parts) -> Parts:
        """The gradient of 1/2 sum (|row| - norm)^2; biases are no synapses."""
        size = lengths(w)
        return {n: (n not in biases) * (1.0 - goal[n] / size[n]) * w[n] for n in w}

    noise = Noise((0.05, 0.03, 0.0), T=2.0, irrelevant=Homeostasis(norm))
    wanted, last = loop(network, start, (x, y), masks, downhill, noise, 20)
    asked = given(network, start, x, y, allocation)
    run = sl.simulate(asked, noise, cycles=20, repeats=1)
    np.testing.assert_allclose(run.errors[0], wanted, rtol=1e-8)
    for name, part in last.items():
        np.testing.assert_allclose(run.weights[name][0], part, rtol=1e-8, atol=1e-8)
    assert run.other_errors is None


def test_what_is_forgotten_is_where_the_second_task_leads() -> None:
    """gamma1 = 0, a linear network: the nearest weights that solve the second task, by least squares."""
    network = sl.LinearEstimator(inputs=8, outputs=3)
    start, x, _ = drawn(network, 3, seed=3)
    _, x2, y2 = drawn(network, 3, seed=4)
    asked = given(network, start, x, start["W"] @ x)  # the first task is solved
    noise = Noise((0.0, 0.002, 0.0), irrelevant=SecondTask(given(network, start, x2, y2)))
    run = sl.simulate(asked, noise, cycles=4000, repeats=1)
    end = start["W"] + (y2 - start["W"] @ x2) @ np.linalg.pinv(x2)
    gap = (end - start["W"]) @ x
    assert run.other_errors is not None
    assert run.errors[0, 0] == pytest.approx(0.0, abs=1e-20)
    assert run.errors[0, -1] == pytest.approx(np.sum(gap**2) / 6, rel=0.01)
    assert run.other_errors[0, -1] < 1e-4 * run.other_errors[0, 0]


def test_repeats_may_have_second_tasks_of_their_own() -> None:
    network = NETWORKS[0]
    lessons = [given(network, *drawn(network, 5, seed=k)) for k in range(3)]
    others = [given(network, *drawn(network, 4, seed=k)) for k in range(3, 6)]
    together = sl.simulate(
        lessons, Noise((0.1, 0.2, 0.05), irrelevant=SecondTask(others)), cycles=10, repeats=3
    )
    for k, (one, other) in enumerate(zip(lessons, others, strict=True)):
        noise = Noise((0.1, 0.2, 0.05), irrelevant=SecondTask(other))
        alone = sl.simulate(one, noise, cycles=10, repeats=range(k, k + 1))
        assert (alone.errors[0] == together.errors[k]).all()


def test_synaptic_noise_is_that_of_white_change() -> None:
    """gamma2 = 0: the kind of change is of no matter, to the last bit."""
    network = NETWORKS[1]
    asked = given(network, *drawn(network, 6, seed=0))
    white = sl.simulate(asked, Noise((0.1, 0.0, 0.05)), cycles=10, repeats=2)
    for kind in (Homeostasis(), SecondTask(asked)):
        run = sl.simulate(asked, Noise((0.1, 0.0, 0.05), irrelevant=kind), cycles=10, repeats=2)
        assert run.errors.tobytes() == white.errors.tobytes()


def test_formulas_decline_what_they_were_not_derived_for() -> None:
    network = NETWORKS[0]
    asked = given(network, *drawn(network, 6, seed=0))
    for kind, words in ((Homeostasis(), "homeostasis"), (SecondTask(asked), "a second task")):
        noise = Noise((0.1, 0.2, 0.05), irrelevant=kind)
        found = sl.predict_steady_state(asked, noise)
        assert (found.kind, found.walks) == ("none", ()) and math.isnan(found.value)
        assert words in found.reason and "independent" in found.reason
        minimum = sl.predict_steady_state(asked, Noise((0.1, 0.2, 0.05))).minimum
        assert found.minimum == minimum  # the least squares minimum is that of the task alone
        assert words in sl.noise.compare_steady(asked, noise, cycles=50, repeats=2).meaning
        for refused in (
            lambda noise=noise: sl.local_geometry(asked).rate(noise),
            lambda noise=noise: sl.best_size([asked, asked], noise),
            lambda noise=noise: sl.noise.closed_form_size(noise, a=0.5),
            lambda noise=noise: sl.noise.predict_drift(asked, noise),
            lambda noise=noise: sl.place(asked, {"all": asked.allocation}, noise),
        ):
            with pytest.raises(sl.BadInputError, match=f"formulas .* not .*{words}"):
                refused()
        # Where it has no length the formulas hold as ever.
        still = Noise((0.1, 0.0, 0.05), irrelevant=kind)
        assert sl.local_geometry(asked).rate(still) == sl.local_geometry(asked).rate(
            Noise((0.1, 0.0, 0.05))
        )
        assert sl.predict_steady_state(asked, still).kind != "none"


def test_it_says_what_it_is() -> None:
    asked = given(NETWORKS[0], *drawn(NETWORKS[0], 6, seed=0))
    assert Noise((0.1, 0.2, 0.05)).to_dict()["irrelevant"] == "white"
    noise = Noise((0.1, 0.2, 0.05), irrelevant=SecondTask(asked))
    assert noise.to_dict()["irrelevant"] == "a second task"
    run = sl.simulate(asked, noise, cycles=50, repeats=2)
    assert "a second task" in run.headline
    assert run.to_dict()["irrelevant"] == "a second task"
    assert set(run.table()[0]) >= {"cycle", "mean", "other_mean"}
    assert len(run.plot().axes[0].get_lines()) == 2
    with pytest.raises(sl.BadInputError, match="norm must be positive and finite, not -1"):
        Homeostasis(-1.0)
    with pytest.raises(sl.BadInputError, match="irrelevant must be None"):
        Noise((0.1, 0.2, 0.05), irrelevant="task")
    with pytest.raises(sl.BadInputError, match="mixing must be 0"):
        Noise((0.1, 0.2, 0.05), mixing=0.1, irrelevant=Homeostasis())
    with pytest.raises(sl.BadInputError, match="instance must be an Instance"):
        SecondTask(3)
    other = given(NETWORKS[1], *drawn(NETWORKS[1], 6, seed=0))
    with pytest.raises(sl.BadInputError, match="second task must have the network"):
        sl.simulate(asked, Noise((0.1, 0.2, 0.0), irrelevant=SecondTask(other)))
    three = SecondTask([asked] * 3)
    with pytest.raises(sl.BadInputError, match="one, or 2, one per repeat, not 3"):
        sl.simulate(asked, Noise((0.1, 0.2, 0.0), irrelevant=three), repeats=2)
