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


def _ends(instance: Instance) -> tuple[BallMatrix, BallMatrix]:
    """B and D."""
    form = _recurrence(instance)
    return ball_matrix(instance.weights[form.encoder]), ball_matrix(instance.weights[form.readout])


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
    try:
        match form:
            case "states":
                before, after = _by_states(instance)
            case "samples":
                before, after = _by_samples(instance)
            case "readouts":
                before, after = _by_readouts(instance)
        return _weights(instance, before, after, by_rows=form != "readouts")
    except ZeroDivisionError:
        return None


def _by_states(instance: Instance) -> tuple[BallMatrix, BallMatrix]:
    """(u_0 .. u_{T-1}) and (u_1 .. u_T) side by side, u_s = W^s B, with Y = sum_s D u_s X_{T+1-s}.

    With P the matrix W whose active rows are 0, u_s = P u_{s-1} + z_s, where z_s lives in the active
    rows. So Y - (z = 0) = sum_s sum_q D P^q z_s X_{T+1-s-q}: the coefficients of z_s are products of
    D P^q with inputs.
    """
    network = _recurrence(instance)
    b, d, T, m = network.b, network.d, network.T, instance.samples
    passive, active = _passive(instance, axis=0)
    encoder, decoder = _ends(instance)
    blocks = input_blocks(instance, BALLS)
    powers = _powers(decoder, passive, T)
    k = len(active)
    width = T * k * b
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
    alone, states = -wanted(instance, BALLS), [encoder]
    for s in range(1, T + 1):
        states.append(passive * states[-1])
        alone = alone + decoder * states[-1] * blocks[T - s]
    system = BALLS.matrix(d * m, width, [e for row in rows for e in row])
    free = system.solve(column_vector([-e for e in alone.entries()])).entries()
    states = [encoder]
    for s in range(T):
        state = passive * states[-1]
        for place, i in enumerate(active):
            for c in range(b):
                state[i, c] = free[(s * k + place) * b + c]
        states.append(state)
    return _beside(states[:-1]), _beside(states[1:])


def _by_samples(instance: Instance) -> tuple[BallMatrix, BallMatrix]:
    """(h_{t-1} + B X_t) and (h_t), t = 1..T, side by side, with h_t the states on the m samples.

    h_t = P (h_{t-1} + B X_t) + z_t and Y = D h_T, so Y - (z = 0) = sum_t D P^{T-t} z_t: d equations
    for the d = T k free entries of each sample, the same matrix for all of them.
    """
    network = _recurrence(instance)
    d, T = network.d, network.T
    passive, active = _passive(instance, axis=0)
    encoder, decoder = _ends(instance)
    driven = [encoder * block for block in input_blocks(instance, BALLS)]
    powers = _powers(decoder, passive, T)
    system = BALLS.matrix(
        d, d, [powers[T - t][o, i] for o in range(d) for t in range(1, T + 1) for i in active]
    )
    state = passive * driven[0]
    for injected in driven[1:]:
        state = passive * (state + injected)
    free = system.solve(wanted(instance, BALLS) - decoder * state)
    before: list[BallMatrix] = []
    after: list[BallMatrix] = []
    for t, injected in enumerate(driven):
        before.append(injected if t == 0 else after[-1] + injected)
        state = passive * before[-1]
        for place, i in enumerate(active):
            for sample in range(instance.samples):
                state[i, sample] = free[t * len(active) + place, sample]
        after.append(state)
    return _beside(before), _beside(after)


def _by_readouts(instance: Instance) -> tuple[BallMatrix, BallMatrix]:
    """(v_0 .. v_{T-1}) and (v_1 .. v_T) below each other, v_s = D W^s, with Y = sum_s v_s B X_{T+1-s}.

    With P the matrix W whose active columns are 0, v_s = v_{s-1} P + z_s, where z_s lives in the
    active columns. So Y - (z = 0) = sum_s z_s a_s with a_T = B X_1, a_s = P a_{s+1} + B X_{T+1-s}:
    m equations for the m = T c free entries of each row, the same matrix for all of them.
    """
    network = _recurrence(instance)
    d, T, m = network.d, network.T, instance.samples
    passive, active = _passive(instance, axis=1)
    encoder, decoder = _ends(instance)
    driven = [encoder * block for block in input_blocks(instance, BALLS)]
    adjoints = [driven[0]]
    for injected in driven[1:]:
        adjoints.append(passive * adjoints[-1] + injected)
    adjoints.reverse()
    system = BALLS.matrix(
        m, m, [adjoints[s][j, t] for t in range(m) for s in range(T) for j in active]
    )
    alone, readout = -wanted(instance, BALLS), decoder
    for s in range(1, T + 1):
        readout = readout * passive
        alone = alone + readout * driven[T - s]
    free = system.solve((-alone).transpose())
    readouts = [decoder]
    for s in range(T):
        readout = readouts[-1] * passive
        for place, j in enumerate(active):
            for o in range(d):
                readout[o, j] = free[s * len(active) + place, o]
        readouts.append(readout)
    return _below(readouts[:-1]), _below(readouts[1:])


def _weights(
    instance: Instance, before: BallMatrix, after: BallMatrix, *, by_rows: bool
) -> list[Ball]:
    """The learnable weights, from W before = after row by row, or before W = after by columns."""
    frozen = ball_matrix(instance.weights[_recurrence(instance).weight])
    if not by_rows:
        # The columns of W are the rows of its transpose.
        before, after, frozen = before.transpose(), after.transpose(), frozen.transpose()
    lines: dict[int, list[int]] = {}
    for i, j in instance.allocation.entries[_recurrence(instance).weight]:
        line, place = (i, j) if by_rows else (j, i)
        lines.setdefault(line, []).append(place)
    rest = after - frozen * before
    width, table = before.ncols(), before.tolist()
    solved: dict[tuple[int, int], Ball] = {}
    for line, places in lines.items():
        system = BALLS.matrix(
            width, width, [table[place][c] for c in range(width) for place in places]
        )
        right = column_vector([rest[line, c] for c in range(width)])
        for place, value in zip(places, system.solve(right).entries(), strict=True):
            solved[(line, place) if by_rows else (place, line)] = value
    return [solved[entry] for entry in instance.allocation.entries[_recurrence(instance).weight]]


def _passive(instance: Instance, axis: int) -> tuple[BallMatrix, list[int]]:
    """W with its active rows (axis 0) or columns (axis 1) set to 0, and which ones these are."""
    allocation = instance.allocation
    name = _recurrence(instance).weight
    counts = allocation.row_counts(name) if axis == 0 else allocation.column_counts(name)
    active = np.flatnonzero(counts)
    matrix = np.array(instance.weights[_recurrence(instance).weight])
    matrix[(active, slice(None)) if axis == 0 else (slice(None), active)] = 0.0
    return ball_matrix(matrix), active.tolist()


def _powers(left: BallMatrix, matrix: BallMatrix, count: int) -> list[BallMatrix]:
    """left, left matrix, left matrix^2, ..., so many of them."""
    out = [left]
    for _ in range(count - 1):
        out.append(out[-1] * matrix)
    return out


def _below(parts: list[BallMatrix]) -> BallMatrix:
    rows = sum(part.nrows() for part in parts)
    return BALLS.matrix(rows, parts[0].ncols(), [e for part in parts for e in part.entries()])


def _beside(parts: list[BallMatrix]) -> BallMatrix:
    return _below([part.transpose() for part in parts]).transpose()
