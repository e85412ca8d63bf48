"""Certificates of rank verdicts: what they rest on, as numbers that anyone can check again.

A verdict says two ranks: that of the learnable weights, and *needed*. Each is shown from below by a minor
that is not 0 modulo a prime at a point, which is a proof, and from above by counting, which is a
proof where the bounds of the network hold, or at points that the check draws itself, up to chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn._files import save_json
from sublearn._kinds import BETWEEN, MAXIMAL, MINIMAL, UNKNOWN, VerdictKind
from sublearn._reading import Unreadable, as_text, as_whole, load_json, read_json
from sublearn._seeds import named_stream
from sublearn.allocations import Allocation, flat_entries, from_flat_entries
from sublearn.ensembles import Ensemble, LowRank, Normal, Problem, Targets
from sublearn.exact import eliminate, random_prime
from sublearn.networks import Network, network_from_text
from sublearn.verdicts._bounds import binding_lines, rank_bound
from sublearn.verdicts._needed import samples_of
from sublearn.verdicts._points import PrimePoint
from sublearn.verdicts._rank import generic_rank, look
from sublearn.verdicts._recheck import Place, whole_gates
from sublearn.verdicts._verdict import Verdict

if TYPE_CHECKING:
    from sublearn.verdicts._checking import RankCheck

FORMAT = "sublearn rank certificate 1"
_TRIES = 100  # points that are looked at for a minor
ERROR = 1e-12  # of what a check sees at points
MOST_WORK = 5 * 10**10
"""Multiplications of a check: a minute or two."""
_ABOUT = (
    "rank_at_least and needed_at_least are minors that are not 0 modulo a prime at a point: a check computes "
    "them again, by other code, and they are proofs.",
    "Coordinates of a point are SHAKE-256 of 'sublearn point', its number and a name, in three lines: eight "
    "bytes each, the lowest first, modulo the prime.",
    "at_most by weights, outputs or lines is counted again; that a row, a column and the outputs carry no "
    "more is a theorem about the network, which is not checked. By points: a check draws points of its own.",
    "That ranks decide the kind, and the reason of a maximal verdict, are theorems; that they apply is "
    "checked.",
)


@dataclass(frozen=True)
class Minor:
    """Rows and columns of a Jacobian whose minor is not 0 modulo ``prime`` at the point ``point``."""

    prime: int
    point: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class AtMost:
    """Why a rank is no larger than ``rank``.

    ``by``: "weights", there are no more; "outputs", the network expresses no more; "lines", of every weight
    the named rows and columns carry no more than their bounds, and outside of them are only so many;
    "points", seen at random points: the columns ``among`` have lost as much as all of them.
    """

    rank: int
    by: str
    lines: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    among: tuple[int, ...] = ()


BY = ("weights", "outputs", "lines", "points")


@dataclass(frozen=True)
class Ground:
    """Why a verdict is maximal: ``part`` of the allocation is, on ``samples`` samples, if of full rank."""

    why: str
    part: tuple[int, ...] = ()
    samples: int = 0
    minor: Minor | None = None


@dataclass(frozen=True, eq=False)
class RankCertificate:
    """What a verdict rests on, as numbers: see the page on certificates.

    ``problem`` is without the output activation that student and teacher share. Columns of minors are
    positions among the learnable weights, those of ``needed_at_least`` among all weights of the teacher that
    exist, None where the student's own rank shows it, or where there is no teacher.

    >>> import sublearn as sl
    >>> net = sl.FeedForward((3, 3, 2))
    >>> cross = sl.Allocation.from_entries(net, {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]})
    >>> found = sl.certify(sl.Problem(net, samples=2), cross).certificate().check()
    >>> found.holds, found.reason
    (True, 'minimal: the learnable weights have rank 3, and 4 is needed.')
    """

    problem: Problem
    allocation: Allocation
    kind: VerdictKind
    rank_at_least: Minor | None
    rank_at_most: AtMost
    needed_at_least: Minor | None
    needed_at_most: AtMost
    ground: Ground | None = None
    circuit: tuple[int, ...] = ()

    @property
    def needed_shown(self) -> int:
        """What is shown to be needed at least."""
        if self.problem.teacher_network is None:
            return self.problem.equations
        minor = self.needed_at_least
        if minor is None and self.problem.teacher is None:
            minor = self.rank_at_least
        return 0 if minor is None else len(minor)

    def check(self, most_work: int = MOST_WORK) -> RankCheck:
        """Look at every number again, from this object alone, and say what holds and how far."""
        from sublearn.verdicts._checking import Checker

        return Checker(self, most_work).check()

    def save(self, path: str | Path) -> None:
        """Write JSON, beside and renamed, so that a reader never sees half a file."""
        save_json(path, to_dict(self), "a certificate")

    @classmethod
    def load(cls, path: str | Path) -> RankCertificate:
        """Read what :meth:`save` wrote; anything else is an error that says what is wrong."""
        return load_json(path, "certificate", from_dict)


def is_rank_certificate(path: str | Path) -> bool:
    """Whether a file says that it is one, in JSON; what else it says is looked at when it is loaded."""
    try:
        content = read_json(Path(path))
    except (Unreadable, OSError):
        return False
    return isinstance(content, Mapping) and content.get("format") == FORMAT


def certificate_of(verdict: Verdict) -> RankCertificate:
    """The certificate of a verdict; refused where it rests on what no numbers show."""
    if verdict.proof is None or verdict.kind is UNKNOWN:
        raise BadInputError("an unknown verdict claims nothing that a certificate could show.")
    problem, allocation = verdict.proof.problem, verdict.allocation
    if verdict.solutions is not None and verdict.kind is MAXIMAL:
        raise BadInputError(
            "this verdict rests on a count of complex solutions, which no minor shows: it has no "
            "certificate."
        )
    mixed = problem.network.has_gates and not problem.network.is_piecewise_linear
    teacher = problem.teacher_network
    if mixed or (teacher is not None and teacher.has_gates and not teacher.is_piecewise_linear):
        raise BadInputError("networks with ReLU behind tanh or sigmoid have no certificates.")
    least = _minor(problem, problem.network, allocation, verdict.rank)
    needed, at_most = None, AtMost(problem.equations, "outputs")
    if teacher is not None:
        own = problem.teacher is None and least is not None and len(least) == verdict.needed
        whole = Allocation.whole(teacher)
        needed = None if own else _minor(problem, teacher, whole, verdict.needed)
        at_most = _needed_at_most(problem, teacher, verdict.needed)
    made = RankCertificate(
        problem,
        allocation,
        verdict.kind,
        least,
        _at_most(problem, allocation, verdict.rank),
        needed,
        at_most,
        _ground(problem, allocation, verdict),
        positions(allocation, verdict.circuit.entries) if verdict.circuit is not None else (),
    )
    if verdict.kind is MINIMAL and made.rank_at_most.rank >= made.needed_shown:
        raise BadInputError(
            f"no gates were found at which the teacher reaches more than {made.rank_at_most.rank} "
            "dimensions: there is no certificate."
        )
    return made


def positions(
    allocation: Allocation, entries: Mapping[str, Sequence[tuple[int, int]]]
) -> tuple[int, ...]:
    """Where these entries stand among the labels of an allocation."""
    inside = {(name, i, j) for name, pairs in entries.items() for i, j in pairs}
    return tuple(k for k, label in enumerate(allocation.labels()) if label in inside)


def _minor(problem: Problem, network: Network, allocation: Allocation, wanted: int) -> Minor | None:
    """A minor of order ``wanted``, or of the largest that was found; None if that is 0."""
    rng = named_stream(0, "certificate", problem.digest, network.spec, allocation.digest)
    best: Minor | None = None
    for number in range(_TRIES if wanted else 0):
        place = Place(random_prime(rng), number)
        gates = None
        if network.has_gates:
            exact = whole_gates(problem, network, place)
            if exact is None:
                continue
            gates = {step: pattern.astype(np.float64) for step, pattern in exact.items()}
        point = PrimePoint(problem, network, place, gates)
        columns = look(point, allocation, wanted, rng)[0][:wanted]
        if columns.size <= (0 if best is None else len(best)):
            continue
        matrix = point.columns_at(allocation, columns)
        rows = eliminate(point.field, np.ascontiguousarray(matrix.T)).pivots
        best = Minor(place.prime, number, tuple(rows.tolist()), tuple(columns.tolist()))
        if len(best) == wanted:
            break
    return best


def _at_most(problem: Problem, allocation: Allocation, rank: int) -> AtMost:
    """The surest reason why the rank is at most ``rank``, or at most what holds for all gates."""
    counted = rank_bound(problem, allocation)
    gated = problem.network.has_gates
    if gated:
        free = generic_rank(problem, allocation, error=ERROR, seed=0, free_gates=True)
        rank = min(counted, free.rank)
    if len(allocation) <= rank:
        return AtMost(len(allocation), "weights")
    if problem.network.expressible(problem.effective_samples) <= rank:
        return AtMost(rank, "outputs")
    if counted <= rank:
        return AtMost(rank, "lines", binding_lines(problem, allocation))
    rng = named_stream(0, "dependent", problem.digest, allocation.digest)
    limit = problem.equations
    for _ in range(_TRIES):
        point = PrimePoint(problem, problem.network, rng, free_gates=gated)
        basis, _, involved = look(point, allocation, limit, rng)
        if basis.size == rank:
            return AtMost(rank, "points", among=tuple(involved.tolist()))
    raise RuntimeError("random points keep disagreeing; please report this as a bug")


def _needed_at_most(problem: Problem, teacher: Network, needed: int) -> AtMost:
    limit = teacher.expressible(samples_of(problem, teacher))
    # Other gates may need more than those that were sampled.
    if limit <= needed or teacher.has_gates:
        return AtMost(limit, "outputs")
    return AtMost(needed, "points")


def _ground(problem: Problem, allocation: Allocation, verdict: Verdict) -> Ground | None:
    if verdict.kind is not MAXIMAL or verdict.proof is None:
        return None
    known = verdict.proof.ground
    if known is None:
        return Ground("every weight is learnable")
    where = known.problem or problem
    part = positions(allocation, known.part.entries)
    minor = None
    if known.problem is not None or known.part != allocation:
        wanted = len(known.part) if known.problem is not None else verdict.rank
        minor = _minor(where, where.network, known.part, wanted)
    return Ground(known.why, part, where.samples, minor)


def to_dict(certificate: RankCertificate) -> dict[str, Any]:
    """Plain values, for JSON."""
    problem = certificate.problem
    law = problem.ensemble.inputs
    return {
        "format": FORMAT,
        "about": list(_ABOUT),
        "kind": certificate.kind,
        "network": problem.network.spec,
        "samples": problem.samples,
        "input_rank": law.inner,
        "teacher": None if problem.teacher is None else problem.source.written,
        "learnable": flat_entries(certificate.allocation),
        **{
            name: None if (claim := getattr(certificate, name)) is None else asdict(claim)
            for name in _CLAIMS
        },
        "circuit": list(certificate.circuit),
    }


_CLAIMS = ("rank_at_least", "rank_at_most", "needed_at_least", "needed_at_most", "ground")
_ASKED = ("kind", "network", "samples", "input_rank", "teacher", "learnable")
_KEYS = {"format", "about", *_ASKED, *_CLAIMS, "circuit"}


def from_dict(content: object) -> RankCertificate:
    """The certificate that :func:`to_dict` describes."""
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        raise BadInputError(f"this is no rank certificate of the format {FORMAT!r}.")
    if set(content) != _KEYS:
        other = sorted(set(content) ^ _KEYS)[0]
        raise BadInputError(f"the entry {other!r} is missing, or not known.")
    network = network_from_text(as_text(content["network"]))
    samples, shown = as_whole(content["samples"]), content["teacher"]
    teacher: Network | Targets | None = None
    if shown is not None:
        text = as_text(shown)
        teacher = Targets() if text == "none" else network_from_text(text)
    rank = content["input_rank"]
    law = Normal() if rank is None else LowRank(rank=as_whole(rank))
    problem = Problem(network, samples, Ensemble(inputs=law), teacher)
    allocation = from_flat_entries(network, content["learnable"])
    if not len(allocation):
        raise BadInputError("a certificate needs at least one learnable weight.")
    kind = one_of("kind", as_text(content["kind"]), [MAXIMAL.value, MINIMAL.value, BETWEEN.value])
    return RankCertificate(
        problem,
        allocation,
        VerdictKind(kind),
        _minor_in(content["rank_at_least"]),
        _most_in(content["rank_at_most"]),
        _minor_in(content["needed_at_least"]),
        _most_in(content["needed_at_most"]),
        _ground_in(content["ground"]),
        _wholes(content["circuit"]),
    )


def _ground_in(content: Any) -> Ground | None:
    if content is None:
        return None
    why, part = as_text(content["why"]), _wholes(content["part"])
    return Ground(why, part, as_whole(content["samples"]), _minor_in(content["minor"]))


def _minor_in(content: Any) -> Minor | None:
    if content is None:
        return None
    prime, point = as_whole(content["prime"]), as_whole(content["point"])
    return Minor(prime, point, _wholes(content["rows"]), _wholes(content["columns"]))


def _most_in(content: Any) -> AtMost:
    lines = {
        name: (_wholes(rows), _wholes(cols)) for name, (rows, cols) in content["lines"].items()
    }
    by = one_of("by", as_text(content["by"]), BY)
    return AtMost(as_whole(content["rank"]), by, lines, _wholes(content["among"]))


def _wholes(content: Any) -> tuple[int, ...]:
    if not isinstance(content, list | tuple):
        raise ValueError(f"{content!r:.80} is no list")
    return tuple(as_whole(value) for value in content)
