"""The batched, folded objective against the whole network, run one instance at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sublearn as sl
from networks.reference import NETWORKS, one_sentence
from sublearn.networks import Network
from sublearn.training import Objective, _objective

Array = NDArray[Any]
STARTS = 2
RNG = np.random.default_rng(7)
PROBLEM = sl.Problem(sl.FeedForward((3, 5, 4, 2), activation="relu"), samples=3)


@pytest.fixture(params=["stacked", "folded"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to compute: small instances stacked, and every instance folded by itself."""
    if request.param == "folded":
        monkeypatch.setattr(_objective, "SMALL", 0)
    return str(request.param)


def _instances(network: Network, count: int, seed: int) -> list[sl.Instance]:
    """Instances with different allocations of equal size, spread over all weights."""
    rng = np.random.default_rng(seed)
    whole = sl.Allocation.whole(network)
    problem = sl.Problem(network, samples=3)
    size = min(7, len(whole))
    return [
        sl.draw(problem, whole.select(rng.choice(len(whole), size, replace=False)), trial=trial)
        for trial in range(count)
    ]


def _only(network: Network, names: list[str]) -> list[sl.Instance]:
    allocation = sl.Allocation.whole(network, names)
    return [sl.draw(sl.Problem(network, samples=3), allocation, trial=t) for t in range(2)]


def _check(instances: list[sl.Instance]) -> None:
    objective = Objective(instances, starts=STARTS)
    values = RNG.standard_normal((objective.batch, objective.size))
    tangent = RNG.standard_normal(values.shape)
    outputs = objective.outputs(values)
    found, product = objective.evaluate_second(values, tangent)
    residual, jacobian = objective.linearise(values)
    plain = objective.evaluate(values)
    assert (plain.loss == found.loss).all()
    np.testing.assert_allclose(plain.gradient, found.gradient, rtol=1e-12, atol=1e-14)
    for row in range(objective.batch):
        instance = instances[row // STARTS]
        network, inputs = instance.network, instance.inputs
        weights = instance.with_values(values[row])
        # Second derivatives from the network's own, first ones from its Jacobian.
        whole = network.jacobian(weights, inputs, instance.allocation)
        error = network.forward(weights, inputs) - instance.targets
        scale = 2.0 / error.size
        moved = instance.with_values(tangent[row])
        moved = {name: moved[name] - instance.weights[name] for name in moved}
        curved = instance.values(network.hvp(weights, inputs, scale * error, moved))
        curved += scale * whole.T @ (whole @ tangent[row])
        for ours, theirs in (
            (outputs[row], error + instance.targets),
            (residual[row], error.ravel()),
            (jacobian[row], whole),
            (found.loss[row], np.mean(error**2)),
            (found.gradient[row], scale * whole.T @ error.ravel()),
            (product[row], curved),
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.spec)
def test_it_is_the_whole_network(network: Network) -> None:
    _check(_instances(network, 3, seed=1))
    _check(_instances(network, 1, seed=2))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.spec)
def test_each_weight_alone(network: Network) -> None:
    for name in network.shapes:  # whichever weight comes first in the chain, and whatever follows
        _check(_only(network, [name]))


@pytest.mark.usefixtures("way")
def test_one_sample_and_dark_inputs() -> None:
    network = sl.FeedForward((4, 5, 3), activation="tanh", bias=True)
    allocation = sl.Allocation.whole(network, ["W1", "b1"])
    drawn = sl.draw(sl.Problem(network, samples=4), allocation)
    inputs = drawn.inputs.copy()
    inputs[1], inputs[3] = 0.0, -0.4  # two columns in which nothing varies
    _check([sl.Instance(network, allocation, drawn.weights, inputs, drawn.targets)])
    one = drawn.inputs[:, :1], drawn.targets[:, :1]
    _check([sl.Instance(network, allocation, drawn.weights, *one)])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("loss", ["squared error", "cross-entropy"])
def test_derivatives_of_the_losses_by_differences(loss: str) -> None:
    network = sl.FeedForward((64, 7, 10), activation="tanh", bias=True)
    problem = sl.Problem(network, samples=12, teacher=sl.Labels(sl.datasets.digits()))
    whole = sl.Allocation.whole(network)
    chosen = whole.select(RNG.choice(len(whole), 30, replace=False))
    objective = Objective([sl.draw(problem, chosen, trial=t) for t in (0, 1)], loss=loss)
    values = 0.3 * RNG.standard_normal((2, 30))
    tangent = RNG.standard_normal((2, 30))
    h = 1e-5
    ahead, behind = (objective.evaluate(values + s * h * tangent) for s in (1, -1))
    gradient, product = objective.gradient(values), objective.hvp(values, tangent)
    slope = (ahead.loss - behind.loss) / (2 * h)
    np.testing.assert_allclose(slope, (gradient * tangent).sum(axis=1), rtol=1e-7)
    bend = (ahead.gradient - behind.gradient) / (2 * h)
    np.testing.assert_allclose(bend, product, rtol=1e-5, atol=1e-8)


