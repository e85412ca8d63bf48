"""Ways to place a given number of plastic weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sublearn._arrays import Indices
from sublearn._errors import BadInputError
from sublearn.allocations import Allocation
from sublearn.designs import Choices, Forbidden, design, read_count
from sublearn.designs import autapses as self_connections
from sublearn.ensembles import Problem
from sublearn.networks import Network


@dataclass(frozen=True, eq=False)
class Candidates(Mapping[str, Allocation]):
    """Placements by name; among which weights they lie, and which are left out, with the reason.

    With ``within`` ("row" or "column") all have the same number of weights in every row (column).
    """

    placements: Mapping[str, Allocation]
    among: Allocation | None = None
    within: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Allocation:
        return self.placements[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.placements)

    def __len__(self) -> int:
        return len(self.placements)

    def with_placement(self, name: str, allocation: Allocation) -> Candidates:
        """The same candidates and one more."""
        return replace(self, placements={**self.placements, name: allocation})

    @property
    def budget(self) -> str:
        """How many weights may change, and of which, such as "8 of 16 weights of W"."""
        weights = next(iter(self.values()))
        if self.among is None:
            return f"{len(weights)} weights"
        names = [name for name in self.among.shapes if self.among.flat(name).size]
        return f"{len(weights)} of {len(self.among)} weights of {', '.join(names)}"


def candidate_placements(
    problem: Problem,
    plastic: int | str,
    learn: Iterable[str] | None = None,
    *,
    forbidden: Forbidden = None,
    autapses: bool = True,
    seed: int = 0,
) -> Candidates:
    """Ways to place ``plastic`` weights among the weights named by ``learn`` (default: all).

    *spread*: each weight has its share by size, rows and columns filled evenly. *concentrated*: rows
    filled one after the other, from the first weight on. *designed*: the proved maximal allocation of
    :func:`sublearn.design`, filled up evenly; left out where more weights are needed, or where none is
    known, and ``left_out`` says why. ``plastic``, ``forbidden`` and ``autapses`` are those of design: 8,
    "20%", or a quota such as "2 per row", which all of them then keep.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearEstimator(inputs=4, outputs=4), samples=2)
    >>> found = candidate_placements(problem, 8)
    >>> {name: a.row_counts("W").tolist() for name, a in found.items()}
    {'spread': [2, 2, 2, 2], 'concentrated': [4, 4, 0, 0], 'designed': [2, 2, 2, 2]}
    >>> found.budget
    '8 of 16 weights of W'
    >>> candidate_placements(problem, "25%").left_out
    {'designed': '8 weights are needed, and 4 may change.'}
    """
    network = problem.network
    names = list(dict.fromkeys(network.shapes if learn is None else learn))
    choice = Choices(network, names, None, forbidden)
    if not autapses:
        choice.forbid(self_connections(network))
    if not choice.allowed.any():
        raise BadInputError(f"no weight of {' and '.join(names)} may be chosen.")
    count = read_count(plastic, choice, "plastic")
    among = choice.allocation(np.flatnonzero(choice.allowed))
    sizes = {name: among.flat(name).size for name in names}
    r, total = count.total, len(among)
    room = network
    if total < len(Allocation.whole(network, names)):
        room = network.with_connections({name: among.mask(name) for name in names})

    def filled(order: Indices) -> Allocation:
        return choice.allocation(count.filled(choice, order, choice.ids(among.select([]))))

    in_turn = np.concatenate([choice.starts[name] + among.flat(name) for name in names])
    spread = _spread(room, sizes, r) if count.axis is None else filled(choice.order())
    ways, left_out = {"spread": spread, "concentrated": filled(in_turn)}, {}
    quota = None if count.axis is None else plastic
    try:
        base: Allocation = design(
            problem, names, forbidden=forbidden, count=quota, autapses=autapses, seed=seed
        )
        if len(base) > r:
            raise BadInputError(f"{len(base)} weights are needed, and {r} may change.")
        # Filled up in the even order, so that surplus weights are spread as well; a quota is full.
        wider = (base | _spread(room, sizes, step) for step in range(r - len(base), total + 1))
        more = next(each for each in wider if len(each) >= r) - base
        ways["designed"] = base | more.select(range(r - len(base)))
    except BadInputError as why:  # none is known, or the laws have no density
        left_out["designed"] = str(why)
    return Candidates(ways, among, count.axis, left_out)


def _spread(network: Network, sizes: dict[str, int], r: int) -> Allocation:
    total, ends = sum(sizes.values()), np.cumsum(list(sizes.values()))
    marks = np.rint(np.concatenate([[0], ends]) * r / total).astype(int)
    counts = {name: int(marks[k + 1] - marks[k]) for k, name in enumerate(sizes)}
    return Allocation.spread(network, counts)
