"""choose and compare on torch models: rules against their definitions, nothing left moved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="sublearn.models is tested where torch is installed")

from models.dense import DenseDerivatives  # noqa: E402
from models.layers import KINDS, dense_jacobian, make  # noqa: E402
from sublearn import BadInputError  # noqa: E402
from sublearn.models import _view, attach, audit, guard  # noqa: E402
from sublearn.models._choose import choose  # noqa: E402
from sublearn.models._compare import compare  # noqa: E402
from sublearn.models._contest import Setup  # noqa: E402
from sublearn.models._derivatives import Derivatives  # noqa: E402
from sublearn.models._limits import Limits  # noqa: E402
from sublearn.models._pursuit import pursue, wanted_change  # noqa: E402
from sublearn.models._rules import RULES, Setting, apply_rule  # noqa: E402
from sublearn.models._trainer import TorchTrainer  # noqa: E402
from sublearn.models._view import TorchView  # noqa: E402

nn, functional = torch.nn, torch.nn.functional


def mlp(seed: int = 0, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(seed)
    layers = (
        nn.Linear(5, 8),
        nn.Tanh(),
        nn.LayerNorm(8),
        nn.Linear(8, 6),
        nn.Tanh(),
        nn.Linear(6, 3),
    )
    return nn.Sequential(*layers).to(dtype)


def samples(seed: int = 1, count: int = 30, dtype: Any = torch.float32) -> tuple[Any, Any]:
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 5, generator=draws, dtype=dtype)
    return inputs, (inputs @ torch.randn(5, 3, generator=draws, dtype=dtype)).argmax(1)


class Characters(nn.Module):
    """Embedding, a recurrent weight used at every step, LayerNorm, and a head tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.mix = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, codes: Any) -> Any:
        state = self.embed(codes)
        for _ in range(2):
            state = state + torch.tanh(self.mix(state.cumsum(1)))
        return self.head(self.norm(state))


