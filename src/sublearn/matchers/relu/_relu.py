"""The rung that decides shallow ReLU networks exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sublearn._grades import PROOF
from sublearn.matchers._decision import Decision, Effort
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers.relu._cone import cone_contradiction
from sublearn.matchers.relu._matched import matched
from sublearn.matchers.relu._signs import sign_contradiction
from sublearn.patterns._system import System, build, refusal

if TYPE_CHECKING:
    from sublearn.ensembles import Instance
    from sublearn.matchers.relu._branch import Outcome

STARTS = 200  # of Newton's method, after branching has spent its nodes


class Relu(Matcher):
    """Decide y = W2 relu(W1 x) with learnable weights in the first layer, exactly.

    Cheap contradictions first: the signs of W2^-1 R where k = d, then the cone test for each sample.
    Then branch and bound over the pairs (unit, sample): on or off. Each node is a linear program over the
    corners of every unit's cells, without any bound on the numbers; an infeasible one is cut off by a
    vector that is proved, so REFUTED is a proof (UNDECIDED in the rare case that a vector resists). A
    pattern with a solution is solved in rationals: MATCHED is a proof. If the nodes run out, Newton's
    method from random starts looks for a pattern. A node of a large program counts for more than one.

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

    def refusal(self, instance: Instance) -> str | None:
        return refusal(instance)

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        system = build(instance)
        why = sign_contradiction(system) or cone_contradiction(system)
        if why is not None:
            return Decision("refuted", self.name, why, PROOF)
        if not system.usable:
            return Decision("undecided", self.name, "the numbers are out of float64's reach")
        return self._branch(instance, system, budget, rng)

    def _branch(
        self, instance: Instance, system: System, budget: Budget, rng: np.random.Generator
    ) -> Decision:
        from sublearn.matchers.relu._branch import decide_by_branching

        found = decide_by_branching(system, budget.nodes, rng)
        effort = Effort(nodes=found.nodes)
        if found.values is not None:
            way = f"branching over {found.nodes} nodes"
            return matched(instance, system, found.values, self.name, way, budget, found.nodes)
        if found.kind == "refuted":
            reason = f"all 2^{system.pairs} patterns are cut off, by {found.leaves} Farkas vectors"
            return Decision("refuted", self.name, reason, PROOF, effort=effort)
        if found.kind == "numerical":
            reason = f"all 2^{system.pairs} patterns are cut off in float64, not every one by proof"
            return Decision("undecided", self.name, reason, effort=effort)
        if found.near:
            reason = (
                f"{found.near} patterns solve the system to rounding, none exactly: the targets may have "
                "been those of a singular pattern before they were rounded"
            )
            return Decision("undecided", self.name, reason, effort=effort)
        return self._search(instance, system, budget, rng, found)

    def _search(
        self,
        instance: Instance,
        system: System,
        budget: Budget,
        rng: np.random.Generator,
        before: Outcome,
    ) -> Decision:
        from sublearn.matchers.relu._newton import candidate_patterns
        from sublearn.patterns._exact import Feasible
        from sublearn.patterns._feasible import decide_pattern

        starts = steps = 0
        nodes = before.nodes
        most = min(STARTS, budget.starts)
        for pattern, starts, steps in candidate_patterns(system, most, budget.iterations, rng):
            if pattern is None:
                continue
            found = decide_pattern(system, pattern)
            if isinstance(found, Feasible):
                way = f"start {starts} of Newton's method"
                return matched(
                    instance, system, found.values, self.name, way, budget, nodes, starts, steps
                )
        stopped = before.note or f"{nodes} nodes settled nothing"
        reason = f"{stopped}, and {starts} starts of Newton's method found no match"
        return Decision("undecided", self.name, reason, effort=Effort(starts, steps, nodes=nodes))
