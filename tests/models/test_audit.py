"""The audit against counts that are known: BitFit's waste, LoRA's, dead units, given Jacobians."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is tested by make test-models")

import sublearn.models as sm  # noqa: E402
from models.layers import KINDS, dense_jacobian, make  # noqa: E402
from sublearn import BadInputError  # noqa: E402
from sublearn.models._audit import _residual  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")


class Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.o = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Any) -> Any:
        h = self.norm1(x)
        q, k, v = (
            layer(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class PreNorm(nn.Module):
    def __init__(self, width: int, layers: int, heads: int, inner: int) -> None:
        super().__init__()
        self.into = nn.Linear(7, width)
        self.places = nn.Parameter(torch.randn(1, 5, width) * 0.1)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 6)

    def forward(self, x: Any) -> Any:
        x = self.into(x) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


@pytest.mark.parametrize(
    "width, layers, heads, inner",
    [(8, 1, 2, 8), (8, 2, 2, 16), (12, 2, 3, 24), (16, 3, 4, 32), (16, 1, 2, 64)],
)
def test_biases_alone_waste_exactly_what_is_known(
    width: int, layers: int, heads: int, inner: int
) -> None:
    """4DL + D + 2L + 1 on a pre-LayerNorm transformer, and no derivative is exactly zero there."""
    torch.manual_seed(0)
    model = PreNorm(width, layers, heads, inner)
    names = [n for n, _ in model.named_parameters() if n.endswith("bias")]
    count = sum(p.numel() for n, p in model.named_parameters() if n in names)
    inputs = torch.randn(count // 3 + 20, 5, 7)
    found = sm.audit(model, inputs, names)
    assert sm.audit(model, inputs, np.array(names)).rank == found.rank
    assert found.count == count < found.needed
    assert found.wasted == 4 * width * layers + width + 2 * layers + 1
    assert found.gap > 1e6 and found.clear
    assert abs(sum(float(h.sum()) for h in found.leverage.values()) - found.rank) < 1e-6
    assert abs(sum(row.idle for row in found.layers) - found.wasted) < 1e-6
    text = " ".join(found.reasons)
    for word in (
        "key biases",
        "value biases",
        "shifts of normalisations",
        "mean of the biases before it",
    ):
        assert word in text
    keys = {row.name: row for row in found.layers if ".k.bias" in row.name}
    assert all(row.zero == row.count == width for row in keys.values())


@pytest.mark.parametrize("kind", KINDS)
def test_rank_is_that_of_the_dense_jacobian(kind: str) -> None:
    model, inputs = make(kind)
    rng = np.random.default_rng(0)
    masks = {n: rng.random(tuple(p.shape)) < 0.1 for n, p in model.named_parameters()}
    J = dense_jacobian(model, inputs)
    columns = np.concatenate([J[n][:, masks[n].ravel()] for n in J], axis=1)
    found = sm.audit(model, inputs, masks, perturb=0)
    assert found.rank == np.linalg.matrix_rank(columns, tol=1e-10 * np.linalg.norm(columns, 2))
    assert abs(sum(float(h.sum()) for h in found.leverage.values()) - found.rank) < 1e-6
    lengths = np.linalg.norm(columns, axis=0)
    assert sum(row.zero for row in found.layers) == int((lengths < 1e-12 * lengths.max()).sum())


def test_the_model_is_left_as_it_is() -> None:
    model, inputs = make("transformer")
    model = model.float()
    before = {n: v.clone() for n, v in model.state_dict().items()}
    sm.audit(model, inputs, ["gain"])
    sm.assert_frozen(before, model.state_dict(), [])


def test_an_untouched_adapter_hides_half_its_rank() -> None:
    """LoRA at B = 0: only B's derivatives show; beside that point A's do too."""
    torch.manual_seed(0)

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(6, 5)
            self.A = nn.Parameter(torch.randn(2, 6))
            self.B = nn.Parameter(torch.zeros(5, 2))

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.base(x) + x @ self.A.T @ self.B.T)

    model, x = Adapted(), torch.randn(20, 6)
    assert sm.audit(model, x, ["A", "B"], perturb=0).rank == 10
    found = sm.audit(model, x, ["A", "B"])
    assert found.rank == 2 * (6 + 5) - 4  # less the 2 x 2 ways to rescale A against B
    assert "moved at random" in str(found) and found.perturbed == 0.01


def test_an_attached_model_is_audited_as_it_is() -> None:
    model, inputs = make("mlp")
    rng = np.random.default_rng(0)
    masks = {n: rng.random(tuple(p.shape)) < 0.4 for n, p in model.named_parameters()}
    wanted = sm.audit(model, inputs, masks, perturb=0)
    sm.attach(model, masks)
    found = sm.audit(model, inputs, perturb=0)
    assert (found.count, found.rank) == (wanted.count, wanted.rank)
    assert np.allclose(found.values, wanted.values, atol=1e-12 * wanted.values[0])


def test_dead_units_fail() -> None:
    """Units that never fire: rank 0, nothing to learn with."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        model[0].bias.fill_(-100.0)
    found = sm.audit(model, torch.randn(10, 4), ["0.weight"])
    assert (found.rank, found.verdict, found.layers[0].dead) == (0, "fail", 8)
    assert "moves any output" in found.reasons[0]
    with torch.no_grad():
        model[0].bias[:5] = 0.0
    half = sm.audit(model, torch.randn(10, 4), ["0.weight"])
    assert half.layers[0].dead == 3 and half.layers[0].zero == 12 and half.rank > 0