class Images(nn.Module):
    """Convolution, group normalisation and attention, with a parameter of its own beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.places = nn.Parameter(torch.randn(16, 4) * 0.1)
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.rms = nn.RMSNorm(4)
        self.head = nn.Linear(4, 3)

    def forward(self, images: Any) -> Any:
        state = self.norm(torch.relu(self.conv(images))).flatten(2).transpose(1, 2) + self.places
        state = state + self.attend(state, state, state, need_weights=False)[0]
        return self.head(self.rms(state).mean(1))


def dense(model: Any, inputs: Any) -> tuple[DenseDerivatives, Any]:
    """J row by row, by the backward pass of one output at a time."""
    named = dict(model.named_parameters())
    outputs = model(inputs)
    rows = []
    for value in outputs.flatten():
        found = torch.autograd.grad(
            value, list(named.values()), retain_graph=True, allow_unused=True
        )
        parts = [
            torch.zeros(weight.numel(), dtype=weight.dtype) if part is None else part.flatten()
            for weight, part in zip(named.values(), found, strict=True)
        ]
        rows.append(torch.cat(parts).numpy())
    shapes = {name: tuple(value.shape) for name, value in named.items()}
    values = outputs.detach().flatten(1).numpy()
    return DenseDerivatives(np.stack(rows), shapes, values), outputs


def setting_of(model: Any, inputs: Any, labels: Any, budget: int, **limits: Any) -> Setting:
    trainer = TorchTrainer(model, inputs, labels)
    shapes = {name: tuple(value.shape) for name, value in trainer.free.items()}
    view = TorchView(trainer, torch.arange(trainer.samples))
    return Setting(view, budget, Limits(shapes, **limits), np.random.default_rng(0))


@pytest.mark.parametrize("budget", [7, 40])
@pytest.mark.parametrize("kind", ["mlp", "images", "characters"])
def test_pursuit_chooses_what_a_dense_reference_does(kind: str, budget: int) -> None:
    torch.manual_seed(3)
    double = torch.float64
    if kind == "mlp":
        model, (inputs, labels) = mlp(dtype=double), samples(dtype=double)
    elif kind == "images":
        model = Images().to(double)
        inputs, labels = torch.randn(12, 1, 4, 4, dtype=double), torch.arange(12) % 3
    else:
        model = Characters().to(double)
        inputs, labels = torch.randint(7, (10, 4)), torch.randint(7, (10, 4))
    setting = setting_of(model, inputs, labels, budget)
    reference, outputs = dense(model, inputs)
    flat = outputs.reshape(-1, outputs.shape[-1]).detach().numpy()
    target = wanted_change(flat, labels=labels.flatten().numpy()).reshape(reference.outputs.shape)
    expected = pursue(reference, target, budget, setting.limits)
    found = apply_rule("pursuit", RULES["pursuit"], setting)
    for name, mask in expected.masks.items():
        assert (found.masks[name] == mask).all(), name
    assert found.gap == pytest.approx(expected.gap, rel=1e-6)


# The layers whose derivatives docs/models/audit.md says to come from passes over the whole batch.
NAMED = {
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.Embedding,
    nn.MultiheadAttention, nn.RNN, nn.LSTM, nn.GRU,
}  # fmt: skip


def test_every_kind_of_layer_is_among_the_models() -> None:
    models = {kind: make(kind)[0] for kind in KINDS}
    assert {type(module) for model in models.values() for module in model.modules()} >= NAMED
    tied = models["language"]
    assert tied.head.weight is tied.tokens.weight
    assert "attention" in models  # scaled_dot_product_attention, written out


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("at_once", [None, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_pursuit_on_every_kind_of_layer(kind: str, at_once: int | None) -> None:
    """Entry by entry what a whole Jacobian of float64 chooses, but for weights with equal columns."""
    model, inputs = make(kind)
    found = Derivatives(model, inputs, samples_at_once=at_once)
    J = np.concatenate([dense_jacobian(model, inputs)[n] for n in found.shapes], axis=1)
    reference = DenseDerivatives(J, found.shapes, found.outputs)
    target = np.random.default_rng(0).standard_normal(found.outputs.shape)
    alike = np.unique(J.round(9) + 0.0, axis=1, return_inverse=True)[1].reshape(-1)
    for budget in (3, 20):
        chosen = [pursue(d, target, budget, Limits(found.shapes)) for d in (found, reference)]
        ours, theirs = (
            alike[np.concatenate([c.masks[n].reshape(-1) for n in found.shapes])] for c in chosen
        )
        assert len(ours) == budget and np.array_equal(np.sort(ours), np.sort(theirs))
        assert chosen[0].residuals == pytest.approx(chosen[1].residuals, rel=1e-6)


@pytest.mark.parametrize("at_once", [1, 4, 30])
def test_the_same_choice_on_any_chunk_size(at_once: int) -> None:
    model, (inputs, labels) = mlp(dtype=torch.float64), samples(dtype=torch.float64)
    found = Derivatives(model, inputs, samples_at_once=at_once)
    target = wanted_change(found.outputs, labels=labels.numpy())
    masks = pursue(found, target, 25, Limits(found.shapes)).masks
    expected = pursue(dense(model, inputs)[0], target, 25, Limits(found.shapes)).masks
    assert all((masks[name] == mask).all() for name, mask in expected.items())


def test_many_samples_go_through_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (inputs, labels) = mlp(dtype=torch.float64), samples(dtype=torch.float64)
    whole = setting_of(model, inputs, labels, 5).gradient
    monkeypatch.setattr(_view, "PART", 7)
    parts = setting_of(model, inputs, labels, 5).gradient
    for name, value in whole.items():
        assert parts[name] == pytest.approx(value, abs=1e-12)


def test_weights_cannot_be_changed_by_a_rule() -> None:
    model, (inputs, labels) = mlp(), samples()
    with pytest.raises(ValueError, match="read-only"):
        setting_of(model, inputs, labels, 5).weights["0.weight"][0, 0] = 1.0


def test_bfloat16_steps_are_summed_in_single_precision() -> None:
    model, (inputs, labels) = mlp().to(torch.bfloat16), samples()
    inputs = inputs.to(torch.bfloat16)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trainer = TorchTrainer(model, inputs, labels, Setup(steps=40))
    masks = {"5.weight": np.ones((3, 6), bool)}
    # Each step is far below half a unit in the last place of most weights; their sum is not.
    with trainer.tuned(masks, torch.arange(30), 2e-4):
        assert not torch.equal(model[5].weight, before["5.weight"])
        assert torch.equal(model[3].weight, before["3.weight"])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squared_gradients_of_half_precision_do_not_vanish(dtype: Any) -> None:
    """Gradients of 1e-4 have squares of 1e-8, which float16 does not hold."""
    model, (inputs, labels) = mlp().to(dtype), samples()
    with torch.no_grad():
        model[5].weight.mul_(0.001)
    half = setting_of(model, inputs.to(dtype), labels, 5).view
    found, gradient = half.squared_gradients, half.gradient
    wide = setting_of(model.double(), inputs.to(dtype).double(), labels, 5).view
    for name, expected in wide.squared_gradients.items():
        assert np.abs(found[name] - expected).max() < 0.05 * expected.max(), name
        assert (
            np.abs(gradient[name] - wide.gradient[name]).max()
            < 0.05 * np.abs(wide.gradient[name]).max()
        ), name


def test_rules_against_their_definitions() -> None:
    model, (inputs, labels) = mlp(), samples()
    named = dict(model.named_parameters())
    budget = 20

    def flat(values: Mapping[str, Any]) -> Any:
        return torch.cat([values[name].detach().flatten() for name in named])

    loss = functional.cross_entropy(model(inputs), labels)
    gradient = flat(dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True)))
    weight = flat(named)

    def one(given: Any, x: Any, y: Any) -> Any:
        outputs = torch.func.functional_call(model, given, (x[None],))
        return functional.cross_entropy(outputs, y[None])

    held = {name: value.detach() for name, value in named.items()}
    each = torch.func.vmap(torch.func.grad(one), (None, 0, 0))(held, inputs, labels)
    fisher = flat({name: value.square().sum(0) for name, value in each.items()})
    expected = {
        "gradient": gradient.abs(),
        "fisher": fisher,
        "weight-times-gradient": (weight * gradient).abs(),
        "gradient-over-weight": gradient.abs() / (weight.abs() + 1e-8),
        "large-gradient-small-weight": gradient.abs().argsort().argsort()
        - weight.abs().argsort().argsort(),
        "magnitude": weight.abs(),
    }
    for name, score in expected.items():
        found = apply_rule(name, RULES[name], setting_of(model, inputs, labels, budget))
        mask = torch.cat([torch.from_numpy(found.masks[key]).flatten() for key in named])
        assert int(mask.sum()) == budget
        least, most = score[mask].min(), score[~mask].max()
        assert least >= most - 1e-6 * abs(most), name


def test_the_last_layers() -> None:
    model, (inputs, labels) = mlp(), samples()
    for name in ("last", "last-by-gradient"):
        few = apply_rule(name, RULES[name], setting_of(model, inputs, labels, 9)).masks
        assert few["5.weight"].sum() + few["5.bias"].sum() == 9
        # 21 entries are in the last layer, 54 in the one before it.
        more = apply_rule(name, RULES[name], setting_of(model, inputs, labels, 30)).masks
        assert more["5.weight"].all() and more["5.bias"].all()
        assert more["3.weight"].sum() + more["3.bias"].sum() == 9
    biases = apply_rule("biases", RULES["biases-and-gains"], setting_of(model, inputs, labels, 200))
    assert biases.count == 8 + 8 + 8 + 6 + 3
    assert not any(biases.masks[f"{layer}.weight"].any() for layer in (0, 3, 5))
    tied = Characters()
    codes = torch.randint(7, (8, 4))
    masks = apply_rule("last", RULES["last"], setting_of(tied, codes, codes.flip(1), 5)).masks
    assert masks["embed.weight"].sum() == 5  # the head is the embedding, under its first name


def test_pivoted_qr_is_better_conditioned_than_chance() -> None:
    model, (inputs, labels) = mlp(dtype=torch.float64), samples(dtype=torch.float64)
    setting = setting_of(model, inputs, labels, 40)

    def smallest(rule: str) -> float:
        masks = apply_rule(rule, RULES[rule], setting).masks
        values = np.linalg.svd(setting.view.derivatives.gather(masks), compute_uv=False)
        assert len(values) == 40
        return float(values[-1])

    assert smallest("pivoted-qr") > max(smallest("random") for _ in range(20))
    # 139 entries, of rank below 90: where the rank is used up, the rest follows all the same.
    most = setting_of(model, inputs, labels, 120)
    assert apply_rule("pivoted-qr", RULES["pivoted-qr"], most).count == 120


def bits(model: Any) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in model.state_dict().items()}


def test_the_race_is_seeded_and_leaves_the_model_alone(tmp_path: Path) -> None:
    model, (inputs, labels) = mlp(), samples(count=40)
    model.train()
    before = bits(model)
    model[3].weight.requires_grad_(False)
    rules = ["pursuit", "gradient", "last", "random"]
    settings: dict[str, Any] = {"rules": rules, "rates": [0.03, 0.3], "steps": 8, "seed": 5}
    choice = choose(model, inputs, labels, 12, **settings)
    assert bits(model) == before
    assert model.training and all(module.training for module in model.modules())
    assert not model[3].weight.requires_grad and model[5].weight.requires_grad
    assert choice.count == 12 and "3.weight" not in choice.masks
    assert choice.method in rules and choice.rate in (0.03, 0.3)
    assert {row.rule for row in choice.standings} == set(rules)
    assert [len(choice.standings[0].scores), choice.metric] == [3, "accuracy"]
    assert choice == choose(model, inputs, labels, 12, **settings)
    resumed = choose(model, inputs, labels, 12, **settings, resume=tmp_path / "race.jsonl")
    lines = (tmp_path / "race.jsonl").read_text().splitlines()
    assert resumed == choice
    assert len(lines) == 1 + 8 + 4 + 4
    (tmp_path / "race.jsonl").write_text("\n".join(lines[:7]) + "\n")
    assert choose(model, inputs, labels, 12, **settings, resume=tmp_path / "race.jsonl") == choice
    with pytest.raises(BadInputError, match="belongs to another race"):
        choose(model, inputs, labels, 13, **settings, resume=tmp_path / "race.jsonl")
    model[0].bias.requires_grad_(False)  # what is frozen decides the outcomes too
    choose(model, inputs, labels, 12, **settings, resume=tmp_path / "frozen.jsonl")
    model[0].bias.data += 1
    with pytest.raises(BadInputError, match="another race"):
        choose(model, inputs, labels, 12, **settings, resume=tmp_path / "frozen.jsonl")


def weighed(share: float) -> Any:
    return lambda outputs, labels: share * functional.cross_entropy(outputs, labels)


def by_size(sign: int) -> Any:
    def rule(setting: Setting) -> Any:
        return {name: sign * abs(weight) for name, weight in setting.weights.items()}

    return rule


class Scaled(nn.Module):
    def __init__(self, scale: float, bend: Any = torch.tanh) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.scale, self.bend = nn.Linear(5, 3), scale, bend

    def forward(self, inputs: Any) -> Any:
        return self.scale * self.bend(self.layer(inputs))


def relu_mlp() -> Any:
    model = mlp()
    model[1] = nn.ReLU()  # the same weights by the same names
    return model


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({}, {"model": relu_mlp}),
        ({"model": lambda: Scaled(1.0)}, {"model": lambda: Scaled(2.0)}),
        ({"model": lambda: Scaled(1.0)}, {"model": lambda: Scaled(1.0, torch.relu)}),
        ({}, {"at_most": 9}),
        ({}, {"at_most": {"5": 9}}),
        ({"at_most": 9}, {"at_most": 9, "required": {"5.bias": np.array([True, False, False])}}),
        ({}, {"labels": (samples()[1] + 1) % 3}),
        ({}, {"inputs": samples()[0] + 1}),
        ({}, {"seed": 1}),
        ({}, {"folds": 4}),
        ({}, {"batch": 5}),
        ({"loss": weighed(1.0)}, {"loss": weighed(2.0)}),
        ({"loss": nn.CrossEntropyLoss()}, {"loss": nn.CrossEntropyLoss(label_smoothing=0.1)}),
        ({"rules": [by_size(1), "last"]}, {"rules": [by_size(-1), "last"]}),
    ],
)  # fmt: skip
def test_a_race_goes_on_from_its_own_record_alone(
    tmp_path: Path, first: dict[str, Any], other: dict[str, Any]
) -> None:
    inputs, labels = samples()

    def ask(change: dict[str, Any]) -> Any:
        asked = {"model": mlp, "inputs": inputs, "labels": labels, "budget": 12, "steps": 2}
        asked |= {"rules": ["last", "magnitude"], "rates": [0.1], "resume": tmp_path / "race.jsonl"}
        asked |= change
        return choose(asked.pop("model")(), **asked)

    once = ask(first)
    assert ask(first) == once
    with pytest.raises(BadInputError, match="belongs to another race"):
        ask(other)


def test_a_tuning_run_is_masked_gradient_descent() -> None:
    """Our Adam on the chosen entries against torch's on all of them with masked gradients."""
    model, (inputs, labels) = mlp(), samples()
    trainer = TorchTrainer(model, inputs, labels, Setup(steps=15))
    rng = np.random.default_rng(0)
    masks = {name: rng.random(tuple(p.shape)) < 0.3 for name, p in model.named_parameters()}
    with trainer.tuned(masks, torch.arange(30), 0.05):
        found = {name: value.clone() for name, value in model.state_dict().items()}
    other = mlp()
    optimizer = torch.optim.Adam(other.parameters(), 0.05)
    for step in range(15):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 * (1 - step / 15)
        optimizer.zero_grad()
        functional.cross_entropy(other(inputs), labels).backward()
        for name, parameter in other.named_parameters():
            parameter.grad *= torch.from_numpy(masks[name])
        optimizer.step()
    for name, value in other.state_dict().items():
        assert torch.allclose(found[name], value, atol=1e-5), name
        assert torch.equal(found[name][~torch.from_numpy(masks[name])],
                           model.state_dict()[name][~torch.from_numpy(masks[name])])  # fmt: skip


