"""A rank certificate checked: every claim looked at again, and what holds said with how far it does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sublearn._errors import BadInputError
from sublearn._kinds import MAXIMAL, MINIMAL
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.exact import random_prime
from sublearn.networks import Network
from sublearn.verdicts._certificate import (
    ERROR,
    AtMost,
    Minor,
    RankCertificate,
    positions,
    to_dict,
)
from sublearn.verdicts._maximal import Candidate, candidates, rank_wanted
from sublearn.verdicts._needed import samples_of
from sublearn.verdicts._points import miss_probability
from sublearn.verdicts._rank import points_needed
from sublearn.verdicts._recheck import (
    LARGEST,
    SMALLEST,
    Label,
    Place,
    is_prime,
    jacobian_modulo,
    rank_modulo,
    whole_gates,
)


@dataclass(frozen=True)
class RankCheck:
    """What a check of a rank certificate found; ``proved``, ``seen`` and ``trusted`` say what of it.

    ``proved``: computed again, with no chance involved; ``seen``: at random points, wrong with the
    probability that is said; ``trusted``: theorems and counts that were not computed again.
    """

    holds: bool
    reason: str
    proved: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.holds

    @property
    def details(self) -> list[str]:
        """A line for each claim."""
        named = (
            ("checked", self.proved),
            ("up to chance", self.seen),
            ("not checked", self.trusted),
        )
        return [f"{how}: {claim}" for how, claims in named for claim in claims]


class _Wrong(Exception):  # noqa: N818 - says what it is
    """A claim that does not hold, in words."""


class Checker:
    """All claims of a certificate, one after the other."""

    def __init__(self, certificate: RankCertificate, most_work: int) -> None:
        self.certificate, self.left = certificate, most_work
        self.proved: list[str] = []
        self.seen: list[str] = []
        self.trusted: list[str] = []

    def check(self) -> RankCheck:
        """What holds, or the first claim that does not."""
        try:
            reason = self._conclusion()
        except _Wrong as wrong:
            return RankCheck(False, str(wrong))
        claims = (tuple(self.proved), tuple(self.seen), tuple(self.trusted))
        return RankCheck(True, reason, *claims)

    def _conclusion(self) -> str:
        mine = self.certificate
        problem = mine.problem
        teacher = problem.teacher_network
        labels = mine.allocation.labels()
        least, most = 0, mine.rank_at_most.rank
        if mine.rank_at_least is not None:
            least = self._minor(problem, problem.network, labels, mine.rank_at_least, "learnable")
        self._at_most(problem, problem.network, mine.allocation, mine.rank_at_most)
        needed = mine.needed_shown
        if teacher is None:
            self.proved.append(f"without a teacher all {needed} numbers may be asked for.")
        else:
            whole = Allocation.whole(teacher)
            if mine.needed_at_least is not None:
                every = whole.labels()
                self._minor(problem, teacher, every, mine.needed_at_least, "teacher's")
            self._at_most(problem, teacher, whole, mine.needed_at_most, teacher=True)
        self._circuit(labels)
        if max(least, 0) > most or needed > mine.needed_at_most.rank:
            raise _Wrong("a rank is said to be larger than the largest that it is said to have.")
        if mine.kind is MINIMAL:
            if most >= needed:
                raise _Wrong(f"rank {most} at most is not below the {needed} that are needed.")
            self.trusted.append(
                "what has too small a rank meets almost no teacher (Sard's theorem)."
            )
            return f"minimal: the learnable weights have rank {_range(least, most)}, and {needed} is needed."
        if mine.kind is MAXIMAL:
            return self._maximal(least)
        if most < needed:
            raise _Wrong(
                f"rank {most} at most is below the {needed} that are needed: it is minimal."
            )
        full = mine.needed_at_most.rank
        if problem.teacher is None and not problem.network.has_gates and least < full:
            raise _Wrong(f"rank {least} is shown, and up to {full} may be needed.")
        return f"between: the learnable weights have rank {_range(least, most)}, and {needed} is needed."

    def _minor(
        self, problem: Problem, network: Network, labels: Sequence[Label], minor: Minor, whose: str
    ) -> int:
        """Compute a minor again; its order."""
        rows = network.output_size * problem.samples
        for what, places, size in (
            ("rows", minor.rows, rows),
            ("columns", minor.columns, len(labels)),
        ):
            words = f"the {what} of a minor must be different numbers from 0 to {size - 1}."
            _require_different(places, size, words)
        if len(minor.rows) != len(minor.columns) or not minor.rows:
            raise _Wrong("a minor must have as many rows as columns, and at least one.")
        if not (SMALLEST < minor.prime < LARGEST and is_prime(minor.prime)):
            raise _Wrong(f"{minor.prime} is no prime between 2^22 and 2^23.")
        place = Place(minor.prime, minor.point)
        self._work(network, problem.samples, len(minor), len(minor))
        gates = None
        if network.has_gates:
            gates = whole_gates(problem, network, place)
            if gates is None:
                raise _Wrong(f"a gate is at 0 at point {minor.point}.")
        chosen = [labels[k] for k in minor.columns]
        matrix = jacobian_modulo(problem, network, place, chosen, gates)[list(minor.rows)]
        if rank_modulo(matrix, minor.prime) < len(minor):
            raise _Wrong(f"the minor of order {len(minor)} at point {minor.point} is 0.")
        at = " at gates that occur" if gates else ""
        what = f"{len(minor)} of the {whose} weights are independent{at}"
        self.proved.append(f"{what}: a minor is not 0 modulo {minor.prime}.")
        return len(minor)

    def _at_most(
        self,
        problem: Problem,
        network: Network,
        allocation: Allocation,
        most: AtMost,
        *,
        teacher: bool = False,
    ) -> None:
        """Count again why a rank is no larger, or look at points of our own."""
        samples = samples_of(problem, network) if teacher else problem.effective_samples
        of = "the teacher's weights" if teacher else "the learnable weights"
        words = f"{of} have rank {most.rank} at most"
        if most.by == "points":
            self._at_points(problem, network, allocation, most, words)
            return
        if most.by == "weights":
            bound, why = len(allocation), "there are no more."
        elif most.by == "outputs":
            bound, why = network.expressible(samples), "the network expresses no more."
            if bound < network.output_size * problem.samples:
                self.trusted.append(f"{network.title} expresses {bound} dimensions at most.")
        else:
            bound = self._lines(network, allocation, most, samples)
            why = "rows and columns carry no more."
        if bound > most.rank:
            raise _Wrong(f"counting by {most.by} gives {bound}, not {most.rank}.")
        self.proved.append(f"{words}: {why}")

    def _lines(self, network: Network, allocation: Allocation, most: AtMost, samples: int) -> int:
        total = 0
        for name in allocation.names:
            bounds = network.degree_bounds(name, samples)
            rows, columns = most.lines.get(name, ((), ()))
            mask = allocation.mask(name).copy()
            for lines, size in ((rows, mask.shape[0]), (columns, mask.shape[1])):
                words = f"the lines of {name} must be different numbers below {size}."
                _require_different(lines, size, words)
            if columns and bounds.column is None:
                raise _Wrong(f"columns of {name} have no bound.")
            mask[list(rows)] = False
            mask[:, list(columns)] = False
            total += len(rows) * bounds.row + len(columns) * (bounds.column or 0) + int(mask.sum())
            if rows:
                self.trusted.append(f"a row of {name} carries {bounds.row} at most.")
            if columns:
                self.trusted.append(f"a column of {name} carries {bounds.column} at most.")
        return total

    def _at_points(
        self, problem: Problem, network: Network, allocation: Allocation, most: AtMost, words: str
    ) -> None:
        """At points that no file has chosen: what is drawn depends on all that it says."""
        labels = allocation.labels()
        among = most.among or tuple(range(len(labels)))
        different = "the columns of a dependency must be different weights."
        _require_different(among, len(labels), different)
        # rank(A) <= rank(U) + |A - U|
        wanted = len(among) - (len(labels) - most.rank)
        gated = network.has_gates
        miss = miss_probability(problem, network, wanted + 1, free_gates=gated)
        draws = points_needed(miss, ERROR)
        self._work(network, problem.samples, len(among), problem.equations, draws)
        said = json.dumps(to_dict(self.certificate), sort_keys=True).encode()
        rng = np.random.default_rng(list(hashlib.sha256(said).digest()))
        chosen = [labels[k] for k in among]
        for _ in range(draws):
            place = Place(random_prime(rng), int(rng.integers(2**62)))
            there = rank_modulo(jacobian_modulo(problem, network, place, chosen), place.prime)
            if there > wanted:
                raise _Wrong(f"{words}, but a point shows {there - wanted} more.")
        self.seen.append(
            f"{words}, at {draws} random points: wrong with probability {miss**draws:.0e}."
        )

    def _circuit(self, labels: Sequence[Label]) -> None:
        circuit, problem = self.certificate.circuit, self.certificate.problem
        if not circuit:
            return
        words = "the weights of a circuit must be different learnable ones."
        _require_different(circuit, len(labels), words)
        part = self.certificate.allocation.select(circuit)
        claim = AtMost(len(circuit) - 1, "points")
        words = f"the circuit of {len(circuit)} weights has rank {len(circuit) - 1} at most"
        self._at_points(problem, problem.network, part, claim, words)

    def _maximal(self, least: int) -> str:
        mine = self.certificate
        problem, ground = mine.problem, mine.ground
        if ground is None:
            raise _Wrong("a maximal verdict needs a reason.")
        whole = len(mine.allocation) == problem.network.size
        if problem.teacher is None and whole:
            self.proved.append("every weight is learnable.")
            return "maximal: the student can take the teacher's weights."
        known = next((one for one in candidates(problem, mine.allocation) if _is(one, mine)), None)
        if known is None:
            raise _Wrong("no theorem that is known here makes these weights maximal.")
        where, rank = known.problem or problem, least
        if ground.minor is not None:
            rank = self._minor(where, where.network, known.part.labels(), ground.minor, "maximal")
        elif known.part != mine.allocation or known.problem is not None:
            raise _Wrong("the rank of the part that is said to be maximal is not shown.")
        wanted = rank_wanted(problem, known, least, mine.needed_shown, mine.needed_at_most.rank)
        if wanted is None or rank < wanted:
            raise _Wrong(f"rank {rank} of the part does not make it maximal.")
        self.trusted.append(f"full rank is enough, since {known.why}.")
        return f"maximal: rank {rank}, and {known.why}."

    def _work(
        self, network: Network, samples: int, columns: int, rows: int, times: int = 1
    ) -> None:
        """Weigh what would be computed, before it is."""
        once = sum(int(np.prod(network.shapes[step.weight])) for step in network.steps)
        work = times * columns * (once * samples + rows * min(rows, columns))
        if work > self.left:
            raise BadInputError(
                f"checking this takes {work:.1e} multiplications, and {self.left:.1e} are allowed: give "
                "check a larger most_work."
            )
        self.left -= work


def _require_different(places: Sequence[int], size: int, words: str) -> None:
    if len(set(places)) < len(places) or not all(0 <= k < size for k in places):
        raise _Wrong(words)


def _is(known: Candidate, mine: RankCertificate) -> bool:
    """Whether a known reason is the one that a certificate names."""
    assert mine.ground is not None
    samples = (known.problem or mine.problem).samples
    part = positions(mine.allocation, known.part.entries)
    return (known.why, part, samples) == (mine.ground.why, mine.ground.part, mine.ground.samples)


def _range(least: int, most: int) -> str:
    return f"{most}" if least == most else f"{least} to {most}"
