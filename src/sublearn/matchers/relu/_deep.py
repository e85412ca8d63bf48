"""The rung for deep ReLU networks whose first layer learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sublearn._grades import PROOF
from sublearn.ensembles import Instance
from sublearn.matchers._decision import REFUTED, UNDECIDED, Decision, Effort
from sublearn.matchers._matcher import Budget
from sublearn.matchers.relu._branch import decide_by_branching
from sublearn.matchers.relu._relu import Relu
from sublearn.patterns import MOST_PAIRS, build_system, why_no_system

NODES = 20_000  # of one tree: seconds
SINGLE_NODES = 1_000  # of the tree of one sample


class Deep(Relu):
    """Decide ReLU networks of any depth with learnable weights in the first layer that learns at all.

    The tree of :class:`Relu`, with a pair (unit, sample) for every unit of the frozen layers behind as
    well. A sample alone comes first: its tree is small, and what it refutes is refuted. Of more samples
    than a tree has room for, the first are asked together.

    >>> import numpy as np, sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((6, 8, 8, 4), activation="relu"), samples=6)
    >>> decision = sl.decide(sl.draw(problem, {"W1": sl.FirstRows(8)}, seed=0, trial=2))
    >>> decision.kind, decision.rung, str(decision.grade)
    ('refuted', 'deep', 'proof')
    """

    name = "deep"
    descends = False  # the rung before has tried

    def refusal(self, instance: Instance) -> str | None:
        layers = instance.network.layered
        if layers is not None and layers.is_shallow_relu:
            return "the network is shallow"
        return why_no_system(instance, deep=True)

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        spent, m = Effort(), instance.samples
        for s in range(m) if m > 1 else ():
            system = build_system(instance.only([s]))
            nodes = min(SINGLE_NODES, budget.nodes)
            result = decide_by_branching(system, nodes, rng)
            spent = spent + Effort(nodes=result.nodes)
            if result.kind == REFUTED:
                reason = (
                    f"on sample {s} alone all 2^{system.pairs} patterns are cut off, by "
                    f"{result.leaves} Farkas vectors"
                )
                return Decision(REFUTED, self.name, reason, PROOF, effort=spent)
        together = m if m == 1 else min(m, MOST_PAIRS // system.k)
        if together < 2 <= m:
            reason = f"every sample alone has a match, and {m} together are too many"
            return Decision(UNDECIDED, self.name, reason, effort=spent)
        first = instance if together == m else instance.only(range(together))
        out = super().attempt(first, replace(budget, nodes=min(NODES, budget.nodes)), rng)
        out = replace(out, effort=spent + out.effort)
        if together == m:
            return out
        if out.kind == REFUTED:
            return replace(out, reason=f"on the first {together} samples {out.reason}")
        reason = f"the first {together} samples settled nothing, and {m} are too many"
        return Decision(UNDECIDED, self.name, reason, effort=out.effort)