def test_the_linearisation_error() -> None:
    model, (inputs, labels) = mlp(dtype=torch.float64), samples(dtype=torch.float64)
    last = choose(model, inputs, labels, 10, rules=["last"], rates=[0.1], steps=20)
    assert last.linearisation_error == pytest.approx(0.0, abs=1e-12)  # outputs are linear in it
    first = choose(model, inputs, labels, 10, rules=["gradient"], within="0", rates=[0.3], steps=20)
    assert first.linearisation_error is not None and first.linearisation_error > 1e-3


def test_weights_that_take_no_part_can_be_chosen() -> None:
    """Of a rule that looks at weights alone, or within such a layer: no gradient, and no error."""

    class Aside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out, self.aside = nn.Linear(5, 3), nn.Linear(5, 3)

        def forward(self, x: Any) -> Any:
            return self.out(x)

    inputs, labels = samples()
    fixed: dict[str, Any] = {"rates": [0.1], "steps": 2, "within": "aside"}
    assert choose(Aside(), inputs, labels, 4, **fixed).layers[0]["layer"].startswith("aside")
    whole: list[bool] = []  # whether a step was asked with a gradient in every weight

    def step(given: Any, x: Any, y: Any) -> Any:
        whole.append(torch.is_grad_enabled() and all(p.requires_grad for p in given.parameters()))
        return functional.cross_entropy(given(x), y)

    loss = functional.cross_entropy
    for own in ({}, {"loss": loss}, {"step": step}):
        for frozen in (False, True):
            model = Aside()
            model.out.requires_grad_(not frozen)
            for rules in (["gradient"], ["last", "random"]):
                whole.clear()
                found = choose(model, inputs, labels, 4, rules=rules, **fixed, **own)
                assert found.layers[0]["layer"].startswith("aside")
            assert model.aside.bias.requires_grad and model.out.bias.requires_grad is not frozen
            assert not whole or sum(whole) == 1 < len(whole)  # which is found out once
    with pytest.raises(BadInputError, match="step returned a number without a gradient"):
        choose(Aside(), inputs, labels, 4, **fixed, step=lambda m, x, y: m(x).detach().mean())


