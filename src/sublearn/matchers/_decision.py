"""What deciding one instance returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from sublearn._arrays import Array
from sublearn._errors import no_truth
from sublearn._grades import PROOF
from sublearn._kinds import DecisionKind
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.matchers.proofs import Certificate, prove
from sublearn.plots import Row, Shown, draw_weights, figure, ink
from sublearn.verdicts import Grade

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MATCHED, REFUTED, UNDECIDED = DecisionKind
# A word is taken for its member.
Kind = DecisionKind | Literal["matched", "refuted", "undecided"]

_NEITHER = "neither a match nor its absence is proved"
UNPROVED = 4  # candidates that could not be proved: the roots are singular, and so are the next


@dataclass(frozen=True)
class Effort:
    """Work that was done, counted: never seconds, so that it is the same on every machine."""

    starts: int = 0  # random starts of a search
    iterations: int = 0  # Newton or trust-region steps
    paths: int = 0  # homotopy paths tracked
    bits: int = 0  # largest precision used
    nodes: int = 0  # nodes of a branching search

    def __add__(self, other: Effort) -> Effort:
        sums = {kind: work + getattr(other, kind) for kind, work in vars(self).items()}
        return Effort(**{**sums, "bits": max(self.bits, other.bits)})


@dataclass(frozen=True, repr=False)
class Decision(Shown):
    """MATCHED (a real solution exists), REFUTED (none exists) or UNDECIDED (the budget is spent).

    ``grade`` says how sure the first two are (None when undecided). ``values`` are the learnable
    weights of a match in the order of the allocation's labels, rounded to float64; the exact solution
    lies within the certificate's radius. ``rung`` names the matcher that decided, and
    ``allocation`` what was learnable, for the picture (None from a matcher that is used alone). ``next_step``
    says what to do about an instance that stays undecided.
    """

    kind: Kind
    rung: str
    reason: str
    grade: Grade | None = None
    values: Array | None = None
    weights: Mapping[str, Array] | None = None
    certificate: Certificate | None = None
    effort: Effort = field(default_factory=Effort)
    allocation: Allocation | None = None
    next_step: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", DecisionKind.read("the kind of a decision", self.kind))

    def __bool__(self) -> NoReturn:
        no_truth(self, "kind, which is 'matched', 'refuted' or 'undecided'")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "kind": self.kind,
            "rung": self.rung,
            "reason": self.reason,
            "grade": None if self.grade is None else self.grade.to_dict(),
            "values": None if self.values is None else self.values.tolist(),
            "effort": vars(self.effort),
        }

    def table(self) -> list[Row]:
        """The weights of a match, entry by entry; where there is none, one row of words."""
        if self.weights is None:
            grade = None if self.grade is None else str(self.grade)
            return [{"kind": self.kind, "rung": self.rung, "grade": grade, "reason": self.reason}]
        return [
            {"weight": name, "row": i, "column": j, "value": value}
            for name, matrix in self.weights.items()
            for i, row in enumerate(matrix.tolist())
            for j, value in enumerate(row)
        ]

    def plot(self) -> Figure:
        """The weights of a match, learnable ones outlined; where there is none, the mask and words."""
        if self.weights is None:
            return self._mask_and_words()
        mine = self.allocation
        masks = None if mine is None else {name: mine.mask(name) for name in self.weights}
        fig = draw_weights(self.weights, masks)
        title = f"{self.kind} by {self.rung} ({self.grade})"
        fig.suptitle(title, x=0.02, ha="left", color=ink(), fontsize=11)
        return fig

    def _mask_and_words(self) -> Figure:
        """What was learnable, and in words what became of it, and what to do next."""
        fig: Figure
        if self.allocation is None:
            fig, ax = figure(height=1.2)
            ax.set_axis_off()
            across = 1
        else:
            fig = self.allocation.plot()
            across = len(fig.axes)
        title = UNDECIDED if self.kind == UNDECIDED else f"{self.kind} by {self.rung}"
        words = [title if self.grade is None else f"{title} ({self.grade})", self._why(_NEITHER)]
        if self.next_step:
            words.append(f"next: {self.next_step}")
        # A matrix is as wide as some 44 characters: what is longer would be cut off.
        text = "\n".join(fill(line, 44 * min(3, across)) for line in words)
        fig.set_figheight(fig.get_figheight() + 0.17 * text.count("\n"))
        fig.suptitle(text, x=0.02, ha="left", color=ink(), fontsize=10)
        return fig

    def _why(self, short: str) -> str:
        """The reason; that of the ladder names every rung: too long to be read at once."""
        return self.reason if self.kind != UNDECIDED or len(self.reason) <= 120 else short

    def __str__(self) -> str:
        if self.kind == UNDECIDED:
            return f"undecided: {self._why(f'{_NEITHER} (reason says what was tried)')}"
        return f"{self.kind} by {self.rung} ({self.grade}): {self.reason}"


def certified(rung: str, reason: str, certificate: Certificate, effort: Effort) -> Decision:
    """MATCHED, by the proof that the certificate holds."""
    values = certificate.values
    weights = certificate.instance.with_values(values)
    return Decision(MATCHED, rung, reason, PROOF, values, weights, certificate, effort)


def first_proved(
    rung: str,
    instance: Instance,
    candidates: Iterable[tuple[Array | None, Effort]],
    bits: int,
    before: int = 0,
) -> Decision:
    """MATCHED by the first candidate that is proved; ``before`` starts have been tried by others, in vain.

    Else UNDECIDED: the starts, and the candidates that no test could prove.
    """
    effort, unproved = Effort(), 0
    for values, effort in candidates:
        if values is None:
            continue
        certificate = prove(instance, values, bits)
        if certificate is not None:
            reason = f"a solution found from start {before + effort.starts}, and proved to exist"
            return certified(rung, reason, certificate, effort + Effort(bits=certificate.bits))
        unproved += 1
        if unproved == UNPROVED:
            break
    reason = f"no solution proved from {effort.starts} starts"
    if unproved:
        reason += f"; {unproved} candidates could not be proved: the roots may be singular"
    return Decision(UNDECIDED, rung, reason, effort=effort)
