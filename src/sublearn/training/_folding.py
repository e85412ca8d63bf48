"""Folding: what learnable weights cannot change is computed once.

Let p be the first step of the chain that uses a learnable weight. What enters it is fixed; only its
*active* rows, those with a learnable entry, ever change; and of an active row's pre-activation only the
part that its learnable entries carry. So step p becomes

    state <- phi(P E + Q e + offset),

P and Q the learnable entries (active rows x columns with a learnable entry), E what enters those
columns, e the same where it does not vary over the samples (dark pixels, a bias), and ``offset`` all the
rest. The step behind it becomes ``W[:, active] state + offset``, where the offset holds what the frozen
rows contribute. Later steps run in full. A weight that recurs stands as P and Q at its first use and in
full afterwards.

Small instances are stacked along a first axis instead, with all rows and columns in P: it is their number
that costs, and so a row of a batch comes to the same last bit whatever it is stacked with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sublearn._arrays import Floats, Indices
from sublearn.ensembles import Instance
from sublearn.networks import ACTIVATIONS, Link, Step, links


@dataclass(frozen=True)
class Slot:
    """A matrix that holds learnable entries: a stretch of the buffer, and its shape."""

    start: int
    rows: int
    columns: int

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.columns

    def of(self, buffer: Floats) -> Floats:
        """The matrices (..., rows, columns) in buffers (..., size): a view."""
        shape = (*buffer.shape[:-1], self.rows, self.columns)
        return buffer[..., self.start : self.stop].reshape(shape)


@dataclass(frozen=True)
class Folded:
    """A folded chain: its steps, the buffer of all slots, and where each learnable value goes.

    The weights of its steps are ``slots``, which hold learnable entries, and ``matrices``, which hold
    none; arrays have a leading axis of instances (1: the same for all). ``frozen`` (., size + 1) is the
    buffer with the learnable entries at 0. Value number a of an instance goes to every one of
    ``places[., a, :]``, of which there are one or two; the last cell of the buffer is for values that
    have fewer places than others.
    """

    steps: tuple[Link, ...]
    slots: Mapping[str, Slot]
    matrices: Mapping[str, Floats]
    frozen: Floats
    places: Indices

    def views(self, buffer: Floats) -> dict[str, Floats]:
        """The slots in a buffer."""
        return {name: slot.of(buffer) for name, slot in self.slots.items()}

    def buffer(self, values: Floats) -> Floats:
        """The slots filled with ``values`` (batch, r)."""
        out = np.empty((values.shape[0], self.frozen.shape[-1]), dtype=self.frozen.dtype)
        out[:] = self.frozen
        for cells in self._cells(out):
            out.reshape(-1)[cells] = values
        out[:, -1] = 0.0
        return out

    def gather(self, buffer: Floats) -> Floats:
        """The transpose of :meth:`buffer`: derivatives by value from derivatives by slot."""
        first, *second = (buffer.reshape(-1)[cells] for cells in self._cells(buffer))
        out: Floats = first + second[0] if second else first
        return out

    def _cells(self, buffer: Floats) -> Iterator[Indices]:
        """Where the values go in the flattened buffers, (batch, r) each time."""
        begin = np.arange(buffer.shape[0])[:, None] * buffer.shape[1]
        for place in range(self.places.shape[-1]):
            yield begin + self.places[..., place]

    def select(self, kept: Indices) -> Folded:
        """The chain of some instances only; a chain shared by all is returned as it is."""
        if self.places.shape[0] == 1:
            return self
        return Folded(
            tuple(_map(step, lambda array: array[kept]) for step in self.steps),
            self.slots,
            {name: matrix[kept] for name, matrix in self.matrices.items()},
            self.frozen[kept],
            self.places[kept],
        )

    def at(self, samples: Indices) -> Folded:
        """The chain on some samples, (batch, size) of them."""

        def pick(array: Floats) -> Floats:
            if array.shape[-1] == 1:
                return array
            return np.take_along_axis(array, samples[:, None, :], axis=-1)

        return replace(self, steps=tuple(_map(step, pick) for step in self.steps))


def _map(step: Link, change: Callable[[Floats], Floats]) -> Link:
    changed: dict[str, Any] = {
        field.name: change(value)
        for field in fields(step)
        if isinstance(value := getattr(step, field.name), np.ndarray)
    }
    return replace(step, **changed)


_NONE = np.zeros(0, dtype=np.int64)


def fold(instances: Sequence[Instance], dtype: Any = np.float64, *, stacked: bool) -> Folded:
    """The folded chain of one instance, or of several with equally many learnable weights, stacked."""
    assert stacked or len(instances) == 1
    return _Folding(instances, np.dtype(dtype), stacked).run()


class _Folding:
    """One pass along the chain; the frozen part is computed in float64 whatever ``dtype`` is."""

    def __init__(self, instances: Sequence[Instance], dtype: np.dtype[Any], stacked: bool) -> None:
        self.instances, self.dtype, self.stacked = instances, dtype, stacked
        self.network = instances[0].network
        self.chain = self.network.steps
        self.learnable = {
            name
            for name in self.network.shapes
            if any(instance.allocation.flat(name).size for instance in instances)
        }
        self.size = 0
        self.slots: dict[str, Slot] = {}
        self.matrices: dict[str, Floats] = {}
        self.steps: list[Link] = []
        split = (self.network.split_inputs(instance.inputs) for instance in instances)
        self.blocks = [np.stack(blocks) for blocks in zip(*split, strict=True)]

    def run(self) -> Folded:
        if not self.network.is_plain:
            return self._unfolded()
        first = next(
            place
            for place, step in enumerate(self.chain)
            if {step.weight, step.encoder, step.bias} & self.learnable
        )
        state: Floats | None = None
        for step in self.chain[:first]:
            state = ACTIVATIONS[step.activation].value(self._frozen_pre(step, state))
        here = self.chain[first]
        if here.encoder in self.learnable:
            places = self._nowhere()
            self._full(here, state)
        else:
            places = self._first(here, state, self.chain[first + 1 : first + 2])
            first += bool(self.joined)
        for step in self.chain[first + 1 :]:
            self._full(step, None)
        return self._finish(places)

    def _unfolded(self) -> Folded:
        """The chain as it is, for steps that are not of the form that is folded here."""
        self.steps += links(self.network, [self._cast(b) for b in self.blocks], self._one())
        for name in self.network.shapes:
            self._weight(name)
        return self._finish(self._nowhere())

    def _frozen(self, name: str) -> Floats:
        return np.stack([instance.weights[name] for instance in self.instances])

    def _injected(self, step: Step) -> Floats | None:
        if step.block is None:
            return None
        block: Floats = self.blocks[step.block]
        return block if step.encoder is None else self._frozen(step.encoder) @ block

    def _entering(self, step: Step, state: Floats | None) -> Floats:
        injected = self._injected(step)
        if state is None:
            assert injected is not None, "the first step of a chain injects an input"
            return injected
        return state if injected is None else state + injected

    def _frozen_pre(self, step: Step, state: Floats | None) -> Floats:
        pre = self._frozen(step.weight) @ self._entering(step, state)
        return pre if step.bias is None else pre + self._frozen(step.bias)

    def _cast(self, array: Floats) -> Floats:
        return np.ascontiguousarray(array, dtype=self.dtype)

    def _one(self) -> Floats:
        return np.ones((len(self.instances), 1, 1), dtype=self.dtype)

    def _nowhere(self) -> Indices:
        """No place yet for any value of any instance."""
        return np.full((len(self.instances), len(self.instances[0].allocation)), -1)

    def _slot(self, name: str) -> str:
        if name not in self.slots:
            self._new_slot(name, *self.network.shapes[name])
        return name

    def _new_slot(self, name: str, rows: int, columns: int) -> Slot:
        self.slots[name] = Slot(self.size, rows, columns)
        self.size = self.slots[name].stop
        return self.slots[name]

    def _matrix(self, matrix: Floats, name: str) -> str:
        self.matrices[name] = self._cast(matrix)
        return name

    def _weight(self, name: str) -> str:
        """A weight in full."""
        return (
            self._slot(name) if name in self.learnable else self._matrix(self._frozen(name), name)
        )

    # The first learnable step, and the one behind it.

    def _first(self, step: Step, state: Floats | None, behind: Sequence[Step]) -> Indices:
        """Append step p, and join the step behind it where its weight is frozen."""
        entering = self._entering(step, state)
        pre = self._frozen_pre(step, state)
        n_in = entering.shape[-2]
        if step.bias is not None:  # a bias is one more column, into which 1 enters
            ones = np.ones((*entering.shape[:-2], 1, entering.shape[-1]))
            entering = np.concatenate([entering, ones], axis=-2)
        parts = [self._entries(instance, step, n_in) for instance in self.instances]
        active, used, still = np.arange(pre.shape[-2]), np.arange(entering.shape[-2]), _NONE
        if not self.stacked:
            active, used = np.unique(parts[0][0]), np.unique(parts[0][1])
            varies = (entering[0, used] != entering[0, used, :1]).any(axis=-1)
            used, still = used[varies], used[~varies]
        # Names that no weight of a network has.
        moving = self._new_slot("first, moving", active.size, used.size)
        resting = self._new_slot("first, still", active.size, still.size)
        places = self._nowhere()
        for number, (rows, columns, values) in enumerate(parts):
            for slot, group in ((moving, used), (resting, still)):
                here = np.isin(columns, group)
                i, j = np.searchsorted(active, rows[here]), np.searchsorted(group, columns[here])
                places[number, values[here]] = slot.start + i * slot.columns + j
        self.steps.append(
            Link(
                "first, moving",
                step.activation,
                entering=self._cast(entering[:, used]),
                offset=self._cast(pre[:, active]),
                bias="first, still" if still.size else None,
                still=self._cast(entering[:, still, :1]),
            )
        )
        # What frozen rows hand on: active ones are taken out here and come in by the state.
        rest = ACTIVATIONS[step.activation].value(pre)
        rest[:, active] = 0.0
        self.joined = bool(behind) and not {behind[0].weight, behind[0].encoder} & self.learnable
        if self.joined:
            after = behind[0]
            matrix = self._frozen(after.weight)
            offset = matrix @ self._entering(after, rest)
            bias = None
            if after.bias in self.learnable:
                bias = self._slot(after.bias)
            elif after.bias is not None:
                offset = offset + self._frozen(after.bias)
            self.steps.append(
                Link(
                    self._matrix(matrix[..., active], "second"),
                    after.activation,
                    offset=self._cast(offset),
                    bias=bias,
                    still=self._one(),
                )
            )
        elif active.size < pre.shape[-2]:  # put the active rows back among the others
            spread = np.zeros((len(self.instances), pre.shape[-2], active.size))
            spread[:, active, np.arange(active.size)] = 1.0
            name = self._matrix(spread, "active rows")
            self.steps.append(Link(name, offset=self._cast(rest)))
        return places

    def _entries(
        self, instance: Instance, step: Step, n_in: int
    ) -> tuple[Indices, Indices, Indices]:
        """(rows, columns, numbers among the values) of the learnable entries that step p uses."""
        rows, columns, numbers, start = [], [], [], 0
        for name, (_, width) in self.network.shapes.items():
            flat = instance.allocation.flat(name)
            if name in (step.weight, step.bias):
                i, j = np.divmod(flat, width)
                rows.append(i)
                columns.append(j if name == step.weight else j + n_in)
                numbers.append(np.arange(start, start + flat.size))
            start += flat.size
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(numbers)

    # All later steps.

    def _full(self, step: Step, state: Floats | None) -> None:
        entering, encoder, block = state, None, None
        if step.encoder in self.learnable and step.block is not None:
            encoder, block = self._slot(step.encoder), self._cast(self.blocks[step.block])
        else:
            injected = self._injected(step)
            if injected is not None:
                entering = injected if entering is None else entering + injected
        bias, offset = None, None
        if step.bias in self.learnable:
            bias = self._slot(step.bias)
        elif step.bias is not None:
            offset = self._cast(self._frozen(step.bias))
        self.steps.append(
            Link(
                self._weight(step.weight),
                step.activation,
                entering=None if entering is None else self._cast(entering),
                encoder=encoder,
                block=block,
                bias=bias,
                still=self._one(),
                offset=offset,
            )
        )

    def _finish(self, folded_places: Indices) -> Folded:
        count, total = folded_places.shape
        frozen = np.zeros((count, self.size + 1), dtype=self.dtype)
        places = np.full((count, total, 2), self.size)
        places[..., 0] = np.where(folded_places >= 0, folded_places, self.size)
        for number, instance in enumerate(self.instances):
            start = 0
            for name in self.network.shapes:
                flat = instance.allocation.flat(name)
                slot = self.slots.get(name)
                if slot is not None:
                    frozen[number, slot.start : slot.stop] = instance.weights[name].ravel()
                    places[number, start : start + flat.size, 1] = slot.start + flat
                start += flat.size
        # Mostly every value has one place.
        if (places[..., 1] == self.size).all():
            places = places[..., :1]
        elif (places[..., 0] == self.size).all():
            places = places[..., 1:]
        places = np.ascontiguousarray(places)
        return Folded(tuple(self.steps), self.slots, self.matrices, frozen, places)