def test_own_loss_step_loop_and_metric() -> None:
    model, (inputs, labels) = mlp(), samples(count=40)
    fixed: dict[str, Any] = {"rules": ["last", "random"], "rates": [0.1], "steps": 5}
    ours = choose(model, inputs, labels, 9, **fixed)
    by_loss = choose(model, inputs, labels, 9, **fixed, loss=functional.cross_entropy)
    by_step = choose(
        model, inputs, labels, 9, **fixed, step=lambda m, x, y: functional.cross_entropy(m(x), y)
    )
    assert ours == by_loss == by_step
    seen: list[float] = []

    def loop(given: Any, masks: Mapping[str, Any], x: Any, y: Any, rate: float) -> None:
        seen.append(rate)
        with torch.no_grad():
            for name, parameter in given.named_parameters():
                parameter[torch.from_numpy(masks[name])] += rate

    before = bits(model)
    looped = choose(model, inputs, labels, 9, **fixed, loop=loop)
    assert seen and bits(model) == before and looped.count == 9

    def stray(given: Any, masks: Any, x: Any, y: Any, rate: float) -> None:
        with torch.no_grad():
            given[0].weight += 1.0

    with pytest.raises(BadInputError, match=r"loop moved 4\d entries of 0.weight|loop moved"):
        choose(model, inputs, labels, 9, rules=["last"], rates=[0.1], loop=stray)
    assert bits(model) == before

    def share_of_first(outputs: Any, _: Any) -> float:
        return float((outputs.argmax(1) == 0).float().mean())

    how = Setup(metric=lambda *_: float("nan"))
    assert TorchTrainer(model, inputs, labels, how).evaluate(range(9))[0] == -np.inf  # the worst
    own = choose(model, inputs, labels, 9, **fixed, metric=share_of_first)
    assert own.metric == "share_of_first"
    alone = choose(model, inputs, None, 9, **fixed, step=lambda m, x, y: m(x).square().mean())
    assert alone.metric == "minus the loss" and alone.count == 9
    told = compare(
        model, inputs, None, 9, methods=["last"], rates=[0.1], steps=2, seeds=1,
        test=(inputs, None), step=lambda m, x, y: m(x).square().mean(),
    )  # fmt: skip
    assert told.results[0].metric == "minus the loss"


OWN_LABELS: dict[str, Any] = {
    "several classes": torch.arange(120).reshape(40, 3) % 2,
    "pairs": torch.ones(40, 2),
    "classes beyond": torch.arange(40),
    "a tuple": (torch.arange(40), torch.ones(40, 2)),
    "a dict": {"mean": torch.ones(40), "names": ["a"] * 40},
    "words": ["a", "b"] * 20,
    "an array of words": np.array(["a", "b"] * 20),
    "things": [{"box": [i] * (i % 3)} for i in range(40)],
    "complex numbers": torch.ones(40, 3, dtype=torch.complex64),
    "unknown numbers": torch.full((40, 3), torch.nan),
}


