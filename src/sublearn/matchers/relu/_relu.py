"""The rung that decides shallow ReLU networks exactly."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sublearn._grades import PROOF
from sublearn._kinds import GradeKind
from sublearn.ensembles import Instance
from sublearn.exact import Feasible, Rational
from sublearn.matchers._decision import MATCHED, REFUTED, UNDECIDED, Decision, Effort
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers._nonlinear import candidates
from sublearn.matchers.proofs import prove
from sublearn.matchers.relu._cone import cone_contradiction
from sublearn.patterns import (
    System,
    activation_pattern,
    build_system,
    decide_pattern,
    rounded_weights,
    why_no_system,
)

STARTS = 200  # of descents, after branching has spent its nodes


class Relu(Matcher):
    """Decide y = W2 relu(W1 x) with learnable weights in the first layer, exactly.

    A cheap contradiction first: the cone test for each sample. Then branch and bound over the pairs (unit,
    sample): on or off. Each node is a linear program over the corners of every unit's cells, without any
    bound on the numbers; an infeasible one is cut off by a vector that is proved, so REFUTED is a proof
    (UNDECIDED in the rare case that a vector resists). A pattern with a solution is solved in rationals:
    MATCHED is a proof. If the nodes run out, descents from random starts look for a pattern. A node of a
    large program counts for more than one.

    Lemmas D.3 and D.4 are not used: what they exclude, they exclude with probability 1 at best, and the
    programs exclude it by themselves.

    >>> import numpy as np, sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
    >>> instance = sl.draw(problem, {"W1": sl.FirstRows(6)}, seed=0, trial=0)
    >>> decision = sl.decide(instance)
    >>> decision.kind, decision.rung, str(decision.grade)
    ('refuted', 'relu', 'proof')
    """

    name = "relu"
    descends: ClassVar[bool] = True  # whether random starts follow where the nodes run out

    def refusal(self, instance: Instance) -> str | None:
        return why_no_system(instance)

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        from sublearn.matchers.relu._branch import decide_by_branching

        system = build_system(instance)
        why = cone_contradiction(system)
        if why is not None:
            return Decision(REFUTED, self.name, why, PROOF)
        outcome = decide_by_branching(system, budget.nodes, rng)
        effort = Effort(nodes=outcome.nodes)
        if outcome.values is not None:
            reason = f"by branching over {outcome.nodes} nodes"
            return solved(self.name, reason, instance, system, outcome.values, budget, effort)
        if outcome.kind == REFUTED:
            reason = (
                f"all 2^{system.pairs} patterns are cut off, by {outcome.leaves} Farkas vectors"
            )
            return Decision(REFUTED, self.name, reason, PROOF, effort=effort)
        if outcome.kind == GradeKind.NUMERICAL:
            reason = f"all 2^{system.pairs} patterns are cut off in float64, not every one by proof"
            return Decision(UNDECIDED, self.name, reason, effort=effort)
        if outcome.near:
            reason = (
                f"{outcome.near} patterns solve the system to rounding, none exactly: the targets may "
                "have been those of a singular pattern before they were rounded"
            )
            return Decision(UNDECIDED, self.name, reason, effort=effort)
        stopped = outcome.note or f"{outcome.nodes} nodes settled nothing"
        if not self.descends:
            return Decision(UNDECIDED, self.name, stopped, effort=effort)
        return self._search(instance, system, budget, rng, stopped, effort)

    def _search(
        self,
        instance: Instance,
        system: System,
        budget: Budget,
        rng: np.random.Generator,
        stopped: str,
        spent: Effort,
    ) -> Decision:
        """Descents from random starts; what they come near to is a pattern, which is decided exactly."""
        most, effort = min(STARTS, budget.starts), spent
        tried: set[bytes] = set()
        for values, work in candidates(instance, most, budget.iterations, rng):
            effort = spent + work
            if values is None:
                continue
            weights = instance.with_values(values)
            pattern = activation_pattern(instance.network, weights, instance.inputs)
            pattern = pattern[list(system.units)]
            if pattern.tobytes() in tried:
                continue
            tried.add(pattern.tobytes())
            answer = decide_pattern(system, pattern)
            if isinstance(answer, Feasible):
                reason = f"by a descent from start {work.starts}"
                return solved(self.name, reason, instance, system, answer.values, budget, effort)
        reason = f"{stopped}, and {effort.starts} random starts found no match"
        return Decision(UNDECIDED, self.name, reason, effort=effort)


def solved(
    rung: str,
    way: str,
    instance: Instance,
    system: System,
    values: dict[int, Rational],
    budget: Budget,
    effort: Effort,
) -> Decision:
    """MATCHED by proof: the weights are rationals that solve every equation.

    Where the solution is isolated and no pre-activation is 0 there is a certificate too, which anyone
    can check again from its file; a solution on a kink, or one of many, has no box around it.
    """
    learnt = rounded_weights(system, values)
    certificate = None
    if np.isfinite(learnt).all():
        certificate = prove(instance, learnt, min(budget.bits, 512))
    kind = "an isolated solution" if certificate is not None else "a solution"
    bits = 0 if certificate is None else certificate.bits
    return Decision(
        MATCHED,
        rung,
        f"{kind} in rationals, {way}",
        PROOF,
        learnt,
        instance.with_values(learnt),
        certificate,
        effort + Effort(bits=bits),
    )
