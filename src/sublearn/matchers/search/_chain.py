"""Any mix of components of any linear network: an instance made ready for the dogleg on its weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.matchers.search._chain_kernel import BIAS, ENCODER, WEIGHT, Chain
from sublearn.verdicts import is_affine

# Sizes of the starts, over the usual size of a weight, taken in turn.
SCALES = (1.0, 3.0, 0.4, 10.0)


@dataclass(frozen=True)
class Prepared:
    """The chain, its weights in one buffer, and where inner and outer unknowns stand in the labels."""

    chain: Chain
    weights: Array
    widest: int
    inner: Indices
    outer: Indices
    size: Array  # (u,): typical size of each outer weight, 1 / sqrt(row length)


def prepare(instance: Instance) -> Prepared:
    """The instance as flat arrays, with the largest weight that enters affinely projected out."""
    return _prepare(instance, _projected(instance))


def all_outer(instance: Instance) -> Prepared:
    """The instance as flat arrays, with nothing projected out: unknowns in the order of the labels."""
    return _prepare(instance, None)


def _prepare(instance: Instance, projected: str | None) -> Prepared:
    network, allocation = instance.network, instance.allocation
    begin: dict[str, int] = {}
    at = 0
    for name, (rows, columns) in network.shapes.items():
        begin[name] = at
        at += rows * columns
    buffer = np.concatenate([instance.weights[name].ravel() for name in network.shapes])
    blocks = network.split_inputs(instance.inputs)
    block_at = np.concatenate([[0], np.cumsum([len(block) for block in blocks])])
    steps = np.full((len(network.steps), 7), -1, dtype=np.int64)
    uses: dict[str, list[tuple[int, int]]] = {name: [] for name in network.shapes}
    for p, step in enumerate(network.steps):
        steps[p, :3] = begin[step.weight], *network.shapes[step.weight]
        uses[step.weight].append((WEIGHT, p))
        if step.block is not None:
            steps[p, 3:5] = block_at[step.block], len(blocks[step.block])
            if step.encoder is not None:
                steps[p, 5] = begin[step.encoder]
                uses[step.encoder].append((ENCODER, p))
        if step.bias is not None:
            steps[p, 6] = begin[step.bias]
            uses[step.bias].append((BIAS, p))
    labels = allocation.labels()
    inside = np.array([name == projected for name, _, _ in labels])
    inner, outer = np.flatnonzero(inside), np.flatnonzero(~inside)

    def table(chosen: Indices) -> tuple[Indices, Indices]:
        every, places = [], []
        for e, label in enumerate(chosen.tolist()):
            name, i, j = labels[label]
            places.append(begin[name] + i * network.shapes[name][1] + j)
            every += [(e, kind, p, i, j) for kind, p in uses[name]]
        shaped = np.array(every, dtype=np.int64).reshape(-1, 5)
        return shaped, np.array(places, dtype=np.int64)

    inner_uses, inner_at = table(inner)
    outer_uses, outer_at = table(outer)
    widths = [size for shape in network.shapes.values() for size in shape]
    chain = Chain(
        steps,
        np.concatenate(blocks),
        instance.targets,
        inner_uses,
        outer_uses,
        inner_at,
        outer_at,
    )
    lengths = [network.shapes[labels[e][0]][1] for e in outer.tolist()]
    size = 1.0 / np.sqrt(np.array(lengths, dtype=np.float64))
    return Prepared(chain, buffer, max(widths), inner, outer, size)


def _projected(instance: Instance) -> str | None:
    """The weight to project out: the one with most learnable entries among those that may be.

    Outputs must be affine in it; there must be fewer entries than equations, and others beside it.
    """
    network, allocation = instance.network, instance.allocation
    middle = (len(network.shapes) - 1) / 2
    found = []
    for place, name in enumerate(network.shapes):
        count = allocation.flat(name).size
        alone = Allocation(network.shapes, {name: allocation.flat(name)})
        if 0 < count < instance.equations and is_affine(network, alone):
            # Of equals the one in the middle: it leaves the least nonlinear problem behind.
            found.append((count, -abs(place - middle), name))
    return max(found)[2] if found else None