@pytest.mark.parametrize("form", OWN_LABELS)
def test_labels_that_only_a_loss_of_ones_own_reads(form: str) -> None:
    model, (inputs, _) = mlp(), samples(count=40)
    labels = OWN_LABELS[form]
    kinds = set()

    def loss(outputs: Any, given: Any) -> Any:
        part = given["mean"] if isinstance(given, dict) else given
        part = part[1] if isinstance(part, tuple) else part
        assert len(part) == len(outputs)
        kinds.add(type(given))
        return outputs.square().mean()

    asked: dict[str, Any] = {"rates": [0.1], "steps": 2}
    found = choose(model, inputs, labels, 9, loss=loss, **asked)
    assert found.metric == "minus the loss" and found.count == 9 and len(kinds) == 1
    assert "pursuit" not in {row.rule for row in found.standings} and "did not run" in str(found)
    assert found.standings[0].mean == pytest.approx(-found.standings[0].loss)
    step: Any = lambda m, x, y: loss(m(x), y)  # noqa: E731
    by_step = choose(model, inputs, labels, 9, step=step, **asked)
    assert by_step == found
    own: Any = lambda outputs, given: -float(loss(outputs, given))  # noqa: E731
    scored = choose(model, inputs, labels, 9, loss=loss, metric=own, **asked)
    assert scored.standings[0].scores == found.standings[0].scores
    fixed: dict[str, Any] = {"methods": ["last", "random"], "seeds": 1, **asked}
    told = compare(model, inputs, labels, 9, loss=loss, test=(inputs, labels), **fixed)
    assert told.results[0].metric == "minus the loss"
    with pytest.raises(BadInputError, match=r"labels must (be|have)"):
        choose(model, inputs, labels, 9, **asked)
    with pytest.raises(BadInputError, match=r"labels must (be|have)"):
        compare(model, inputs, labels, 9, test=(inputs, labels), **fixed)


class Segments(nn.Module):
    """Classes on dimension 1 of the outputs, where torch's cross-entropy has them, or the last."""

    def __init__(self, classes: int, last: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.last = nn.Conv2d(1, classes, 3, padding=1), last

    def forward(self, images: Any) -> Any:
        outputs = self.conv(images)
        return outputs.movedim(1, -1) if self.last else outputs


@pytest.mark.parametrize("classes", [3, 40])
def test_classes_of_segments_lie_on_the_second_dimension(classes: int) -> None:
    torch.manual_seed(1)
    images, labels = torch.randn(24, 1, 4, 5), torch.randint(3, (24, 4, 5))
    labels[:, 0] = -100
    asked: dict[str, Any] = {"rates": [0.1], "steps": 3}
    first, last = (
        choose(Segments(classes, last), images, labels, 9, **asked) for last in (False, True)
    )
    assert first.metric == "accuracy" and first.standings == last.standings
    assert all((first.masks[name] == mask).all() for name, mask in last.masks.items())
    own = choose(
        Segments(classes, False), images, labels, 9, loss=functional.cross_entropy, **asked
    )
    assert own.method == first.method  # by the same loss, of the outputs as they are
    assert own.standings[0].scores == pytest.approx(first.standings[0].scores)


def test_classes_that_may_lie_on_two_dimensions_are_refused() -> None:
    images, labels = torch.randn(24, 1, 4, 4), torch.randint(4, (24, 4, 4))
    with pytest.raises(BadInputError, match="leave open whether the classes are dimension 1"):
        choose(Segments(4, False), images, labels, 9)
    own = choose(
        Segments(4, False), images, labels, 9, rates=[0.1], steps=2, loss=functional.cross_entropy
    )
    assert own.metric == "minus the loss"


@pytest.mark.parametrize("form", [lambda x: x, lambda x: (x,), lambda x: {"codes": x}])
def test_labels_that_are_the_inputs_want_a_shift(form: Any) -> None:
    torch.manual_seed(0)
    codes = torch.randint(7, (30, 5))
    some = codes.clone()
    some[:, 3:] = -100
    for labels in (codes, some):
        with pytest.raises(BadInputError, match="would learn to copy them: shift by one"):
            choose(Characters(), form(codes), labels, 9)
    found = choose(Characters(), form(codes[:, :-1]), codes[:, 1:], 9, method="gradient")
    assert found.metric == "accuracy"


def test_numbers_and_sequences() -> None:
    model, (inputs, _) = mlp(), samples(count=40)
    wanted = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    choice = choose(model, inputs, wanted, 9, rules=["pursuit", "last"], rates=[0.03], steps=5)
    assert choice.metric == "R^2" and choice.count == 9
    torch.manual_seed(0)
    text = Characters()
    codes = torch.randint(7, (30, 5))
    choice = choose(text, codes[:, :-1], codes[:, 1:], 9, rates=[0.03], steps=3)
    assert choice.metric == "accuracy" and choice.count == 9


def test_limits_hold_for_every_rule() -> None:
    model, (inputs, labels) = mlp(), samples()
    for method in RULES:
        choice = choose(
            model, inputs, labels, 8, method=method, forbidden="0", required="2.bias",
            at_most={"5": 3, "2": 20}, steps=3,
        )  # fmt: skip
        assert choice.masks["2.bias"].all() and choice.count == 8
    for method in RULES:
        choice = choose(
            model, inputs, labels, 12, method=method, forbidden="0", at_most={"5": 3}, steps=3
        )
        assert not choice.masks["0.weight"].any() and not choice.masks["0.bias"].any()
        assert choice.masks["5.weight"].sum() + choice.masks["5.bias"].sum() <= 3
        rows = choose(model, inputs, labels, 20, method=method, unit="row", steps=3)
        assert 0 < rows.count <= 20
        for mask in rows.masks.values():
            if mask.ndim > 1:
                assert (mask.all(axis=1) == mask.any(axis=1)).all()


def test_a_rule_of_ones_own() -> None:
    model, (inputs, labels) = mlp(), samples()

    def small_weights(setting: Setting) -> Any:
        return {name: -abs(weight) for name, weight in setting.weights.items()}

    def first_bias(setting: Setting) -> Any:
        return {"0.bias": np.ones(8, bool)}

    choice = choose(model, inputs, labels, 5, method=small_weights)
    flat = torch.cat([p.detach().flatten() for p in model.parameters()]).abs()
    mask = np.concatenate([m.reshape(-1) for m in choice.masks.values()])
    assert choice.method == "small_weights"
    assert flat[mask].max() <= flat[~mask].min()
    assert choose(model, inputs, labels, 8, method=first_bias).masks["0.bias"].all()
    raced = choose(model, inputs, labels, 5, rules=[small_weights, "last"], rates=[0.1], steps=3)
    assert {row.rule for row in raced.standings} == {"small_weights", "last"}

    def wrong(setting: Setting) -> Any:
        return {"nowhere": np.ones(3)}

    with pytest.raises(
        BadInputError, match="the rule wrong must return scores or masks by the names"
    ):
        choose(model, inputs, labels, 5, method=wrong)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int32, np.int32, np.uint16, list])