def test_parallel_columns_and_a_shift_that_the_head_absorbs() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    found = sm.audit(model, torch.randn(8, 3), ["1.bias", "2.bias"])
    assert found.rank == 2 and found.wasted == 4
    assert "6 weights in 1.bias, 2.bias move the outputs of all samples alike" in str(found)
    twin = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    both = sm.audit(twin, torch.randn(5, 1), None)
    assert both.parallel == ((("0.weight", 0), ("1.weight", 0)),)


class Residual(nn.Module):
    """A stream to which two blocks add, and a head without a normalisation before it."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 5), nn.Linear(5, 4)
        self.over, self.last = nn.Linear(4, 5), nn.Linear(5, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        x = x + self.down(torch.tanh(self.up(x)))
        return self.head(x + self.last(torch.tanh(self.over(x))))


def test_the_head_absorbs_what_the_last_block_adds_to_the_stream() -> None:
    torch.manual_seed(0)
    model, inputs = Residual(), torch.randn(12, 4)
    absorbed = sm.audit(model, inputs, ["last.bias", "head.bias"])
    assert (absorbed.rank, absorbed.wasted) == (2, 4)
    words = "6 weights in last.bias, head.bias move the outputs of all samples alike"
    assert words in str(absorbed) and "and 2 would do" in str(absorbed)
    # What a later block sees is not the same for all samples: nothing is said of that.
    used = sm.audit(model, inputs, ["down.bias", "head.bias", "last.weight"])
    assert used.wasted > 0 and "alike" not in str(used)


def test_share_of_the_residual_within_reach() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(4, 3), torch.randn(6, 4)
    whole = sm.audit(model, x, None, labels=[0, 1, 2, 0, 1, 2])
    targets = torch.randn(6, 3)
    bias = sm.audit(model, x, ["bias"], targets=targets, perturb=0)
    assert whole.reachable is not None and bias.reachable is not None
    T = (targets - model(x).detach()).double().numpy()
    centre = np.broadcast_to(T.mean(0), T.shape)
    assert abs(bias.reachable - (centre**2).sum() / (T**2).sum()) < 1e-6


def test_verdicts_json_and_exit_codes(tmp_path: Any) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), torch.randn(10, 4)
    good = sm.audit(model, x, ["2.weight", "2.bias"])
    assert good.verdict == "ok" and good.grade == "numerical"
    assert [good.exit_code(level) for level in ("warn", "fail", "never")] == [0, 0, 0]
    poor = sm.audit(model, x, ["2.bias", "0.bias"], perturb=0)
    data = json.loads(poor.to_json())
    assert data["rank"] == poor.rank and data["layers"][0]["name"] == "0.bias"
    poor.save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == data
    wide = nn.Sequential(nn.Linear(1, 6, bias=False), nn.Linear(6, 1, bias=False))
    bad = sm.audit(wide, torch.randn(20, 1))
    assert bad.rank == 1 and bad.verdict == "fail" and bad.exit_code("warn") == bad.exit_code() == 1
    with pytest.raises(BadInputError, match="fail_on must be one of"):
        bad.exit_code("always")


def test_blocks_give_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large Jacobians are decomposed in blocks of columns."""
    model, inputs = make("conv2d")
    whole = sm.audit(model, inputs, None)
    for file in ("_spectrum", "_audit"):
        monkeypatch.setattr(f"sublearn.models.{file}.DENSE", 400)
    blocks = sm.audit(model, inputs, None)
    assert (blocks.rank, blocks.verdict) == (whole.rank, whole.verdict)
    for name, h in whole.leverage.items():
        assert np.abs(h - blocks.leverage[name]).max() < 1e-8
    assert np.allclose(blocks.values, whole.values, rtol=0, atol=1e-12 * whole.values[0])


