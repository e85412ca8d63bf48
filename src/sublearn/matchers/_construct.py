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

from typing import Literal

import numpy as np

from sublearn.ensembles import Instance
from sublearn.matchers._decision import Decision, Effort, certified
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
                found = prove_from(instance, centre, bits, bits, kind="construction")
                if found is not None:
                    reason = f"the {form} of the saturated allocation solve a linear system"
                    return certified(self.name, reason, found, Effort(bits=bits))
            if bits >= budget.bits:
                break
            bits = min(2 * bits, budget.bits)
        reason = f"the linear systems are singular, or too badly conditioned for {bits} bits"
        return Decision("undecided", self.name, reason, effort=Effort(bits=bits))


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
    try:
        match form:
            case "states":
                return systems.weights(*systems.by_states())
            case "samples":
                return systems.weights(*systems.by_samples())
            case "readouts":
                return systems.weights(*systems.by_readouts())
    except ZeroDivisionError:
        return None


class _Systems:
    """The numbers that the linear systems are made of: B, D, and P, the matrix W whose active lines are 0."""

    def __init__(self, instance: Instance, *, by_rows: bool) -> None:
        network = _recurrence(instance)
        self.b, self.d, self.T, self.m = network.b, network.d, network.T, instance.samples
        self.by_rows, self.entries = by_rows, instance.allocation.entries[network.weight]
        self.active = sorted({i if by_rows else j for i, j in self.entries})
        passive = np.array(instance.weights[network.weight])
        self.frozen = ball_matrix(passive)
        passive[(self.active, slice(None)) if by_rows else (slice(None), self.active)] = 0.0
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
        alone, state = -self.targets, self.encoder
        for s in range(1, T + 1):
            state = self.passive * state
            alone = alone + self.decoder * state * blocks[T - s]
        system = BALLS.matrix(d * m, T * k * b, [e for row in rows for e in row])
        free = system.solve(column_vector([-e for e in alone.entries()])).entries()
        states = [self.encoder]
        for s in range(T):
            state = self.passive * states[-1]
            for place, i in enumerate(active):
                for c in range(b):
                    state[i, c] = free[(s * k + place) * b + c]
            states.append(state)
        return _beside(states[:-1]), _beside(states[1:])

    def by_samples(self) -> tuple[BallMatrix, BallMatrix]:
        """(h_{t-1} + B X_t) and (h_t), t = 1..T, side by side, with h_t the states on the m samples.

        h_t = P (h_{t-1} + B X_t) + z_t and Y = D h_T, so Y - (z = 0) = sum_t D P^{T-t} z_t: d equations
        for the d = T k free entries of each sample, the same matrix for all of them.
        """
        d, T, active = self.d, self.T, self.active
        driven = [self.encoder * block for block in self.blocks]
        powers = _powers(self.decoder, self.passive, T)
        system = BALLS.matrix(
            d, d, [powers[T - t][o, i] for o in range(d) for t in range(1, T + 1) for i in active]
        )
        state = self.passive * driven[0]
        for injected in driven[1:]:
            state = self.passive * (state + injected)
        free = system.solve(self.targets - self.decoder * state)
        before: list[BallMatrix] = []
        after: list[BallMatrix] = []
        for t, injected in enumerate(driven):
            before.append(injected if t == 0 else after[-1] + injected)
            state = self.passive * before[-1]
            for place, i in enumerate(active):
                for sample in range(self.m):
                    state[i, sample] = free[t * len(active) + place, sample]
            after.append(state)
        return _beside(before), _beside(after)

    def by_readouts(self) -> tuple[BallMatrix, BallMatrix]:
        """(v_0 .. v_{T-1}) and (v_1 .. v_T) below each other, v_s = D W^s, with Y = sum_s v_s B X_{T+1-s}.

        v_s = v_{s-1} P + z_s, where z_s lives in the active columns. So Y - (z = 0) = sum_s z_s a_s with
        a_T = B X_1, a_s = P a_{s+1} + B X_{T+1-s}: m equations for the m = T c free entries of each row,
        the same matrix for all of them.
        """
        T, m, active = self.T, self.m, self.active
        driven = [self.encoder * block for block in self.blocks]
        adjoints = [driven[0]]
        for injected in driven[1:]:
            adjoints.append(self.passive * adjoints[-1] + injected)
        adjoints.reverse()
        system = BALLS.matrix(
            m, m, [adjoints[s][j, t] for t in range(m) for s in range(T) for j in active]
        )
        alone, readout = -self.targets, self.decoder
        for s in range(1, T + 1):
            readout = readout * self.passive
            alone = alone + readout * driven[T - s]
        free = system.solve((-alone).transpose())
        readouts = [self.decoder]
        for s in range(T):
            readout = readouts[-1] * self.passive
            for place, j in enumerate(active):
                for o in range(self.d):
                    readout[o, j] = free[s * len(active) + place, o]
            readouts.append(readout)
        return BALLS.stacked(readouts[:-1]), BALLS.stacked(readouts[1:])

    def weights(self, before: BallMatrix, after: BallMatrix) -> list[Ball]:
        """The learnable weights, from W before = after row by row, or before W = after by columns."""
        frozen = self.frozen
        if not self.by_rows:
            # The columns of W are the rows of its transpose.
            before, after, frozen = before.transpose(), after.transpose(), frozen.transpose()
        lines: dict[int, list[int]] = {}
        for i, j in self.entries:
            line, place = (i, j) if self.by_rows else (j, i)
            lines.setdefault(line, []).append(place)
        rest = after - frozen * before
        width = before.ncols()
        solved: dict[tuple[int, int], Ball] = {}
        for line, places in lines.items():
            system = BALLS.part(before, places, range(width)).transpose()
            right = column_vector([rest[line, c] for c in range(width)])
            for place, value in zip(places, system.solve(right).entries(), strict=True):
                solved[(line, place) if self.by_rows else (place, line)] = value
        return [solved[entry] for entry in self.entries]


def _powers(left: BallMatrix, matrix: BallMatrix, count: int) -> list[BallMatrix]:
    """left, left matrix, left matrix^2, ..., so many of them."""
    out = [left]
    for _ in range(count - 1):
        out.append(out[-1] * matrix)
    return out


def _beside(parts: list[BallMatrix]) -> BallMatrix:
    return BALLS.stacked([part.transpose() for part in parts]).transpose()
