"""Other people's masks and flags, and our own networks in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is tested by make test-models")

import sublearn as sl  # noqa: E402
import sublearn.models as sm  # noqa: E402

nn = torch.nn

NETWORKS = [
    sl.FeedForward((4, 6, 3)),
    sl.FeedForward((4, 5, 5, 3), activation="tanh", bias=True),
    sl.FeedForward((3, 5, 2), activation="relu"),
    sl.FeedForward((3, 5, 2), activation="sigmoid", output="sigmoid"),
    sl.LinearEstimator(inputs=4, outputs=3),
    sl.LinearRNN(n=5, b=2, d=3, T=3),
    sl.RNN(n=5, b=2, d=3, T=3, activation="tanh"),
    sl.RNN(n=5, b=2, d=3, T=3).with_connections({"W": np.tri(5, dtype=bool)}),
    sl.RateRNN(n=4, b=2, d=2, T=3, leak=0.5, autapses=False),
    sl.FeedForward((3, 5, 2)).with_connections({"W1": np.arange(15).reshape(5, 3) % 4 > 0}),
]


def _inputs(net: sl.Network, samples: int, seed: int = 0) -> tuple[Any, Any]:
    x = np.random.default_rng(seed).standard_normal(net.input_shape(samples))
    return x, torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 0)))


@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.spec)
def test_a_network_in_torch_computes_the_same(net: sl.Network) -> None:
    model = sm.as_torch(net, seed=3)
    weights = {n: p.detach().numpy() for n, p in model.named_parameters()}
    ours, theirs = _inputs(net, 4)
    assert np.allclose(model(theirs).detach().numpy().T, net.forward(weights, ours), atol=1e-12)
    allocation = sl.Allocation.whole(net)
    found = sm.Derivatives(model, theirs)
    sparse = set(net.connections)  # their mask stands between the weight and its use
    assert {how for name, how in found.followed.items() if name not in sparse} == {"batch"}
    masks = sm.as_masks(model, allocation)
    mine = net.jacobian(weights, ours, allocation)  # rows (output, sample), columns as allocated
    mine = mine.reshape(net.output_size, 4, -1).transpose(1, 0, 2).reshape(mine.shape)
    order = [n for n in net.shapes for _ in range(int(masks[n].sum()))]
    assert [name for name, _, _ in allocation.labels()] == order
    assert np.abs(found.gather(masks) - mine).max() < 1e-12


@pytest.mark.parametrize("net", [n for n in NETWORKS if n.is_linear], ids=lambda net: net.spec)
@pytest.mark.parametrize("seed", range(3))
def test_the_audit_finds_the_rank_that_certify_proves(net: sl.Network, seed: int) -> None:
    samples = 3
    rng = np.random.default_rng(seed)
    wanted = net.output_size * samples
    some = rng.permutation(net.size)[: min(wanted, net.size)]
    allocation = sl.Allocation.whole(net).select(some)
    verdict = sl.certify(sl.Problem(net, samples=samples), allocation)
    found = sm.audit(sm.as_torch(net, seed=seed), _inputs(net, samples)[1], allocation)
    assert found.rank == verdict.rank


def test_torch_chains_become_our_networks() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    net, weights = sm.from_torch(model)
    assert net.spec == "ffn:4-6-2,activation=tanh,bias=yes"
    ours, theirs = _inputs(net, 5)
    assert np.allclose(model(theirs).detach().numpy().T, net.forward(weights, ours), atol=1e-12)
    net, _ = sm.from_torch(model.state_dict(), activation="relu")
    assert net.spec == "ffn:4-6-2,activation=relu,bias=yes"


@pytest.mark.parametrize("kind", ["tanh", "relu"])
def test_torch_recurrences_become_our_networks(kind: str) -> None:
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.RNN(2, 5, nonlinearity=kind, bias=False, batch_first=True)
            self.out = nn.Linear(5, 3, bias=False)

        def forward(self, x: Any) -> Any:
            return self.out(self.cells(x)[0][:, -1])

    model = Model().double()
    net, weights = sm.from_torch(model, steps=4)
    assert net.spec == f"rnn:n=5,b=2,d=3,T=4,activation={kind}"
    ours, theirs = _inputs(net, 6)
    assert np.allclose(model(theirs).detach().numpy().T, net.forward(weights, ours), atol=1e-9)


@pytest.mark.parametrize(
    "make, options, message",
    [
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.GELU()), {}, "not GELU"),
        (lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 2)), {}, "no plain chain"),
        (lambda: nn.LSTM(2, 2), {"steps": 2}, "LSTM has gates"),
        (lambda: nn.RNN(2, 2), {"steps": 2}, "one torch.nn.RNN layer and one linear readout"),
        (lambda: nn.Conv2d(1, 1, 3), {}, "not Conv2d"),
        (
            lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Tanh()),
            {},
            "one activation",
        ),
    ],
)
def test_models_that_are_not_plain(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(sl.BadInputError, match=message):
        sm.from_torch(make(), **options)


def test_flags() -> None:
    model = nn.Linear(2, 3)
    sm.set_flags(model, ["weight"])
    assert list(sm.as_masks(model)) == ["weight"]
    with pytest.raises(sl.BadInputError, match="1 of 3 of bias"):
        sm.set_flags(model, {"bias": [True, False, False]})


# PEFT, with models that are made here: nothing is downloaded.


def _gpt2() -> tuple[Any, Any]:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=8, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    return model, {"input_ids": torch.randint(0, 40, (30, 6))}


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.second(torch.tanh(self.first(x)))


warned = pytest.mark.filterwarnings("ignore")


@warned
def test_lora_is_audited_as_it_is() -> None:
    peft = pytest.importorskip("peft")
    model, inputs = _gpt2()
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    ).eval()
    found = sm.audit(adapted, inputs, outputs=16)
    trainable = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    assert found.count == trainable == 2 * 2 * (16 + 48)
    assert found.covered[0] == 2  # two of the layers, and the report says of how many
    assert "2 of" in str(found) and found.covered[1] > 10
    # A dense reference: every output differentiated by a pass of its own, at the same point.
    plain = sm.audit(adapted, inputs, outputs=16, perturb=0)
    own = {n: p for n, p in adapted.named_parameters() if p.requires_grad}
    double = adapted.double()
    derivatives = sm.Derivatives(double, inputs, names=list(own), outputs=16)
    rows = [
        torch.cat(
            [
                g.reshape(-1)
                for g in torch.autograd.grad(
                    o, list(own.values()), retain_graph=True, materialize_grads=True
                )
            ]
        )
        for o in double(**inputs).logits.reshape(30, -1).gather(1, derivatives._places).reshape(-1)
    ]
    J = torch.stack(rows).numpy()
    masks = {n: np.ones(tuple(p.shape), bool) for n, p in own.items()}
    assert np.abs(derivatives.gather(masks) - J).max() < 1e-12
    assert plain.rank == np.linalg.matrix_rank(J, tol=1e-10 * np.linalg.norm(J, 2))
    assert plain.rank < found.rank  # B = 0 hides what A can do


@warned
def test_biases_of_peft_are_audited_as_they_are() -> None:
    """BitFit: LoRA's bias option frees all biases, and flags by hand do the same."""
    peft = pytest.importorskip("peft")
    model, inputs = _gpt2()
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=1, target_modules=["c_fc"], bias="all", fan_in_fan_out=True)
    ).eval()
    biases = [n for n, p in adapted.named_parameters() if p.requires_grad and "lora" not in n]
    assert biases and all(n.endswith("bias") for n in biases)
    found = sm.audit(adapted, inputs, biases, outputs=24)
    # 4DL + D + 2L + 1 with a head without bias: the last shift is not absorbed, so D + 1 fewer,
    # and the embeddings have no bias that would lose its mean.
    assert found.clear and found.wasted > 0
    assert any("key biases" in reason for reason in found.reasons)


