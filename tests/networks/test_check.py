"""Nobody gets a wrong model in silence: a network is checked against outputs made elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn import BadInputError

rng = np.random.default_rng(3)
NET = sl.RNN(n=5, b=2, d=3, T=4)
WEIGHTS = {name: rng.standard_normal(shape) / 2 for name, shape in NET.shapes.items()}
INPUTS = rng.standard_normal((4, 2, 6))


def by_loops(usual: bool) -> np.ndarray:
    """The paper's tanh(W (h + B x)), or the usual tanh(W h + B x), one sample at a time."""
    W, B, D = (WEIGHTS[name] for name in "WBD")
    out = np.empty((3, 6))
    for s in range(6):
        h = np.zeros(5)
        for t in range(4):
            x = B @ INPUTS[t, :, s]
            h = np.tanh(W @ h + x) if usual else np.tanh(W @ (h + x))
        out[:, s] = D @ h
    return out


def test_the_model_itself_is_reproduced() -> None:
    found = NET.check(WEIGHTS, INPUTS, by_loops(usual=False), tolerance=1e-12)
    assert found and found.first is None and found.difference < 1e-12
    assert "reproduces all 18 outputs" in str(found)


def test_the_same_bits_are_called_so() -> None:
    found = NET.check(WEIGHTS, INPUTS, NET.forward(WEIGHTS, INPUTS))
    assert found.difference == 0 and str(found).endswith("all 18 outputs, to the last bit.")


def test_another_formula_is_caught_and_the_place_named() -> None:
    theirs = by_loops(usual=True)
    found = NET.check(WEIGHTS, INPUTS, theirs)
    assert not found and found.first == (0, 0) and found.theirs == theirs[0, 0]
    assert "is not the model" in str(found)


def test_one_spoilt_number_is_found() -> None:
    theirs = by_loops(usual=False)
    theirs[2, 4] += 1e-3
    found = NET.check(WEIGHTS, INPUTS, theirs)
    assert found.first == (2, 4) and found.differing == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"W": WEIGHTS["W"] + 1j}, "weight W must hold real numbers, not complex"),
        ({"D": WEIGHTS["D"].T}, "Is it transposed"),
        ({"W": WEIGHTS["W"].astype(str)}, "weight W must hold real numbers"),
        ({"W": WEIGHTS["W"] * np.nan}, "finite"),
    ],
)
def test_weights_that_cannot_be_meant(change: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        NET.check({**WEIGHTS, **change}, INPUTS, by_loops(usual=False))


@pytest.mark.parametrize("weights", [list(WEIGHTS.values()), tuple(WEIGHTS.values()), None, INPUTS])
def test_weights_without_names_are_refused_in_a_sentence(weights: Any) -> None:
    words = r"^weights must be a dict of matrices by name, like {'W': W}, not a \w+\.$"
    mask = sl.Allocation.whole(NET)
    for ask in (
        lambda: NET.check(weights, INPUTS, by_loops(usual=False)),
        lambda: NET.forward(weights, INPUTS),
        lambda: NET.jvp(WEIGHTS, INPUTS, weights),
        lambda: sl.Instance(NET, mask, weights, INPUTS, by_loops(usual=False)),
        lambda: sl.Instance.given(NET, mask, weights, INPUTS, by_loops(usual=False)),
        lambda: sl.Instance.from_teacher(NET, mask, WEIGHTS, INPUTS, weights),
    ):
        with pytest.raises(BadInputError, match=words):
            ask()


def test_an_output_of_every_step_is_named_by_its_step() -> None:
    net = sl.RateRNN(n=4, b=2, d=3, T=5, leak=0.5, readout="every")
    weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
    x = rng.standard_normal((5, 2, 6))
    theirs = net.forward(weights, x)
    theirs[13, 2] += 1.0  # the fourteenth number is output 1 at step 4
    found = net.check(weights, x, theirs)
    assert found.first == (13, 2) and "output 1 at step 4 of sample 2" in str(found)
    assert "step" not in str(NET.check(WEIGHTS, INPUTS, by_loops(usual=True)))


def test_outputs_with_samples_in_rows_are_explained() -> None:
    with pytest.raises(BadInputError, match="Samples are columns here"):
        NET.check(WEIGHTS, INPUTS, by_loops(usual=False).T)
    with pytest.raises(BadInputError, match="complex"):
        NET.check(WEIGHTS, INPUTS, by_loops(usual=False) + 0j)


def test_inputs_with_samples_first_are_explained() -> None:
    """The transpose that is named puts them right."""
    turned = INPUTS.transpose(2, 0, 1)
    with pytest.raises(BadInputError, match=r"inputs.transpose\(1, 2, 0\) would fit"):
        NET.check(WEIGHTS, turned, by_loops(usual=False))
    assert NET.check(WEIGHTS, turned.transpose(1, 2, 0), by_loops(usual=False))


def test_numbers_of_single_precision_are_told_from_another_model() -> None:
    theirs = by_loops(usual=False).astype(np.float32)
    found = NET.check(WEIGHTS, INPUTS, theirs)
    assert not found and "float32" in str(found) and "is not the model" not in str(found)
    assert NET.check(WEIGHTS, INPUTS, theirs, tolerance=1e-5)