def test_single_precision_uses_its_own_tolerance() -> None:
    torch.manual_seed(0)
    model = PreNorm(8, 1, 2, 8)
    names = [n for n, _ in model.named_parameters() if n.endswith("bias")]
    x = torch.randn(60, 5, 7)
    double, single = (sm.audit(model, x, names, precision=p) for p in ("double", "single"))
    assert (double.precision, single.precision) == ("double", "single")
    assert single.rank == double.rank


def test_nothing_is_wanted_of_a_sample_whose_label_is_left_out() -> None:
    torch.manual_seed(0)
    model, inputs = nn.Linear(3, 3), torch.randn(4, 3)
    residual = _residual(sm.Derivatives(model, inputs), torch.tensor([0, -100, 2, 1]), None)
    assert residual is not None
    rows = residual.reshape(4, 3)
    assert not rows[1].any() and rows[[0, 2, 3]].any(axis=1).all()


class Tagger(nn.Module):
    """A class for every position."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(7, 5), nn.Linear(5, 3)

    def forward(self, ids: Any) -> Any:
        return self.head(torch.tanh(self.tokens(ids)))


def test_labels_of_sequences_are_those_of_choose() -> None:
    torch.manual_seed(0)
    model, ids = Tagger(), torch.randint(0, 7, (10, 4))
    labels = torch.randint(0, 3, (10, 4))
    labels[:, 2:] = -100
    trainer = sm.TorchTrainer(model.double(), ids, labels)
    wanted = trainer.view(torch.arange(10), 0).target
    assert wanted.shape == (10, 12) and not wanted[:, 6:].any() and wanted[:, :6].all()
    for given in (labels, labels.numpy(), labels.tolist()):
        residual = _residual(sm.Derivatives(model, ids), given, None)
        assert residual is not None and np.allclose(residual, wanted.ravel(), rtol=1e-12)
    found = sm.audit(model, ids, ["head.bias"], labels, perturb=0)
    # Biases move all positions alike: their reach is the mean over these.
    centre = wanted.reshape(40, 3).mean(0)
    assert found.reachable == pytest.approx(40 * (centre**2).sum() / (wanted**2).sum())
    half = torch.randn(10, 4, 3, requires_grad=True)
    for targets in (half, half.bfloat16()):
        assert sm.audit(model, ids, ["head.bias"], targets=targets).reachable is not None


def attached() -> Any:
    model = nn.Linear(2, 1)
    sm.attach(model, ["weight"])
    return model


class Returns(nn.Module):
    """A linear layer whose outputs come in the form that ``form`` gives them."""

    def __init__(self, form: Callable[[Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.form, self.layer = form, nn.Linear(5, 3)

    def forward(self, inputs: Any) -> Any:
        return self.form(self.layer(inputs))


@dataclass
class WithLogits:
    logits: Any
    other: int = 3


@dataclass
class Without:
    scores: Any
    hidden: int = 3


def test_outputs_in_a_dict_or_a_dataclass() -> None:
    torch.manual_seed(0)
    inputs, labels = torch.randn(40, 5), torch.arange(40) % 3
    how = {"budget": 4, "rules": ["pursuit", "last"], "steps": 3}
    plain = Returns(lambda y: y)
    report, choice = sm.audit(plain, inputs, None, labels), sm.choose(plain, inputs, labels, **how)
    for form in (lambda y: {"loss": y.sum(), "logits": y}, WithLogits):
        found = sm.audit(Returns(form), inputs, None, labels)
        assert found.to_json() == report.to_json()
        assert sm.choose(Returns(form), inputs, labels, **how) == choice
    for form, kind in ((lambda y: {"scores": y, "hidden": 3}, "dict"), (Without, "Without")):
        words = f"not a {kind} of scores, hidden: give forward=, .*, or wrap the model"
        for call in (
            lambda model: sm.audit(model, inputs),
            lambda model: sm.choose(model, inputs, labels, **how),
        ):
            with pytest.raises(BadInputError, match=words):
                call(Returns(form))

    def scores(model: Any, x: Any) -> Any:
        return model(x)["scores"]

    named = Returns(lambda y: {"scores": y})
    assert (
        sm.audit(named, inputs, None, labels, forward=scores).to_json()
        == sm.audit(plain, inputs, None, labels).to_json()
    )
    assert sm.choose(named, inputs, labels, forward=scores, **how) == choice


def test_models_that_turn_numbers_into_single_precision_are_audited_in_it() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(8, 5)
    found = sm.audit(Returns(lambda y: y), inputs)
    assert found.precision == "double"

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(5, 4), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.head(torch.tanh(self.layer(x)).float())

    assert sm.audit(Own(), inputs).precision == "single"
    with pytest.raises(BadInputError, match=r"could not be run on inputs of shape \(8, 5\): "):
        sm.audit(Own(), inputs, precision="double")
    with pytest.raises(BadInputError, match=r"could not be run on inputs of shape \(8, 4\): "):
        sm.audit(Own(), inputs[:, :4])


class Halves(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.bfloat16().float()


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "half precision within": (
        lambda: sm.audit(nn.Sequential(nn.Linear(2, 3), Halves()), torch.ones(2, 2)),
        "half precision .*, whose rounding hides the rank",
    ),
    "labels of some outputs": (
        lambda: sm.audit(nn.Linear(2, 9), torch.ones(2, 2), None, [0, 1], outputs=3),
        "labels are classes among all outputs, of which outputs= looks at some",
    ),
    "labels of sequences, all left out": (
        lambda: sm.audit(Tagger(), torch.ones(2, 4, dtype=int), None, np.full((2, 4), -100)),
        "labels must be classes from 0 to 2, not none at all",
    ),
    "all frozen": (
        lambda: sm.audit(nn.Linear(2, 1).requires_grad_(False), torch.ones(2, 2)),
        "all 2 parameters of the model are frozen",
    ),
    "no parameters": (lambda: sm.audit(nn.ReLU(), torch.ones(2, 2)), "no parameters"),
    "another model's mask": (
        lambda: sm.audit(nn.Linear(2, 1), torch.ones(2, 2), {"weight": np.ones((3, 3), bool)}),
        "is it of another model",
    ),
    "unknown layer": (
        lambda: sm.audit(nn.Linear(2, 1), torch.ones(2, 2), ["wieght"]),
        "Did you mean 'weight'",
    ),
    "nan weights": (
        lambda: sm.audit(nn.Linear(2, 1).requires_grad_(), torch.full((2, 2), torch.nan)),
        "NaN or infinity",
    ),
    "labels out of range": (
        lambda: sm.audit(nn.Linear(2, 3), torch.ones(2, 2), labels=[0, 3]),
        "labels must be classes from 0 to 2, not 0 to 3",
    ),
    "labels of another count": (
        lambda: sm.audit(nn.Linear(2, 3), torch.ones(2, 2), labels=[0]),
        "labels must be as many as the samples, 2, not 1",
    ),
    "targets of another shape": (
        lambda: sm.audit(nn.Linear(2, 3), torch.ones(2, 2), targets=np.ones((2, 2))),
        r"targets must have the shape of the outputs, \(2, 3\), not \(2, 2\)",
    ),
    "perturb": (lambda: sm.audit(nn.Linear(2, 3), torch.ones(2, 2), perturb=-1), "perturb must"),
    "precision": (
        lambda: sm.audit(nn.Linear(2, 3), torch.ones(2, 2), precision="half"),
        "precision must be one of",
    ),
    "weights of an attached model": (
        lambda: sm.audit(attached(), torch.ones(2, 2), ["bias"]),
        r"something is attached to this model.*detach\(\)",
    ),
    "labels in the place of the weights": (
        lambda: sm.audit(nn.Linear(2, 3), torch.ones(2, 2), torch.tensor([0, 1])),
        r"is an array: the order is audit\(model, inputs, what, labels\)",
    ),
    "weights in the place of the inputs": (
        lambda: sm.audit(nn.Linear(2, 3), {"bias": True}, np.ones((2, 2))),
        r"is an array: the order is audit\(model, inputs, what, labels\)",
    ),
    "empty masks": (
        lambda: sm.audit(nn.Linear(2, 3), torch.ones(2, 2), {"bias": False}),
        "nothing may change",
    ),
    "wrong batch shape": (
        lambda: sm.audit(nn.Linear(2, 3), torch.ones(2, 5)),
        "the model could not be run on inputs",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case: str) -> None:
    run, message = BAD[case]
    with pytest.raises(BadInputError, match=message) as caught:
        run()
    assert "\n" not in str(caught.value)
