"""How many patterns Lemmas D.3 and D.4 leave, counted exactly and without listing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb, log10, prod

from sublearn._errors import BadInputError, shown, whole_number
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.patterns._pattern import check_counts
from sublearn.patterns._shallow import learnable_rows, require_shallow
from sublearn.plots import COLOURS, Figure, Row, Shown, figure, ink

MOST_STATES = 500_000


@dataclass(frozen=True, repr=False)
class PatternCounts(Shown):
    """Numbers of k x m patterns: all, those that pass D.3, D.4 and both; those of full rank if counted."""

    all: int
    enough_rows: int
    enough_samples: int
    both: int
    full_rank: int | None = None

    def to_dict(self) -> dict[str, int]:
        """Plain values, for JSON; ``full_rank`` if it was counted."""
        return {name: count for name, count in asdict(self).items() if count is not None}

    def table(self) -> list[Row]:
        """A row for each number."""
        return [{"patterns": what, "count": count} for what, count in self._told()]

    def plot(self) -> Figure:
        """The numbers as bars, by their powers of ten."""
        fig, ax = figure(height=2.4)
        words, counts = zip(*reversed(self._told()), strict=True)
        ax.barh(words, [log10(count) if count else 0.0 for count in counts], color=COLOURS[0])
        for place, count in enumerate(counts):
            ax.annotate(f" {shown(count)}", (0, place), va="center", color=ink(), fontsize=9)
        ax.set_xlabel("power of ten")
        ax.grid(False, axis="y")
        return fig

    def __str__(self) -> str:
        return "\n".join(f"{what:<41}{count}" for what, count in self._told())

    def _told(self) -> list[tuple[str, int]]:
        told = [
            ("patterns", self.all),
            ("enough rows on for each sample (D.3)", self.enough_rows),
            ("enough samples on for each row (D.4)", self.enough_samples),
            ("both", self.both),
        ]
        return told if self.full_rank is None else [*told, ("of full rank", self.full_rank)]


def pattern_counts(outputs: int, samples: int, row_counts: Sequence[int]) -> PatternCounts:
    """How many of the 2^(k m) patterns of k rows pass Lemma D.3, Lemma D.4, and both.

    D.3 alone: (sum_{j >= d} C(k, j))^m. D.4 alone: prod_i sum_{j >= r_i} C(m, j). Both: the 0/1 matrices
    with every column sum >= d and the i-th row sum >= r_i, row by row over the state "how many columns
    have had 0, 1, .., d or more ones". All are upper bounds on the patterns that a generic instance
    can have. For r = d m, the paper's case.

    >>> import sublearn as sl
    >>> counts = sl.patterns.pattern_counts(2, 3, [2, 2, 1, 1])
    >>> counts.all, counts.enough_rows, counts.enough_samples, counts.both
    (4096, 1331, 784, 529)
    """
    d = whole_number("outputs", outputs, least=1)
    m = whole_number("samples", samples, least=1)
    counts = check_counts(row_counts)
    k = len(counts)
    return PatternCounts(
        2 ** (k * m),
        _at_least(d, k) ** m,
        prod(_at_least(r, m) for r in counts),
        _both(d, m, counts),
    )


def _at_least(ones: int, length: int) -> int:
    """How many rows of 0 and 1 have so many ones or more."""
    return sum(comb(length, j) for j in range(ones, length + 1))


def allocation_patterns(problem: Problem, allocation: Allocation) -> PatternCounts:
    """:func:`pattern_counts` of an allocation with r = d m learnable weights in the first layer."""
    require_shallow(problem.network, allocation)
    r = len(allocation)
    if r != problem.equations:
        raise BadInputError(
            f"Lemma D.4 is about r = d m = {problem.equations} learnable weights, not {r}."
        )
    rows = learnable_rows(allocation)
    return pattern_counts(problem.network.output_size, problem.samples, list(rows.values()))


def _both(d: int, m: int, counts: list[int]) -> int:
    if comb(m + d, d) > MOST_STATES:
        raise BadInputError(
            f"samples={m} and outputs={d} give {comb(m + d, d)} states to count over, more than "
            f"{MOST_STATES}."
        )
    # state[v] columns have had v ones so far; the last entry means d or more.
    now: dict[tuple[int, ...], int] = {(m, *[0] * d): 1}
    for r in counts:
        after: dict[tuple[int, ...], int] = {}
        for state, ways in now.items():
            for least, following, choices in _moves(state):
                if least >= r:
                    after[following] = after.get(following, 0) + ways * choices
        now = after
    return now.get((*[0] * d, m), 0)


def _moves(state: tuple[int, ...]) -> list[tuple[int, tuple[int, ...], int]]:
    """(ones in the row, state behind it, number of ways), one entry per choice of counts."""
    partial: list[tuple[int, tuple[int, ...], int, int]] = [(0, (), 1, 0)]
    for columns in state:
        partial = [
            (ones + hit, (*built, columns - hit + carried), ways * comb(columns, hit), hit)
            for ones, built, ways, carried in partial
            for hit in range(columns + 1)
        ]
    # Behind the last value there is none: what is hit there stays.
    return [(ones, (*rest, last + hit), ways) for ones, (*rest, last), ways, hit in partial]
