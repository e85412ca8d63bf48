"""Decide an instance by finding all its complex solutions.

The instance is a point q of the space of parameters (frozen weights, inputs, targets), and N_C the
number of solutions at generic parameters (``_count.py``).

*If N_C solutions at q are known, distinct and with regular Jacobian, there is no other.* Suppose x
were another. Choose disjoint neighbourhoods of x and of the N_C known ones. By the implicit function
theorem every q' near q has a solution in each of the latter. The map Phi that takes (frozen weights,
inputs, learnable weights) to (frozen weights, inputs, outputs) is dominant on an irreducible space, so
points arbitrarily near x have generic parameters q' = Phi(x'), arbitrarily near q; and x' is a further
solution at q': N_C + 1 of them, a contradiction. The argument needs nothing of q, in particular not
that the instance is generic, and it excludes solutions on curves and surfaces as well.

So the instance is REFUTED if N_C solutions are enclosed in disjoint regions, each proved to be simple
and not real (``_separate.py``); all that is not proved about it is the count, whose grade it takes. It
is MATCHED as soon as a real solution is proved. Loops that find nothing new prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._errors import whole_number
from sublearn._interrupts import heed
from sublearn.ensembles import Instance, Problem
from sublearn.matchers._decision import REFUTED, UNDECIDED, Decision, Effort, certified
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers.complete._separate import Enclosure, enclose, separated
from sublearn.matchers.proofs._balls import COMPLEX_BALLS
from sublearn.matchers.proofs._equations import ChainEquations
from sublearn.matchers.proofs._prove import prove
from sublearn.verdicts.counts import (
    SolutionCount,
    count_solutions,
    lifted_system,
    product_form,
    too_large,
    without_determined,
)

NAME = "complete"

FEW_QUADRATIC = 12
"""Up to so many quadratic equations the count costs no more than a few loops."""

_SEEDS = 50  # attempts to find a first solution
_FIRST = 6  # single paths before the first loop: they cost a third of a loop's
_BESIDE = 3  # the same beside every loop
_QUIET = 1  # loops without anything new before the count is asked for, where it is not cheap
_PATIENT = 60  # the same, when the count says that something is missing
_PATHS_PER_ROOT = 150  # paths after which the search for what is missing is given up, per solution
_MOST_WEIGHTS = 64


@dataclass(frozen=True)
class Complete(Matcher):
    """Monodromy up to the solution count: finds all complex solutions, so it can say no.

    Only for systems that leave ``fewest`` to ``most`` quadratic equations (default: as many as can be
    counted), so that a ladder can take the small ones early.
    """

    fewest: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        whole_number("fewest", self.fewest, least=0)
        if self.most is not None:
            whole_number("most", self.most, least=self.fewest)

    name = NAME

    def refusal(self, instance: Instance) -> str | None:
        network, size = instance.network, len(instance.allocation)
        if not network.is_linear:
            return (
                f"{network.title} is not linear, so its outputs are not polynomials in the weights"
            )
        form = product_form(network, instance.allocation, instance.samples)
        if form is None or not form.chain:
            return f"complete is for linear RNNs and linear layers, not for {network.title}"
        if size != instance.equations:
            return f"complete needs r = d m, and here r = {size}, d m = {instance.equations}"
        if size > _MOST_WEIGHTS:
            return f"{size} learnable weights are too many to find all solutions (at most {_MOST_WEIGHTS})"
        system = lifted_system(form)
        left = without_determined(system).quadratic
        if left < self.fewest or (self.most is not None and left > self.most):
            wanted = f"{self.fewest} to {'any number' if self.most is None else self.most}"
            return f"{left} quadratic equations are left, and this rung is for {wanted}"
        return too_large(system)

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        refusal = self.refusal(instance)
        if refusal is not None:
            return Decision(UNDECIDED, NAME, refusal)
        return _Attempt(instance, budget, rng).run()


class _Attempt:
    """One decision: the solutions found, what was proved about them, and the count once it is asked."""

    def __init__(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> None:
        from sublearn.matchers.complete._monodromy import Monodromy

        form = product_form(instance.network, instance.allocation, instance.samples)
        assert form is not None
        self.instance, self.budget = instance, budget
        self.monodromy = Monodromy(instance, rng)
        self.cheap = without_determined(lifted_system(form)).quadratic <= FEW_QUADRATIC
        self.equations = ChainEquations(instance, ring=COMPLEX_BALLS)
        self.enclosures: dict[bytes, Enclosure | None] = {}
        self.tried: set[bytes] = set()
        self.count: SolutionCount | None = None
        self.bits = 0

    def run(self) -> Decision:
        monodromy = self.monodromy
        for _ in range(_SEEDS):
            if monodromy.seed():
                break
        else:
            return self._undecided(
                f"no complex solution was reached from {_SEEDS} starts, as where the rank is deficient"
            )
        for _ in range(_FIRST - 1):
            if monodromy.nearly_real.any() or monodromy.paths >= self.budget.paths:
                break
            monodromy.seed()
        quiet = 0
        while True:
            heed()
            if (decision := self._match()) is None:
                decision = self._refute()
            if decision is not None:
                return decision
            if self.count is None and (self.cheap or quiet >= _QUIET):
                problem = Problem(self.instance.network, self.instance.samples)
                self.count = count_solutions(problem, self.instance.allocation)
                if (self.count.count or 0) > self.budget.roots:
                    return self._undecided(
                        f"there are {self.count.count} complex solutions, more than the "
                        f"{self.budget.roots} that may be enumerated"
                    )
                continue
            wanted = None if self.count is None else self.count.count
            if self.count is not None and wanted is None and quiet >= _QUIET:
                return self._undecided(self._known() + f"; {self.count.reason}")
            if wanted is not None and quiet >= _PATIENT:
                return self._undecided(self._known() + f" of {wanted}; loops find no more")
            most = self.budget.paths
            if wanted is not None:
                most = min(most, _PATHS_PER_ROOT * (wanted + 10))
            left = (most - monodromy.paths) // 3
            if left < 1:
                return self._undecided(self._known() + "; the budget of paths is spent")
            fresh = monodromy.loop(left)
            for _ in range(_BESIDE):
                fresh += monodromy.seed()
            quiet = 0 if fresh else quiet + 1

    def _known(self) -> str:
        return f"{self.monodromy.found} complex solutions found and none is real"

    def _match(self) -> Decision | None:
        """Try to prove that a nearly real point is a real solution."""
        monodromy = self.monodromy
        for position in np.flatnonzero(monodromy.nearly_real).tolist():
            point = monodromy.points[position]
            if point.tobytes() in self.tried:
                continue
            self.tried.add(point.tobytes())
            certificate = prove(self.instance, point.real.copy(), max_bits=self.budget.bits)
            if certificate is not None:
                self.bits = max(self.bits, certificate.bits)
                reason = "a loop of targets led to a real solution, which is proved to exist"
                return certified(NAME, reason, certificate, self._effort())
            enclosure = self._enclosure(position)
            if enclosure is not None and enclosure.real is False:
                monodromy.is_pair(position)
        return None

    def _enclosure(self, position: int) -> Enclosure | None:
        point = self.monodromy.points[position]
        key = point.tobytes()
        if key not in self.enclosures:
            ball = enclose(self.equations, point, self.budget.bits)
            self.enclosures[key] = ball
            if ball is not None:
                self.bits = max(self.bits, ball.bits)
        return self.enclosures[key]

    def _refute(self) -> Decision | None:
        """REFUTED if as many solutions are known as there are, all of them proved not to be real."""
        monodromy, count = self.monodromy, self.count
        if count is None or count.count is None or monodromy.found < count.count:
            return None
        enclosures, stray = [], []
        for position in range(len(monodromy.points)):
            enclosure = self._enclosure(position)
            if enclosure is None:
                stray.append(position)
            elif enclosure.real is not False:
                return self._unclear()
            else:
                enclosures.append(enclosure)
        if stray:
            # A point around which nothing was proved is a solution only if the others are too few.
            if 2 * len(enclosures) < count.count:
                return self._unclear()
            monodromy.drop(np.array(stray))
        twice = separated(enclosures)
        if twice.size:
            monodromy.drop(twice)
            return None
        if monodromy.found > count.count:
            return self._undecided(
                f"{monodromy.found} complex solutions are proved to be distinct, more than the "
                f"{count.count} that were counted: the count is wrong"
            )
        return Decision(
            REFUTED,
            NAME,
            f"all {count.count} complex solutions are enclosed and none of them is real "
            f"({count.reason})",
            count.grade,
            effort=self._effort(),
        )

    def _unclear(self) -> Decision:
        return self._undecided(
            f"{self.monodromy.found} complex solutions found, as many as there are, but one of them "
            "could be proved neither to be real nor not to be"
        )

    def _undecided(self, reason: str) -> Decision:
        return Decision(UNDECIDED, NAME, reason, effort=self._effort())

    def _effort(self) -> Effort:
        work = self.monodromy
        return Effort(iterations=work.steps, paths=work.paths, bits=self.bits)
