"""The ladder: matchers from cheap to dear, until one is sure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np

from sublearn._grades import NUMERICAL, PROOF
from sublearn._interrupts import heed
from sublearn._threads import single_thread
from sublearn.ensembles import Instance, check_instance
from sublearn.matchers._decision import REFUTED, UNDECIDED, Decision, Effort
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers._simplify import simplify


def standard_ladder() -> list[Matcher]:
    """The rungs in the order in which they are tried."""
    from sublearn.matchers._affine import Affine
    from sublearn.matchers._boxed import Boxed
    from sublearn.matchers._construct import Construct
    from sublearn.matchers._halfspaces import Halfspaces
    from sublearn.matchers._nonlinear import Nonlinear
    from sublearn.matchers._rank import Rank
    from sublearn.matchers.complete._complete import FEW_QUADRATIC, Complete
    from sublearn.matchers.identities import Copy, Intertwine
    from sublearn.matchers.relu import Deep, Relu
    from sublearn.matchers.search._search import Search

    # A few starts of the search cost less than the rank, and settle most instances.
    return [
        Affine(),
        Construct(),
        Search(last=10),
        Copy(),
        Rank(),
        Intertwine(),
        Search(first=10, last=30),
        # Where there is little to count, saying no costs less than many more starts.
        Complete(most=FEW_QUADRATIC),
        Search(first=30, last=100),
        Complete(fewest=FEW_QUADRATIC + 1),
        Search(first=100),
        Halfspaces(),
        Relu(),
        Nonlinear(),
        Deep(),
        Boxed(),
    ]


def decide(
    instance: Instance,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    ladder: Sequence[Matcher] | None = None,
) -> Decision:
    """Decide whether an instance has a real solution.

    The instance is decided as what it was made from: with a teacher, for the teacher's outputs as real
    numbers; else for the float64 targets that were given. What can be asked more simply is: dependent
    samples are left out, equal output activations taken off. Then the rungs are tried in turn; the first
    sure answer stands, and ``decision.rung`` names it. A numerical answer is not sure. What every rung
    did is added up in ``decision.effort``. If none is sure the answer is "undecided", with the reasons
    of all. ``budget`` bounds the work of each rung; ``ladder`` holds the rungs, those of
    :func:`standard_ladder` unless told.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    >>> d = sl.decide(sl.draw(problem, {"W": sl.FirstRows(4)}, seed=0, trial=0))
    >>> d.kind, d.rung, str(d.grade)
    ('matched', 'construct', 'proof')
    """
    rungs = standard_ladder() if ladder is None else ladder
    spent, reasons = Effort(), []
    given = check_instance(instance)
    instance, contradiction = simplify(given)
    if contradiction is not None:
        return _about(given, Decision(REFUTED, "samples", contradiction, PROOF))
    # Overflow on the way to a candidate does no harm: nothing counts before it is proved.
    with single_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        tried: Counter[str] = Counter()
        for matcher in rungs:
            heed()
            tried[matcher.name] += 1
            refusal = matcher.refusal(instance)
            if refusal is not None:
                reasons.append(f"{matcher.name}: {refusal}")
                continue
            # Each rung has a stream of its own, by its name, so that no other rung moves its luck.
            named = crc32(matcher.name.encode()), tried[matcher.name]
            rng = np.random.default_rng([seed, *named, len(instance.allocation)])
            decision = matcher.attempt(instance, budget or Budget(), rng)
            spent = spent + decision.effort
            if decision.kind != UNDECIDED and decision.grade != NUMERICAL:
                return _about(given, replace(decision, effort=spent))
            said = "" if decision.kind == UNDECIDED else f"{decision.kind}, only numerical: "
            reasons.append(f"{matcher.name}: {said}{decision.reason}")
    # A matcher that stands on several rungs need not say the same thing twice.
    said = "; ".join(dict.fromkeys(reasons))
    step = _next_step(given)
    return _about(given, Decision(UNDECIDED, "", said, effort=spent, next_step=step))


def _next_step(instance: Instance) -> str:
    """What to do about an instance that no rung decided."""
    from sublearn.verdicts.counts import msolve_wanted

    if install := msolve_wanted(instance.network):
        return f"{install}, and decide again with all complex solutions"
    return "decide with a larger budget, or within a tolerance: sl.decide_within(instance, 0.001)"


def _about(instance: Instance, decision: Decision) -> Decision:
    """The decision as one about the instance that was given; its learnable weights are the same."""
    certificate, values = decision.certificate, decision.values
    if certificate is not None:
        certificate = replace(certificate, instance=instance)
    weights = None if values is None else instance.with_values(values)
    mine = instance.allocation
    return replace(decision, certificate=certificate, weights=weights, allocation=mine)
