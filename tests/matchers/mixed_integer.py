"""A second opinion: the same complementarity problem as a mixed-integer program, by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sublearn._arrays import Array, Mask
from sublearn._grades import NUMERICAL
from sublearn.exact import Feasible
from sublearn.matchers._decision import Decision, Effort
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers.relu._relu import solved
from sublearn.patterns import System, build_system, decide_pattern, in_coordinates, why_no_system

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


@dataclass(frozen=True)
class MixedInteger(Matcher):
    """Decide a shallow ReLU instance by a mixed-integer program with big-M bounds.

    Binary P_is allows a_is <= M P_is and u_is <= M (1 - P_is). Outputs a_is that the equations of sample
    s bound are held to that bound; everything else needs M, so "infeasible" is asked for at every M of
    ``bounds`` and is graded numerical all the same. Where numbers beyond the largest M may be needed
    (:func:`reach`) it says nothing, and the instance stays UNDECIDED. A pattern that is found is proved
    in rationals.
    """

    bounds: tuple[float, ...] = (50.0, 500.0)

    name = "mixed-integer"

    def refusal(self, instance: Instance) -> str | None:
        return why_no_system(instance)

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        system = build_system(instance)
        if not in_coordinates(system).usable:
            return Decision("undecided", self.name, "the numbers are out of float64's reach")
        derived = output_bounds(system)
        nodes = 0
        for big in self.bounds:
            found, spent = solve(system, derived, big, max(budget.nodes - nodes, 1))
            nodes += spent
            if found is None:
                reason = f"HiGHS gave no answer within {nodes} nodes at M = {big:g}"
                return Decision("undecided", self.name, reason, effort=Effort(nodes=nodes))
            if found.size:
                exact = decide_pattern(system, found)
                if isinstance(exact, Feasible):
                    way, effort = (
                        f"by a pattern that HiGHS found at M = {big:g}",
                        Effort(nodes=nodes),
                    )
                    return solved(self.name, way, instance, system, exact.values, budget, effort)
                reason = f"the pattern that HiGHS found at M = {big:g} has no exact solution"
                return Decision("undecided", self.name, reason, effort=Effort(nodes=nodes))
        bounds = " and ".join(f"{big:g}" for big in self.bounds)
        if (needed := reach(system)) > max(self.bounds):
            reason = f"HiGHS finds no pattern up to M = {bounds}, but numbers near {needed:.2g} may be needed"
            return Decision("undecided", self.name, reason, effort=Effort(nodes=nodes))
        reason = f"HiGHS finds no pattern with numbers up to M = {bounds}"
        return Decision("refuted", self.name, reason, NUMERICAL, effort=Effort(nodes=nodes))


def equations(system: System) -> tuple[Array, Array]:
    """G and h in float64; column i m + s of G is a_is, column k m + i m + s is u_is."""
    columns = in_coordinates(system).columns
    by_unit = columns.matrix.reshape(-1, system.k, 2, system.m)
    return np.swapaxes(by_unit, 1, 2).reshape(len(by_unit), -1), columns.right


def reach(system: System) -> float:
    """How large numbers may have to be: the largest right side over the smallest size of a column.

    A column counts among the equations of the samples and among those of the units apart, since in
    each it may be the only one that can make up for the right side.
    """
    first, (matrix, right) = system.d * system.m, equations(system)
    sizes = [np.abs(part).max(axis=0, initial=0.0) for part in (matrix[:first], matrix[first:])]
    smallest = min(float(size[size > 0].min(initial=np.inf)) for size in sizes)
    return float(np.abs(right).max()) / smallest


def output_bounds(system: System) -> Array:
    """The largest a_is with sum_i w_i a_is = R_s and a_s >= 0, in units of the scaled system.

    Infinite where the equations of the sample do not bound it.
    """
    from scipy.optimize import linprog

    d, k, m = system.d, system.k, system.m
    matrix, right = equations(system)
    out = np.full(system.pairs, np.inf)
    for s in range(m):
        part = slice(s * d, (s + 1) * d)
        columns = np.arange(k) * m + s
        for i in range(k):
            goal = np.zeros(k)
            goal[i] = -1.0
            found: Any = linprog(
                goal, A_eq=matrix[part][:, columns], b_eq=right[part], method="highs"
            )
            if found.status == 0:
                out[i * m + s] = -found.fun * (1 + 1e-6) + 1e-6
    return out


def solve(system: System, derived: Array, big: float, node_limit: int) -> tuple[Mask | None, int]:
    """(pattern, nodes): an empty pattern for "infeasible", None for no answer."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix, hstack, identity

    matrix, right = equations(system)
    rows, size = matrix.shape
    pairs = system.pairs
    most = np.minimum(derived, big)
    unit, none = identity(pairs, format="csr"), csr_matrix((pairs, pairs))
    diagonal = identity(pairs, format="csr").multiply(most[:, None]).tocsr()
    constraints = [
        LinearConstraint(
            hstack([csr_matrix(matrix), csr_matrix((rows, pairs))]),
            right,
            right,
        ),
        LinearConstraint(hstack([unit, none, -diagonal]), -np.inf, 0.0),
        LinearConstraint(hstack([none, unit, big * unit]), -np.inf, big),
    ]
    upper = np.concatenate([most, np.full(pairs, big), np.ones(pairs)])
    found: Any = milp(
        np.zeros(size + pairs),
        constraints=constraints,
        integrality=np.repeat([0, 0, 1], pairs),
        bounds=Bounds(0.0, upper),
        options={"node_limit": node_limit},
    )
    nodes = int(found.get("mip_node_count") or 0)
    if found.status == 2:
        return np.zeros(0, dtype=np.bool_), nodes
    if found.x is None:
        return None, nodes
    return (found.x[size:] > 0.5).reshape(system.k, system.m), nodes