def test_cross_entropy_and_labels_written_out() -> None:
    network = sl.LinearEstimator(inputs=2, outputs=3)
    allocation = sl.Allocation.whole(network)
    inputs = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    targets = np.eye(3)[:, [0, 2, 1]]
    zero = {"W": np.zeros((3, 2))}
    instance = sl.Instance(network, allocation, zero, inputs, targets)
    objective = Objective(instance, loss="cross-entropy")
    w = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = objective.evaluate(w.reshape(1, -1))
    expected = 0.0
    for sample, label in enumerate((0, 2, 1)):
        y = [float(row @ inputs[:, sample]) for row in w]
        expected += np.log(sum(np.exp(v) for v in y)) - y[label]
    assert found.loss[0] == pytest.approx(expected / 3, rel=1e-14)
    # Sample 0: the label wins. Sample 1: outputs 0, 1, 1, a tie, so not right. Sample 2: label 1 loses.
    assert found.right is not None and found.right.tolist() == [1]
    assert objective.right(np.zeros((1, 6))).tolist() == [0]  # all outputs equal


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("mixed", [False, True])
def test_a_row_does_not_depend_on_its_batch(mixed: bool) -> None:
    instances = [sl.draw(PROBLEM, {"W1": sl.FirstRows(4, 7)}, trial=trial) for trial in range(3)]
    if mixed:  # one that learns in another layer
        last = sl.Allocation.whole(PROBLEM.network, ["W3"]).select(range(7))
        instances.append(sl.draw(PROBLEM, last, trial=3))
    else:
        instances.append(sl.draw(PROBLEM, {"W1": sl.FirstRows(4, 7)}, trial=3))
    together = Objective(instances, starts=3)
    values = RNG.standard_normal((together.batch, together.size))
    tangent = RNG.standard_normal(values.shape)
    found, product = together.evaluate_second(values, tangent)
    for number, instance in enumerate(instances):
        alone = Objective(instance)
        for start in range(3):
            row = 3 * number + start
            lonely, one = alone.evaluate_second(values[[row]], tangent[[row]])
            assert lonely.loss[0] == found.loss[row]
            assert (lonely.gradient[0] == found.gradient[row]).all()
            assert (one[0] == product[row]).all()
    kept = np.array([1, 4, 5, 11])
    part = together.select(kept)
    assert part.batch == 4 and part.instance_of.tolist() == [0, 1, 1, 3]
    assert (part.gradient(values[kept]) == found.gradient[kept]).all()


@pytest.mark.usefixtures("way")
def test_mini_batches_are_the_same_samples() -> None:
    instances = _instances(NETWORKS[3], 2, seed=4)  # a recurrent one
    objective = Objective(instances)
    values = RNG.standard_normal((2, objective.size))
    samples = np.array([[2, 0], [1, 1]])
    gradient = objective.at(samples).gradient(values)
    for row, instance in enumerate(instances):
        fewer = sl.Instance(
            instance.network,
            instance.allocation,
            instance.weights,
            instance.inputs[..., samples[row]],
            instance.targets[:, samples[row]],
        )
        expected = Objective(fewer).gradient(values[[row]])[0]
        np.testing.assert_allclose(gradient[row], expected, rtol=1e-12, atol=1e-14)


def test_single_precision_stays_single_and_close() -> None:
    network = sl.FeedForward((64, 80, 10), activation="relu")  # large enough to be folded
    problem = sl.Problem(network, samples=40, teacher=sl.Labels(sl.datasets.digits()))
    instance = sl.draw(problem, {"W1": sl.FirstRows(12)})
    double = Objective(instance, loss="cross-entropy")
    single = Objective(instance, loss="cross-entropy", dtype=np.float32)
    values = 0.1 * RNG.standard_normal((1, double.size))
    exact, rough = double.gradient(values), single.gradient(values.astype(np.float32))
    assert rough.dtype == np.float32 and single.dtype == np.float32
    assert np.linalg.norm(rough - exact) < 1e-5 * np.linalg.norm(exact)


def test_bad_requests() -> None:
    one = _instances(NETWORKS[9], 2, seed=0)
    other = _instances(NETWORKS[5], 1, seed=0)
    fewer = sl.draw(sl.Problem(NETWORKS[9], 3), sl.Allocation.whole(NETWORKS[9]).select([0]))
    bad: list[tuple[Any, dict[str, Any], str]] = [
        ([], {}, "non-empty"),
        ([*one, *other], {}, "share one network"),
        ([*one, fewer], {}, "as many learnable weights"),
        (one, {"loss": "hinge"}, "loss must be one of"),
        (one, {"loss": "cross-entropy"}, "labels"),
        (one, {"starts": 0}, "starts"),
        (one, {"dtype": np.int64}, "float64 or float32"),
    ]
    for instances, options, match in bad:
        with pytest.raises(sl.BadInputError, match=match) as caught:
            Objective(instances, **options)
        assert one_sentence(caught.value)
    objective = Objective(one)
    with pytest.raises(sl.BadInputError, match="values must have shape"):
        objective.loss(np.zeros((1, objective.size)))
    with pytest.raises(sl.BadInputError, match="no labels"):
        objective.right(np.zeros((2, objective.size)))
