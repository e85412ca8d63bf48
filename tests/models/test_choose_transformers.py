"""choose on models of transformers as they are: dicts of inputs, logits, tied heads."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="sublearn.models is tested where torch is installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from sublearn import BadInputError  # noqa: E402
from sublearn.models._choose import choose  # noqa: E402


def test_gpt2_with_a_dict_of_inputs() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=8, n_embd=16, n_layer=1, n_head=2, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)  # in training mode, with dropout
    codes = torch.randint(40, (24, 7))
    inputs = {"input_ids": codes[:, :-1], "attention_mask": torch.ones(24, 6, dtype=torch.int64)}
    labels = codes[:, 1:].clone()
    labels[:, 0] = -100  # left out of the loss, and of the scores
    rules = ["pursuit", "gradient", "last", "biases-and-gains"]
    choice = choose(model, inputs, labels, 50, rules=rules, rates=[0.03], steps=3)
    assert choice.count == 50 and choice.metric == "accuracy"
    assert model.training
    last = choose(model, inputs, labels, 50, method="last")
    assert last.masks["transformer.wte.weight"].sum() == 50  # the head is tied to it
    assert not any("lm_head" in name for name in last.masks)


def test_labels_that_the_model_shifts_itself() -> None:
    """Transformers take the tokens themselves as labels: the score is then that loss, of no copies."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=8, n_embd=16, n_layer=1, n_head=2, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    codes = torch.randint(40, (24, 7))
    inputs = {"input_ids": codes, "attention_mask": torch.ones_like(codes)}
    with pytest.raises(BadInputError, match=r"shift by one.*Models of transformers shift inside"):
        choose(model, inputs, codes, 20, method="gradient")
    found = choose(
        model, inputs, codes, 20, rules=["gradient", "last"], rates=[0.03], steps=3,
        step=lambda m, x, y: m(**x, labels=y).loss,
    )  # fmt: skip
    assert found.metric == "minus the loss"


def test_own_step_as_trainers_write_it() -> None:
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        image_size=8, patch_size=4, num_channels=1, num_labels=3,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    inputs = {"pixel_values": torch.randn(24, 1, 8, 8)}
    labels = torch.arange(24) % 3
    ours = choose(model, inputs, labels, 20, rules=["gradient", "last"], rates=[0.03], steps=3)
    own = choose(
        model, inputs, labels, 20, rules=["gradient", "last"], rates=[0.03], steps=3,
        step=lambda m, x, y: m(**x, labels=y).loss,
    )  # fmt: skip
    assert own.method == ours.method
    assert all(np.array_equal(own.masks[name], mask) for name, mask in ours.masks.items())
