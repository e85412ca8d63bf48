"""Saturated allocations of the linear RNN: a match by linear solves (Theorems B.6 and B.9).

Some rows of W are active: they hold learnable weights; the others are frozen. Whatever the active
rows are, the entries of the states that they produce can be chosen freely, and everything else
follows linearly; so asking for the targets is a linear system in these *free states*. Once the states
are known, the learnable weights of each active row solve a linear system of their own: what the row
makes of the states before must be the states after. Columns are the same with readouts
D W^t in the place of states.

Both systems are square if every active row has exactly T min(b, m) learnable weights (every active
column T d) and r = d m. They are solved in Arb balls whose precision doubles until each solve
succeeds: float64 loses all digits from T = 12 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sublearn.ensembles import Instance
from sublearn.matchers._decision import UNDECIDED, Decision, Effort, certified
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers.proofs._balls import (
    BALLS,
    Ball,
    BallMatrix,
    ball_matrix,
    column_vector,
    input_blocks,
    precision,
    wanted,
)
from sublearn.matchers.proofs._dyadic import from_ball
from sublearn.matchers.proofs._prove import prove_from
from sublearn.networks import Recurrence

Form = Literal["states", "samples", "readouts"]
FIRST_BITS = 128


class Construct(Matcher):
    """Build the match of a saturated allocation of W by linear solves, and prove it."""

    name = "construct"

    def refusal(self, instance: Instance) -> str | None:
        form, allocation = instance.network.recurrence, instance.allocation
        if form is None:
            return "the network is not a linear RNN"
        if allocation.names != (form.weight,):
            return f"weights outside {form.weight} are learnable"
        if len(allocation) != instance.equations:
            return f"r = {len(allocation)} is not d m = {instance.equations}"
        if not forms(instance):
            return f"neither rows nor columns of {form.weight} are saturated"
        return None

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        bits = min(FIRST_BITS, budget.bits)
        while True:
            for form in forms(instance):
                with precision(bits):
                    solution = _solve(instance, form)
                    if solution is None:
                        continue
                    centre = [from_ball(value) for value in solution]
                proof = prove_from(instance, centre, bits, bits, kind="construction")
                if proof is not None:
                    reason = f"the {form} of the saturated allocation solve a linear system"
                    return certified(self.name, reason, proof, Effort(bits=bits))
            if bits >= budget.bits:
                break
            bits = min(2 * bits, budget.bits)
        reason = f"the linear systems are singular, or too badly conditioned for {bits} bits"
        return Decision(UNDECIDED, self.name, reason, effort=Effort(bits=bits))


def _recurrence(instance: Instance) -> Recurrence:
    form = instance.network.recurrence
    assert form is not None, "refusal lets linear RNNs pass"
    return form


def forms(instance: Instance) -> list[Form]:
    """The ways in which a match of this allocation of W can be built."""
    network, allocation, m = _recurrence(instance), instance.allocation, instance.samples
    rows, columns = allocation.row_counts(network.weight), allocation.column_counts(network.weight)
    row, column = network.saturated(m)
    out: list[Form] = []
    if ((rows == 0) | (rows == row)).all():
        out.append("states" if m >= network.b else "samples")
    if ((columns == 0) | (columns == column)).all():
        out.append("readouts")
    return out


def _solve(instance: Instance, form: Form) -> list[Ball] | None:
    """Enclosures of the learnable weights, or None where a system is not shown to be regular."""
    systems = _Systems(instance, by_rows=form != "readouts")
    ways = {
        "states": systems.by_states,
        "samples": systems.by_samples,
        "readouts": systems.by_readouts,
    }
    try:
        return systems.weights(*ways[form]())
    except ZeroDivisionError:
        return None


class _Systems:
    """The numbers that the linear systems are made of: B, D, and P, the matrix W whose active rows are 0.

    Where columns are active W is its transpose, of which they are the rows.
    """

    def __init__(self, instance: Instance, *, by_rows: bool) -> None:
        network = _recurrence(instance)
        self.b, self.d, self.T, self.m = network.b, network.d, network.T, instance.samples
        self.entries = list(instance.allocation.entries[network.weight])
        passive = np.array(instance.weights[network.weight])
        if not by_rows:
            self.entries, passive = [(j, i) for i, j in self.entries], passive.T.copy()
        self.active = sorted({i for i, _ in self.entries})
        self.frozen = ball_matrix(passive)
        passive[self.active] = 0.0
        self.passive = ball_matrix(passive)
        ends = (instance.weights[name] for name in (network.encoder, network.readout))
        self.encoder, self.decoder = map(ball_matrix, ends)
        self.blocks, self.targets = input_blocks(instance, BALLS), wanted(instance, BALLS)

    def by_states(self) -> tuple[BallMatrix, BallMatrix]:
        """(u_0 .. u_{T-1}) and (u_1 .. u_T) side by side, u_s = W^s B, with Y = sum_s D u_s X_{T+1-s}.

        u_s = P u_{s-1} + z_s, where z_s lives in the active rows. So Y - (z = 0) = sum_s sum_q D P^q z_s
        X_{T+1-s-q}: the coefficients of z_s are products of D P^q with inputs.
        """
        b, d, T, m, active, blocks = self.b, self.d, self.T, self.m, self.active, self.blocks
        powers, k = _powers(self.decoder, self.passive, T), len(active)
        rows: list[list[Ball]] = [[] for _ in range(d * m)]
        for s in range(1, T + 1):
            # Inputs X_{T+1-s-q} exist for q = 0 .. T-s.
            lags = range(T - s + 1)
            left = [powers[q][o, i] for o in range(d) for i in active for q in lags]
            right = [blocks[T - s - q][c, t] for q in lags for c in range(b) for t in range(m)]
            product = BALLS.matrix(d * k, len(lags), left) * BALLS.matrix(len(lags), b * m, right)
            entries = product.entries()
            for o in range(d):
                for t in range(m):
                    rows[o * m + t] += [
                        entries[(o * k + i) * b * m + c * m + t] for i in range(k) for c in range(b)
                    ]
        entering = [self.encoder, *[self.encoder * 0] * (T - 1)]
        rest = self.targets
        for state, block in zip(self._run(entering, None)[1], reversed(blocks), strict=True):
            rest = rest - self.decoder * state * block
        system = BALLS.matrix(d * m, T * k * b, [e for row in rows for e in row])
        free = system.solve(column_vector(rest.entries())).entries()
        before, after = self._run(entering, BALLS.matrix(T * k, b, free))
        return _beside(before), _beside(after)

    def by_samples(self) -> tuple[BallMatrix, BallMatrix]:
        """(h_{t-1} + B X_t) and (h_t), t = 1..T, side by side, with h_t the states on the m samples.

        Y = D h_T: d equations for the d = T k free entries of each sample.
        """
        driven = [self.encoder * block for block in self.blocks]
        return self._chosen(driven, [*[None] * (self.T - 1), self.decoder], self.targets)

    def by_readouts(self) -> tuple[BallMatrix, BallMatrix]:
        """(v_0 .. v_{T-1}) and (v_1 .. v_T) side by side, v_s the transpose of D W^s.

        Y' = sum_s (B X_{T+1-s})' v_s: m equations for the m = T c free entries of each output.
        """
        first = self.decoder.transpose()
        driven = [(self.encoder * block).transpose() for block in reversed(self.blocks)]
        return self._chosen([first, *[first * 0] * (self.T - 1)], driven, self.targets.transpose())

    def _chosen(
        self, entering: list[BallMatrix], readouts: Sequence[BallMatrix | None], targets: BallMatrix
    ) -> tuple[BallMatrix, BallMatrix]:
        """(g_1 .. g_T) and (h_1 .. h_T) side by side, h_t = P g_t + z_t, g_t = h_{t-1} + entering_t.

        z_t lives in the active rows, and sum_t readout_t h_t = targets. So targets - (z = 0) = sum_t a_t z_t
        with a_t = a_{t+1} P + readout_t: the same matrix for all columns.
        """
        adjoints: list[BallMatrix] = [readouts[-1]]
        for readout in reversed(readouts[:-1]):
            behind = adjoints[0] * self.passive
            adjoints.insert(0, behind if readout is None else behind + readout)
        size, rest = targets.nrows(), targets
        for readout, state in zip(readouts, self._run(entering, None)[1], strict=True):
            rest = rest if readout is None else rest - readout * state
        flat = [a[o, i] for o in range(size) for a in adjoints for i in self.active]
        before, after = self._run(entering, BALLS.matrix(size, size, flat).solve(rest))
        return _beside(before), _beside(after)

    def _run(
        self, entering: list[BallMatrix], free: BallMatrix | None
    ) -> tuple[list[BallMatrix], list[BallMatrix]]:
        """All g_t and h_t, the active rows of h_t taken from ``free`` in turn; None: they are 0."""
        before: list[BallMatrix] = []
        after: list[BallMatrix] = []
        for t, added in enumerate(entering):
            before.append(after[-1] + added if after else added)
            state = self.passive * before[-1]
            if free is not None:
                for row, i in enumerate(self.active, t * len(self.active)):
                    for c in range(state.ncols()):
                        state[i, c] = free[row, c]
            after.append(state)
        return before, after

    def weights(self, before: BallMatrix, after: BallMatrix) -> list[Ball]:
        """The learnable weights, from W before = after row by row."""
        rest, width = after - self.frozen * before, range(before.ncols())
        solved: dict[tuple[int, int], Ball] = {}
        for line in self.active:
            places = [j for i, j in self.entries if i == line]
            system = BALLS.part(before, places, width).transpose()
            values = system.solve(column_vector([rest[line, c] for c in width])).entries()
            solved.update(((line, j), value) for j, value in zip(places, values, strict=True))
        return [solved[entry] for entry in self.entries]


def _powers(left: BallMatrix, matrix: BallMatrix, count: int) -> list[BallMatrix]:
    """left, left matrix, left matrix^2, ..., so many of them."""
    out = [left]
    for _ in range(count - 1):
        out.append(out[-1] * matrix)
    return out


def _beside(parts: list[BallMatrix]) -> BallMatrix:
    return BALLS.stacked([part.transpose() for part in parts]).transpose()