def test_classes_may_be_whole_numbers_of_any_size(kind: Any) -> None:
    model, (inputs, labels) = mlp(), samples()
    asked: dict[str, Any] = {"rules": ["last", "gradient"], "rates": [0.1], "steps": 3}
    if kind is list:
        given: Any = labels.tolist()
    else:
        given = labels.to(kind) if isinstance(kind, torch.dtype) else labels.numpy().astype(kind)
    assert choose(model, inputs, given, 6, **asked) == choose(model, inputs, labels, 6, **asked)


def test_batch_norm_and_dropout_in_their_modes() -> None:
    """A batch norm that is evaluated is a map of one sample; dropout is off while we look."""
    inputs, labels = samples()
    asked: dict[str, Any] = {"rules": ["last"], "rates": [0.1], "steps": 3, "seeds": 1}
    with pytest.raises(BadInputError, match="in training mode"):
        compare(batch_norm_model(), inputs, labels, 5, methods=["last"], steps=3, seeds=1)
    del asked["rules"]
    compare(batch_norm_model().eval(), inputs, labels, 5, methods=["last"], **asked)
    torch.manual_seed(0)
    dropping = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    first, second = (choose(dropping, inputs, labels, 6, method="gradient") for _ in range(2))
    assert first == second and dropping.training


class Meeting(nn.Module):
    """A head whose samples meet in ``how``."""

    def __init__(self, how: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head, self.how = nn.Linear(5, 3), how

    def forward(self, inputs: Any) -> Any:
        return self.how(self.head(inputs))


MEETING: dict[str, Any] = {
    "the mean": lambda o: o - o.mean(0),
    "the largest": lambda o: o / o.max(),
    "softmax over samples": lambda o: o.softmax(0),
    "attention over samples": lambda o: (o @ o.T).softmax(-1) @ o,
    "those before": lambda o: o.cumsum(0),
    "those after": lambda o: o.flip(0).cumsum(0).flip(0),
    "a neighbour": lambda o: o + o.roll(1, 0),
    "chance": lambda o: o + torch.randn_like(o),
}


@pytest.mark.parametrize("how", MEETING)
def test_samples_that_meet_are_refused(how: str) -> None:
    inputs, labels = samples()
    for method in ("magnitude", "gradient"):  # neither asks for derivatives of a sample
        with pytest.raises(BadInputError, match="changes with the other samples of the batch"):
            choose(Meeting(MEETING[how]), inputs, labels, 4, method=method)
    if how != "chance":  # in a step of one's own they may
        step: Any = lambda m, x, y: functional.cross_entropy(m(x), y)  # noqa: E731
        assert choose(Meeting(MEETING[how]), inputs, labels, 4, method="gradient", step=step).count


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kind", ["deep", "images", "characters", "recurrent", "norms"])
def test_rounding_is_no_meeting_of_samples(kind: str, dtype: Any) -> None:
    torch.manual_seed(0)
    inputs: Any = torch.randn(40, 5)
    labels = torch.arange(40) % 3
    if kind == "deep":
        blocks = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.5)) for _ in range(20)]
        model: Any = nn.Sequential(nn.Linear(5, 64), *blocks, nn.Linear(64, 3))
    elif kind == "images":
        model, inputs = Images(), torch.randn(40, 1, 4, 4)
    elif kind == "characters":
        model, inputs, labels = Characters(), torch.randint(7, (40, 6)), torch.randint(7, (40, 6))
    elif kind == "recurrent":
        model = Recurrent()
    else:
        layers = nn.Conv1d(1, 32, 3), nn.BatchNorm1d(32), nn.Flatten(), nn.Linear(96, 3)
        model = nn.Sequential(*layers).eval()
        inputs = inputs[:, None] * 30
    assert choose(model.to(dtype), inputs, labels, 4, method="magnitude").count == 4


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.LSTM(1, 32, 2, batch_first=True, dropout=0.3), nn.Linear(32, 3)

    def forward(self, inputs: Any) -> Any:
        return self.head(self.layers(inputs[..., None])[0][:, -1])


def test_a_method_of_compare_that_is_not_known() -> None:
    inputs, labels = samples()
    with pytest.raises(BadInputError, match=r"a method must be one of race, all, pursuit.*'rcae'"):
        compare(mlp(), inputs, labels, 5, methods=["rcae"])


def test_too_few_samples_to_race() -> None:
    model, (inputs, labels) = mlp(), samples(count=12)
    choice = choose(model, inputs, labels, 5)
    assert choice.method == "last" and not choice.standings
    assert "12 samples are too few to race in 3 folds (18 are needed): chosen by 'last'" in str(
        choice
    )


def test_compare_is_fair_and_paired() -> None:
    model, (inputs, labels) = mlp(), samples(count=60)
    before = bits(model)
    found = compare(
        model, inputs, labels, [6, 12], methods=["race", "last", "random", "all"], seeds=2,
        rates=[0.03, 0.3], steps=4,
    )  # fmt: skip
    assert bits(model) == before
    assert found.methods == ["race", "last", "random", "all"] and found.budgets == [6, 12]
    assert len(found.results) == 4 * 2 * 2
    for row in found.results:
        same = [r for r in found.results if (r.budget, r.seed) == (row.budget, row.seed)]
        scores = {r.method: r.score for r in same}
        if row.method == "race":
            rivals = {(r.rule, r.rate): r.score for r in same if r.method in ("last", "random")}
            assert row.rule in ("last", "random")
            assert row.score == rivals.get((row.rule, row.rate), row.score)
        assert 0 <= scores[row.method] <= 1
    assert {row.rate for row in found.results if row.method == "all"} <= {0.003, 0.03}
    gaps = np.array(found.scores("race", 6)) - np.array(found.scores("random", 6))
    assert found.difference("race", "random", 6).mean == pytest.approx(gaps.mean())
    assert len(found.table()) == 16
    assert "race minus" in str(found)
    own = compare(
        model, inputs[:40], labels[:40], 6, methods=["last"], seeds=1, rates=[0.1], steps=4,
        test=(inputs[40:], labels[40:]),
    )  # fmt: skip
    trainer = TorchTrainer(model, inputs, labels, Setup(steps=4))
    chosen = choose(model, inputs[:40], labels[:40], 6, method="last", steps=4)
    with trainer.tuned(chosen.masks, torch.arange(40), 0.1):
        score = float((model(inputs[40:]).argmax(1) == labels[40:]).float().mean())
    assert own.results[0].score == pytest.approx(score)