@warned
def test_shira_both_ways() -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    model, x = Plain(), torch.randn(12, 6)
    rng = np.random.default_rng(0)
    masks = {n: np.zeros(tuple(p.shape), bool) for n, p in model.named_parameters() if p.dim() == 2}
    for mask in masks.values():
        mask.reshape(-1)[rng.permutation(mask.size)[: sum(mask.shape)]] = True
    reference = sm.audit(model, x, masks, perturb=0)
    config = peft.ShiraConfig(r=1, mask_type="ours", target_modules=sm.shira_layers(model, masks))
    config.mask_fn = sm.shira_mask_fn(model, masks)
    adapted = peft.get_peft_model(model, config)
    back = sm.masks_from_peft(adapted)
    assert {n: m.tolist() for n, m in back.items()} == {n: m.tolist() for n, m in masks.items()}
    found = sm.audit(adapted, x, perturb=0)
    assert found.count == reference.count and found.rank == reference.rank
    assert np.allclose(found.values, reference.values, atol=1e-6 * reference.values[0])
    fresh = Plain()
    config.mask_fn = sm.shira_mask_fn(fresh, {**masks, "first.weight": True})
    with pytest.raises(sl.BadInputError, match=r"trains 14 weights of first\.weight"):
        peft.get_peft_model(fresh, config)
    with pytest.raises(sl.BadInputError, match="no SHiRA adapter"):
        sm.masks_from_peft(fresh)


