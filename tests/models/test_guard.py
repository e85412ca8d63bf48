"""Frozen weights that move, optimizer by optimizer, as they were measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is tested by make test-models")

import sublearn.models as sm  # noqa: E402
from sublearn import BadInputError  # noqa: E402
from sublearn.models import FrozenWeightsMovedError  # noqa: E402

nn = torch.nn


def _model(dtype: Any = torch.float32) -> tuple[Any, Any, dict[str, Any]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 50)).to(dtype)
    inputs = torch.randn(20, 30, dtype=dtype)
    rng = np.random.default_rng(0)
    masks = {n: rng.random(tuple(p.shape)) < 0.05 for n, p in model.named_parameters()}
    return model, inputs, masks


def _train(
    model: Any, inputs: Any, optimizer: Any, masks: dict[str, Any] | None, steps: int = 1
) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        for name, p in model.named_parameters():
            if masks is not None:
                p.grad *= torch.from_numpy(masks[name])
        optimizer.step()


def _frozen(masks: dict[str, Any]) -> int:
    return sum(int((~m).sum()) for m in masks.values())


Rule = Callable[[Any], Any]
STILL: dict[str, Rule] = {
    "Adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    "SGD": lambda ps: torch.optim.SGD(ps, lr=0.01),
    "SGD with momentum": lambda ps: torch.optim.SGD(ps, lr=0.01, momentum=0.9),
    "AdamW without decay": lambda ps: torch.optim.AdamW(ps, lr=0.01, weight_decay=0.0),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps, lr=0.01),
}
MOVING: dict[str, Rule] = {
    "AdamW": lambda ps: torch.optim.AdamW(ps, lr=0.01),
    "Adam with L2": lambda ps: torch.optim.Adam(ps, lr=0.01, weight_decay=0.01),
    "SGD with decay": lambda ps: torch.optim.SGD(ps, lr=0.01, weight_decay=0.01),
}


@pytest.mark.parametrize("name", STILL)
def test_no_false_alarm(name: str) -> None:
    model, inputs, masks = _model()
    with sm.guard(model, masks) as watch:
        _train(model, inputs, STILL[name](model.parameters()), masks, 3)
    assert watch.moved == ()


@pytest.mark.parametrize("name", MOVING)
def test_decay_moves_nearly_all(name: str) -> None:
    """All of them, but for weights so small that decay rounds away or that are zero."""
    model, inputs, masks = _model()
    optimizer = MOVING[name](model.parameters())
    with pytest.raises(FrozenWeightsMovedError) as caught, sm.guard(model, masks):
        _train(model, inputs, optimizer, masks)
    moved = sum(item.count for item in caught.value.moved)
    assert moved > 0.99 * _frozen(masks)


def test_a_mask_added_after_dense_steps_meets_momentum() -> None:
    model, inputs, masks = _model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    _train(model, inputs, optimizer, None, 5)
    with pytest.raises(FrozenWeightsMovedError) as caught, sm.guard(model, masks):
        _train(model, inputs, optimizer, masks)
    assert sum(item.count for item in caught.value.moved) > 0.99 * _frozen(masks)


def test_muon_mixes_entries() -> None:
    """It makes the update orthogonal, so one entry's gradient moves the rest of its matrix."""
    model, inputs, masks = _model()
    weights = [p for p in model.parameters() if p.dim() == 2]
    optimizer = torch.optim.Muon(weights, lr=0.01, weight_decay=0.0)
    with sm.guard(model, masks, restore=True) as watch:
        _train(model, inputs, optimizer, masks)
    moved = {item.name: item.count for item in watch.moved}
    assert set(moved) == {"0.weight", "2.weight"}
    assert sum(moved.values()) > 0.5 * sum(int((~masks[n]).sum()) for n in moved)


def test_restoring_after_each_step() -> None:
    model, inputs, masks = _model()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    watch = sm.guard(model, masks, restore=True)
    for _ in range(3):
        _train(model, inputs, optimizer, masks)
        assert watch.check()
    sm.assert_frozen(before, model, masks)
    changed = sum(int((before[n] != p).sum()) for n, p in model.named_parameters())
    assert 0 < changed <= sum(int(m.sum()) for m in masks.values())


def test_what_was_put_back_is_not_forgotten() -> None:
    """Entries that moved once count, each once; the largest change is that of all steps."""
    model = nn.Linear(3, 2)
    watch = sm.guard(model, ["bias"], restore=True)
    with watch:
        for place, far in (((0, 0), 1.0), ((0, 0), 4.0), ((1, 2), 2.0)):
            model.weight.data[place] += far
            now = watch.check()
            assert [item.count for item in now] == [1]
            assert now[0].largest == pytest.approx(far, rel=1e-5)
            assert watch.check() == ()  # it is back
    (item,) = watch.moved
    assert (item.name, item.count, item.frozen) == ("weight", 2, 6)
    assert item.largest == pytest.approx(4.0, rel=1e-5)
    assert item.where is not None and item.where.tolist() == [
        [True, False, False],
        [False, False, True],
    ]
    assert str(item).startswith("weight: 2 of 6 frozen weights, by up to 4")


