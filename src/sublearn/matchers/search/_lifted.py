"""Row-reduced variable projection for the recurrent weights: an instance made ready for the loops.

The states of a linear RNN are U_s = W^s B, and Y = D sum_s U_s X_(T-s+1) (eq. 3.3). Lemma 3.3 lifts the
polynomial system in the learnable entries of W to a bilinear one in entries and states, of which all
but T b k - d m equations are linear (k active rows). Two freedoms are used here:

- the lift may also go by readouts D W^s, which is the same thing for the transposed network (W', D',
  B'); it is taken where it has fewer unknowns;
- time may be rescaled: W / g and U_s / g^s describe the same network. Real roots are far away, with
  states that grow like powers of 10 or 50; at the right g they are of order 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn.ensembles import Instance
from sublearn.matchers.search._dogleg import Rules, Work
from sublearn.matchers.search._lifted_kernel import (
    Lift,
    condensed,
    full,
    lift_work,
)

# Inputs that are less regular than this stay in the system instead of being divided out.
_REGULAR = 1e-10


@dataclass(frozen=True)
class Recurrent:
    """Entries of W to be found in D sum_s W^s B X_s = Y, the k active rows of W first.

    ``mix`` (T b, m) holds the inputs in the order of the states; it is empty where they are invertible,
    and then row (s, column of B) of ``targets`` (T b, d) is that of (D W^s B)'. Else ``targets`` is Y'.
    """

    W: Array
    B: Array
    D: Array
    T: int
    k: int
    rows: Indices
    columns: Indices
    labels: Indices  # position of each entry in the order of the instance's labels
    targets: Array
    mix: Array
    turned: bool = False  # whether it is the lift of the transposed network

    @property
    def unknowns(self) -> int:
        """S = T b k - d m: what is left free in the states."""
        return int(self.T * self.B.shape[1] * self.k - self.targets.size)

    @property
    def is_condensed(self) -> bool:
        """Whether the r x r form of the Newton step is used: with inputs, and unless S is the smaller.

        At equal size the condensed system costs less to set up: measured, the two break even at 0.85.
        """
        return self.mix.size > 0 or self.unknowns > 0.85 * self.rows.size

    @property
    def scales(self) -> tuple[float, ...]:
        """Time scales to take in turn at first: the fewer free numbers per state, the farther the roots.

        Chosen by the starts they save, on draws other than those the benchmark reports.
        """
        free, T = self.unknowns / (self.T * self.B.shape[1]), self.T
        if free > 2:
            return 20.0 ** (1 / T), 200.0 ** (1 / T)
        if free > 1:
            return (1.5, 3.0, 6.0, 12.0, 30.0) if T <= 4 else (1.5, 2.0, 2.5, 3.0)
        if T <= 6:
            return (3.0, 6.0, 12.0, 30.0) if T <= 4 else (2.0, 4.0, 8.0, 16.0)
        return 1.5, 2.0, 3.0, 5.0, 10.0, 20.0

    @property
    def later_scales(self) -> tuple[float, ...]:
        """Time scales for an instance that has withstood the first ones: its roots are far away."""
        if len(self.scales) > 2:
            return 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 20.0, 30.0
        return (*self.scales, 1.2, 3.0, 5.0)

    block = 2

    @property
    def rules(self) -> Rules:
        """Walks are longer the more unknowns there are: small systems are better begun anew."""
        return 1 + self.unknowns // 16, 0.05, 1.0, 0.8

    def starts(self, noise: Array, scale: float) -> Array:
        return noise

    def solution(self, values: Array, unknowns: Array, scale: float) -> Array:
        out = np.empty_like(values)
        out[self.labels] = values * scale
        return out

    @cached_property
    def ends(self) -> Indices:
        """Where the entries of each active row begin."""
        return np.searchsorted(self.rows, np.arange(self.k + 1)).astype(np.int64)

    @cached_property
    def basis(self) -> Array:
        """(pinv(D_A), null(D_A)), k x k; not finite where D_A is singular."""
        d = self.D.shape[0]
        left, sizes, right = np.linalg.svd(self.D[:, : self.k])
        return np.concatenate([(right[:d].T / sizes) @ left.T, right[d:].T], axis=1)

    def impulse(self, g: float) -> Array:
        """(n, (k - d) T): what one unit of each free direction does to the states 0..T-1 steps later.

        With W / g; frozen rows carry a change on, and the active rows make up for it so that D U stays.
        """
        n, d, k, basis, frozen = len(self.W), len(self.D), self.k, self.basis, self.W[self.k :] / g
        step = np.concatenate([-basis[:, :d] @ (self.D[:, k:] @ frozen), frozen])
        out, change = np.zeros((n, k - d, self.T)), np.zeros((n, k - d))
        change[:k] = basis[:, d:]
        for j in range(self.T):
            out[:, :, j] = change
            change = step @ change
        return out.reshape(n, -1)

    @np.errstate(all="ignore")
    def at_scale(self, g: float) -> tuple[Work, float] | None:
        """The lift with W / g in the place of W, or None where it has no meaning in float64."""
        k, d, b, T = self.k, len(self.D), self.B.shape[1], self.T
        W = self.W / g
        powers = np.repeat(g ** np.arange(1.0, T + 1), b)[:, None]
        nothing = np.zeros((0, 0))
        origin, null = np.zeros((1, 0)), nothing
        if self.mix.size:
            mix, targets, basis = self.mix * powers, np.zeros((T * b, d)), nothing
            # Rows of comparable size, whatever the scale.
            lengths = np.linalg.norm(mix, axis=0)
            if not (lengths > 0).all():
                return None
            mix = mix / lengths
            null_space = _null_space(W, self.B, self.D, T, k, mix, self.targets / lengths[:, None])
            if null_space is None:
                return None
            origin, null = null_space
        else:
            mix, targets, basis = nothing, self.targets / powers, self.basis
        by_rows = W, W[:k].T, W[k:], W[k:].T, self.B.T, self.D, targets, self.D[:, k:].T
        numbers = map(np.ascontiguousarray, (*by_rows, basis, basis.T, origin, null, mix))
        lift = Lift._make([*numbers, self.rows, self.columns, self.ends])
        # What the residual of the states is compared with: the size of what the targets force on them.
        size = float(np.linalg.norm(origin if self.mix.size else targets))
        if not np.isfinite(size):
            return None
        if self.is_condensed:
            return lift_work(lift, condensed(lift), self.unknowns), size
        impulse = self.impulse(g)
        if not np.isfinite(impulse).all():
            return None
        return lift_work(lift, full(lift, impulse, self.unknowns), self.unknowns), size


def refusal(instance: Instance) -> str | None:
    """Why the projection does not apply to an instance, or None if it does."""
    network, r = instance.network.recurrence, len(instance.allocation)
    if network is None or instance.allocation.names != (network.weight,):
        return "only the recurrent weights of a linear RNN are projected out"
    if r != instance.equations:
        return f"r = {r} learnable weights are not d m = {instance.equations}"
    if instance.samples > network.T * network.b:
        return "the samples are linearly dependent"
    return None


@np.errstate(all="ignore")
def recurrent(instance: Instance) -> Recurrent | None:
    """The lift with the fewest unknowns, or None where no lift has room for a match."""
    network = instance.network.recurrence
    assert network is not None, "refusal lets linear RNNs pass"
    T, b, d, m = network.T, network.b, network.d, instance.samples
    names = (network.weight, network.encoder, network.readout)
    W, B, D = (instance.weights[name] for name in names)
    rows, columns = np.divmod(instance.allocation.flat(network.weight), network.n)
    mix = instance.inputs[::-1].reshape(T * b, m)
    if m == T * b and 1.0 / np.linalg.cond(mix) > _REGULAR:
        targets: Array = np.linalg.solve(mix.T, instance.targets.T).astype(np.float64)
        by_row = T * b * (np.unique(rows).size - d)
        by_column = T * d * (np.unique(columns).size - b)
        nothing = np.zeros((0, 0))
        if by_row < 0 or 0 <= by_column < by_row:
            turned = targets.reshape(T, b, d).transpose(0, 2, 1).reshape(T * d, b)
            form = ordered(W.T, D.T, B.T, T, columns, rows, turned, nothing)
            return None if form is None else replace(form, turned=True)
        return ordered(W, B, D, T, rows, columns, targets, nothing)
    return ordered(W, B, D, T, rows, columns, instance.targets.T, mix)


def ordered(
    W: Array,
    B: Array,
    D: Array,
    T: int,
    rows: Indices,
    columns: Indices,
    targets: Array,
    mix: Array,
) -> Recurrent | None:
    """Active rows first, entries row by row; None where some entries are too many for a match.

    T b states let a row have T b weights of its own; T b k numbers have to meet the targets, state by
    state (where inputs do not mix them) through the d x k matrix D_A.
    """
    n, b = B.shape
    counts = np.bincount(rows, minlength=n)
    active = np.flatnonzero(counts)
    k = active.size
    if counts.max() > T * b or T * b * k < targets.size:
        return None
    place = np.concatenate([active, np.flatnonzero(counts == 0)])
    back = np.empty(n, dtype=np.int64)
    back[place] = np.arange(n)
    labels = np.argsort(back[rows] * n + back[columns])
    form = Recurrent(
        W[place[:, None], place],
        B[place],
        np.ascontiguousarray(D[:, place]),
        T,
        k,
        back[rows][labels],
        back[columns][labels],
        labels,
        np.ascontiguousarray(targets),
        np.ascontiguousarray(mix),
    )
    return form if mix.size or np.isfinite(form.basis).all() else None


def _null_space(
    W: Array, B: Array, D: Array, T: int, k: int, mix: Array, targets: Array
) -> tuple[Array, Array] | None:
    """The active states V (time by time) that meet all targets: V = origin + z' null, z free."""
    n, b = B.shape
    C, m, d = T * b, mix.shape[1], len(D)
    # What a unit in an active coordinate does to the outputs now and, by the frozen rows, later.
    conditions = np.zeros((m, d, C, k))
    change, state = np.eye(n, k), np.array(B)
    wanted = np.array(targets)
    for a in range(T):
        seen = D @ change
        for t in range(C - a * b):
            conditions[:, :, t] += mix[t + a * b, :, None, None] * seen
        change = np.vstack([np.zeros((k, k)), W[k:] @ change])
        state = np.vstack([np.zeros((k, b)), W[k:] @ state])
        wanted -= np.einsum("oc,cm->mo", D @ state, mix[a * b : (a + 1) * b])
    Q, R = np.linalg.qr(conditions.reshape(m * d, C * k).T, mode="complete")
    square = R[: m * d].T
    pivots = np.abs(np.diag(square))
    if not pivots.min() > 1e-13 * pivots.max():
        return None
    origin = Q[:, : m * d] @ np.linalg.solve(square, wanted.ravel())
    return origin[None], np.ascontiguousarray(Q[:, m * d :].T)
