"""The verb: cheap proofs first, then points, then trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sublearn._arrays import Array
from sublearn._grades import PROOF
from sublearn._interrupts import heed
from sublearn._seeds import Turn
from sublearn._threads import single_thread
from sublearn.ensembles import Instance, check_instance
from sublearn.matchers._decision import MATCHED, REFUTED, UNDECIDED, Decision, Effort
from sublearn.matchers._matcher import Budget
from sublearn.matchers._nonlinear import too_large

FIRST_STARTS, MOST_STARTS = 24, 200


def decide_within(
    instance: Instance, eps: float, *, budget: Budget | None = None, seed: int = 0
) -> Decision:
    """Decide whether some values of the learnable weights bring every output within eps of its target.

    The distance is max |output - target| over the d m outputs, in the targets' units. MATCHED: at
    ``decision.values``, float64 weights, it is proved to be at most eps. REFUTED: its infimum over all real
    weights, limits at infinity included, is proved to be above eps. Otherwise UNDECIDED. This is the
    question for measured targets, which no weights match exactly; :func:`decide` asks for equality.

    An exact match is within every eps. Where its weights are so large that rounding them to float64 loses
    eps, ``decision.reason`` says so, and ``decision.certificate`` proves the exact weights.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=1, outputs=1)      # y = w x through (1, 1), (2, 2.2), (3, 2.9)
    >>> inputs, targets = np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 2.2, 2.9]])
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": [[0.0]]}, inputs, targets)
    >>> sl.decide(given).kind
    'refuted'
    >>> near = sl.decide_within(given, 0.17)   # 0.16 is the least, at w = 1.02
    >>> near.kind, str(near.grade), bool(abs(near.values[0] * inputs - targets).max() <= 0.17)
    ('matched', 'proof', True)
    >>> sl.decide_within(given, 0.15).kind
    'refuted'
    """
    from sublearn._errors import positive

    check_instance(instance)
    room = positive("eps", eps)
    spent, reasons = Effort(), []
    with single_thread(), np.errstate(all="ignore"):
        for answer in _attempts(instance, room, budget or Budget(), seed):
            heed()
            spent = spent + answer.effort
            if answer.kind != UNDECIDED:
                return replace(answer, effort=spent, allocation=instance.allocation)
            if answer.reason:
                reasons.append(f"{answer.rung}: {answer.reason}")
    said = "; ".join(dict.fromkeys(reasons))
    step = "see how close training comes: sl.train(instance, starts=10)"
    mine = instance.allocation
    return Decision(UNDECIDED, "", said, effort=spent, allocation=mine, next_step=step)


def _attempts(instance: Instance, eps: float, budget: Budget, seed: int) -> Iterator[Decision]:
    """What each rung finds, from cheap to dear; after a sure answer nobody asks for more."""
    from sublearn.matchers._behind import is_affine_before_output
    from sublearn.matchers.within._affine import affine
    from sublearn.matchers.within._reach import out_of_reach

    why = too_large(instance)
    if why is not None:
        yield Decision(UNDECIDED, "within", why)
        return
    yield from _refuted("reach", out_of_reach(instance, eps))
    if not is_affine_before_output(instance):
        yield from _curved_attempts(instance, eps, budget, seed)
        return
    values, why = affine(instance, eps)
    yield from _refuted("affine", why)
    yield from _proved(instance, values, eps, "affine", "of one linear program")
    yield Decision(
        UNDECIDED, "affine", "the least distance is too close to eps, or the system too ill-posed"
    )
    yield _exact(instance, eps, budget, seed)


def _curved_attempts(
    instance: Instance, eps: float, budget: Budget, seed: int
) -> Iterator[Decision]:
    from sublearn.matchers.within import _boxes, _relu
    from sublearn.matchers.within._freed import out_of_relaxation

    yield from _refuted("relaxed", out_of_relaxation(instance, eps))
    most = min(MOST_STARTS, budget.starts)
    shallow = _relu.refused(instance)
    first = FIRST_STARTS if shallow is None else most
    rng = np.random.default_rng([seed, Turn.FIRST_STARTS, len(instance.allocation)])
    yield from _search(instance, eps, min(first, most), budget, rng)
    if shallow is None:
        rng = np.random.default_rng([seed, Turn.PATTERNS, len(instance.allocation)])
        values, why, note, effort = _relu.branch(instance, eps, budget.nodes, rng)
        yield from _proved(instance, values, eps, "relu", "of one pattern", effort)
        yield from _refuted("relu", why, effort)
        yield Decision(UNDECIDED, "relu", note, effort=effort)
        rng = np.random.default_rng([seed, Turn.MORE_STARTS, len(instance.allocation)])
        yield from _search(instance, eps, most - first, budget, rng)
    elif _boxes.refused(instance) is None:
        why, seen, _ = _boxes.all_refuted(instance, eps, budget.nodes)
        effort, reason = Effort(nodes=seen), f"{seen} boxes of weights settled nothing"
        yield from _refuted("boxes", why, effort)
        yield Decision(UNDECIDED, "boxes", reason, effort=effort)
    yield _exact(instance, eps, budget, seed)


def _search(
    instance: Instance, eps: float, starts: int, budget: Budget, rng: np.random.Generator
) -> Iterator[Decision]:
    from sublearn.matchers.within._points import near_points

    effort = Effort()
    for values, effort in near_points(instance, eps, starts, budget.iterations, rng):
        way = f"found from {effort.starts} starts" if effort.starts else "where all of them are 0"
        yield from _proved(instance, values, eps, "search", way, effort)
    reason = f"no point within eps from {effort.starts} starts"
    yield Decision(UNDECIDED, "search", reason, effort=effort)


def _exact(instance: Instance, eps: float, budget: Budget, seed: int) -> Decision:
    """An exact match is within every eps. For linear networks, whose roots may lie where descent fails."""
    from sublearn.matchers._affine import Affine
    from sublearn.matchers._construct import Construct
    from sublearn.matchers._ladder import decide
    from sublearn.matchers.identities import Copy, Intertwine
    from sublearn.matchers.search._search import Search

    if not instance.network.is_linear:
        return Decision(UNDECIDED, "exact", "")
    rungs = [Affine(), Construct(), Copy(), Intertwine(), Search(last=100)]
    exact = decide(instance, budget=budget, seed=seed, ladder=rungs)
    if exact.kind != MATCHED or exact.grade != PROOF:
        return Decision(UNDECIDED, "exact", "no exact match proved", effort=exact.effort)
    for proved in _proved(
        instance, exact.values, eps, "exact", "an exact match, rounded", exact.effort
    ):
        return proved
    reason = "an exact match exists; its values, rounded to float64, are not within eps themselves"
    return replace(exact, rung="exact", reason=reason)


def _proved(
    instance: Instance,
    values: Array | None,
    eps: float,
    rung: str,
    way: str,
    effort: Effort | None = None,
) -> Iterator[Decision]:
    """MATCHED, where some values are given and proved to be within eps; else nothing."""
    from sublearn.matchers.within._points import largest_error

    bound = None if values is None else largest_error(instance, values, eps)
    if values is not None and bound is not None:
        reason = f"no output is farther than {bound:.6g} at a point {way}"
        weights, spent = instance.with_values(values), effort or Effort()
        yield Decision(MATCHED, rung, reason, PROOF, values, weights, effort=spent)


def _refuted(rung: str, why: str | None, effort: Effort | None = None) -> Iterator[Decision]:
    """REFUTED, where there is a reason why; else nothing."""
    if why is not None:
        yield Decision(REFUTED, rung, why, PROOF, effort=effort or Effort())
