"""Attacks on designs with counts, shares and quotas, and of ReLU networks: all sets are tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product

import numpy as np

import sublearn as sl
from adversary.cells import Cell, ImpossibleError, rng_of
from adversary.network import Label, Layout, layout
from adversary.verbs import (
    MOST_SUBSETS,
    Outcome,
    count_subsets,
    derivative,
    linear_case,
    residue_columns,
    residue_point,
    residue_rank,
)

MOST_GATED = 500  # sets that are tried at all gates


class Asked:
    """What may be chosen: names, scores, barred and required weights, and how many."""

    def __init__(
        self, chain: Layout, needed: int, form: str, with_required: bool, rng: np.random.Generator
    ) -> None:
        names = [name for name, _, _ in chain.shapes]
        picked = rng.choice(names, int(rng.integers(1, len(names) + 1)), replace=False)
        self.learn = [str(name) for name in picked]
        self.scores = {
            name: rng.integers(-9, 10, (h, w)).astype(float)
            for name, h, w in chain.shapes
            if name in self.learn
        }
        pool = [label for label in chain.labels if label[0] in self.learn]
        self.barred = {label for label in pool if rng.random() < 0.1}
        self.pool = [label for label in pool if label not in self.barred]
        if not self.pool:
            raise ImpossibleError("nothing may be chosen")
        self.required: list[Label] = []
        if with_required and rng.random() < 0.4:
            self.required = [self.pool[int(rng.integers(len(self.pool)))]]
        size = len(self.pool)
        self.groups: list[list[Label]] = [self.pool]
        self.each = [min(size, max(1, needed + int(rng.integers(-2, 3))))]
        self.count: int | str | None = self.each[0]
        if form == "share":
            percent = int(rng.integers(5, 100))
            self.count, self.each = f"{percent}%", [max(1, (2 * size * percent + 100) // 200)]
        elif form in ("row", "column"):
            place = 1 if form == "row" else 2
            lines = sorted({(label[0], label[place]) for label in self.pool})
            self.groups = [[x for x in self.pool if (x[0], x[place]) == line] for line in lines]
            # More than any line has is refused.
            most = min(int(rng.integers(1, 3)), max(map(len, self.groups)))
            self.count = f"{most} per {form}"
            self.each = [min(most, len(group)) for group in self.groups]
        elif form == "needed":
            self.count, self.each = None, [needed]

    @property
    def total(self) -> int:
        return sum(self.each)

    def sets(self, most: int) -> Iterator[tuple[Label, ...]]:
        """Every set that keeps the count; ImpossibleError where there are too many."""
        number = 1
        for group, each in zip(self.groups, self.each, strict=True):
            number *= count_subsets(len(group), each)
        if number > most:
            raise ImpossibleError("too many subsets")
        parts = (combinations(g, e) for g, e in zip(self.groups, self.each, strict=True))
        for choice in product(*map(list, parts)):
            chosen = tuple(label for part in choice for label in part)
            if set(self.required) <= set(chosen):
                yield chosen

    def score(self, labels: Iterable[Label]) -> float:
        return float(sum(self.scores[n][i, j] for n, i, j in labels))

    def design(self, problem: sl.Problem) -> sl.designs.Design:
        barred = {name: np.zeros(value.shape, dtype=bool) for name, value in self.scores.items()}
        for n, i, j in self.barred:
            barred[n][i, j] = True
        entries: dict[str, list[tuple[int, int]]] = {}
        for n, i, j in self.required:
            entries.setdefault(n, []).append((i, j))
        required = sl.Allocation.from_entries(problem.network, entries) if entries else None
        return sl.design(
            problem,
            self.learn,
            self.scores,
            barred,
            required,
            want="best score",
            count=self.count,
        )

    def broken(self, picked: list[Label]) -> str | None:
        """Which rule a choice does not keep."""
        chosen = set(picked)
        if len(picked) != self.total or len(chosen) != self.total:
            return f"{len(picked)} weights, not {self.total}"
        if not chosen <= set(self.pool) or not set(self.required) <= chosen:
            return "weights that are barred, or required and left out"
        for group, each in zip(self.groups, self.each, strict=True):
            if len(chosen & set(group)) > each:
                return "a quota is not kept"
        return None


FORMS = ("number", "share", "row", "column")


def budget(cell: Cell, index: int) -> Outcome:
    """The largest rank that a count allows, and the best score with it, of a linear network."""
    problem, _, chain, low = linear_case(cell, index)
    rng = rng_of("budget", *cell, index)
    columns = residue_columns(chain, problem.samples, low, rng)
    needed = residue_rank(list(columns.values()))
    asked = Asked(chain, needed, FORMS[index % 4], True, rng)
    if asked.required and not any(columns[asked.required[0]]):
        asked.required = []  # a weight that changes nothing is refused
    best: tuple[int, float] | None = None
    for subset in asked.sets(MOST_SUBSETS):
        found = residue_rank([columns[x] for x in subset]), asked.score(subset)
        best = found if best is None else max(best, found)
    if best is None:
        raise ImpossibleError("what is required does not keep the count")
    made = asked.design(problem)
    picked = [(str(n), int(i), int(j)) for n, i, j in made.labels()]
    rank = residue_rank([columns[x] for x in picked])
    said = (rank, asked.score(picked))
    note = asked.broken(picked)
    if note is None and said != best:
        note = f"(rank, score) {best}, said {said} ({made.claim})"
    if note is None and (made.value, made.needed, made.short) != (said[1], needed, needed - rank):
        note = f"value {said[1]}, {needed} needed, {needed - rank} short, said {made.to_dict()}"
    if note is None and made.claim != "best score":
        note = f"claim {made.claim}, of so few weights"
    return Outcome(True, note, str(best), str(said))


def gated(cell: Cell, index: int) -> Outcome:
    """Designs of a shallow ReLU network: the best over all gates, each of positive probability.

    Units or samples are no more than inputs, so that W X takes every pattern of signs.
    """
    rng = rng_of("gated", *cell, index)
    q, n = ((2, 2), (3, 2), (2, 1))[int(rng.integers(3))]
    m = {"below": 1, "at": 2, "above": 3}[cell.samples]
    network = sl.FeedForward((q, n, int(rng.integers(1, 3))), "relu", bias=bool(index % 2))
    problem, chain = sl.Problem(network, m), layout(network)
    point = residue_point(chain, m, None, rng)
    patterns = [
        {label: derivative(chain, point, label, gates) for label in chain.labels}
        for gates in product((0, 1), repeat=n * m)
    ]
    needed = max(residue_rank(list(columns.values())) for columns in patterns)
    asked = Asked(chain, needed, ("needed", *FORMS)[index % 5], False, rng)
    if asked.each == [needed] and needed > len(asked.pool):
        raise ImpossibleError("fewer weights than are needed")

    def rank(labels: Iterable[Label], most: int) -> int:
        chosen, out = list(labels), 0
        for columns in patterns:
            out = max(out, residue_rank([columns[x] for x in chosen]))
            if out == most:
                break
        return out

    most = min(needed, asked.total, rank(asked.pool, needed))
    best = max((rank(x, most), asked.score(x)) for x in asked.sets(MOST_GATED))
    try:
        made = asked.design(problem)
    except sl.BadInputError as error:
        reached = asked.count is None and best[0] == needed
        note = f"refused ({error}), though {best} is reached" if reached else None
        return Outcome(True, note, str(best), "refused")
    picked = [(str(name), int(i), int(j)) for name, i, j in made.labels()]
    said = (rank(picked, most), asked.score(picked))
    note = asked.broken(picked)
    if note is None and (made.value != said[1] or said > best):
        note = f"value {said}, best {best}, said {made.value}"
    if note is None and made.claim == "best score" and said != best:
        note = f"(rank, score) {best}, said {said} is the best"
    if note is None and made.bound is not None and made.bound < best[1]:
        note = f"score {best[1]} is reached, said none scores above {made.bound}"
    if note is None and said[0] < needed - made.short:
        note = f"rank {said[0]} at best, said {made.short} short of {needed}"
    if note is None and made.needed is not None and made.needed > needed:
        note = f"{needed} needed, said {made.needed}"
    return Outcome(True, note, str(best), f"{said} {made.claim}")
