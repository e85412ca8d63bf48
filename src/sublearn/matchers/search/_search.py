"""Search: dogleg from many starts, on a lifted form of the system where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import whole_number
from sublearn._interrupts import heed
from sublearn.ensembles import Instance
from sublearn.matchers._decision import Decision, Effort, first_proved
from sublearn.matchers._matcher import Budget, Matcher

if TYPE_CHECKING:
    from sublearn.matchers.search._dogleg import Work


# Residual, relative to the targets, at which a start counts as solved.
ACCURACY = 1e-11
# Starts after which a search goes on with more time scales.
LATER = 100


@dataclass(frozen=True)
class Search(Matcher):
    """Find a real solution by trust-region steps from random starts, and prove that it exists.

    The recurrent weights of a linear RNN are found by row-reduced variable projection with rescaled
    time; every other mix of components of a linear network by the dogleg on the weights, one of them
    projected out where the outputs are affine in it. Starts number ``first`` to ``last`` are tried
    (default: to the end of the budget). Never refutes: not to find is not to know.

    >>> import numpy as np, sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    >>> instance = sl.draw(problem, {"W": sl.FirstRows(8)}, seed=0, trial=0)
    >>> decision = Search().attempt(instance, Budget(), np.random.default_rng(0))
    >>> decision.kind, str(decision.grade)
    ('matched', 'proof')
    """

    first: int = 0
    last: int | None = None

    def __post_init__(self) -> None:
        whole_number("first", self.first, least=0)
        if self.last is not None:
            whole_number("last", self.last, least=self.first)

    name = "search"

    def refusal(self, instance: Instance) -> str | None:
        if not instance.network.is_linear:
            return f"{instance.network.title} is not linear"
        if not instance.network.is_plain:
            return f"{instance.network.title} is not of the form h <- W (h + B x), which it knows alone"
        r = len(instance.allocation)
        if r < instance.equations:
            return (
                f"r = {r} learnable weights cannot be proved to meet {instance.equations} equations"
            )
        return None

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        from sublearn._ahead import ahead

        last = budget.starts if self.last is None else min(self.last, budget.starts)
        starts = max(last - self.first, 0)
        ahead("sublearn.matchers.proofs._quick:rehearse")
        roots = candidates(instance, starts, budget.iterations, rng, before=self.first)
        return first_proved(self.name, instance, roots, budget.bits, self.first)


def candidates(
    instance: Instance,
    starts: int,
    iterations: int,
    rng: np.random.Generator,
    before: int = 0,
) -> Iterator[tuple[Array | None, Effort]]:
    """Solutions to working accuracy, as they are found, and a word (None) after every block of starts.

    ``before`` starts have been tried by another search, in vain.

    A candidate is accepted on the residual of the form that is searched. In float64 the residual of
    the outputs says nothing: at the roundings of true roots it runs from 1e-14 to 1e6.
    """
    from sublearn.matchers.search._chain import on_weights
    from sublearn.matchers.search._dogleg import search_block
    from sublearn.matchers.search._lifted import recurrent, refusal

    lifted = recurrent(instance) if refusal(instance) is None else None
    form = on_weights(instance) if lifted is None else lifted
    ready: dict[float, tuple[Work, float] | None] = {}
    used = steps = turn = 0
    block = form.block
    while used < starts:
        heed()
        scales = form.scales if before + used < LATER else form.later_scales
        scale = scales[turn % len(scales)]
        turn += 1
        if scale not in ready:
            ready[scale] = form.at_scale(scale)
        count = min(max(block, form.rules[0]), starts - used)
        noise = form.starts(rng.standard_normal((count, form.unknowns)), scale)
        at_scale, out = ready[scale], None
        if at_scale is None:
            used += count
        else:
            work, size = at_scale
            values, unknowns = np.zeros(work.here.values.size), np.zeros(form.unknowns)
            goal = (ACCURACY * size) ** 2
            tried, more = search_block(work, noise, form.rules, iterations, goal, values, unknowns)
            used, steps = used + abs(tried), steps + more
            if tried > 0:
                out = form.solution(values, unknowns, scale)
        yield out, Effort(used, steps)
        if turn % len(scales) == 0:
            block = min(2 * block, 40)
