"""How a parameter is used in a forward pass, and what gradient each sample has from it.

Uses come in three sorts, by the gradient g of one sample, with positions t:

- ``Matrix``: g = sum_t G_t X_t' (linear layers, convolutions, products with a matrix);
- ``Rows``: row i of g is the sum of the G_t whose index is i (embeddings);
- ``Direct``: g = sum_t F_t * G_t entry by entry (biases, gains of normalisations).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

Tensor = Any
"""A torch tensor; ``Any``, so that types do not depend on whether torch is installed."""


@dataclass(frozen=True)
class View:
    """The part of a parameter that a use sees: shape, strides and offset within its storage."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def of(self, whole: Tensor) -> Tensor:
        """The same part of ``whole``, a contiguous tensor of the parameter's shape."""
        return whole.as_strided(self.shape, self.stride, self.offset)

    @property
    def matrix(self) -> View:
        """The same part with its trailing dimensions made one, as a matrix (rows, the rest)."""
        columns = math.prod(self.shape[1:])
        return View((self.shape[0], columns), (self.stride[0], 1), self.offset)

    @property
    def transposed(self) -> View:
        """The transposed matrix."""
        return View(self.shape[::-1], self.stride[::-1], self.offset)

    def positions(self, flat: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Which of the entries ``flat`` of the parameter lie in this part, and where in it."""
        rest = flat - self.offset
        inside = rest >= 0
        where = [torch.zeros_like(flat)] * len(self.shape)
        order = sorted(range(len(self.shape)), key=lambda i: -self.stride[i])
        for i in order:
            if self.shape[i] == 1:
                continue
            where[i] = torch.div(rest, self.stride[i], rounding_mode="floor")
            inside &= where[i] < self.shape[i]
            rest = rest - where[i] * self.stride[i]
        inside &= rest == 0
        return inside, [place[inside] for place in where]


@dataclass(frozen=True)
class Layout:
    """Where the samples lie among the leading dimensions: dimension ``dim``, first or last in it."""

    dim: int
    outer: bool


@dataclass(kw_only=True)
class Use:
    """One use of one parameter in one forward pass; ``edge`` is where its cotangent arrives.

    ``samples`` lie in its cotangent as ``layout`` says; None: there is one sample, and all is its own.
    """

    name: str
    view: View
    edge: Any
    shape: tuple[int, ...]  # of the result
    source: Tensor | None  # the other factor's tensor, whose version tells if it was overwritten
    version: int
    samples: int = 1
    layout: Layout | None = None

    def candidates(self, samples: int) -> list[Layout]:
        """Layouts that the shapes allow."""
        return [
            Layout(dim, outer)
            for dim, size in self.leading()
            if size and size % samples == 0
            for outer in ((True, False) if samples < size else (True,))
        ]

    def leading(self) -> list[tuple[int, int]]:
        """Dimensions of the canonical cotangent that may hold the samples, with their sizes."""
        raise NotImplementedError

    def canonical(self, cotangent: Tensor) -> Tensor:
        """The cotangent with leading dimensions first."""
        raise NotImplementedError

    def by_sample(self, cotangent: Tensor) -> Tensor:
        """The canonical cotangent with the samples first; of a direct use, their gradients."""
        return self.front(self.canonical(cotangent), self.layout)

    def front(self, tensor: Tensor, layout: Layout | None) -> Tensor:
        """Move the samples to a first dimension of their own."""
        if layout is None:
            return tensor.unsqueeze(0)
        rest, at = tensor.shape[layout.dim] // self.samples, layout.dim + (not layout.outer)
        apart = (self.samples, rest) if layout.outer else (rest, self.samples)
        split = tensor.unflatten(layout.dim, apart)
        return split.movedim(at, 0) if at else split

    def add(self, part: Tensor, given: Tensor, sample: int, sign: int = 1) -> None:
        """Add the gradient of a sample, whose row of :meth:`by_sample` is given; or take it away."""
        raise NotImplementedError

    def add_all(self, part: Tensor, cotangent: Tensor, sign: int) -> None:
        """The same for all samples, as if they were one."""
        whole = replace(self, samples=1, layout=None)
        whole.add(part, whole.by_sample(cotangent)[0], 0, sign)


@dataclass(kw_only=True)
class Matrix(Use):
    """g = sum_t G_t X_t', in ``groups`` blocks of rows."""

    factor: Callable[[], Tensor]  # X: (leading..., groups, columns)
    left: Callable[[Tensor], Tensor]  # G: (leading..., groups, rows / groups)
    leads: tuple[int, ...]
    groups: int = 1

    def leading(self) -> list[tuple[int, int]]:
        return list(enumerate(self.leads))

    def canonical(self, cotangent: Tensor) -> Tensor:
        return self.left(cotangent)

    def right(self) -> Tensor:
        """X as (samples, positions, groups, columns)."""
        return self.front(self.factor(), self.layout).flatten(1, -3)

    def by_sample(self, cotangent: Tensor) -> Tensor:
        return super().by_sample(cotangent).flatten(1, -3)

    def add(self, part: Tensor, given: Tensor, sample: int, sign: int = 1) -> None:
        add_product(part, given, self.right()[sample], sign)


@dataclass(kw_only=True)
class Rows(Use):
    """Row i of g is the sum of the cotangents whose index is i."""

    index: Tensor  # (leading...)
    padding: int | None

    def leading(self) -> list[tuple[int, int]]:
        return list(enumerate(self.index.shape))

    def canonical(self, cotangent: Tensor) -> Tensor:
        if self.padding is None:
            return cotangent
        return cotangent * (self.index != self.padding).unsqueeze(-1)

    def by_sample(self, cotangent: Tensor) -> Tensor:
        values = super().by_sample(cotangent)
        return values.reshape(self.samples, -1, values.shape[-1])

    def rows(self) -> Tensor:
        """The indices as (samples, positions)."""
        return self.front(self.index, self.layout).reshape(self.samples, -1)

    def add(self, part: Tensor, given: Tensor, sample: int, sign: int = 1) -> None:
        # index_add_ on a strided part would need it to be contiguous in rows: it is.
        part.index_add_(0, self.rows()[sample], given.to(part.dtype), alpha=sign)


@dataclass(kw_only=True)
class Direct(Use):
    """g = sum_t F_t * G_t: ``padded`` is the view's shape, aligned with the result's."""

    padded: tuple[int, ...]
    factor: Callable[[], Tensor] | None = None

    def leading(self) -> list[tuple[int, int]]:
        return [(i, n) for i, n in enumerate(self.shape) if self.padded[i] == 1]

    def canonical(self, cotangent: Tensor) -> Tensor:
        return cotangent if self.factor is None else cotangent * self.factor()

    def by_sample(self, cotangent: Tensor) -> Tensor:
        values = super().by_sample(cotangent)
        dims = [i + 1 for i, n in enumerate(self.padded) if n == 1 and values.shape[i + 1] != 1]
        if dims:
            values = values.sum(dims, keepdim=True)
        return values.reshape(len(values), *self.view.shape)

    def add(self, part: Tensor, given: Tensor, sample: int, sign: int = 1) -> None:
        part.add_(given, alpha=sign)

    @property
    def along(self) -> int | None:
        """The one dimension of the result along which the entries of a vector lie, if it is one."""
        dims = [i for i, n in enumerate(self.padded) if n != 1]
        return dims[0] if len(dims) == 1 and len(self.view.shape) == 1 else None

    def narrowed(self, dim: int, pick: Tensor) -> Direct:
        """The same use of the entries ``pick`` alone, for cotangents that are picked along ``dim``."""
        padded, shape, factor = list(self.padded), list(self.shape), None
        padded[dim] = shape[dim] = len(pick)
        if self.factor is not None:
            some = self.factor().index_select(dim, pick)
            factor = lambda: some  # noqa: E731
        view = View((len(pick),), (1,), 0)
        return replace(self, view=view, shape=tuple(shape), padded=tuple(padded), factor=factor)


def add_product(part: Tensor, left: Tensor, right: Tensor, sign: int = 1) -> None:
    """part += sum_t left_t right_t', by groups: left is (t, groups, rows), right (t, groups, columns)."""
    left, right = left.to(part.dtype), right.to(part.dtype)
    if left.shape[1] > 1:
        part.add_(torch.einsum("tgo,tgi->goi", left, right).flatten(0, 1), alpha=sign)
    elif part.stride(0) < part.stride(1):  # written the way that ``part`` lies in memory
        part.T.addmm_(right[:, 0].T, left[:, 0], alpha=sign)
    else:
        part.addmm_(left[:, 0].T, right[:, 0], alpha=sign)
