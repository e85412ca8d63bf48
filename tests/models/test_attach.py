"""Attached numbers train like a masked loop, and leave the base as it was, bit by bit."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is tested by make test-models")

import sublearn.models as sm  # noqa: E402
from models.layers import make  # noqa: E402
from sublearn import BadInputError  # noqa: E402

nn = torch.nn


def _bits(model: Any) -> dict[str, Any]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def _same(before: dict[str, Any], model: Any) -> bool:
    own = {n: p for n, p in model.named_parameters() if not n.startswith("sublearn")}
    return before.keys() == own.keys() and all(
        torch.equal(before[n].view(torch.int8), p.detach().view(torch.int8))
        for n, p in own.items()
        if p.dim()
    )


def _masks(model: Any, share: float = 0.2, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {n: rng.random(tuple(p.shape)) < share for n, p in model.named_parameters()}


@pytest.mark.parametrize("kind", ["mlp", "conv2d", "transformer", "lstm", "gru", "unrolled"])
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_losses_equal_those_of_a_masked_loop(kind: str, rule: str) -> None:
    """Against gradients masked by hand and entries restored after each step."""
    model, inputs = make(kind)
    model = model.float()
    inputs = inputs.float() if inputs.is_floating_point() else inputs
    other = copy.deepcopy(model)
    masks = _masks(model)
    make_rule = {
        "sgd": lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9),
        "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    }[rule]
    tuned = sm.attach(model, masks)
    steps = make_rule(tuned.parameters())
    hand = make_rule(other.parameters())
    target = torch.randn_like(model(inputs).detach())
    for _ in range(6):
        losses = []
        for net, optimizer in ((model, steps), (other, hand)):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(inputs), target)
            loss.backward()
            if net is other:
                for name, p in other.named_parameters():
                    p.grad *= torch.from_numpy(masks[name])
            optimizer.step()
            losses.append(float(loss.detach()))
        assert abs(losses[0] - losses[1]) <= 1e-6 * max(1.0, losses[1])
    assert losses[0] > 0


def test_the_optimizer_keeps_state_of_size_r_and_the_base_stays() -> None:
    model, inputs = make("transformer")
    before, masks = _bits(model), _masks(model)
    tuned = sm.attach(model, masks)
    r = sum(int(m.sum()) for m in masks.values())
    assert tuned.count == r
    # All parameters are given, decay and all: the frozen ones have no gradient and stay.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    state = [v for s in optimizer.state.values() for v in s.values() if v.dim()]
    assert sum(v.numel() for v in state) == 2 * r
    assert _same(before, model)
    assert max(float(d.detach().abs().max()) for d in tuned.parameters()) > 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_merge_and_unmerge_give_the_same_bits(dtype: str) -> None:
    model, inputs = make("mlp")
    kind = getattr(torch, dtype)
    model = model.to(kind)
    before, masks = _bits(model), _masks(model, 0.5)
    tuned = sm.attach(model, masks)
    with torch.no_grad():
        for delta in tuned.parameters():
            delta.copy_(torch.randn_like(delta) * 0.1)
    given = inputs.to(kind)
    attached = model(given).detach()
    tuned.merge()
    assert torch.equal(model(given), attached)
    for name, mask in masks.items():
        p, delta = dict(model.named_parameters())[name], dict(tuned.named_parameters())[name]
        index = np.flatnonzero(mask)
        wide = before[name].reshape(-1)[index].to(delta.dtype) + delta.detach()
        assert torch.equal(p.detach().reshape(-1)[index], wide.to(kind))  # round(base + delta)
    assert not _same(before, model)
    tuned.unmerge()
    assert _same(before, model)
    assert torch.equal(model(given), attached)
    tuned.merge()
    assert torch.equal(tuned.detach()(given), attached)
    assert {n for n, _ in model.named_parameters()} == set(before)


def test_detach_undoes_everything() -> None:
    model, inputs = make("lstm")
    next(iter(model.parameters())).requires_grad_(False)
    flags = [p.requires_grad for p in model.parameters()]
    before, kinds = _bits(model), [type(m) for m in model.modules()]
    answer = model(inputs).detach()
    tuned = sm.attach(model, _masks(model))
    with torch.no_grad():
        for delta in tuned.parameters():
            delta += 1
    assert not torch.equal(model(inputs), answer)
    assert tuned.detach() is model
    assert _same(before, model) and torch.equal(model(inputs), answer)
    assert [p.requires_grad for p in model.parameters()] == flags
    assert [type(m) for m in model.modules()] == kinds
    assert not model._forward_hooks and not model._forward_pre_hooks
    with pytest.raises(BadInputError, match="detached from its model already"):
        tuned.merge()


def test_tied_weights_stay_tied() -> None:
    model, inputs = make("transformer")
    mask = np.zeros((11, 8), bool)
    mask[3, 4] = True
    tuned = sm.attach(model, {"head.weight": mask})  # by its other name
    assert tuned.count == 1
    with torch.no_grad():
        next(tuned.parameters()).fill_(0.5)
    assert torch.equal(model.head.weight, model.tokens.weight)
    assert model.tokens.weight[3, 4] == dict(model.named_parameters())["tokens.weight"][3, 4] + 0.5
    before = model(inputs).detach()
    tuned.merge()
    # Frozen attention takes another path through torch, which sums in another order.
    torch.testing.assert_close(model(inputs), before, rtol=0, atol=1e-12)
    tuned.detach()
    assert model.head.weight is model.tokens.weight


def test_two_backward_passes_before_a_step() -> None:
    """Gradients are added up over two batches: nothing of the first graph is kept."""
    model, inputs = make("unrolled")
    tuned = sm.attach(model, _masks(model))
    for _ in range(2):
        model(inputs).sum().backward()
    twice = [d.grad.clone() for d in tuned.parameters()]
    for delta in tuned.parameters():
        delta.grad = None
    model(inputs).sum().backward()
    for double, delta in zip(twice, tuned.parameters(), strict=True):
        torch.testing.assert_close(double, 2 * delta.grad)


def test_parts_of_the_model_may_be_called_alone_and_copies_stand_alone() -> None:
    model, inputs = make("mlp")
    tuned = sm.attach(model, {"0.weight": True})
    twin = copy.deepcopy(model)
    with torch.no_grad():
        next(tuned.parameters()).fill_(1.0)
    assert not torch.equal(model[0](inputs), twin[0](inputs))
    with torch.no_grad():
        twin.sublearn_delta_0.fill_(1.0)
    assert torch.equal(model(inputs), twin(inputs))


def test_files_hold_places_and_values_alone(tmp_path: Path) -> None:
    model, inputs = make("transformer")
    fresh = copy.deepcopy(model)
    tuned = sm.attach(model, _masks(model, 0.02))
    with torch.no_grad():
        for delta in tuned.parameters():
            delta.copy_(torch.randn_like(delta))
    tuned.save(tmp_path / "delta.npz")
    again = sm.load_delta(fresh, tmp_path / "delta.npz")
    assert torch.equal(fresh(inputs), model(inputs))
    state = tuned.state_dict()
    plain, _ = make("transformer")
    plain.load_state_dict(state)
    assert torch.equal(plain(inputs), model(inputs))
    again.detach()
    with torch.no_grad():
        fresh.tokens.weight.add_(1)
    with pytest.raises(BadInputError, match="other base weights"):
        sm.load_delta(fresh, tmp_path / "delta.npz")
    with pytest.raises(BadInputError, match="there is no file"):
        sm.load_delta(fresh, tmp_path / "no.npz")
    (tmp_path / "bad.npz").write_text("no")
    with pytest.raises(BadInputError, match="not a delta"):
        sm.load_delta(fresh, tmp_path / "bad.npz")


def _through_a_file(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("kind", ["mlp", "lstm", "transformer"])
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), _through_a_file]
)
def test_copies_and_files_of_an_attached_model_are_attached(kind: str, copied: Any) -> None:
    model, inputs = make(kind)
    plain, kinds = model(inputs).detach(), [type(m) for m in model.modules()]
    tuned = sm.attach(model, _masks(model))
    with torch.no_grad():
        for delta in tuned.parameters():
            delta.copy_(torch.randn_like(delta) * 0.1)
    wanted = model(inputs).detach()
    twin = copied(model)
    assert torch.equal(twin(inputs), wanted)
    again = copied(tuned)
    assert torch.equal(again(inputs), wanted) and again.model is not model
    with torch.no_grad():
        for delta in again.parameters():
            delta.add_(1)
    assert not torch.equal(again(inputs), wanted) and torch.equal(model(inputs), wanted)
    again.model(inputs).sum().backward()
    assert (
        all(d.grad is not None for d in again.parameters())
        and next(tuned.parameters()).grad is None
    )
    bare = again.detach()
    assert torch.allclose(bare(inputs), plain) and [type(m) for m in bare.modules()] == kinds
    assert not bare._forward_hooks and not bare._forward_pre_hooks


def test_state_dicts_of_an_attached_model() -> None:
    model, inputs = make("lstm")
    names = set(model.state_dict())
    tuned = sm.attach(model, _masks(model))
    with torch.no_grad():
        for delta in tuned.parameters():
            delta.copy_(torch.randn_like(delta) * 0.1)
    # The model's own holds base and numbers apart, for a model to which the same is attached ...
    state = copy.deepcopy(model.state_dict())
    assert len(set(state) - names) == len(tuned.masks) and names < set(state)
    other, _ = make("lstm")
    sm.attach(other, tuned.masks)
    other.load_state_dict(state)
    assert torch.equal(other(inputs), model(inputs))
    # ... and that of what is attached is a plain model's.
    assert set(tuned.state_dict()) == names


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_blocks_that_run_twice(reentrant: bool) -> None:
    class Blocks(nn.Module):
        def __init__(self, again: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))
            self.again = again

        def forward(self, x: Any) -> Any:
            for block in (*self.blocks, self.blocks[0]):
                if self.again:
                    x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant)
                else:
                    x = block(x)
            return x

    models = [Blocks(True), Blocks(False)]
    tuned = [sm.attach(model, _masks(model, 0.5)) for model in models]
    rules = [torch.optim.SGD(t.parameters(), lr=0.5) for t in tuned]
    x = [torch.randn(5, 4, requires_grad=True) for _ in range(2)]
    for _ in range(4):
        for model, rule in zip(models, rules, strict=True):
            rule.zero_grad()
            (model(x[0]).square().sum() + model(x[1]).sum()).backward()
            rule.step()
    for one, other in zip(*(t.parameters() for t in tuned), strict=True):
        assert one.detach().abs().max() > 0
        torch.testing.assert_close(one, other)


def test_bad_input() -> None:
    model, _ = make("mlp")
    with pytest.raises(BadInputError, match=r"model must be a torch\.nn\.Module"):
        sm.attach(len, None)
    with pytest.raises(BadInputError, match="of another model"):
        sm.attach(model, {"0.weight": np.ones((2, 2), bool)})
    sm.attach(model, ["0.bias"])
    with pytest.raises(BadInputError, match="attached to this model already"):
        sm.attach(model, ["0.bias"])
