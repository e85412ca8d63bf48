"""The rung for few learnable weights: boxes hold all their values; each is refuted, or one has a match."""

from __future__ import annotations

import numpy as np

from sublearn._grades import PROOF
from sublearn.ensembles import Instance
from sublearn.matchers._behind import is_affine_before_output
from sublearn.matchers._decision import REFUTED, UNDECIDED, Decision, Effort, certified
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers._nonlinear import too_large
from sublearn.matchers.proofs import prove

BOXES = 20_000  # half a second; more seldom help
BITS = 512  # of a proof
NEAR = 2.0**-40  # of the largest target: how near counts as a match here


class Boxed(Matcher):
    """Decide an instance of a network that is not linear, with at most eight learnable weights.

    The boxes of ``decide_within``, at a tolerance of next to nothing: what no weights come near to, not
    even in the limit, no weights match. Where a small box is left, Newton's method from its centre may
    end in a match that random starts have missed.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((2, 3, 1), activation="tanh"), samples=2)
    >>> decision = sl.decide(sl.draw(problem, {"W1": sl.Anywhere(2)}, seed=0, trial=0))
    >>> decision.kind, decision.rung, str(decision.grade)
    ('refuted', 'boxes', 'proof')
    """

    name = "boxes"

    def refusal(self, instance: Instance) -> str | None:
        from sublearn.matchers.within._boxes import refused

        if instance.network.is_linear:
            return "the network is linear"
        if is_affine_before_output(instance):
            return "the last pre-activations are affine in the learnable weights"
        return refused(instance) or too_large(instance)

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        from sublearn.matchers.within._boxes import all_refuted

        largest = float(np.abs(instance.targets).max())
        eps = NEAR * largest if NEAR * largest > 0.0 else NEAR
        why, seen, point = all_refuted(instance, eps, min(BOXES, budget.nodes))
        effort = Effort(nodes=seen)
        if why is not None:
            return Decision(REFUTED, self.name, why, PROOF, effort=effort)
        proof = None if point is None else prove(instance, point, min(BITS, budget.bits))
        if proof is not None:
            reason = "a solution in one of the boxes that are left, and proved to exist"
            return certified(self.name, reason, proof, effort + Effort(bits=proof.bits))
        reason = f"{seen} boxes of weights settled nothing"
        return Decision(UNDECIDED, self.name, reason, effort=effort)