@warned
@pytest.mark.parametrize("kind", ["gpt2", "vit", "llama", "bert"])
def test_models_of_transformers(kind: str) -> None:
    """Derivatives against one backward pass per output."""
    t = pytest.importorskip("transformers")
    torch.manual_seed(0)
    small: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"input_ids": torch.randint(1, 40, (5, 6))}
    make: dict[str, Any] = {
        "gpt2": lambda: _gpt2()[0],
        "vit": lambda: t.ViTForImageClassification(
            t.ViTConfig(
                image_size=8,
                patch_size=4,
                num_channels=1,
                intermediate_size=24,
                num_labels=5,
                **small,
            )
        ),
        "llama": lambda: t.LlamaForCausalLM(
            t.LlamaConfig(vocab_size=40, intermediate_size=24, num_key_value_heads=1, **small)
        ),
        "bert": lambda: t.BertForSequenceClassification(
            t.BertConfig(vocab_size=40, intermediate_size=24, num_labels=3, **small)
        ),
    }
    model = make[kind]().double().eval()
    inputs = (
        {"pixel_values": torch.randn(5, 1, 8, 8, dtype=torch.float64)} if kind == "vit" else ids
    )
    found = sm.Derivatives(model, inputs, outputs=3)
    assert set(found.followed.values()) == {"batch"}
    own = found.parameters
    flat = model(**inputs).logits.reshape(5, -1)
    flat = flat if found._places is None else flat.gather(1, found._places)
    rows = [
        torch.cat([
            g.reshape(-1)
            for g in torch.autograd.grad(
                o, list(own.values()), retain_graph=True, materialize_grads=True
            )
        ])
        for o in flat.reshape(-1)
    ]  # fmt: skip
    J = torch.stack(rows).numpy()
    squares = found.squared_norms()
    # Llama's normalisation works in float32 whatever the model's type.
    tolerance = 1e-6 if kind == "llama" else 1e-12
    scale = np.square(J).sum(0).max()
    joined = np.concatenate([squares[n].ravel() for n in own])
    assert np.abs(joined - np.square(J).sum(0)).max() < tolerance * scale


def test_weights_that_do_not_exist_stay_out_of_training() -> None:
    net = sl.RateRNN(n=4, b=2, d=2, T=3, autapses=False)
    model = sm.as_torch(net, seed=1)
    x = torch.randn(6, 3, 2, dtype=torch.float64)
    settings = dict(lr=0.05, weight_decay=0.1)
    optimizer = torch.optim.Adam(model.parameters(), **settings)
    before = model.W.detach().clone()
    for _ in range(5):
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        assert not model.W.grad.diagonal().any()
        optimizer.step()
    assert not model.W.detach().diagonal().any() and not torch.equal(model.W, before)
    net.check_weights({name: p.detach().numpy() for name, p in model.named_parameters()})
    assert "exists_W" not in model.state_dict()