@pytest.mark.parametrize("restore", [True, False])
def test_an_error_inside_passes_on_after_the_weights_are_back(restore: bool) -> None:
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    for error in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(error), sm.guard(model, ["bias"], restore=restore) as watch:
            model.weight.data.add_(1.0)
            model.bias.data.add_(1.0)
            raise error
        assert torch.equal(model.weight, before) is restore
        assert len(watch.moved) == restore
    other = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    kept = other[1].weight.detach().clone()
    with pytest.raises(ZeroDivisionError), sm.guard(other, [], restore=True):
        other[0].half()  # which cannot be put back, and hides neither the error nor what can be
        other[1].weight.data.add_(1.0)
        raise ZeroDivisionError
    assert torch.equal(other[1].weight, kept)


def test_buffers_are_no_weights() -> None:
    """Running means move in training mode, and are neither compared nor put back by a guard."""
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with sm.guard(model, [], restore=True) as watch:
        model(torch.randn(8, 3))
    assert watch.moved == () and not torch.equal(model[1].running_mean, before["1.running_mean"])
    assert set(watch._before) == {name for name, _ in model.named_parameters()}
    # A state dict holds them, and is compared as it is, with a model too.
    with pytest.raises(FrozenWeightsMovedError, match=r"running_mean: 2 of 2"):
        sm.assert_frozen(before, model, [])
    sm.assert_frozen({n: v.clone() for n, v in model.state_dict().items()}, model, [])


def test_complex_numbers_are_compared_in_both_parts() -> None:
    for dtype in (torch.complex64, torch.complex128):
        model = nn.Module()
        model.spectrum = nn.Parameter(torch.zeros(4, dtype=dtype), requires_grad=False)
        model.bias = nn.Parameter(torch.zeros(2))
        with torch.no_grad():
            model.spectrum[0] = complex(0.0, float("nan"))
        with sm.guard(model, ["bias"], restore=True) as watch:
            assert watch.check() == ()  # a NaN equals itself
            model.spectrum[1] += 3j
            model.spectrum[2] = -0.0
        assert [(item.count, item.largest) for item in watch.moved] == [(2, 3.0)]
        assert model.spectrum[1] == 0


def test_small_decay_is_rounded_away_in_bfloat16() -> None:
    """lr x decay = 1e-3 is below half a unit in the last place of 8 bits: nothing moves."""
    model, inputs, masks = _model(torch.bfloat16)
    with sm.guard(model, masks):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.01)
        _train(model, inputs, optimizer, masks)
    with pytest.raises(FrozenWeightsMovedError), sm.guard(model, masks):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
        _train(model, inputs, optimizer, masks)


def test_whole_tensors_by_flags() -> None:
    model, inputs, _ = _model()
    for name, p in model.named_parameters():
        p.requires_grad_(name.endswith("bias"))
    with sm.guard(model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    with pytest.raises(FrozenWeightsMovedError, match=r"0\.weight: 1 of 1200"), sm.guard(model):
        model[0].weight.data[3, 4] += 1e-3


def test_one_bit_is_enough() -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0, float("nan")]]))
    with sm.guard(model, []):
        pass  # a NaN equals itself
    with (
        pytest.raises(FrozenWeightsMovedError, match="1 frozen weights moved"),
        sm.guard(model, []),
    ):
        model.weight.data[0, 0] = -0.0


def test_other_ways_to_change_a_model() -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(FrozenWeightsMovedError, match="weight: was"), sm.guard(model, ["bias"]):
        model.half()
    with pytest.raises(FrozenWeightsMovedError, match="weight: is gone"), sm.guard(model, ["bias"]):
        del model.weight


def test_an_error_inside_is_not_hidden() -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(ZeroDivisionError), sm.guard(model, ["bias"]):
        model.weight.data.add_(1)
        1 / 0  # noqa: B018


def test_attach_under_guard() -> None:
    """What attach trains never shows as moved, whatever the optimizer does."""
    model, inputs, masks = _model()
    tuned = sm.attach(model, masks)
    start = [delta.detach().clone() for delta in tuned.parameters()]
    for make in (*STILL.values(), *MOVING.values()):
        with sm.guard(model, []), sm.guard(model, masks):
            optimizer = make(list(tuned.parameters()))
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
    assert all((a != b).any() for a, b in zip(start, tuned.parameters(), strict=True))
    with pytest.raises(FrozenWeightsMovedError), sm.guard(model, []):
        tuned.merge()


def test_state_dicts() -> None:
    model = nn.Linear(2, 1)
    before = {n: v.clone() for n, v in model.state_dict().items()}
    model.bias.data.add_(1)
    sm.assert_frozen(before, model.state_dict(), ["bias"])
    with pytest.raises(FrozenWeightsMovedError, match="bias: 1 of 1"):
        sm.assert_frozen(before, model.state_dict(), ["weight"])
    with pytest.raises(BadInputError, match="must be a model, a state dict"):
        sm.assert_frozen(3, model)
