"""Any mix of components of any linear network: an instance made ready for the dogleg on its weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.matchers._packed import packed, unknowns
from sublearn.matchers.search._chain_kernel import SplitChain, chain_work
from sublearn.matchers.search._dogleg import Rules, Work
from sublearn.verdicts import is_affine


@dataclass(frozen=True)
class OnWeights:
    """The chain, and where inner and outer unknowns stand in the labels."""

    chain: SplitChain
    inner: Indices
    outer: Indices
    size: Array  # (u,): typical size of each outer weight, 1 / sqrt(row length)

    # Sizes of the starts, over the usual size of a weight, taken in turn.
    scales = later_scales = (1.0, 3.0, 0.4, 10.0)
    rules: ClassVar[Rules] = (1, 0.0, 1e-3, 0.9)
    block = 4

    @property
    def unknowns(self) -> int:
        return self.outer.size

    def starts(self, noise: Array, scale: float) -> Array:
        return noise * self.size * scale

    @cached_property
    def work(self) -> tuple[Work, float]:
        with np.errstate(all="ignore"):
            return chain_work(self.chain), float(np.linalg.norm(self.chain.targets))

    def at_scale(self, scale: float) -> tuple[Work, float]:
        return self.work

    def solution(self, values: Array, unknowns: Array, scale: float) -> Array:
        out = np.empty(values.size + unknowns.size)
        out[self.inner], out[self.outer] = values, unknowns
        return out


def on_weights(instance: Instance) -> OnWeights:
    """The instance as flat arrays, with the largest weight that enters affinely projected out."""
    network, projected = instance.network, _projected(instance)
    names = np.array([name for name, _, _ in instance.allocation.labels()])
    inner, outer = np.flatnonzero(names == projected), np.flatnonzero(names != projected)
    lengths = [network.shapes[name][1] for name in names[outer].tolist()]
    size = 1.0 / np.sqrt(np.array(lengths, dtype=np.float64))
    return OnWeights(split_chain(instance, inner, outer), inner, outer, size)


def all_outer(instance: Instance) -> SplitChain:
    """The instance as flat arrays, with nothing projected out: unknowns in the order of the labels."""
    count = len(instance.allocation)
    return split_chain(instance, np.arange(0), np.arange(count))


def split_chain(instance: Instance, inner: Indices, outer: Indices) -> SplitChain:
    """The instance as flat arrays; ``inner`` and ``outer`` are positions in the labels."""
    network, allocation = instance.network, instance.allocation
    chain = packed(network)
    inner_at, inner_uses = unknowns(network, allocation, inner)
    outer_at, outer_uses = unknowns(network, allocation, outer)
    return SplitChain(
        chain.table,
        chain.flatten(instance.weights),
        instance.inputs.reshape(-1, instance.samples),
        instance.targets,
        inner_uses,
        outer_uses,
        inner_at,
        outer_at,
    )


def _projected(instance: Instance) -> str | None:
    """The weight to project out: the one with most learnable entries among those that may be.

    Outputs must be affine in it; there must be fewer entries than equations, and others beside it.
    """
    network, allocation = instance.network, instance.allocation
    middle = (len(network.shapes) - 1) / 2
    ranked = []
    for place, name in enumerate(network.shapes):
        count = allocation.flat(name).size
        alone = Allocation(network.shapes, {name: allocation.flat(name)})
        if 0 < count < instance.equations and is_affine(network, alone):
            # Of equals the one in the middle: it leaves the least nonlinear problem behind.
            ranked.append((count, -abs(place - middle), name))
    return max(ranked)[2] if ranked else None
