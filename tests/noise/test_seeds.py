"""The seed that is asked for reaches the draws, and the noise, of every setting built on top."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sublearn as sl
from noise.given import given
from sublearn.experiments import raman2019
from sublearn.noise import Noise, _place

NET = sl.LinearEstimator(inputs=4, outputs=2)


def _spied(module: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seeds: list[int] = []
    whole = module.simulate

    def spy(*given: Any, seed: int = -1, **named: Any) -> sl.Simulation:
        seeds.append(seed)
        return whole(*given, seed=seed, **named)

    monkeypatch.setattr(module, "simulate", spy)
    return seeds


def test_noise_of_the_deep_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = _spied(raman2019, monkeypatch)
    for seed in (11, 12):
        noise = raman2019.deep_noise(0.05)
        raman2019.deep_sigmoid(5, noise, cycles=1, repeats=1, earlier_cycles=1, seed=seed)
    earlier = seeds[0], seeds[2]
    assert seeds[1::2] == [11, 12] and len(seeds) == 4
    assert len({*earlier, 11, 12}) == 4, "the earlier task has streams of its own"


def test_noise_of_a_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = _spied(_place, monkeypatch)
    rng = np.random.default_rng(0)
    w, x = {"W": rng.standard_normal((2, 4))}, rng.standard_normal((4, 6))
    y = rng.standard_normal((2, 6))
    for seed in (3, 4):
        row = {"row": sl.Allocation.from_rows(NET, "W", [0])}
        noise = Noise((0.05, 0.1, 0.0))
        sl.place(given(NET, w, x, y), row, noise, cycles=20, repeats=2, seed=seed)
    assert seeds == [3, 4]


def test_every_network_of_a_path_has_the_seed() -> None:
    rng = np.random.default_rng(1)
    w, x = {"W": rng.standard_normal((2, 4))}, rng.standard_normal((4, 6))
    task = given(NET, w, x, rng.standard_normal((2, 6)))
    path = sl.noise.expansion_path(task, [1.5, 2.0], start="random", seed=5)
    for factor, grown in zip((1.5, 2.0), path, strict=True):
        alone = sl.noise.expand_linear(task, factor, factor, start="random", seed=5)
        assert np.array_equal(grown.start["W"], alone.start["W"])
        other = sl.noise.expand_linear(task, factor, factor, start="random", seed=0)
        assert not np.allclose(grown.start["W"], other.start["W"])
