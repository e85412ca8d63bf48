"""Networks with activations: a root by Levenberg-Marquardt, proved by the Krawczyk test."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import whole_number
from sublearn._grades import PROOF
from sublearn._interrupts import heed
from sublearn._kinds import DecisionKind
from sublearn.ensembles import Instance
from sublearn.matchers._behind import contradiction, is_affine_behind, least_squares, solved
from sublearn.matchers._decision import Decision, Effort, certified, first_proved
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers.proofs._prove import prove, prove_from

if TYPE_CHECKING:
    from sublearn.training import Descent


FIRST_BLOCK, LARGEST_BLOCK = 8, 64
MOST_WORK = 2**22  # products in one run of the chain, and entries of the Jacobian
LARGEST_BATCH = 2**22  # numbers in the Jacobians of one block of starts
GOAL = 1e-11  # of the targets' size: where a descent may stop
NEAR = 1e-7  # where a proof is worth trying
FIRST_BITS = 106
MOST_EQUATIONS = 60  # of a linear system that is solved entry by entry in balls


@dataclass(frozen=True)
class Nonlinear(Matcher):
    """Decide an instance of a network with tanh, sigmoid or ReLU steps, of any depth, or one that leaks.

    REFUTED, by proof: where the targets of a sample lie outside what its outputs can be at all, or where
    the outputs are affine in the learnable weights, up to an invertible output activation, and the
    equations contradict each other. MATCHED, by proof: a root found from at most ``starts`` random starts of
    Levenberg-Marquardt, at several scales, that passes the Krawczyk test with enclosures of the
    activations. A root on a kink of a ReLU, or a singular one, stays UNDECIDED.

    >>> import numpy as np, sublearn as sl
    >>> from sublearn.matchers import Nonlinear
    >>> problem = sl.Problem(sl.RNN(n=6, b=1, d=2, T=3), samples=3)
    >>> instance = sl.draw(problem, {"W": sl.FirstRows(6)}, seed=0, trial=0)
    >>> decision = Nonlinear().attempt(instance, sl.Budget(), np.random.default_rng(0))
    >>> decision.kind, str(decision.grade)
    ('matched', 'proof')
    """

    starts: int = 200

    def __post_init__(self) -> None:
        whole_number("starts", self.starts, least=0)

    name = "nonlinear"

    def refusal(self, instance: Instance) -> str | None:
        network = instance.network
        if network.is_linear and network.is_plain:
            return "the network is linear"
        return too_large(instance)

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        from sublearn.matchers._hull import out_of_hull
        from sublearn.matchers._ranges import out_of_range

        affine = is_affine_behind(instance)
        reason = out_of_range(instance) or out_of_hull(instance)
        if reason is None and affine:
            reason = contradiction(instance)
        if reason is not None:
            return Decision(DecisionKind.REFUTED, self.name, reason, PROOF)
        r = len(instance.allocation)
        if r < instance.equations:
            reason = f"r = {r} weights cannot be proved to meet {instance.equations} equations"
            return Decision(DecisionKind.UNDECIDED, self.name, reason)
        if affine:
            return _solved(instance, budget)  # there is nothing to search: one linear system
        most = min(self.starts, budget.starts)
        roots = candidates(instance, most, budget.iterations, rng)
        return first_proved(self.name, instance, roots, budget.bits)


def too_large(instance: Instance) -> str | None:
    """Why running the chain in balls, with its Jacobian, is not worth the time, or None."""
    network = instance.network
    products = sum(math.prod(network.shapes[step.weight]) for step in network.steps)
    work = instance.equations * len(instance.allocation) + products * instance.samples
    return "too large for enclosures" if work > MOST_WORK else None


def _solved(instance: Instance, budget: Budget) -> Decision:
    """The linear system behind the activations, in float64 and then in more and more digits."""
    values, bits = least_squares(instance), 2 * FIRST_BITS
    certificate = None if values is None else prove(instance, values, budget.bits)
    while certificate is None and bits <= budget.bits and instance.equations <= MOST_EQUATIONS:
        root = solved(instance, bits)
        if root is not None:
            certificate = prove_from(instance, root[0], bits, budget.bits, "krawczyk", root[1])
        bits *= 2
    if certificate is None:
        reason = "the linear system behind the activations is singular, or nearly"
        return Decision(DecisionKind.UNDECIDED, "nonlinear", reason)
    reason = "a solution of the linear system, and proved to exist"
    return certified("nonlinear", reason, certificate, Effort(bits=certificate.bits))


def candidates(
    instance: Instance, starts: int, iterations: int, rng: np.random.Generator
) -> Iterator[tuple[Array | None, Effort]]:
    """Solutions to working accuracy as they are found, and a word (None) after each block of starts."""
    with np.errstate(over="ignore"):
        rms = float(np.sqrt(np.mean(instance.targets**2)))
        if not rms and not instance.targets.any():
            rms = 1.0
        goal, near = (GOAL * rms) ** 2, (NEAR * rms) ** 2
    if not (goal > 0 and np.isfinite(near)):
        return  # the squares of such numbers do not fit into float64, so no descent can be steered
    for block, before in descents(instance, starts, iterations, goal, rng):
        for number in np.flatnonzero(block.loss <= near):
            steps = int(block.steps[: number + 1].sum())
            yield block.values[number], before + Effort(int(number) + 1, steps)
        yield None, before + Effort(len(block.loss), int(block.steps.sum()))


def descents(
    instance: Instance, starts: int, iterations: int, goal: float, rng: np.random.Generator
) -> Iterator[tuple[Descent, Effort]]:
    """Levenberg-Marquardt from random starts, in blocks that grow: where each came to, and work before.

    A descent stops at a mean square of ``goal``.
    """
    from sublearn.training import Goal, LevenbergMarquardt, Objective, Streams, descend

    size = 1.0 / np.sqrt(instance.in_degrees)  # the standard deviation of a frozen weight there
    spent, block = Effort(), FIRST_BLOCK
    most = max(1, min(LARGEST_BLOCK, LARGEST_BATCH // (instance.equations * size.size)))
    learner = LevenbergMarquardt()
    while spent.starts < starts:
        heed()
        used = spent.starts
        count = min(block, most, starts - used)
        scales = np.array(
            [learner.scales[start % len(learner.scales)] for start in range(used, used + count)]
        )
        noise = rng.standard_normal((count, size.size)) * size * scales[:, None]
        ended = descend(
            Objective(instance, starts=count),
            learner,
            noise,
            steps=iterations,
            goal=Goal(eps=goal),
            streams=Streams(0, [()] * count),  # which this learner never asks
        )
        yield ended, spent
        spent = spent + Effort(count, int(ended.steps.sum()))
        block *= 2
