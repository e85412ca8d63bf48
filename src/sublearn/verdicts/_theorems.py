"""The paper's printed statements, applied to an allocation and compared with the verdict.

The paper is Schlisselberg and Darshan, "The impact of allocation strategies in subset learning on the
expressive power of neural networks" (arXiv 2502.06300). Its statements assume r = d m learnable
weights in one component, so they are applied only there (Lemma B.4: r < d m).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._kinds import BETWEEN, MAXIMAL, MINIMAL, UNKNOWN, VerdictKind
from sublearn.allocations import Allocation
from sublearn.ensembles import Problem
from sublearn.networks import Recurrence
from sublearn.verdicts._verdict import TheoremCheck

_B12 = (
    "its proof rests on Lemma B.12, which is false: products that keep the degree bounds need not "
    "form a basis"
)


@dataclass(frozen=True)
class PrintedClaim:
    """One printed statement: what it says of this allocation, and why it fails where it fails."""

    theorem: str
    statement: str
    says: VerdictKind | None
    flaw: str


def printed_claims(problem: Problem, allocation: Allocation) -> list[PrintedClaim]:
    """The statements of the paper that speak about this allocation (None: silent)."""
    # Dependent samples are left out first, as appendix F.1 says.
    network, m = problem.network, problem.effective_samples
    count, equations = len(allocation), problem.effective_equations
    if not network.is_plain or network.connections:
        return []  # of these the paper does not speak
    if count < equations:
        flaw = "the teacher reaches fewer than d m dimensions, so fewer weights can be enough"
        name = "Section 2" if network.recurrence is None else "Lemma B.4"
        return [PrintedClaim(name, "fewer than d m learnable weights are minimal", MINIMAL, flaw)]
    if count > equations or len(allocation.names) != 1:
        return []
    name = allocation.names[0]
    rows, columns = allocation.row_counts(name), allocation.column_counts(name)
    if network.recurrence is not None:
        return _recurrent(network.recurrence, name, rows, columns, m)
    layers, d = network.layered, network.output_size
    if layers is None or layers.biases:
        return []
    if network.is_linear:
        if len(layers.weights) == 1:
            return [_decoder("Section 2.1", rows, m)]
        if name == layers.weights[-1]:
            return [_decoder("Section 4 (last layer)", rows, m)]
        return _layer(rows, columns, d, m)
    if len(layers.weights) == 2 and layers.activations[0] == "relu" and name == layers.weights[0]:
        says = None if rows.max() <= m and columns.max() <= d else MINIMAL
        flaw = "gates make the columns of one unit differ by sample, so the column bound is void"
        statement = 'a ReLU allocation that violates Theorem 4.1, read with "and", is minimal'
        return [PrintedClaim("Section 5", statement, says, flaw)]
    return []


def _decoder(theorem: str, rows: np.ndarray, m: int) -> PrintedClaim:
    says = MAXIMAL if (rows == m).all() else MINIMAL
    flaw = "it assumes m independent states to read out, m <= T b <= n"
    return PrintedClaim(theorem, "maximal exactly if each row has m learnable weights", says, flaw)


def _recurrent(
    form: Recurrence, name: str, rows: np.ndarray, columns: np.ndarray, m: int
) -> list[PrintedClaim]:
    b, d, T = form.b, form.d, form.T
    if name == form.readout:
        return [_decoder("Theorem 3.1", rows, m)]
    if name == form.encoder:
        fits = rows.max() <= T * m and columns.max() <= T * d
        statement = "maximal exactly if no row has more than T m and no column more than T d"
        return [PrintedClaim("Theorem 3.2", statement, MAXIMAL if fits else MINIMAL, _B12)]
    broken = rows.max() > T * b or columns.max() > T * d
    claims = [
        PrintedClaim(
            "Theorem 3.4",
            "minimal if a row has more than T b or a column more than T d",
            MINIMAL if broken else None,
            "",
        )
    ]
    if np.isin(rows, (0, T * b)).all():
        flaw = (
            "its proof takes the equations of the frozen rows and D F X = Y to be independent, which "
            "can fail where b does not divide m, or T d > n"
        )
        claims.append(
            PrintedClaim("Theorem 3.5", "maximal if each row has T b or 0", MAXIMAL, flaw)
        )
    if np.isin(columns, (0, T * d)).all():
        statement = "maximal if each column has T d or 0"
        claims.append(PrintedClaim("Theorem 3.5", statement, MAXIMAL, ""))
    return claims


def _layer(rows: np.ndarray, columns: np.ndarray, d: int, m: int) -> list[PrintedClaim]:
    row_fits, column_fits = bool(rows.max() <= m), bool(columns.max() <= d)
    printed = MAXIMAL if row_fits or column_fits else MINIMAL
    meant = MAXIMAL if row_fits and column_fits else MINIMAL
    claims = [
        PrintedClaim(
            "Theorem 4.1",
            "maximal exactly if no row has more than m or no column more than d",
            printed,
            "both conditions are needed" if printed != meant else _B12,
        )
    ]
    if printed != meant or printed == MAXIMAL:
        statement = 'the same, read with "and"'
        claims.append(PrintedClaim("Theorem 4.1", statement, meant, _B12))
    return claims


def compare(
    claims: list[PrintedClaim], kind: VerdictKind, rank: int, needed: int, *, positive: bool
) -> tuple[TheoremCheck, ...]:
    """Set each claim beside the verdict; ``positive``: the match probability is proved to be > 0."""
    checks = []
    for claim in claims:
        if claim.says is None:
            why = ""
            if kind == MINIMAL:
                why = (
                    f"its bounds are kept, yet the rank is only {rank} of {needed}: it is not tight"
                )
            checks.append(TheoremCheck(claim.theorem, claim.statement, None, None, why))
            continue
        holds: bool | None = claim.says == kind
        if kind == UNKNOWN or (kind == BETWEEN and (claim.says == MAXIMAL or not positive)):
            holds = None
        why = claim.flaw if holds is False else ""
        checks.append(TheoremCheck(claim.theorem, claim.statement, claim.says, holds, why))
    return tuple(checks)
