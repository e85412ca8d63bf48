"""Chains with tanh, sigmoid or ReLU steps in Arb balls: enclosures of outputs and Jacobian.

A step that is not linear has slopes, enclosures of phi' at its pre-activations, so the left factors
depend on the sample and are carried once per sample. Where a pre-activation of a ReLU step is not known
to have a sign, its slope is the ball [0, 1], which encloses Clarke's generalised derivative at the kink:
the Krawczyk test stays sound there, and away from kinks the gates are simply known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array
from sublearn.matchers.proofs._balls import BALLS, Ball, BallMatrix, Chain, Numbers, System, by_row

if TYPE_CHECKING:
    from sublearn.ensembles import Instance
    from sublearn.networks import Step


def system(
    instance: Instance, free: Sequence[int] | None = None, held: Array | None = None
) -> System:
    """The system of an instance in balls, whatever its activations are."""
    if instance.network.is_linear:
        return Chain(instance, free, held)
    return CurvedChain(instance, free, held)


def tanh(x: Ball) -> tuple[Ball, Ball]:
    """(phi, phi') of tanh: phi' = sech^2, which loses no digits where 1 - tanh^2 does."""
    return x.tanh(), x.sech() ** 2


def sigmoid(x: Ball) -> tuple[Ball, Ball]:
    """(phi, phi') of 1 / (1 + e^-x)."""
    return 1 / (1 + (-x).exp()), (x / 2).sech() ** 2 / 4


def relu(x: Ball) -> tuple[Ball, Ball]:
    """(phi, phi') of max(x, 0); phi' is the ball [0, 1] where the sign of x is not known."""
    from flint import arb

    if x > 0:
        return x, arb(1)
    if x < 0:
        return arb(0), arb(0)
    return x.max(arb(0)), arb(0.5, 0.5)


BENT: dict[str, Callable[[Ball], tuple[Ball, Ball]]] = {
    "tanh": tanh,
    "sigmoid": sigmoid,
    "relu": relu,
}


@dataclass(frozen=True)
class _Run:
    """What a forward run leaves behind, an entry per step; slopes are flat, None where linear."""

    entering: list[BallMatrix]
    slopes: list[list[Ball] | None]
    outputs: BallMatrix


class CurvedChain:
    """The system of an instance whose network has steps that are not linear."""

    def __init__(
        self,
        instance: Instance,
        free: Sequence[int] | None = None,
        held: Array | None = None,
    ) -> None:
        self.network = instance.network
        self.samples, self.equations = instance.samples, instance.equations
        self._numbers = Numbers(instance, free, held, BALLS)
        self.size = self._numbers.size

    def residual(self, x: Sequence[Ball]) -> BallMatrix:
        """F(x), a (d m, 1) matrix in the order (output, sample)."""
        outputs = self._run(self._numbers.weights(x)).outputs
        return self._difference(outputs)

    def linearised(self, x: Sequence[Ball]) -> tuple[BallMatrix, BallMatrix]:
        """F(x) and its Jacobian: rows (output, sample), columns in the order of the labels."""
        weights = self._numbers.weights(x)
        run = self._run(weights)
        factors = self._factors(weights, run)
        m, d, size = self.samples, self.network.output_size, self.size
        flat: list[Ball] = [None] * (d * m * size)
        column = 0
        for name, places in self._numbers.places.items():
            height, uses = self.network.shapes[name][0], factors[name]
            rights = [right.entries() for _, right in uses]
            lefts = [[left.entries() for left in samples] for samples, _ in uses]
            for i, columns in by_row(places):
                for s in range(m):
                    # One left factor serves all samples where nothing after the use is bent.
                    mine = [left[s % len(left)] for left in lefts]
                    tall = BALLS.matrix(
                        d, len(uses), [es[o * height + i] for o in range(d) for es in mine]
                    )
                    wide = BALLS.matrix(
                        len(uses), len(columns), [es[j * m + s] for es in rights for j in columns]
                    )
                    product = (tall * wide).entries()
                    for o in range(d):
                        start = (o * m + s) * size + column
                        flat[start : start + len(columns)] = product[
                            o * len(columns) : (o + 1) * len(columns)
                        ]
                column += len(columns)
        return self._difference(run.outputs), BALLS.matrix(d * m, size, flat)

    def _difference(self, outputs: BallMatrix) -> BallMatrix:
        return BALLS.matrix(self.equations, 1, (outputs - self._numbers.targets).entries())

    def _run(self, weights: dict[str, BallMatrix]) -> _Run:
        numbers = self._numbers
        state: BallMatrix | None = None
        entering: list[BallMatrix] = []
        slopes: list[list[Ball] | None] = []
        for step in self.network.steps:
            if step.block is not None:
                block = numbers.blocks[step.block]
                if step.encoder is not None:
                    block = weights[step.encoder] * block
                state = block if state is None else state + block
            entering.append(state)
            state = weights[step.weight] * state
            if step.bias is not None:
                state = state + weights[step.bias] * numbers.ones
            slope: list[Ball] | None = None
            if step.activation != "linear":
                bend = BENT[step.activation]
                pairs = [bend(e) for e in state.entries()]
                slope = [pair[1] for pair in pairs]
                state = BALLS.matrix(state.nrows(), state.ncols(), [pair[0] for pair in pairs])
            slopes.append(slope)
        return _Run(entering, slopes, state)

    def _factors(
        self, weights: dict[str, BallMatrix], run: _Run
    ) -> dict[str, list[tuple[list[BallMatrix], BallMatrix]]]:
        """(left factors, one or one per sample; right factor) of every use of the free weights."""
        numbers, steps = self._numbers, self.network.steps
        out: dict[str, list[tuple[list[BallMatrix], BallMatrix]]] = {n: [] for n in numbers.places}
        adjoints = [BALLS.exact(np.eye(self.network.output_size))]
        for position in range(_first_use(steps, numbers.places), len(steps))[::-1]:
            step, slope = steps[position], run.slopes[position]
            leaving = adjoints if slope is None else _scaled(adjoints, slope, self.samples)
            if step.weight in out:
                out[step.weight].append((leaving, run.entering[position]))
            if step.bias is not None and step.bias in out:
                out[step.bias].append((leaving, numbers.ones))
            adjoints = [left * weights[step.weight] for left in leaving]
            if step.encoder is not None and step.block is not None and step.encoder in out:
                out[step.encoder].append((adjoints, numbers.blocks[step.block]))
        return out


def _first_use(steps: Sequence[Step], places: dict[str, list[tuple[int, int]]]) -> int:
    """The first step that uses a free weight: nothing before it needs an adjoint."""
    return next(
        position
        for position, step in enumerate(steps)
        if {step.weight, step.bias, step.encoder} & places.keys()
    )


def _scaled(adjoints: list[BallMatrix], slope: list[Ball], samples: int) -> list[BallMatrix]:
    """Each sample's (d, n) adjoint with column i times slope[i, s]."""
    height, width = adjoints[0].nrows(), adjoints[0].ncols()
    flat = [adjoint.entries() for adjoint in adjoints]
    out = []
    for s in range(samples):
        entries = flat[s % len(flat)]
        mine = slope[s::samples]
        out.append(
            BALLS.matrix(
                height,
                width,
                [entries[o * width + i] * mine[i] for o in range(height) for i in range(width)],
            )
        )
    return out
