"""The seed that is asked for reaches the draws, and the noise, of every setting built on top."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn.noise import _place, _simulate_settings

NET = sl.LinearEstimator(inputs=4, outputs=2)


def _spied(module: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seeds: list[int] = []
    whole = module.simulate

    def spy(*given: Any, seed: int = -1, **named: Any) -> sl.Simulation:
        seeds.append(seed)
        return whole(*given, seed=seed, **named)

    monkeypatch.setattr(module, "simulate", spy)
    return seeds


def test_noise_of_the_deep_and_the_linear_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = _spied(_simulate_settings, monkeypatch)
    for seed in (11, 12):
        sl.noise.deep_sigmoid(5, 0.05, cycles=1, repeats=1, earlier_cycles=1, seed=seed)
        sl.noise.linear_steady_state(10, 5, (0.1, 0.5, 0.1), cycles=2, repeats=1, seed=seed)
    earlier = seeds[0], seeds[3]
    assert seeds[1:3] == [11, 11] and seeds[4:] == [12, 12]
    assert len({*earlier, 11, 12}) == 4, "the earlier task has streams of its own"


def test_noise_of_a_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = _spied(_place, monkeypatch)
    rng = np.random.default_rng(0)
    w, x = {"W": rng.standard_normal((2, 4))}, rng.standard_normal((4, 6))
    y = rng.standard_normal((2, 6))
    for seed in (3, 4):
        sl.place(
            NET, w, inputs=x, targets=y, gamma=(0.05, 0.1, 0.0), cycles=20, repeats=2, seed=seed,
            allocations={"row": sl.Allocation.from_rows(NET, "W", [0])},
        )  # fmt: skip
    assert seeds == [3, 4]


def test_every_network_of_a_path_has_the_seed() -> None:
    rng = np.random.default_rng(1)
    w, x = {"W": rng.standard_normal((2, 4))}, rng.standard_normal((4, 6))
    given: dict[str, Any] = {"inputs": x, "targets": rng.standard_normal((2, 6)), "start": "random"}
    path = sl.noise.expansion_path(NET, w, **given, factors=[1.5, 2.0], seed=5)
    for factor, grown in zip((1.5, 2.0), path, strict=True):
        alone = sl.noise.expand_linear(NET, w, **given, c1=factor, c2=factor, seed=5)
        assert np.array_equal(grown.weights["W"], alone.weights["W"])
        other = sl.noise.expand_linear(NET, w, **given, c1=factor, c2=factor, seed=0)
        assert not np.allclose(grown.weights["W"], other.weights["W"])