def nan_model() -> Any:
    model = mlp()
    with torch.no_grad():
        model[5].bias[0] = float("nan")
    return model


def batch_norm_model() -> Any:
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


def untracked_model() -> Any:
    return nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)).eval()


def attached_model() -> Any:
    model = mlp()
    attach(model, ["5.bias"])
    return model


def frozen_model() -> Any:
    return mlp().requires_grad_(False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": nan_model}, "NaN"),
        ({"model": lambda: nn.ReLU()}, "no parameters"),
        ({"model": frozen_model}, "all 8 weights of model are frozen"),
        (
            {"model": batch_norm_model},
            "batch normalisation '1' is in training mode, .*: call model.eval",
        ),
        (
            {"model": untracked_model},
            "batch normalisation '0' keeps no running statistics, .*: make it with track_running_stats",
        ),
        ({"model": attached_model}, r"something is attached to this model already.*detach\(\)"),
        ({"labels": samples()[1].double()}, r"not \(30,\): classes must be whole numbers"),
        ({"model": lambda: 3}, "model must be a torch.nn.Module or a JaxModel, not int"),
        ({"labels": torch.arange(30)}, "labels must be classes from 0 to 2, not 0 to 29"),
        (
            {"labels": torch.zeros(7, dtype=torch.int64)},
            "labels must be as many as the samples, 30, not 7",
        ),
        ({"labels": torch.zeros(30, 2)}, r"labels must have the shape of the outputs, \(30, 3\)"),
        ({"labels": None}, "labels may be left out only where step"),
        ({"budget": 0}, "budget must be a whole number of at least 1, not 0"),
        (
            {"budget": 1000},
            "budget must be at most 139, the number of weights of the model, not 1000",
        ),
        ({"within": "0.wieght"}, "Did you mean '0.weight'"),
        ({"method": "pursiut"}, "Did you mean 'pursuit'"),
        ({"method": "best"}, "method must be one of race, pursuit, .*, not 'best'"),
        ({"rules": ["last", "best"]}, "a rule must be one of pursuit, .*, not 'best'"),
        ({"rules": []}, "rules must name at least one rule"),
        ({"rules": [], "folds": 9}, "rules must name at least one rule"),  # too few to race
        ({"rules": ["pursiut"], "folds": 9}, "Did you mean 'pursuit'"),
        ({"rules": 3}, "rules must be names of rules or functions, not 3"),
        ({"within": []}, "within must name at least one weight or layer"),
        ({"within": {}}, "within must name at least one weight or layer"),
        ({"within": 3}, "within must name layers, and 3 is no name"),
        ({"forbidden": "*"}, "within, forbidden and at_most leave no weight that may be chosen"),
        ({"at_most": {"*": 0}}, "within, forbidden and at_most leave no weight"),
        ({"at_most": 1}, "budget must be at most 4, the number of weights that the limits allow"),
        (
            {"required": "0"},
            "budget must be at least 48, the number of entries that required names",
        ),
        (
            {"within": "*.weight", "unit": "row", "forbidden": "2", "budget": 4},
            "budget must be at least 5, the entries of the shortest row that may be chosen, not 4",
        ),
        (
            {"within": "0.weight", "unit": "row", "at_most": 3, "budget": 3},
            "at_most must leave room for a whole row in some layer",
        ),
        ({"rates": [0.0]}, "rates must be positive numbers"),
        ({"rates": ["fast"]}, "rates must be positive numbers"),
        ({"inputs": torch.zeros(30, 2)}, r"could not be run on inputs of shape \(30, 2\)"),
        (
            {"inputs": list(torch.zeros(30, 4))},
            "27 more: .*: stack samples into one array or tensor",
        ),
        ({"inputs": torch.zeros(30, 4).tolist()}, "inputs must be an array or tensor"),
        ({"labels": "abc"}, "labels must be whole numbers"),
        ({"labels": np.array(["a"] * 30)}, "labels must be whole numbers"),
        ({"labels": torch.zeros(30, 3, dtype=torch.complex64)}, "real numbers, not complex64"),
        (
            {"labels": torch.ones(30, 3, dtype=torch.int64)},
            "several classes of each sample are for a",
        ),
        (
            {"labels": samples()[1][:7], "loss": lambda o, y: o.mean()},
            "labels must be as many as the samples, 30, not 7",
        ),
        (
            {"labels": torch.zeros(30, 2), "loss": lambda o, y: o.mean(), "method": "pursuit"},
            "pursuit and pivoted QR need labels that are classes, or numbers like the outputs",
        ),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"folds": 1}, "folds must be a whole number of at least 2"),
        ({"witin": "0"}, "an option must be one of .* Did you mean 'within'"),
        (
            {"loss": lambda outputs, _: outputs},
            r"loss must return one number as a tensor of torch, not shape \(.*, 3\)",
        ),
        (
            {"loss": lambda outputs, _: outputs.detach().mean()},
            "loss returned a number without a gradient",
        ),
        (
            {"step": lambda model, x, _: model(x).mean().item()},
            "step must return one .*, not float",
        ),
    ],
)
def test_bad_input(change: dict[str, Any], words: str) -> None:
    inputs, labels = samples()
    given: dict[str, Any] = {"inputs": inputs, "labels": labels, "budget": 5, **change}
    model = given.pop("model", mlp)()
    with pytest.raises(BadInputError, match=words) as caught:
        choose(model, **given)
    assert caught.value.__cause__ is None  # one sentence, and no traceback of the model's


