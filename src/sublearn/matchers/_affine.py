"""Systems that are affine in the learnable weights: decided by rank, without rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sublearn._arrays import Array
from sublearn._grades import PROOF, wrong_by_chance
from sublearn.ensembles import Instance
from sublearn.exact import Dyadics, PrimeField, from_floats, leading, random_prime
from sublearn.matchers._behind import contradiction, shortest_solution
from sublearn.matchers._decision import MATCHED, REFUTED, UNDECIDED, Decision, Effort
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers._residues import LARGE_BITS, Residues, miss_probability
from sublearn.matchers.proofs._balls import BALLS, BallMatrix, column_vector, middles, precision
from sublearn.matchers.proofs._certificate import Certificate
from sublearn.matchers.proofs._checks import solves
from sublearn.matchers.proofs._equations import ChainEquations
from sublearn.matchers.proofs._prove import free_positions
from sublearn.verdicts import Grade, is_affine, rank_modulo_prime

ERROR = 1e-12  # wanted of a decision that rests on random primes
MOST_PRIMES = 8
MOST_ENTRIES = 2**24  # of a matrix that is filled from whole numbers, one by one
POOR = 1e-12  # a float64 least-squares solution with a larger backward error is refined


class Affine(Matcher):
    """Decide a system J x = c whose J and c do not depend on the learnable weights.

    J and c are polynomials of the instance's numbers, which have exact residues modulo any odd prime.
    Rank d m modulo one prime is rank d m over the rationals: MATCHED, proof. Otherwise let rho be the
    rank of J and sigma that of (J | c); a solution exists exactly if they are equal. Ranks modulo a
    prime never exceed the true ones, so the largest over several random primes is wrong only if every
    prime divides a certain nonzero minor. If the largest sigma exceeds the largest rho, the answer
    REFUTED is wrong only if all primes were bad for J (never, if J has rank r modulo one of them: that
    is a proof); if they are equal, MATCHED is wrong only if all were bad for (J | c). Primes of 61
    bits are drawn until the bound is below 1e-12.
    """

    name = "affine"

    def refusal(self, instance: Instance) -> str | None:
        if not instance.network.is_linear:
            return "the network is not linear, so its outputs have no residue modulo a prime"
        if not is_affine(instance.network, instance.allocation):
            return "the outputs are not affine in the learnable weights"
        return None

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        equations = instance.equations
        if len(instance.allocation) >= equations:
            prime = random_prime(rng)
            if full_rank_modulo(instance, prime):
                why = f"the outputs are affine and their coefficients have rank d m = {equations}"
                match = _solution(instance, budget.bits, None)
                return self._matched(instance, why, *match, PROOF, prime)
        return self._by_ranks(instance, budget, rng)

    def _by_ranks(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        if instance.exact_targets is None:
            # Real numbers that no residue stands for: balls can tell them apart, not equate them.
            reason = contradiction(instance)
            if reason is not None:
                return Decision(REFUTED, self.name, reason, PROOF)
            reason = "not of full rank, and targets that are not rational have no residues"
            return Decision(UNDECIDED, self.name, reason)
        entries = instance.equations * (len(instance.allocation) + 1)
        if entries > MOST_ENTRIES:
            reason = f"not of full rank, and {entries} entries are too many for large primes"
            return Decision(UNDECIDED, self.name, reason)
        inner: _Ranks | None = None
        outer, missed_inner, missed_outer = 0, 1.0, 1.0
        size = min(instance.equations, len(instance.allocation))
        single_inner = miss_probability(instance, size, augmented=False)
        single_outer = miss_probability(instance, min(size + 1, instance.equations), augmented=True)
        for _ in range(MOST_PRIMES):
            alone, augmented = ranks_modulo(instance, random_prime(rng, LARGE_BITS))
            if inner is None or alone.rank > inner.rank:
                inner = alone
            outer = max(outer, augmented)
            missed_inner *= single_inner
            missed_outer *= single_outer
            if inner.rank == instance.equations or outer > inner.rank == len(instance.allocation):
                break
            if (missed_inner if outer > inner.rank else missed_outer) <= ERROR:
                break
        assert inner is not None
        if outer > inner.rank:
            # A rank equal to the number of columns cannot be larger over the rationals.
            sure = inner.rank == len(instance.allocation)
            if missed_inner > ERROR and not sure:
                return _unsure(self.name)
            why = f"J x = c contradicts itself: J has rank {inner.rank}, (J | c) has rank {outer}"
            grade = PROOF if sure else wrong_by_chance(missed_inner)
            return Decision(REFUTED, self.name, why, grade)
        full = inner.rank == instance.equations
        if missed_outer > ERROR and not full:
            return _unsure(self.name)
        why = f"the outputs are affine; J and (J | c) both have rank {inner.rank}"
        solution = _solution(instance, budget.bits, inner.minor())
        grade = PROOF if full else wrong_by_chance(missed_outer)
        return self._matched(instance, why, *solution, grade, inner.prime if full else None)

    def _matched(
        self,
        instance: Instance,
        reason: str,
        values: Array | None,
        bits: int,
        grade: Grade,
        prime: int | None,
    ) -> Decision:
        stated = None
        if prime is not None:
            # Where float64 holds no solution the certificate names none, and is no less a proof.
            centre = () if values is None else tuple(from_floats(values))
            stated = Certificate(instance, "affine", bits, centre, prime=prime)
            if centre and not solves(instance, stated):
                stated = replace(stated, centre=())
        weights = None if values is None else instance.with_values(values)
        return Decision(
            MATCHED, self.name, reason, grade, values, weights, stated, Effort(bits=bits)
        )


def _unsure(name: str) -> Decision:
    return Decision(
        UNDECIDED,
        name,
        f"numbers of very different sizes: {MOST_PRIMES} primes do not bring the error below {ERROR}",
    )


class _Ranks:
    """The rank of J modulo a prime, and on demand rows and columns of J that are independent."""

    def __init__(self, jacobian: BallMatrix, prime: int) -> None:
        self.rank, self.prime, self._jacobian = int(jacobian.rank()), prime, jacobian

    def minor(self) -> tuple[list[int], list[int]]:
        """Rows and columns of a minor of full order that is not 0."""
        reduced = self._jacobian.transpose().rref()[0], self._jacobian.rref()[0]
        rows, columns = (leading(matrix.tolist()[: self.rank]) for matrix in reduced)
        return rows, columns


def ranks_modulo(instance: Instance, prime: int) -> tuple[_Ranks, int]:
    """The ranks of J and of (J | c) modulo a prime."""
    ring = Residues(prime)
    size = len(instance.allocation)
    residual, jacobian = ChainEquations(instance, ring=ring).linearised([0] * size)
    rows, constants = jacobian.tolist(), residual.entries()
    augmented = [e for row, last in zip(rows, constants, strict=True) for e in (*row, last)]
    wide = ring.matrix(instance.equations, size + 1, augmented)
    return _Ranks(jacobian, prime), int(wide.rank())


def full_rank_modulo(instance: Instance, prime: int) -> bool:
    """Whether the coefficients J have rank d m modulo a prime of 23 bits."""
    network, allocation, inputs = instance.network, instance.allocation, instance.exact_inputs
    weights = {name: Dyadics.of(value) for name, value in instance.weights.items()}
    rank = rank_modulo_prime(PrimeField(prime), network, allocation, weights, inputs)
    return rank == instance.equations


def _solution(
    instance: Instance, max_bits: int, minor: tuple[list[int], list[int]] | None
) -> tuple[Array | None, int]:
    """float64 values of a solution and the bits used; None where none was found within the bits.

    ``minor``: rows and columns of J that carry its rank; None: J has rank d m.
    """
    size = len(instance.allocation)
    zero = np.zeros(size)
    with np.errstate(all="ignore"):
        jacobian, wanted = instance.jacobian(zero), -instance.residual(zero).ravel()
        sizes = np.abs(jacobian).max(axis=1, keepdims=True)
        sizes[sizes == 0] = 1.0
        start = shortest_solution(jacobian / sizes, wanted / sizes[:, 0])
        if start is not None:
            error = np.abs(jacobian @ start - wanted)
            scale = np.abs(jacobian) @ np.abs(start) + np.abs(wanted)
            if bool(np.all(error <= POOR * scale)):
                return start, 53
    base = zero if start is None else start
    if minor is None:
        free = free_positions(instance, base)
        if free is None:
            return start, 53
        minor = list(range(instance.equations)), free.tolist()
    return _refined(instance, base, *minor, max_bits)


def _refined(
    instance: Instance, base: Array, rows: list[int], free: list[int], max_bits: int
) -> tuple[Array | None, int]:
    """Solve the equations ``rows`` for the weights ``free`` in balls, the others held."""
    bits = 106
    while bits <= max_bits:
        with precision(bits):
            chain = ChainEquations(instance, free, base)
            residual, jacobian = chain.linearised([0] * len(free))
            constants = residual.entries()
            square = BALLS.part(jacobian, rows, range(len(free)))
            try:
                balls = square.solve(column_vector([-constants[i] for i in rows])).entries()
            except ZeroDivisionError:
                balls = []
            # Enough digits that rounding to float64 is all that is lost.
            if balls and all(ball.rel_accuracy_bits() > 60 or ball.is_zero() for ball in balls):
                values = base.copy()
                values[free] = middles(balls)
                return (values if np.isfinite(values).all() else None), bits
        bits *= 2
    return None, max_bits
