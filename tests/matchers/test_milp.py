"""The mixed-integer program: what it may not say where numbers are of very different sizes."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from matchers import mixed_integer
from matchers.mixed_integer import MixedInteger
from sublearn.matchers import standard_ladder

NETWORK = sl.FeedForward((3, 4, 2), activation="relu")
# Instances on which "refuted" was said of a planted match: (power of 2, seed, what is scaled).
CASES = [(8, 28, "unit"), (14, 5, "unit"), (26, 32, "unit"), (36, 16, "unit"), (36, 22, "sample")]


def spread_out(power: int, trial: int, what: str) -> sl.Instance:
    """Small whole weights, one readout or one sample a power of 2 apart: the targets are exact."""
    rng = np.random.default_rng([power, trial, 7])
    weights = {n: rng.integers(-4, 5, s).astype(float) for n, s in NETWORK.shapes.items()}
    inputs = rng.integers(-4, 5, (3, 3)).astype(float)
    if what == "unit":
        weights["W2"][:, 1] *= 2.0**-power
    else:
        inputs[:, 2] *= 2.0**power
    held = sl.Allocation.from_rows(NETWORK, "W1", [0, 1])
    return sl.Instance(NETWORK, held, weights, inputs, NETWORK.forward(weights, inputs))


def opinion(instance: sl.Instance) -> sl.Decision:
    return MixedInteger().attempt(instance, sl.Budget(), np.random.default_rng(0))


@pytest.mark.parametrize(("power", "trial", "what"), CASES)
def test_a_planted_match_is_not_refuted(
    power: int, trial: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = spread_out(power, trial, what)
    found = opinion(instance)
    assert found.kind == "undecided" and "may be needed" in found.reason, found
    # The case is one: without the guard the answer is wrong.
    monkeypatch.setattr(mixed_integer, "reach", lambda system: 0.0)
    assert opinion(instance).kind == "refuted"


def test_sizes_that_are_alike_are_still_refuted() -> None:
    problem = sl.Problem(sl.FeedForward((3, 3, 2), activation="relu"), samples=2)
    drawn = [sl.draw(problem, {"W1": sl.FirstRows(2)}, seed=0, trial=t) for t in range(12)]
    refuted = [instance for instance in drawn if opinion(instance).kind == "refuted"]
    assert len(refuted) >= 3
    # A second opinion settles nothing: no ladder that holds it calls the instance refuted by it.
    for instance in refuted:
        alone = sl.decide(instance, ladder=[MixedInteger()])
        assert alone.kind == "undecided" and "refuted, only numerical" in alone.reason
        proved = sl.decide(instance, ladder=[MixedInteger(), *standard_ladder()])
        assert (proved.kind, str(proved.grade)) == ("refuted", "proof")
