"""What certify returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sublearn._errors import no_truth
from sublearn._grades import Grade
from sublearn._kinds import VerdictKind
from sublearn.allocations import Allocation, Entry
from sublearn.ensembles import Problem
from sublearn.plots import Row, Shown, ink
from sublearn.verdicts._bounds import BrokenBound
from sublearn.verdicts._equations import EquationCounts
from sublearn.verdicts._gates import GateRanks
from sublearn.verdicts._maximal import Candidate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sublearn.verdicts._certificate import RankCertificate


@dataclass(frozen=True)
class Circuit:
    """A dependent set of learnable weights that becomes independent when any one is taken out."""

    entries: Mapping[str, tuple[Entry, ...]]
    words: str

    def __len__(self) -> int:
        return sum(len(pairs) for pairs in self.entries.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        lists = {name: [list(pair) for pair in pairs] for name, pairs in self.entries.items()}
        return {
            "entries": {name: pairs for name, pairs in lists.items() if pairs},
            "words": self.words,
        }


@dataclass(frozen=True)
class TheoremCheck:
    """A printed statement of the paper beside what is found here.

    ``statement`` is the printed rule in short, ``says`` its claim for this allocation (None: it is
    silent), ``holds`` whether that claim is right (None: neither proved nor refuted), ``why`` the
    reason where it is not.
    """

    theorem: str
    statement: str
    says: str | None
    holds: bool | None
    why: str

    @property
    def short(self) -> str:
        """The statement and what becomes of it, in a few words."""
        return f"{self.theorem} {self._state if self.says else 'not tight'}"

    @property
    def _state(self) -> str:
        return {True: "right", False: "wrong here", None: "left open"}[self.holds]

    def __str__(self) -> str:
        source = f"{self.theorem} ({self.statement})"
        state = self._state
        text = f"{source} is silent" if self.says is None else f"{source} says {self.says}: {state}"
        return f"{text}; {self.why}." if self.why else f"{text}."


@dataclass(frozen=True)
class Proof:
    """What a verdict was taken from: the problem without a shared output activation, and for a maximal one
    the part that is known to be (None: every weight is learnable)."""

    problem: Problem
    ground: Candidate | None = None


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """What can be said about an allocation without sampling.

    ``kind``: "maximal" (a match exists with probability 1), "minimal" (probability 0, but see
    ``set_aside``), "between" (the rank allows matches, so 0 < MP <= 1 for a teacher of the same
    architecture), or "unknown" (the ensemble has no density, so no generic statement holds).
    ``rank``: generic rank of the learnable columns. ``needed``: generic rank of the teacher's full
    Jacobian. ``wasted`` = min(r, needed) - rank. ``surplus`` = max(r - needed, 0).
    ``gates``: for ReLU networks, whose rank depends on the gates, its range over sampled ones; ``rank``
    is then the largest of these, ``wasted`` the least waste, and ``needed`` the teacher's largest.
    ``grade``: how sure ``kind`` is; ``rank_grade``: how sure ``rank`` is.
    ``idle``: r - rank learnable weights whose loss leaves the rank as it is.
    ``circuit``: where weights are wasted, a smallest-found dependent set of learnable weights.
    ``solutions``: number of complex solutions at generic parameters, where it was counted.
    ``set_aside``: the teacher has ReLU units, so that "minimal" leaves out teachers whose gates leave them
    fewer than ``needed`` dimensions: such a draw may be matched, and the match probability be positive.
    """

    kind: VerdictKind
    grade: Grade
    allocation: Allocation
    equations: int
    rank: int
    needed: int
    rank_grade: Grade
    needed_grade: Grade
    affine: bool
    reasons: tuple[str, ...]
    theorems: tuple[TheoremCheck, ...]
    broken: tuple[BrokenBound, ...]
    idle: Allocation
    circuit: Circuit | None
    counts: EquationCounts | None
    gates: GateRanks | None = None
    solutions: int | None = None
    set_aside: bool = False
    proof: Proof | None = field(default=None, compare=False)

    def __bool__(self) -> NoReturn:
        no_truth(self, "kind, which is 'maximal', 'minimal', 'between' or 'unknown'")

    def certificate(self) -> RankCertificate:
        """What the verdict rests on, as numbers to save and to check again."""
        from sublearn.verdicts._certificate import certificate_of

        return certificate_of(self)

    def save(self, path: str | Path) -> None:
        """Write the :meth:`certificate` to a .json file, which ``sublearn check`` reads."""
        self.certificate().save(path)

    @property
    def meaning(self) -> str:
        """What ``kind`` says about the match probability, in words."""
        if not self.set_aside:
            return self.kind.meaning
        rest = f"unless gates leave the teacher fewer than {self.needed} dimensions"
        return f"{self.kind.meaning}, {rest}"

    @property
    def learnable(self) -> int:
        """The number r of learnable weights."""
        return len(self.allocation)

    @property
    def wasted(self) -> int:
        """min(r, needed) - rank: learnable weights that could have added to the rank and do not."""
        return max(0, min(self.learnable, self.needed) - self.rank)

    @property
    def surplus(self) -> int:
        """r - needed where positive: weights beyond what a match needs."""
        return max(0, self.learnable - self.needed)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "kind": self.kind,
            "meaning": self.meaning,
            "set_aside": self.set_aside,
            "grade": self.grade.to_dict(),
            "learnable": self.learnable,
            "equations": self.equations,
            "rank": self.rank,
            "needed": self.needed,
            "wasted": self.wasted,
            "surplus": self.surplus,
            "rank_grade": self.rank_grade.to_dict(),
            "needed_grade": self.needed_grade.to_dict(),
            "affine": self.affine,
            "reasons": list(self.reasons),
            "theorems": [vars(check) for check in self.theorems],
            "broken_bounds": [vars(bound) for bound in self.broken],
            "idle": {n: [list(e) for e in self.idle.entries[n]] for n in self.idle.names},
            "circuit": None if self.circuit is None else self.circuit.to_dict(),
            "lifted_equations": None if self.counts is None else asdict(self.counts),
            "gates": None if self.gates is None else self.gates.to_dict(),
            "solutions": self.solutions,
        }

    def plot(self) -> Figure:
        """The allocation, with wasted weights and the smallest dependent set found marked.

        >>> import sublearn as sl
        >>> net = sl.FeedForward((3, 3, 2))
        >>> cross = {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]}
        >>> verdict = sl.certify(sl.Problem(net, 2), sl.Allocation.from_entries(net, cross))
        >>> verdict.plot().get_suptitle()
        'minimal (proof): rank 3 of 4 needed'
        """
        mine, circuit = self.allocation, None
        if self.circuit is not None:
            circuit = mine.select([k for k, row in enumerate(self.table()) if row["circuit"]])
        fig = mine.plot(self.idle if self.wasted else None, circuit)
        words = f"{self.kind} ({self.grade}):", f"rank {self.rank} of {self.needed} needed"
        # One matrix is as wide as 40 characters: what is longer would be cut off.
        title = "\n".join(words) if len(" ".join(words)) > 40 else " ".join(words)
        fig.suptitle(title, x=0.02, ha="left", color=ink(), fontsize=11)
        return fig

    def table(self) -> list[Row]:
        """A row for every learnable weight: whether it is wasted, and whether it is in the circuit."""
        wasted = set(self.idle.labels() if self.wasted else [])
        dependent = {} if self.circuit is None else self.circuit.entries
        marks = (
            {"wasted": label in wasted, "circuit": label[1:] in dependent.get(label[0], ())}
            for label in self.allocation.labels()
        )
        return [{**row, **mark} for row, mark in zip(self.allocation.table(), marks, strict=True)]

    @property
    def headline(self) -> str:
        """Kind, grade and rank."""
        return f"{self.kind}, {self.grade}: rank {self.rank} of {self.needed} needed"

    def __str__(self) -> str:
        rank, wasted, where = f"{self.rank}", f"{self.wasted}", ""
        if self.gates is not None:
            where = f", at {self.gates.sampled} sampled gates"
            if self.gates.smallest < self.rank:
                most = min(self.learnable, self.needed) - self.gates.smallest
                rank, wasted = f"{self.gates.smallest} to {rank}", f"{wasted} to {most}"
        lines = [
            f"{self.kind} ({self.grade}): {self.meaning}",
            f"rank {rank} of {self.needed} needed, {self.learnable} learnable weights, "
            f"{wasted} wasted, {self.surplus} surplus{where}",
        ]
        lines += [f"- {reason}" for reason in self.reasons]
        lines += [f"- {check}" for check in self.theorems if check.says or check.why]
        return "\n".join(lines)
