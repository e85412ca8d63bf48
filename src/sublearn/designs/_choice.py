"""What may be chosen, and in which order it is preferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices, Mask, real_numbers
from sublearn._errors import BadInputError, shown
from sublearn.allocations import Allocation, mask_of
from sublearn.networks import Network

Ids = Indices
Forbidden = Mapping[str, ArrayLike] | Allocation | None


class Choices:
    """The weights that may be learned, with scores; ids number them as an allocation's labels stand."""

    def __init__(
        self,
        network: Network,
        names: Iterable[str],
        scores: Mapping[str, ArrayLike] | None,
        forbidden: Forbidden,
    ) -> None:
        if isinstance(names, str):
            raise BadInputError(f"learn must be a list of weight names, such as [{names!r}].")
        chosen_from = dict.fromkeys(names)
        if not chosen_from:
            raise BadInputError(f"learn must name at least one of {', '.join(network.shapes)}.")
        for name in chosen_from:
            weight, colon, _ = name.partition(":") if isinstance(name, str) else (name, "", "")
            if colon and weight in network.shapes:
                raise BadInputError(
                    f"learn takes names alone, such as {weight!r}, not {shown(name)}: which entries may not "
                    "be chosen is said by forbidden."
                )
            network.shape(name)
        # In the network's order, in which the labels of an allocation stand: whoever sorts ids relies on it.
        self.names = [name for name in network.shapes if name in chosen_from]
        self.network = network
        self.shapes = [network.shape(name) for name in self.names]
        sizes = [rows * columns for rows, columns in self.shapes]
        self.starts = dict(zip(self.names, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
        self.score = np.zeros(sum(sizes))
        if scores is not None and not isinstance(scores, Mapping):
            raise BadInputError("scores must map weight names to matrices, such as {'W': scores}.")
        for name, values in (scores or {}).items():
            network.shape(name)
            if name not in self.starts:
                raise BadInputError(
                    f"scores are given for {name}, which is not among the weights to learn, "
                    f"{', '.join(self.names)}."
                )
            self.part(self.score, name)[:] = _finite(network, name, values).ravel()
        self.allowed: Mask = np.concatenate([network.existing(name).ravel() for name in self.names])
        self.forbid(forbidden)

    def forbid(self, forbidden: Forbidden) -> None:
        """Take weights out of the choice."""
        for name, mask in _masks(self.network, forbidden).items():
            if name in self.starts:
                self.part(self.allowed, name)[mask.ravel()] = False

    def part(self, values: np.ndarray, name: str) -> np.ndarray:
        """The slice of a per-weight array that belongs to one name."""
        rows, columns = self.network.shapes[name]
        return values[self.starts[name] : self.starts[name] + rows * columns]

    def ids(self, allocation: Allocation) -> Ids:
        """Ids of an allocation's entries; they must all be of the named weights."""
        for name in allocation.names:
            if name not in self.starts:
                raise BadInputError(f"{name} is not among the weights to learn, {self.names}.")
        parts = [allocation.flat(name) + self.starts[name] for name in allocation.names]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def allocation(self, ids: Ids) -> Allocation:
        """The allocation with these ids."""
        chosen = np.zeros(self.allowed.size, dtype=bool)
        chosen[ids] = True
        shapes = self.network.shapes
        return Allocation(
            shapes, {name: np.flatnonzero(self.part(chosen, name)) for name in self.names}
        )

    def evenly(self) -> Indices:
        """A number per weight that fills rows and columns evenly when taken in increasing order."""
        out = np.empty(self.allowed.size, dtype=np.int64)
        for name, (rows, columns) in zip(self.names, self.shapes, strict=True):
            # The same walk along the diagonals as Allocation.spread.
            t = np.arange(rows * columns)
            visited = (t % rows) * columns + (t + t // np.lcm(rows, columns)) % columns
            self.part(out, name)[visited] = t
        return out

    def order(self, preference: Indices | None = None) -> Ids:
        """Allowed ids, best score first; ties by ``preference`` (default: rows and columns evenly)."""
        ties = self.evenly() if preference is None else preference
        ranked = np.lexsort((ties, -self.score))
        return ranked[self.allowed[ranked]].astype(np.int64)


def autapses(network: Network) -> Allocation:
    """Connections of a unit to itself: the diagonal of every weight that recurs.

    >>> import sublearn as sl
    >>> autapses(sl.LinearRNN(n=3, b=1, d=1, T=2)).entries["W"]
    ((0, 0), (1, 1), (2, 2))
    """
    used = [step.weight for step in network.steps]
    recur = {name for name in used if used.count(name) > 1}
    recur |= {step.weight for step in network.steps if step.drive is not None}
    if network.recurrence is not None:
        recur.add(network.recurrence.weight)
    square = [n for n in network.shapes if n in recur and len(set(network.shapes[n])) == 1]
    diagonal = {name: np.eye(network.shapes[name][0], dtype=bool) for name in square}
    return Allocation.from_masks(
        network, {name: mask & network.existing(name) for name, mask in diagonal.items()}
    )


def as_allocation(
    network: Network, required: Mapping[str, ArrayLike] | Allocation | None
) -> Allocation:
    """Masks or an allocation, as an allocation."""
    if isinstance(required, Allocation):
        return required
    return Allocation.from_masks(network, required or {})


def _masks(network: Network, forbidden: Forbidden) -> dict[str, Mask]:
    if isinstance(forbidden, Allocation):
        return {name: forbidden.mask(name) for name in forbidden.names}
    if forbidden is not None and not isinstance(forbidden, Mapping):
        raise BadInputError("forbidden must be an Allocation or masks by weight name.")
    given = (forbidden or {}).items()
    return {name: mask_of(network, name, mask, "forbidden mask") for name, mask in given}


def _finite(network: Network, name: str, values: ArrayLike) -> Array:
    array = real_numbers(f"the scores for {name}", values)
    if array.shape != network.shape(name):
        shape = network.shape(name)
        raise BadInputError(f"the scores for {name} must have shape {shape}, not {array.shape}.")
    if not np.isfinite(array).all():
        raise BadInputError(
            f"the scores for {name} must be finite; use forbidden to rule weights out."
        )
    return array
