"""JAX models under the same verbs, against torch and against jax.jacrev."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import sublearn as sl  # noqa: E402
import sublearn.models as sm  # noqa: E402
from sublearn._jax import enable_x64  # noqa: E402
from sublearn.models import FrozenWeightsMovedError, JaxTrainer  # noqa: E402
from sublearn.models._contest import Setup  # noqa: E402

jnp = jax.numpy


def _params(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "hidden": {"w": rng.standard_normal((4, 5)), "b": rng.standard_normal(5)},
        "out": [rng.standard_normal((5, 3)), rng.standard_normal(3)],
    }


def _apply(p: Any, x: Any) -> Any:
    return jnp.tanh(x @ p["hidden"]["w"] + p["hidden"]["b"]) @ p["out"][0] + p["out"][1]


def _inputs(samples: int = 6) -> Any:
    return np.random.default_rng(1).standard_normal((samples, 4))


def _dense(model: sm.JaxModel, x: Any) -> dict[str, Any]:
    with enable_x64()(True):
        found = jax.jacrev(lambda p: model.apply(p, x))(model.params)
        leaves = jax.tree_util.tree_flatten_with_path(found)[0]
        rows = x.shape[0] * 3
        return {
            name: np.asarray(leaf).reshape(rows, -1)
            for name, (_, leaf) in zip(model.shapes, leaves, strict=True)
        }


def test_the_three_sums() -> None:
    model, x = sm.JaxModel(_apply, _params()), _inputs()
    assert list(model.shapes) == ["hidden.b", "hidden.w", "out.0", "out.1"]
    J = _dense(model, x)
    found = sm.JaxDerivatives(model, x)
    rng = np.random.default_rng(0)
    R = rng.standard_normal(found.outputs.shape)
    masks = {n: rng.random(s) < 0.4 for n, s in model.shapes.items()}
    scores, squares = found.scores(R), found.squared_norms()
    for name, columns in J.items():
        assert np.abs(scores[name].ravel() - R.ravel() @ columns).max() < 1e-12
        assert np.abs(squares[name].ravel() - (columns**2).sum(0)).max() < 1e-12
    wanted = np.concatenate([J[n][:, masks[n].ravel()] for n in model.shapes], axis=1)
    assert np.abs(found.gather(masks) - wanted).max() < 1e-12


def test_chosen_outputs() -> None:
    model, x = sm.JaxModel(_apply, _params()), _inputs()
    J = _dense(model, x)["out.0"]
    places = np.array([[0], [1], [2], [0], [1], [2]])
    found = sm.JaxDerivatives(model, x, ["out.0"], outputs=places)
    rows = np.arange(6) * 3 + places[:, 0]
    assert np.abs(found.gather({"out.0": np.ones((5, 3), bool)}) - J[rows]).max() < 1e-12
    assert sm.JaxDerivatives(model, x, outputs=2).outputs.shape == (6, 2)


def test_audit() -> None:
    model, x = sm.JaxModel(_apply, _params()), _inputs(20)
    found = sm.audit(model, x, ["hidden.b", "out.1"], perturb=0)
    J = _dense(model, x)
    both = np.concatenate([J["hidden.b"], J["out.1"]], axis=1)
    assert found.rank == np.linalg.matrix_rank(both) == 8
    assert found.verdict == "ok" and found.precision == "double"
    tree = {"hidden": {"w": False, "b": True}, "out": [False, True]}
    assert sm.audit(model, x, tree, perturb=0).rank == found.rank
    assert sm.audit(sm.JaxModel(_apply, _params(), tree), x, perturb=0).rank == found.rank
    dead = _params()
    dead["out"][0][:] = 0
    assert sm.audit(sm.JaxModel(_apply, dead), x, ["hidden.w"]).verdict == "fail"


def test_a_network_of_ours_has_the_rank_that_certify_proves() -> None:
    net = sl.FeedForward((4, 5, 3))
    allocation = sl.Allocation.from_entries(
        net,
        {"W1": [(0, 0), (0, 1), (1, 2), (4, 3)], "W2": [(0, 0), (1, 1), (2, 2), (2, 4), (0, 3)]},
    )
    rng = np.random.default_rng(0)
    params = {n: rng.standard_normal(s) for n, s in net.shapes.items()}
    model = sm.JaxModel(lambda p, x: x @ p["W1"].T @ p["W2"].T, params)
    found = sm.audit(model, rng.standard_normal((3, 4)), allocation)
    assert found.rank == sl.certify(sl.Problem(net, samples=3), allocation).rank


def test_attach_trains_r_numbers() -> None:
    model, x = sm.JaxModel(_apply, jax.tree.map(jnp.float32, _params())), jnp.float32(_inputs())
    rng = np.random.default_rng(0)
    masks = {n: rng.random(s) < 0.3 for n, s in model.shapes.items()}
    tuned = sm.attach(model, masks)
    assert tuned.count == sum(int(m.sum()) for m in masks.values())

    def loss(values: Any) -> Any:
        return (tuned(values, x) ** 2).mean()

    def whole(params: Any) -> Any:
        return (_apply(params, x) ** 2).mean()

    values, params, tree = tuned.values, model.params, model.mask_tree(masks)
    for _ in range(5):
        assert abs(float(loss(values)) - float(whole(params))) < 1e-6
        values = jax.tree.map(lambda v, g: v - 0.1 * g, values, jax.grad(loss)(values))
        steps = jax.tree.map(lambda g, m: jnp.where(m, g, 0), jax.grad(whole)(params), tree)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, steps)
    sm.assert_frozen(model, sm.JaxModel(_apply, tuned.merge(values)), masks)


def _trained(rule: Any, params: Any, x: Any, steps: int = 3, masks: Any = None) -> Any:
    optax = pytest.importorskip("optax")

    def loss(p: Any) -> Any:
        return (_apply(p, x) ** 2).mean()

    state = rule.init(params)
    for _ in range(steps):
        grads = jax.grad(loss)(params)
        if masks is not None:
            grads = jax.tree.map(lambda g, m: jnp.where(m, g, 0), grads, masks)
        updates, state = rule.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    return params


CASES: dict[str, Callable[[Any], Any]] = {
    "adam": lambda o: o.adam(0.01),
    "adamw": lambda o: o.adamw(0.01, weight_decay=0.1),
    "sgd with momentum": lambda o: o.sgd(0.01, momentum=0.9),
    "lion": lambda o: o.lion(0.01),
}


@pytest.mark.parametrize("case", CASES)
def test_masked_leaves_frozen_entries_alone(case: str) -> None:
    optax = pytest.importorskip("optax")
    model, x = sm.JaxModel(_apply, jax.tree.map(jnp.float32, _params())), jnp.float32(_inputs())
    rng = np.random.default_rng(0)
    masks = {n: rng.random(s) < 0.3 for n, s in model.shapes.items()}
    model.params["out"][1] = jnp.array([-0.0, 0.0, 1.0], dtype=jnp.float32)
    masks["out.1"] = np.array([False, False, True])
    tree = model.mask_tree(masks)
    after = _trained(sm.masked(CASES[case](optax), tree), model.params, x)
    sm.assert_frozen(model.params, after, tree)
    assert all(
        np.all(np.asarray(a)[np.asarray(m)] != np.asarray(b)[np.asarray(m)])
        for a, b, m in zip(*map(jax.tree.leaves, (model.params, after, tree)), strict=True)
    )


def test_what_optax_does_on_its_own() -> None:
    """optax.masked lets frozen leaves climb the gradient; set_to_zero keeps them; decay moves all."""
    optax = pytest.importorskip("optax")
    params, x = jax.tree.map(jnp.float32, _params()), jnp.float32(_inputs())
    flags = {"hidden": {"w": True, "b": False}, "out": [True, False]}
    climbed = _trained(optax.masked(optax.sgd(0.01), flags), params, x, steps=1)
    with pytest.raises(FrozenWeightsMovedError, match=r"hidden\.b"):
        sm.assert_frozen(params, climbed, flags)
    grad = jax.grad(lambda p: (_apply(p, x) ** 2).mean())(params)
    moved = np.asarray(climbed["hidden"]["b"] - params["hidden"]["b"])
    assert np.allclose(moved, np.asarray(grad["hidden"]["b"]), atol=1e-6)  # up the gradient
    labels = jax.tree.map(lambda free: "train" if free else "freeze", flags)
    kept = optax.multi_transform(
        {"train": optax.adamw(0.01), "freeze": optax.set_to_zero()}, labels
    )
    sm.assert_frozen(params, _trained(kept, params, x), flags)
    rng = np.random.default_rng(0)
    masks = jax.tree.map(lambda leaf: rng.random(leaf.shape) < 0.3, params)
    sm.assert_frozen(params, _trained(optax.adam(0.01), params, x, masks=masks), masks)
    with pytest.raises(FrozenWeightsMovedError):
        sm.assert_frozen(params, _trained(optax.adamw(0.01), params, x, masks=masks), masks)
    with pytest.raises(sl.BadInputError, match="tree of booleans"):
        sm.masked(optax.adam(0.01), {"hidden": True}).init(params)


def test_equinox() -> None:
    eqx = pytest.importorskip("equinox")
    module = eqx.nn.MLP(4, 3, 5, 1, key=jax.random.PRNGKey(0))
    spec = jax.tree.map(lambda _: False, module)
    spec = eqx.tree_at(lambda m: (m.layers[-1].weight, m.layers[-1].bias), spec, (True, True))
    model = sm.JaxModel.from_equinox(module, spec)
    x = _inputs(12)
    found = sm.audit(model, x)
    assert [row.name for row in found.layers] == ["layers.1.bias", "layers.1.weight"] or [
        row.name for row in found.layers
    ] == ["layers.1.weight", "layers.1.bias"]
    assert found.count == 3 * 5 + 3 and found.rank == 18
    every = sm.JaxModel.from_equinox(module)
    assert sm.audit(every, x, ["layers.0.bias"]).count == 5
    frozen = jax.tree.map(lambda _: False, module)
    with pytest.raises(sl.BadInputError, match="leaves no parameter"):
        sm.JaxModel.from_equinox(module, frozen)


@pytest.mark.filterwarnings("ignore")
def test_flax() -> None:
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.Dense(3)(nn.tanh(nn.Dense(5)(x)))  # Dense_0 is the outer one

    net, x = Net(), _inputs(12)
    params = net.init(jax.random.PRNGKey(0), x)["params"]
    model = sm.JaxModel(lambda p, v: net.apply({"params": p}, v), params)
    found = sm.audit(model, x, ["Dense_0.kernel", "Dense_0.bias"])
    assert found.count == found.rank == 18
    assert sm.attach(model, ["Dense_0.bias"]).count == 3


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "a dict": (
        lambda: sm.audit(sm.JaxModel(lambda p, x: {"y": x, "z": x}, _params()), _inputs()),
        "apply must return an array, alone or as logits, not a dict of y, z",
    ),
    "a dict, to choose": (
        lambda: sm.choose(
            sm.JaxModel(lambda p, x: {"y": x}, _params()), _inputs(), np.zeros(6, int), 1
        ),
        "apply must return an array, alone or as logits, not a dict of y",
    ),
    "forward": (
        lambda: sm.audit(sm.JaxModel(_apply, _params()), _inputs(), forward=_apply),
        "forward is for torch models",
    ),
    "forward, to choose": (
        lambda: sm.choose(
            sm.JaxModel(_apply, _params()), _inputs(), np.zeros(6, int), 1, forward=_apply
        ),
        "forward is for torch models",
    ),
    "no parameters": (lambda: sm.JaxModel(_apply, {}), "no parameters"),
    "integers": (lambda: sm.JaxModel(_apply, {"n": np.arange(3)}), "floating-point"),
    "not a function": (lambda: sm.JaxModel(3, _params()), "apply must be a function"),
    "unknown name": (
        lambda: sm.audit(sm.JaxModel(_apply, _params()), _inputs(), ["hidden.v"]),
        "Did you mean",
    ),
    "nan": (
        lambda: sm.audit(sm.JaxModel(_apply, _params()), np.full((3, 4), np.nan)),
        "NaN or infinity",
    ),
    "samples meet": (
        lambda: sm.audit(
            sm.JaxModel(lambda p, x: _apply(p, x) - _apply(p, x).mean(0), _params()), _inputs()
        ),
        "changes with the other samples",
    ),
    "samples meet, to choose": (
        lambda: sm.choose(
            sm.JaxModel(lambda p, x: _apply(p, x).cumsum(0), _params()),
            _inputs(),
            np.zeros(len(_inputs()), int),
            1,
            method="magnitude",
        ),
        "changes with the other samples",
    ),
    "rows": (
        lambda: sm.audit(sm.JaxModel(lambda p, x: _apply(p, x).T, _params()), _inputs()),
        "one row per sample",
    ),
    "no model": (lambda: sm.attach(3), "must be a torch.nn.Module or a JaxModel|needs PyTorch"),
    "wrong width": (
        lambda: sm.audit(sm.JaxModel(_apply, _params()), np.zeros((6, 9))),
        r"could not be run on inputs of shape \(6, 9\)",
    ),
    "wrong width, to choose": (
        lambda: sm.choose(sm.JaxModel(_apply, _params()), np.zeros((6, 9)), np.zeros(6, int), 1),
        r"could not be run on inputs of shape \(6, 9\)",
    ),
    "outputs": (
        lambda: sm.audit(sm.JaxModel(_apply, _params()), _inputs(), outputs=[[5]] * 6),
        "outputs must lie within",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case: str) -> None:
    run, message = BAD[case]
    with pytest.raises(sl.BadInputError, match=message) as caught:
        run()
    assert "\n" not in str(caught.value)


def _task() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((48, 4))
    return (
        jax.tree.map(jnp.float32, _params()),
        np.float32(x),
        (x @ _params(1)["hidden"]["w"][:, :3]).argmax(1),
    )


def test_the_race() -> None:
    params, x, y = _task()
    model = sm.JaxModel(_apply, params)
    options: dict[str, Any] = {"rules": ["gradient", "last", "random", "pursuit"], "steps": 10}
    choice = sm.choose(model, x, y, 8, **options)
    assert choice.count == 8 and choice.method in options["rules"]
    assert choice == sm.choose(model, x, y, 8, **options)  # seeded
    assert choice.standings[0].rule == choice.method
    sm.assert_frozen(params, model.params, [])
    few = sm.choose(model, x[:10], y[:10], 4)
    assert few.method == "last" and "too few to race" in few.notes[0]
    # The outputs are affine in the last layer, which is how it is found.
    assert {n.split(".")[0] for n, m in few.masks.items() if m.any()} == {"out"}


def test_rules_against_their_definitions() -> None:
    params, x, y = _task()
    model = sm.JaxModel(_apply, params)

    def loss(p: Any, a: Any, b: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(_apply(p, a)), b[:, None], 1).mean()

    slopes = model.arrays(jax.grad(loss)(params, x, y))
    flat = np.concatenate([np.abs(slopes[n]).ravel() for n in model.shapes])
    chosen = sm.choose(model, x, y, 6, method="gradient").masks
    picked = np.concatenate([chosen[n].ravel() for n in model.shapes])
    assert set(np.flatnonzero(picked)) == set(np.argsort(-flat)[:6])
    squares = [
        model.arrays(jax.grad(loss)(params, x[i : i + 1], y[i : i + 1])) for i in range(len(x))
    ]
    fisher = np.concatenate([sum(s[n] ** 2 for s in squares).ravel() for n in model.shapes])
    chosen = sm.choose(model, x, y, 6, method="fisher").masks
    picked = np.concatenate([chosen[n].ravel() for n in model.shapes])
    assert set(np.flatnonzero(picked)) == set(np.argsort(-fisher)[:6])
    with pytest.raises(sl.BadInputError, match="labels must be classes from 0 to 2"):
        sm.choose(model, x, y + 1, 3)
    with pytest.raises(sl.BadInputError, match="budget"):
        sm.choose(model, x, y, 0)


def test_regression_and_limits() -> None:
    params, x, _ = _task()
    model = sm.JaxModel(_apply, params, ["out.0", "hidden.w"])
    y = np.float32(np.random.default_rng(2).standard_normal((48, 3)))
    choice = sm.choose(model, x, y, 5, rules=["gradient", "magnitude"], steps=5)
    assert choice.count == 5 and set(choice.masks) == {"out.0", "hidden.w"}


def test_learning_under_noise_takes_a_choice() -> None:
    """loss_geometry on the chosen entries: the gradient lives there and nowhere else."""
    params, x, y = _task()
    model = sm.JaxModel(_apply, params)
    choice = sm.choose(model, x, y, 7, method="gradient")

    def loss(p: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(_apply(p, x)), y[:, None], 1).mean()

    found = sl.noise.loss_geometry(loss, params, model.mask_tree(choice))
    slopes = model.arrays(jax.grad(loss)(params))
    chosen = np.concatenate([slopes[n][m] for n, m in choice.masks.items()])
    assert found.plastic == 7
    assert found.gradient_norm == pytest.approx(float(np.linalg.norm(chosen)), rel=1e-4)


def test_own_loss_step_metric_and_loop() -> None:
    params, x, y = _task()
    model = sm.JaxModel(_apply, params)
    options: dict[str, Any] = {"rules": ["gradient", "magnitude"], "steps": 5}

    def loss(outputs: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs), labels[:, None], 1).mean()

    def step(p: Any, a: Any, b: Any) -> Any:
        return loss(_apply(p, a), b)

    plain = sm.choose(model, x, y, 6, **options)
    for own in ({"loss": loss}, {"step": step}):
        found = sm.choose(model, x, y, 6, **options, **own)
        assert found.digest == plain.digest and found.rate == plain.rate
    assert plain.linearisation_error is not None and plain.passes > 0

    def twice(outputs: Any, labels: Any) -> float:
        return 2 * float((np.asarray(outputs).argmax(1) == np.asarray(labels)).mean())

    found = sm.choose(model, x, y, 6, **options, metric=twice)
    assert found.metric == "twice"
    assert found.standings[0].mean == pytest.approx(2 * plain.standings[0].mean)

    def loop(p: Any, masks: Any, a: Any, b: Any, rate: float) -> Any:
        slopes = model.arrays(jax.grad(step)(p, a, b))
        own = model.arrays(p)
        moved = {n: own[n] - rate * slopes[n] * masks[n] for n in own}
        return model.tree({n: jnp.asarray(v, dtype=own[n].dtype) for n, v in moved.items()})

    assert sm.choose(model, x, y, 6, **options, loop=loop).count == 6
    with pytest.raises(sl.BadInputError, match=r"loop moved .* that are not chosen"):
        sm.choose(model, x, y, 6, **options, loop=lambda p, *_: jax.tree.map(lambda v: v + 1, p))
    unlabelled = sm.choose(
        model, x, None, 6, rules=["gradient"], steps=2, step=lambda p, a, _: step(p, a, y[:1])
    )
    assert unlabelled.metric == "minus the loss"
    # What is in no gradient may be chosen, and one number may have a shape.
    apart = sm.JaxModel(lambda p, a: _apply(p["in"], a), {"in": params, "apart": jnp.ones(7)})
    for own in ({}, {"loss": lambda *given: loss(*given)[None]}):
        assert sm.choose(apart, x, y, 6, within="apart", rules=["random"], **own).count == 6
    # With a loop of one's own the loss is only looked at.
    plain_loss = sm.choose(model, x, y, 6, **options, loop=loop, loss=lambda *_: 0.5)
    assert plain_loss.count == 6


@pytest.mark.parametrize("method", ["gradient", "fisher", "last"])
@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda outputs, _: outputs, r"must return one number as an array of JAX, not shape \("),
        (lambda outputs, _: "low", "must return one number as an array of JAX, not str"),
        (lambda *_: None, "must return one number as an array of JAX, not NoneType"),
        (lambda *_: 3, "returned a number without a gradient: .* by jax.numpy alone"),
        (
            lambda outputs, _: (outputs.argmax(1) == 0).mean(),
            "returned a number without a gradient",
        ),
        (lambda _, labels: labels.mean(), "returned a number without a gradient"),
    ],
)
def test_a_loss_that_is_none_is_one_sentence(method: str, wrong: Any, words: str) -> None:
    params, x, y = _task()
    model = sm.JaxModel(_apply, params)
    by_step = {"step": lambda p, a, b: wrong(_apply(p, a), b)}
    for name, own in (("loss", {"loss": wrong}), ("step", by_step)):
        with pytest.raises(sl.BadInputError, match=f"{name} {words}") as caught:
            sm.choose(model, x, y, 6, method=method, rates=[0.1], steps=2, **own)
        assert caught.value.__cause__ is None


def test_a_score_that_is_no_number_is_the_worst() -> None:
    params, x, y = _task()
    model, nan = sm.JaxModel(_apply, params), float("nan")
    assert JaxTrainer(model, x, y, Setup(metric=lambda *_: nan)).evaluate(range(9))[0] == -np.inf
    unknown = JaxTrainer(model, x, None, Setup(step=lambda p, *_: nan * p["out"][1].sum()))
    assert unknown.evaluate(range(9)) == (-np.inf, np.inf)
    untuned = np.asarray(_apply(params, x))

    def better(outputs: Any, _: Any) -> float:
        """No number for whatever begins at rate 1; else how far the outputs have moved, if little."""
        far = float(np.abs(np.asarray(outputs)).max())
        return nan if far > 2 * float(np.abs(untuned).max()) else far

    found = sm.choose(model, x, y, 6, rules=["last"], rates=[30.0, 0.01], steps=3, metric=better)
    assert found.rate == 0.01 and np.isfinite(found.standings[0].mean)


def test_labels_that_only_a_loss_of_ones_own_reads() -> None:
    params, x, y = _task()
    model, several = sm.JaxModel(_apply, params), np.stack([y, y, y], 1) % 2

    def loss(outputs: Any, given: Any) -> Any:
        part = given["several"] if isinstance(given, dict) else given
        return jnp.square(outputs - part).mean()

    for labels in (several, {"several": several}):
        found = sm.choose(model, x, labels, 4, method="gradient", loss=loss, steps=2)
        assert found.metric == "minus the loss" and found.count == 4
    with pytest.raises(sl.BadInputError, match="must have shape"):
        sm.choose(model, x, several, 4, method="gradient")
    with pytest.raises(sl.BadInputError, match="as many as the samples"):
        sm.choose(model, x, several[:5], 4, method="gradient", loss=loss)


def test_the_comparison_and_a_race_that_goes_on(tmp_path: Path) -> None:
    params, x, y = _task()
    model = sm.JaxModel(_apply, params)
    found = sm.compare(model, x, y, [4], methods=["race", "last", "random"], seeds=2, steps=3)
    assert found.methods == ["race", "last", "random"] and len(found.scores("last", 4)) == 2
    told = sm.compare(model, x, y, 4, methods=["last"], seeds=1, steps=3, test=(x[:9], y[:9]))
    assert 0 <= told.scores("last", 4)[0] <= 1
    file = tmp_path / "race.jsonl"
    options: dict[str, Any] = {"rules": ["last", "random"], "steps": 3, "resume": file}
    first = sm.choose(model, x, y, 4, **options)
    lines = file.read_text().splitlines()
    assert sm.choose(model, x, y, 4, **options) == first
    assert file.read_text().splitlines() == lines
    with pytest.raises(sl.BadInputError, match="another race"):
        sm.choose(model, x + 1, y, 4, **options)
    other = sm.JaxModel(lambda p, x: 2 * _apply(p, x), params)
    with pytest.raises(sl.BadInputError, match="another race"):
        sm.choose(other, x, y, 4, **options)


def _computing_in(kind: str | None) -> sm.JaxModel:
    """Single precision outside, another within; its last layer comes first in the tree."""

    def apply(p: Any, x: Any) -> Any:
        if kind is not None:
            p, x = jax.tree.map(lambda leaf: leaf.astype(kind), (p, x))
        out = jnp.tanh(x @ p["z"]) @ p["a"] + p["b"] + p["c"]
        return out if kind is None else out.astype(jnp.float32)

    given = {"a": _params()["out"][0], "b": np.ones(3), "c": np.ones(3)}
    return sm.JaxModel(apply, jax.tree.map(jnp.float32, {**given, "z": _params()["hidden"]["w"]}))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_models_that_compute_in_a_type_of_their_own(kind: str) -> None:
    model, x = _computing_in(kind), np.float32(_inputs(30))
    labels = np.arange(30) % 3
    if kind == "float32":  # b and c do the same; in the rounding of float32 it is told
        found = sm.audit(model, x)
        assert (found.rank, found.count, found.precision) == (38, 41, "single")
    else:
        with pytest.raises(sl.BadInputError, match=r"half precision .* float32 or float64"):
            sm.audit(model, x)
    reference = sm.choose(_computing_in(None), x, labels, 3, method="pursuit").masks
    found = sm.choose(model, x, labels, 3, method="pursuit")
    assert all(np.array_equal(found.masks[name], mask) for name, mask in reference.items())
    assert not sm.choose(model, x, labels, 18, method="last").masks["z"].any()


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_half_precision_is_summed_in_single(kind: str) -> None:
    whole = {"w": np.float32([1.0, 0.5])}
    x = np.ones((3000, 2), np.float32) * [1.0, 1e-4]

    def trainer(tree: Any) -> Any:
        model = sm.JaxModel(lambda p, v: (v * p["w"]).sum(1, keepdims=True), tree)
        return JaxTrainer(model, x, np.zeros((3000, 1)))

    half, single = trainer({"w": jnp.asarray(whole["w"], kind)}), trainer(whole)
    ids = np.arange(3000)
    ours, theirs = (t.view(ids, 0) for t in (half, single))
    np.testing.assert_allclose(
        ours.squared_gradients["w"], theirs.squared_gradients["w"], rtol=0.02
    )
    np.testing.assert_allclose(ours.gradient["w"], theirs.gradient["w"], rtol=0.02)
    assert ours.weights["w"].dtype == np.float32
    mask = {"w": np.array([True, True])}
    with half.tuned(mask, ids, 0.01), single.tuned(mask, ids, 0.01):
        # Steps far below the rounding of the weights add up; of the second, 0.3 to 0.4 of it.
        np.testing.assert_allclose(half.entries(mask), single.entries(mask), atol=0.01)
        assert half.params["w"].dtype == kind


def test_attached_numbers_are_of_a_type_that_jax_has() -> None:
    model = sm.JaxModel(_apply, _params())  # float64 of numpy: float32, unless jax_enable_x64
    assert {str(v.dtype) for v in sm.attach(model).values.values()} == {"float32"}
    with enable_x64()(True):
        assert {str(v.dtype) for v in sm.attach(model).values.values()} == {"float64"}


def test_labels_that_are_left_out() -> None:
    """In choosing as if the samples were not there, and nothing is wanted of them in an audit."""
    x, y = np.float32(_inputs(12)), np.arange(12) % 3
    model = sm.JaxModel(_apply, jax.tree.map(jnp.float32, _params()))
    some, part = np.where(np.arange(12) < 8, y, -100), np.arange(8)
    ours, theirs = JaxTrainer(model, x, some), JaxTrainer(model, x[:8], y[:8])
    both = ours.view(np.arange(12), 0), theirs.view(part, 0)
    for name in model.shapes:
        for sums in ("gradient", "squared_gradients"):
            one, other = (getattr(view, sums)[name] for view in both)
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert ours.evaluate(np.arange(12)) == pytest.approx(theirs.evaluate(part))
    assert not both[0].target[8:].any()
    # Sequences have no class here: choose says so, an audit takes a label per position.
    steps = sm.JaxModel(lambda p, v: v @ p["w"], {"w": np.ones((4, 3), np.float32)})
    series, at = np.float32(_inputs(24)).reshape(6, 4, 4), np.tile([0, 1, 2, -100], (6, 1))
    with pytest.raises(sl.BadInputError, match="one row of outputs per sample"):
        sm.choose(steps, series, at, 2)
    assert sm.audit(steps, series, None, at).reachable is not None
    assert (JaxTrainer(model, x, some)._loss(model.params, x, np.full(12, -100))) == 0


def test_outputs_among_others() -> None:
    x, y = np.float32(_inputs(12)), np.arange(12) % 3
    params = jax.tree.map(jnp.float32, _params())
    plain = sm.JaxModel(_apply, params)
    named = sm.JaxModel(lambda p, v: {"hidden": v, "logits": _apply(p, v)}, params)
    assert sm.audit(named, x, None, y).to_json() == sm.audit(plain, x, None, y).to_json()
    found, wanted = (sm.choose(m, x, y, 5, method="pursuit") for m in (named, plain))
    assert found == wanted
    assert set(sm.attach(named, found)(sm.attach(named, found).values, x)) == {"hidden", "logits"}


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64"])
def test_a_delta_goes_through_a_file(kind: str, tmp_path: Path) -> None:
    with enable_x64()(kind == "float64"):
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, kind), _params())
        model, x = sm.JaxModel(_apply, params), jnp.asarray(_inputs(), kind)
        masks = {"hidden.w": np.random.default_rng(0).random((4, 5)) < 0.4, "out.1": True}
        tuned = sm.attach(model, masks)
        values = {n: v + 0.25 * jnp.arange(len(v), dtype=v.dtype) for n, v in tuned.values.items()}
        file = tmp_path / "delta.npz"
        tuned.save(file, values)
        again = sm.load_delta(sm.JaxModel(_apply, params), file)
        assert again.count == tuned.count
        for name, value in values.items():
            assert np.array_equal(again.values[name], value)
            assert again.values[name].dtype == value.dtype
        assert np.array_equal(again(again.values, x), tuned(values, x))
        with pytest.raises(sl.BadInputError, match=r"other base weights: hidden\.w differs"):
            sm.load_delta(sm.JaxModel(_apply, jax.tree.map(lambda leaf: leaf + 1, params)), file)
        for wrong in ({"out.1": values["out.1"]}, {**values, "out.1": jnp.zeros(9)}):
            with pytest.raises(sl.BadInputError, match="values must be of the names and shapes"):
                tuned.save(file, wrong)


def test_a_delta_of_torch_fits_the_same_model_in_jax(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    layer, x = torch.nn.Linear(4, 3), np.float32(_inputs())
    params = {name: p.detach().numpy().copy() for name, p in layer.named_parameters()}
    tuned = sm.attach(layer, ["bias"])
    with torch.no_grad():
        next(tuned.parameters()).copy_(torch.tensor([1.0, 2.0, 3.0]))
    tuned.save(tmp_path / "delta.npz")
    model = sm.JaxModel(lambda p, v: v @ p["weight"].T + p["bias"], params)
    found = sm.load_delta(model, tmp_path / "delta.npz")
    np.testing.assert_allclose(
        found(found.values, x), layer(torch.tensor(x)).detach(), rtol=1e-5, atol=1e-6
    )


def test_in_double_precision_throughout() -> None:
    """With jax_enable_x64, on float64 and on float32: the choices of float32, and the same rank."""
    x, y = _inputs(30), np.arange(30) % 3

    def results(kind: str) -> Any:
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, kind), _params())
        model, given = sm.JaxModel(_apply, params), jnp.asarray(x, kind)
        report = sm.audit(model, given, None, y)
        chosen = [sm.choose(model, given, y, 6, method=m) for m in ("pursuit", "fisher")]
        assert model.params["out"][0].dtype == kind
        return [c.digest for c in chosen], report.rank, report.precision

    plain = results("float32")
    with enable_x64()(True):
        assert results("float64") == results("float32") == plain
