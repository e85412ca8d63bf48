"""One forward pass over some samples, its recorded uses and its graph: cotangents, columns, squares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from sublearn.models._squares import SquaresPlan, plans_for, widened
from sublearn.models._uses import Direct, Matrix, Rows, Tensor, Use

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
    _places: dict[Any, tuple[list[Any], list[int | None]]] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        return self.high - self.low

    def cotangents(
        self, R: Tensor, names: Sequence[str] = (), only: set[str] | None = None
    ) -> tuple[list[Tensor | None], dict[str, Tensor | None]]:
        """Cotangents of every use for the outputs' cotangent R, and gradients of ``names``."""
        places, where = self._arrivals(only)
        if not self.outputs.requires_grad or not (places or names):
            return [None] * len(self.uses), dict.fromkeys(names)
        grads = torch.autograd.grad(
            self.outputs,
            [*places, *(self.leaves[name] for name in names)],
            grad_outputs=R,
            retain_graph=True,
            allow_unused=True,
        )
        return [None if i is None else grads[i] for i in where], dict(
            zip(names, grads[len(places) :], strict=True)
        )

    def of_output(
        self, k: int, names: Sequence[str] = (), only: set[str] | None = None
    ) -> tuple[list[Tensor | None], dict[str, Tensor | None]]:
        """The same for output k of every sample."""
        # A new one each time: where nothing lies between, the cotangent of a use is R itself.
        R = torch.zeros_like(self.outputs)
        R[:, k] = 1
        return self.cotangents(R, names, only)

    def _arrivals(self, only: set[str] | None) -> tuple[list[Any], list[int | None]]:
        """Where cotangents arrive, each place once, and which of these is that of each use."""
        key = None if only is None else frozenset(only)
        if key not in self._places:
            edges: dict[Any, int] = {}
            places: list[Any] = []
            where: list[int | None] = []
            for use in self.uses:
                if only is not None and use.name not in only:
                    where.append(None)
                    continue
                at = edges.setdefault((use.edge.node, use.edge.output_nr), len(places))
                places += [use.edge] if at == len(places) else []
                where.append(at)
            self._places[key] = places, where
        return self._places[key]

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
        for name, uses in self.by_name().items():
            if name in skip:
                continue
            true = gradients[name]
            gap = self._zeros(name) if true is None else true
            scale = _largest(gap)
            # Gradients from products are nobody else's and are written over; sums may be shared.
            if not gap.is_contiguous() or not all(isinstance(self.uses[i], Matrix) for i in uses):
                gap = gap.clone(memory_format=torch.contiguous_format)
            self._add(gap, uses, cotangents, sign=-1)
            if _largest(gap) > tolerance(self.outputs.dtype) * scale:
                wrong.add(name)
        return wrong

    def add_scores(self, total: dict[str, Tensor], R: Tensor, others: Sequence[str]) -> None:
        """Add the gradients, summed over samples, for the cotangent R; of ``others`` by autograd."""
        cotangents, gradients = self.cotangents(R, others, only=set(self.parameters) - set(others))
        for name, uses in self.by_name().items():
            self._add(total[name], uses, cotangents)  # nothing for the others
            if (gradient := gradients.get(name)) is not None:
                total[name] += gradient

    def _zeros(self, name: str) -> Tensor:
        shape = self.parameters[name].shape
        zeros = torch.zeros(shape, dtype=self.outputs.dtype, device=self.outputs.device)
        return widened(zeros)

    def _add(
        self, total: Tensor, uses: Sequence[int], cotangents: list[Tensor | None], sign: int = 1
    ) -> None:
        """Add what these uses of one parameter give, summed over samples; or take it away."""
        for i in uses:
            use, G = self.uses[i], cotangents[i]
            if G is not None:
                use.add_all(use.view.of(total), G, sign)

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
        few = keep and self._bytes(names) * outputs <= KEPT_COTANGENTS
        held: list[list[Tensor | None]] | None = [] if few else None
        for k in range(outputs):
            some = self.of_output(k, only=names)[0]
            if held is not None:
                held.append(some)
            yield k, some
        if held is not None:
            self.kept = (names, held)

    def _bytes(self, names: set[str]) -> int:
        """Of the cotangents of one output."""
        where = self._arrivals(names)[1]
        sizes = {at: math.prod(use.shape) for at, use in zip(where, self.uses, strict=True)}
        sizes.pop(None, None)
        return sum(sizes.values()) * int(self.outputs.element_size())

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
                plans.append((i, _Columns(use, where, place[use.name], inside)))
        for k, cotangents in self.each_output(set(chosen)):
            for i, plan in plans:
                G = cotangents[i]
                if G is not None:
                    plan.add(columns[:, k], G)

    # Squared lengths.

    def add_squares(self, total: dict[str, Tensor], names: Sequence[str]) -> None:
        """Add the squares of the samples' gradients, for every output."""
        wanted = set(names)
        plans: list[SquaresPlan] = []
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
    """Chosen entries of one use: places ``where`` in its view.

    ``place`` is that of its parameter's entries among the columns, ``inside`` says which it sees.
    """

    def __init__(self, use: Use, where: list[Tensor], place: slice, inside: Tensor) -> None:
        self.place = place
        self.some = None if bool(inside.all()) else place.start + inside.nonzero()[:, 0]
        self.dim: int | None = (
            None  # of a direct use, where the picked entries lie apart from the rest
        )
        if isinstance(use, Direct) and (dim := use.along) is not None:
            few = len(where[0]) * 4 <= use.view.shape[0]  # else picking costs more than the rest
            if few:
                self.dim, self.pick = dim, where[0]
                use, where = use.narrowed(dim, self.pick), []
        self.use, self.where = use, where
        size = math.prod(use.view.shape)
        self._dense = isinstance(use, Matrix) and len(where[0]) * 16 > size
        # The entries' other factor, the same for every output, by the dimension that they lie along.
        self._factors: dict[int, Tensor] = {}

    def add(self, columns: Tensor, cotangent: Tensor) -> None:
        """Add these entries of every sample's gradient, for one output, to ``columns`` (samples, r)."""
        if self.dim is not None:
            cotangent = cotangent.index_select(self.dim, self.pick)
        use, given = self.use, self.use.by_sample(cotangent)
        if isinstance(use, Direct):
            entries = (
                given[(slice(None), *self.where)] if self.where else given.reshape(len(given), -1)
            )
        elif isinstance(use, Matrix) and given.shape[1] == 1 and self.some is None:
            # One position per sample: nothing to sum over, so nothing in between.
            if not self._factors:
                self._factors[2] = self._others(slice(None), 2).squeeze(1)
            taken = given.flatten(1).index_select(1, self.where[0])
            columns[:, self.place].addcmul_(taken, self._factors[2])
            return
        elif isinstance(use, Matrix) and self._dense and given.shape[1] > 1:
            entries = self._of_whole(use.right(), given)
        else:
            entries = self._summed(given.flatten(2) if isinstance(use, Matrix) else given)
        if self.some is None:
            columns[:, self.place] += entries
        else:
            columns.index_add_(1, self.some, entries)

    def _summed(self, G: Tensor) -> Tensor:
        """Sums over positions of picked cotangents times their factors; G: (samples, positions, rows)."""
        pick = self.where[0 if isinstance(self.use, Matrix) else 1]
        across = 1 if G.stride(1) == 1 else 2  # in convolutions positions lie together, not rows
        if across == 1:
            G = G.transpose(1, 2)
        step = max(1, PIECE // max(1, G.numel() // max(1, G.shape[across])))
        sums = []
        for low in range(0, len(pick), step):
            part = slice(low, low + step)
            if across == 1:
                taken = G.index_select(1, pick[part])
            else:  # along the last dimension gather is twice as fast
                taken = G.gather(2, pick[part].expand(*G.shape[:2], -1))
            if across not in self._factors or len(pick) > step:
                self._factors[across] = self._others(part, across)
            sums.append(taken.mul_(self._factors[across]).sum(3 - across))
        return sums[0] if len(sums) == 1 else torch.cat(sums, -1)

    def _others(self, part: slice, across: int) -> Tensor:
        """What the picked cotangents are multiplied by: r of them ``across``, positions the other way."""
        rows, columns = (places[part] for places in self.where)
        if isinstance(self.use, Rows):
            made = self.use.rows().unsqueeze(-1) == rows
            return made.transpose(1, 2) if across == 1 else made
        assert isinstance(self.use, Matrix)
        right = self.use.right()
        wide, per = right.shape[-1], self.use.view.shape[0] // self.use.groups
        at = torch.div(rows, per, rounding_mode="floor") * wide + columns
        right = right.flatten(2)
        return (right.transpose(1, 2) if across == 1 else right).index_select(across, at)

    def _of_whole(self, right: Tensor, left: Tensor) -> Tensor:
        """From whole gradients, where so many entries are chosen that these cost less."""
        size = math.prod(self.use.view.shape)
        rows, columns = self.where
        at = rows * right.shape[-1] + columns
        taken = left.new_empty(len(left), len(at))
        step = max(1, PIECE // size)
        for low in range(0, len(left), step):
            some = slice(low, low + step)
            whole = torch.einsum("btgo,btgi->bgoi", left[some], right[some])
            taken[some] = whole.flatten(1)[:, at]
        return taken


def _largest(values: Tensor) -> float:
    """The largest size of a number; 0 where there is none."""
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values)  # in one pass that keeps nothing, unlike abs().max()
    return max(-float(low), float(high))
