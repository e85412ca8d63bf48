"""Outputs behind a ReLU that are affine in the learnable weights before it: one linear program.

relu(J x + c) = y asks for J x + c = y where y > 0, and for J x + c <= 0 where y = 0. With rational numbers
the program is decided without rounding, by the simplex method in fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._grades import PROOF
from sublearn.ensembles import Instance
from sublearn.exact import Dyadics, Feasible, Infeasible, decide_program, to_float
from sublearn.matchers._behind import behind_output, is_affine_before_output
from sublearn.matchers._decision import MATCHED, REFUTED, UNDECIDED, Decision
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers.proofs._equations import ChainEquations

MOST_ENTRIES = 2**14  # of the tableau: fractions are slow


class _Rationals:
    """The ring of chains in fractions."""

    def exact(self, values: Array | Dyadics) -> Any:
        from flint import fmpq_mat

        exact = values if isinstance(values, Dyadics) else Dyadics.of(np.asarray(values))
        return fmpq_mat(exact.rationals())

    def matrix(self, rows: int, columns: int, entries: Sequence[Any]) -> Any:
        from flint import fmpq_mat

        return fmpq_mat(rows, columns, list(entries))


class Halfspaces(Matcher):
    """Decide linear layers behind a ReLU whose pre-activations are affine in the learnable weights.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.FeedForward((1, 1), output="relu")
    >>> whole = sl.Allocation.whole(net)
    >>> for targets in ([[0.0, 2.0]], [[1.0, 3.0]]):   # y = relu(w x) at x = -1 and 1
    ...     given = sl.Instance(net, whole, {"W1": [[0.0]]}, [[-1.0, 1.0]], targets)
    ...     print(sl.decide(given).kind)
    matched
    refuted
    """

    name = "halfspaces"

    def refusal(self, instance: Instance) -> str | None:
        is_relu = instance.network.steps[-1].activation == "relu"
        if not is_relu or not instance.network.before_output().is_linear:
            return "the network is no linear one behind a ReLU"
        if not is_affine_before_output(instance):
            return "the outputs are not affine in the learnable weights before the ReLU"
        if instance.asking is not None and not instance.asking[0].is_rational:
            return "the targets are not rational numbers"
        entries = instance.equations * (2 * len(instance.allocation) + instance.equations)
        return f"{entries} fractions are too many" if entries > MOST_ENTRIES else None

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        from flint import fmpq

        targets = instance.exact_targets
        assert targets is not None, "refusal lets rational targets pass"
        wanted = [entry for row in targets.rationals() for entry in row]
        size, rows = len(instance.allocation), instance.equations
        if any(value < 0 for value in wanted):
            return Decision(REFUTED, self.name, "a ReLU puts out nothing below 0", PROOF)
        chain = ChainEquations(behind_output(instance), ring=_Rationals())
        constants, jacobian = chain.linearised([fmpq(0)] * size)
        slopes, begin = jacobian.tolist(), constants.entries()
        zero, one = fmpq(0), fmpq(1)
        off = [row for row in range(rows) if wanted[row] == 0]
        program = []
        for row in range(rows):
            slack = [one if row == other else zero for other in off]
            program.append(
                [*slopes[row], *(-e for e in slopes[row]), *slack, wanted[row] - begin[row]]
            )
        columns = 2 * size + len(off)
        reply = decide_program(program, [True] * columns)
        if isinstance(reply, Infeasible):
            reason = f"no weights put {len(off)} outputs at 0 or below and give the others exactly"
            return Decision(REFUTED, self.name, reason, PROOF)
        if not isinstance(reply, Feasible):
            return Decision(UNDECIDED, self.name, "the program in fractions takes too many steps")
        exact = [reply.values.get(k, zero) - reply.values.get(size + k, zero) for k in range(size)]
        values = np.array([to_float(value) for value in exact])
        reason = "weights in fractions solve the program"
        weights = instance.with_values(values)
        return Decision(MATCHED, self.name, reason, PROOF, values, weights)
