"""Squared lengths of the columns of J: how the squares of samples' gradients are added up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from sublearn.models._uses import Direct, Matrix, Rows, Tensor, Use, View, add_product

BLOCK = 1 << 18
"""Numbers that are squared at once: a block that stays in the processor's cache."""
Numbered = tuple[int, Use]


def widened(tensor: Tensor) -> Tensor:
    """In single precision at least: the square of 300 is more than float16 holds, that of 1e-4 less."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


class SquaresPlan:
    """How the squared gradients of one group of uses of a parameter are added up.

    ``uses`` come with their places in the list of cotangents.
    """

    def __init__(self, name: str, uses: Sequence[Numbered]) -> None:
        self.name, self.uses = name, uses
        self.samples, self.view = uses[0][1].samples, uses[0][1].view

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        """Add the squares for one output to ``total``, which has the parameter's shape."""
        raise NotImplementedError

    def finish(self, total: Tensor) -> None:
        """Called once, after all outputs."""

    def given(self, cotangents: list[Tensor | None]) -> list[tuple[Use, Tensor]]:
        """The uses that this output depends on, with their cotangents by sample."""
        some = [(use, G) for i, use in self.uses if (G := cotangents[i]) is not None]
        return [(use, widened(use.by_sample(G))) for use, G in some]


class _DirectPlan(SquaresPlan):
    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        given = self.given(cotangents)
        if given:
            whole = sum((G for _, G in given[1:]), given[0][1])
            self.view.of(total).add_(whole.square().sum(0))


class _OncePlan(SquaresPlan):
    """One position per sample: the square of a product is the product of the squares."""

    squares: Tensor | None = None

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        for _, G in self.given(cotangents):
            new = G[:, 0].square()
            self.squares = new if self.squares is None else self.squares.add_(new)

    def finish(self, total: Tensor) -> None:
        if self.squares is None:
            return
        use = self.uses[0][1]
        assert isinstance(use, Matrix)
        add_product(use.view.of(total), self.squares, widened(use.right()[:, 0]).square())
        self.squares = None


class _MatrixPlan(SquaresPlan):
    """Several positions, or several uses: the gradient of each sample, squared in blocks."""

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        given = self.given(cotangents)
        if not given:
            return
        rights = [widened(use.right()) for use, _ in given if isinstance(use, Matrix)]
        right = rights[0] if len(rights) == 1 else torch.cat(rights, 1)
        left = given[0][1] if len(given) == 1 else torch.cat([G for _, G in given], 1)
        view = self.view
        if left.shape[2] == 1 and view.stride[0] < view.stride[1]:
            # Stored the other way round: so is the product, to write along the memory.
            left, right, view = right, left, view.transposed
        part = view.of(total)
        groups, rows, columns = left.shape[2], left.shape[3], right.shape[3]
        if groups > 1 or rows * columns <= BLOCK:
            step = max(1, BLOCK * 4 // (groups * rows * columns))
            for low in range(0, self.samples, step):
                some = slice(low, low + step)
                made = torch.einsum("btgo,btgi->bgoi", left[some], right[some])
                part.add_(made.square_().sum(0).flatten(0, 1))
            return
        step = max(1, BLOCK // columns)
        for b in range(self.samples):
            X, G = right[b, :, 0], left[b, :, 0].T
            active = G.any(1)
            count = int(active.sum())
            if count * 4 < rows:
                index = active.nonzero()[:, 0]
                for low in range(0, count, step):
                    some = index[low : low + step]
                    part[some] += (G[some] @ X).square_()
                continue
            G = G.contiguous()
            for low in range(0, rows, step):
                made = G[low : low + step] @ X
                block = part[low : low + step]
                block.addcmul_(made, made)


class _RowsPlan(SquaresPlan):
    """Rows of a table, and a matrix whose rows are the same (a tied head): few rows per sample."""

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        given = self.given(cotangents)
        part = self.view.of(total)
        for b in range(self.samples):
            pieces: list[tuple[Tensor, Tensor]] = []
            for use, G in given:
                if isinstance(use, Rows):
                    pieces.append((use.rows()[b], G[b]))
                else:
                    assert isinstance(use, Matrix)
                    left, X = G[b, :, 0].T, widened(use.right()[b, :, 0])
                    index = left.any(1).nonzero()[:, 0]
                    pieces.append((index, left[index] @ X))
            if not pieces:
                continue
            rows, where = torch.unique(torch.cat([i for i, _ in pieces]), return_inverse=True)
            made = part.new_zeros(len(rows), part.shape[1])
            made.index_add_(0, where, torch.cat([v for _, v in pieces]))
            part[rows] += made.square_()


class _MixedPlan(SquaresPlan):
    """Uses that see different parts of a parameter, and overlap: a whole gradient per sample."""

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        given = self.given(cotangents)
        for b in range(self.samples) if given else ():
            whole = torch.zeros_like(total)
            for use, G in given:
                use.add(use.view.of(whole), G[b], b)
            total += whole.square_()


def plans_for(name: str, shape: Any, uses: Sequence[Numbered]) -> list[SquaresPlan]:
    """Group the uses by the part they see; parts that do not overlap are added up on their own."""
    parts: dict[View, list[Numbered]] = {}
    for i, use in uses:
        parts.setdefault(use.view, []).append((i, use))
    if len(parts) > 1:
        seen = torch.zeros(shape, dtype=torch.int8)
        for view in parts:
            view.of(seen).add_(1)
        if int(seen.max()) > 1:
            return [_MixedPlan(name, uses)]
    return [_kind(group)(name, group) for group in parts.values()]


def _kind(group: Sequence[Numbered]) -> type[SquaresPlan]:
    uses = [use for _, use in group]
    matrices = [use for use in uses if isinstance(use, Matrix)]
    direct = sum(isinstance(use, Direct) for use in uses)
    if direct == len(uses):
        return _DirectPlan
    if len(matrices) == len(uses):
        if len({use.groups for use in matrices}) > 1:
            return _MixedPlan
        once = len(uses) == 1 and math.prod(matrices[0].leads) == uses[0].samples
        return _OncePlan if once else _MatrixPlan
    return _MixedPlan if direct else _RowsPlan