def test_an_optimizer_of_ones_own_in_a_loop_leaves_derivatives_usable() -> None:
    """Its steps change weights in place: what was recorded before must not be asked again."""
    model, (inputs, labels) = mlp(), samples(count=40)

    def loop(model: Any, masks: Any, x: Any, y: Any, rate: float) -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for _ in range(3):
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            for name, parameter in model.named_parameters():
                parameter.grad *= torch.from_numpy(masks[name]) if name in masks else 0.0
            optimizer.step()

    before = bits(model)
    for method in ("magnitude", "pursuit"):
        chosen = choose(model, inputs, labels, 8, rules=[method], loop=loop, rates=[0.01])
        assert chosen.linearisation_error is not None and chosen.linearisation_error < 0.5
    told = compare(
        model, inputs, labels, [4, 8], methods=["pursuit"], seeds=2, loop=loop, rates=[0.01]
    )
    assert told.budgets == [4, 8] and bits(model) == before


@pytest.mark.parametrize("method", ["gradient", "fisher", "magnitude", "race"])
def test_nan_in_a_later_batch(method: str) -> None:
    torch.manual_seed(0)
    inputs, labels = torch.randn(400, 5), torch.arange(400) % 3
    inputs[300, 1] = torch.nan
    with pytest.raises(BadInputError, match="model gives NaN or infinite outputs on inputs"):
        choose(torch.nn.Linear(5, 3), inputs, labels, 3, method=method)


def test_nan_once_training_begins() -> None:
    class Falls(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(5, 3)
            self.first = self.layer.weight.detach().clone()

        def forward(self, inputs: Any) -> Any:
            moved = (self.layer.weight.detach() != self.first).any()
            return self.layer(inputs) * (torch.nan if moved else 1.0)

    torch.manual_seed(0)
    how = {"budget": 3, "rules": ["magnitude", "fisher"], "steps": 2, "within": "layer.weight"}
    with pytest.raises(BadInputError, match="loss of NaN or infinity after every short run"):
        choose(Falls(), torch.randn(36, 5), torch.arange(36) % 3, **how)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_parameters_of_several_types(kind: Any) -> None:
    class Mixed(torch.nn.Module):
        def __init__(self, kind: Any) -> None:
            super().__init__()
            self.into, self.out = torch.nn.Linear(5, 4), torch.nn.Linear(4, 3)
            self.norm, self.inner = torch.nn.LayerNorm(4).to(kind), torch.nn.Linear(4, 4).to(kind)
            self.kind = kind

        def forward(self, inputs: Any) -> Any:
            inner = self.inner(self.norm(self.into(inputs).to(self.kind)))
            return self.out(torch.tanh(inner).float())

    inputs, labels = torch.randn(40, 5), torch.arange(40) % 3
    choices = []
    for each in (kind, torch.float32):
        torch.manual_seed(0)
        model = Mixed(each)
        choices.append([choose(model, inputs, labels, 8, method=m) for m in ("pursuit", "fisher")])
    for mixed, single in zip(*choices, strict=True):
        both = sum(int((mixed.masks[n] & m).sum()) for n, m in single.masks.items())
        assert both >= (8 if kind == torch.float64 else 7)


def test_squares_of_many_samples_are_summed_in_single_precision() -> None:
    torch.manual_seed(0)
    model, inputs = torch.nn.Linear(1, 1), torch.ones(2000, 1)
    wanted = TorchTrainer(model, inputs, torch.zeros(2000, 1)).view(torch.arange(2000), 0)
    exact = wanted.squared_gradients["bias"]
    half = TorchTrainer(model.bfloat16(), inputs, torch.zeros(2000, 1))
    found = half.view(torch.arange(2000), 0).squared_gradients["bias"]
    np.testing.assert_allclose(found, exact, rtol=0.05)


class Turning(nn.Module):
    """Real weights whose outputs are turned by complex numbers, as rotary positions do."""

    def __init__(self, trained: bool = False, buffer: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.head = nn.Linear(5, 8), nn.Linear(4, 3)
        turns = torch.polar(torch.ones(4), torch.arange(4.0) + 0.5)
        if buffer:
            self.register_buffer("turns", turns)
        else:
            self.turns = nn.Parameter(turns, requires_grad=trained)

    def forward(self, inputs: Any) -> Any:
        pairs = torch.view_as_complex(self.inner(inputs).unflatten(-1, (4, 2)))
        return self.head((pairs * self.turns).imag)


COMPLEX: dict[str, Any] = {
    "choose": lambda model: choose(model, *samples(), 5),
    "audit": lambda model: audit(model, samples()[0]),
    "attach": attach,
    "guard": guard,
    "audit by name": lambda model: audit(model, samples()[0], ["turns"]),
    "attach by mask": lambda model: attach(model, {"turns": np.ones(4, bool)}),
}


@pytest.mark.parametrize("verb", COMPLEX)
def test_complex_weights_are_refused(verb: str) -> None:
    with pytest.raises(BadInputError, match="parameter turns of model holds complex numbers"):
        COMPLEX[verb](Turning(trained=True))


@pytest.mark.parametrize("buffer", [True, False])
@pytest.mark.filterwarnings("error")
def test_complex_numbers_that_stay_still_are_kept_whole(buffer: bool) -> None:
    """An audit's copy in float64 lost their imaginary part, and half of the weights moved nothing."""
    model, (inputs, labels) = Turning(buffer=buffer), samples(count=40)
    report = audit(model, inputs, ["inner.weight"], perturb=0)
    assert sum(row.zero for row in report.layers) == 0
    lengths = np.linalg.svd(by_inner_weight(inputs), compute_uv=False)
    assert report.values[: report.rank] == pytest.approx(lengths[: report.rank], rel=1e-6)
    choice = choose(model, inputs, labels, 5, method="pursuit", steps=2)
    assert choice.count == 5 and attach(model, choice).count == 5


def by_inner_weight(inputs: Any) -> Any:
    """Derivatives of all outputs of such a model by inner.weight, one backward pass each, in float64."""
    model = Turning(buffer=True)
    model.inner.double()
    model.head.double()
    model.turns = model.turns.to(torch.complex128)
    weight = model.inner.weight
    values = model(inputs.double()).flatten()
    rows = [torch.autograd.grad(value, weight, retain_graph=True)[0].flatten() for value in values]
    return torch.stack(rows).numpy()
