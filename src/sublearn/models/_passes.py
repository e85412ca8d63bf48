"""One forward pass over some samples, its recorded uses and its graph: cotangents, columns, squares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sublearn.models._squares import Plan, plans_for
from sublearn.models._uses import Direct, Matrix, Rows, Tensor, Use, add_product

PIECE = 1 << 24
"""Numbers of a temporary that no cache need hold."""
KEPT_COTANGENTS = 1 << 28
"""Bytes of cotangents that are kept for columns asked for later, which saves their backward passes."""


def tolerance(dtype: Any) -> float:
    """How far two ways to the same number may lie apart, relative to the largest."""
    return {torch.float64: 1e-8, torch.float32: 1e-3}.get(dtype, 5e-2)


@dataclass
class Pass:
    """One forward pass over samples low..high, its recorded uses and its graph."""

    low: int
    high: int
    outputs: Tensor
    uses: list[Use]
    unknown: set[str]
    parameters: dict[str, Tensor]
    leaves: dict[str, Any]
    kept: tuple[set[str], list[list[Tensor | None]]] | None = None

    @property
    def samples(self) -> int:
        return self.high - self.low

    def cotangents(
        self, R: Tensor, names: Sequence[str] = (), only: set[str] | None = None
    ) -> tuple[list[Tensor | None], dict[str, Tensor | None]]:
        """Cotangents of every use for the outputs' cotangent R, and gradients of ``names``."""
        edges: dict[Any, int] = {}
        asked: list[Any] = []
        where: list[int | None] = []
        for use in self.uses:
            if only is not None and use.name not in only:
                where.append(None)
                continue
            key = (use.edge.node, use.edge.output_nr)
            if key not in edges:
                edges[key] = len(asked)
                asked.append(use.edge)
            where.append(edges[key])
        if not self.outputs.requires_grad or not (asked or names):
            return [None] * len(self.uses), dict.fromkeys(names)
        found = torch.autograd.grad(
            self.outputs,
            [*asked, *(self.leaves[name] for name in names)],
            grad_outputs=R,
            retain_graph=True,
            allow_unused=True,
        )
        return [None if i is None else found[i] for i in where], dict(
            zip(names, found[len(asked) :], strict=True)
        )

    def by_name(self) -> dict[str, list[int]]:
        """The uses of every parameter."""
        uses: dict[str, list[int]] = {name: [] for name in self.parameters}
        for i, use in enumerate(self.uses):
            uses[use.name].append(i)
        return uses

    def unexplained(
        self,
        cotangents: list[Tensor | None],
        gradients: Mapping[str, Tensor | None],
        skip: set[str],
    ) -> set[str]:
        """Parameters whose gradient by autograd is not what the recorded uses give."""
        wrong = set()
        for name, total in self.sums(cotangents, skip=skip):
            true = gradients[name]
            true = torch.zeros_like(total) if true is None else true
            scale = max(float(true.abs().max()), float(total.abs().max()))
            if float(total.sub_(true).abs_().max()) > tolerance(self.outputs.dtype) * scale:
                wrong.add(name)
        return wrong

    def scores(self, R: Tensor, others: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
        cotangents, gradients = self.cotangents(R, others, only=set(self.parameters) - set(others))
        yield from self.sums(cotangents, skip=set(others))
        for name, g in gradients.items():
            yield name, torch.zeros_like(self.parameters[name]) if g is None else g

    def sums(self, cotangents: list[Tensor | None], skip: set[str]) -> Iterator[tuple[str, Tensor]]:
        """Sums of the gradients over samples, parameter by parameter."""
        for name, uses in self.by_name().items():
            if name in skip:
                continue
            total = torch.zeros(
                self.parameters[name].shape, dtype=self.outputs.dtype, device=self.outputs.device
            )
            for i in uses:
                use, G = self.uses[i], cotangents[i]
                if G is None:
                    continue
                part = use.view.of(total)
                if isinstance(use, Matrix):
                    left, right = (x.flatten(0, -3) for x in (use.canonical(G), use.factor()))
                    add_product(part, left, right)
                elif isinstance(use, Rows):
                    rows = use.canonical(G)
                    # index_add_ on a strided part would need it to be contiguous in rows: it is.
                    part.index_add_(0, use.index.reshape(-1), rows.reshape(-1, rows.shape[-1]))
                elif isinstance(use, Direct):
                    part += use.total(G)
            yield name, total

    def each_output(
        self, names: set[str], keep: bool = False
    ) -> Iterator[tuple[int, list[Tensor | None]]]:
        """For output k of every sample: the cotangents of all uses. One backward pass each.

        With ``keep`` they are held for the next time, if they are few.
        """
        if self.kept is not None and names <= self.kept[0]:
            yield from enumerate(self.kept[1])
            return
        outputs = int(self.outputs.shape[1])
        edges = {
            (use.edge.node, use.edge.output_nr): math.prod(use.shape)
            for use in self.uses
            if use.name in names
        }
        size = sum(edges.values()) * outputs * self.outputs.element_size()
        held: list[list[Tensor | None]] | None = [] if keep and size <= KEPT_COTANGENTS else None
        for k in range(outputs):
            # A new one each time: where nothing lies between, the cotangent of a use is R itself.
            R = torch.zeros_like(self.outputs)
            R[:, k] = 1
            found = self.cotangents(R, only=names)[0]
            if held is not None:
                held.append(found)
            yield k, found
        if held is not None:
            self.kept = (names, held)

    # Columns.

    def add_columns(
        self, columns: Tensor, chosen: Mapping[str, Tensor], place: Mapping[str, slice]
    ) -> None:
        """Fill (samples, outputs, r) with the chosen entries' derivatives."""
        plans = []
        for i, use in enumerate(self.uses):
            if use.name not in chosen:
                continue
            inside, where = use.view.positions(chosen[use.name])
            if bool(inside.any()):
                target = place[use.name].start + inside.nonzero()[:, 0]
                plans.append((i, _Columns(use, where, target)))
        for k, cotangents in self.each_output(set(chosen)):
            for i, plan in plans:
                if (G := cotangents[i]) is not None:
                    columns[:, k].index_add_(1, plan.target, plan.entries(G))

    # Squared lengths.

    def add_squares(self, total: dict[str, Tensor], names: Sequence[str]) -> None:
        """Add the squares of the samples' gradients, for every output."""
        wanted = set(names)
        plans: list[Plan] = []
        for name, uses in self.by_name().items():
            if name in wanted and uses:
                shape = self.parameters[name].shape
                plans += plans_for(name, shape, [(i, self.uses[i]) for i in uses])
        for _, cotangents in self.each_output(wanted, keep=True):
            for plan in plans:
                plan.add(cotangents, total[plan.name])
        for plan in plans:
            plan.finish(total[plan.name])


class _Columns:
    """Chosen entries of one use: places ``where`` in its view, ``target`` among the columns."""

    def __init__(self, use: Use, where: list[Tensor], target: Tensor) -> None:
        self.use, self.samples = use, use.samples
        self.where, self.target = where, target
        self._factor: Tensor | None = None  # the entries' other factor, the same for every output

    def entries(self, cotangent: Tensor) -> Tensor:
        """These entries of every sample's gradient, (samples, r)."""
        G = self.use.by_sample(cotangent)
        if isinstance(self.use, Direct):
            return G[(slice(None), *self.where)] if self.where else G.reshape(self.samples, 1)
        if isinstance(self.use, Rows):
            return self._of_rows(self.use, G)
        assert isinstance(self.use, Matrix)
        return self._of_matrix(self.use, G)

    def _of_rows(self, use: Rows, G: Tensor) -> Tensor:
        rows, columns = self.where
        index = use.rows()
        found = G.new_zeros(self.samples, len(rows))
        step = max(1, PIECE // max(1, index.numel()))
        for low in range(0, len(rows), step):
            part = slice(low, low + step)
            hit = index.unsqueeze(-1) == rows[part]
            found[:, part] = (G[..., columns[part]] * hit).sum(1)
        return found

    def _of_matrix(self, use: Matrix, G: Tensor) -> Tensor:
        rows, columns = self.where
        right = use.right()
        positions, groups, per = G.shape[1], G.shape[2], G.shape[3]
        wide = right.shape[-1]
        size = groups * per * wide
        found = G.new_empty(self.samples, len(rows))
        if len(rows) * 16 > size and positions > 1:
            step = max(1, PIECE // size)
            for low in range(0, self.samples, step):
                part = slice(low, low + step)
                dense = torch.einsum("btgo,btgi->bgoi", G[part], right[part])
                found[part] = dense.flatten(1)[:, rows * wide + columns]
            return found
        left, right = G.flatten(2), right.flatten(2)
        across = torch.div(rows, per, rounding_mode="floor") * wide + columns
        step = max(1, PIECE // max(1, self.samples * positions))
        if len(rows) <= step:
            if self._factor is None:
                self._factor = right.index_select(2, across)
            return left.index_select(2, rows).mul_(self._factor).sum(1)
        for low in range(0, len(rows), step):
            part = slice(low, low + step)
            product = left.index_select(2, rows[part]).mul_(right.index_select(2, across[part]))
            found[:, part] = product.sum(1)
        return found
