"""What placements are compared on: candidate allocations, and drawn lessons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._seeds import words
from sublearn.allocations import Allocation
from sublearn.designs import design
from sublearn.ensembles import Distribution, Instance, Problem, draw_from
from sublearn.networks import Network
from sublearn.noise._simulate import check_repeats

_TAG = 0x91AC


def candidate_placements(
    problem: Problem, plastic: int, learn: Iterable[str] | None = None, *, seed: int = 0
) -> dict[str, Allocation]:
    """Ways to place ``plastic`` weights among the weights named by ``learn`` (default: all).

    *spread*: each weight has its share by size, rows and columns filled evenly. *concentrated*: rows
    filled one after the other, from the first weight on. *designed*: the proved maximal allocation of
    :func:`sublearn.design`, filled up evenly; left out where more weights are needed, or where none is
    known.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearEstimator(inputs=4, outputs=4), samples=2)
    >>> found = candidate_placements(problem, 8)
    >>> {name: a.row_counts("W").tolist() for name, a in found.items()}
    {'spread': [2, 2, 2, 2], 'concentrated': [4, 4, 0, 0], 'designed': [2, 2, 2, 2]}
    """
    network = problem.network
    names = list(dict.fromkeys(network.shapes if learn is None else learn))
    sizes = {name: int(np.prod(network.shape(name))) for name in names}
    r, total = whole_number("plastic", plastic, least=1), sum(sizes.values())
    if r > total:
        raise BadInputError(f"plastic must be at most the {total} weights of {names}, not {r}.")
    found = {"spread": _spread(network, sizes, r), "concentrated": _concentrated(network, sizes, r)}
    try:
        base = design(problem, names, seed=seed)
    except BadInputError:  # none is known, or the laws have no density
        return found
    if len(base) > r:
        return found
    # Filled up in the even order, so that surplus weights are spread as well.
    for count in range(r - len(base), total + 1):
        more = base | _spread(network, sizes, count)
        if len(more) >= r:
            extra = (more - base).labels()[: r - len(base)]
            by_name: dict[str, list[tuple[int, int]]] = {}
            for name, i, j in extra:
                by_name.setdefault(name, []).append((i, j))
            return {**found, "designed": base | Allocation.from_entries(network, by_name)}
    return found


def _spread(network: Network, sizes: dict[str, int], r: int) -> Allocation:
    total, ends = sum(sizes.values()), np.cumsum(list(sizes.values()))
    marks = np.rint(np.concatenate([[0], ends]) * r / total).astype(int)
    counts = {name: int(marks[k + 1] - marks[k]) for k, name in enumerate(sizes)}
    return Allocation.spread(network, counts)


def _concentrated(network: Network, sizes: dict[str, int], r: int) -> Allocation:
    flat, left = {}, r
    for name, size in sizes.items():
        flat[name] = np.arange(min(left, size), dtype=np.int64)
        left -= flat[name].size
    return Allocation(network.shapes, flat)


@dataclass(frozen=True)
class Factors(Distribution):
    """Correlated inputs: f latent numbers per sample reach every feature.

    X = (U Z + E/2) / sqrt(f + 1/4) with U, Z and E standard normal, U drawn once per instance; every
    number keeps variance 1 over draws.
    """

    has_density: ClassVar[bool] = True
    has_full_support: ClassVar[bool] = True

    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("factors", self.count, least=1)

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        own = rng.standard_normal(shape)
        U = rng.standard_normal((int(np.prod(shape[:-1])), self.count))
        Z = rng.standard_normal((self.count, shape[-1]))
        mixed: Array = (U @ Z).reshape(shape) + 0.5 * own
        return np.asarray(mixed / np.sqrt(self.count + 0.25))


def draw_lessons(
    problem: Problem, repeats: int | range, seed: int = 0, *, factors: int | None = None
) -> list[Instance]:
    """One instance per repeat, all weights learnable, by the laws of the problem.

    Repeat i depends on (seed, problem, i) alone. With ``factors`` the inputs are correlated by so many
    latent numbers, :class:`Factors`, instead of by the law of the problem.
    """
    law = (
        problem
        if factors is None
        else replace(problem, ensemble=replace(problem.ensemble, inputs=Factors(count=factors)))
    )
    whole, digest = Allocation.whole(problem.network), words(problem.digest)
    return [
        draw_from(np.random.default_rng([_TAG, seed, *digest, number]), law, whole)
        for number in check_repeats(repeats)
    ]
