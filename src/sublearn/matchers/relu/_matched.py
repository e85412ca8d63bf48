"""From an exact solution of the program to a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sublearn._grades import PROOF
from sublearn.matchers._decision import Decision, Effort
from sublearn.matchers._matcher import Budget
from sublearn.matchers.proofs._prove import prove
from sublearn.patterns._feasible import rounded_weights
from sublearn.patterns._system import Rational, System

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


def matched(
    instance: Instance,
    system: System,
    values: dict[int, Rational],
    rung: str,
    way: str,
    budget: Budget,
    nodes: int = 0,
    starts: int = 0,
    iterations: int = 0,
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
        "matched",
        rung,
        f"{kind} in rationals, by {way}",
        PROOF,
        learnt,
        instance.with_values(learnt),
        certificate,
        Effort(starts=starts, iterations=iterations, bits=bits, nodes=nodes),
    )
