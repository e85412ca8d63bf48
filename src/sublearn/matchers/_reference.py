"""Reference: scipy's fsolve from random starts, as the paper did (appendix E). For comparison only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import positive, whole_number
from sublearn._grades import NUMERICAL
from sublearn.ensembles import Instance
from sublearn.matchers._decision import MATCHED, UNDECIDED, Decision, Effort
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.networks import ACTIVATIONS

# fsolve says that it converged (ier = 1) where its steps are small; the residual must be too.
ACCURACY = 1e-6


@dataclass(frozen=True)
class Reference(Matcher):
    """scipy.optimize.fsolve (MINPACK's hybrd) from ``starts`` starts of N(0, spread^2 / row length).

    The law of the starts and the form of the equations, outputs minus targets in the learnable weights, are
    ours: the paper names neither.

    Matched when a start ends with ``ier == 1`` and a residual below 1e-6 of the targets: numerical, and
    never a proof. It says nothing when it finds nothing: the paper counts that as no match, which is
    why its match probabilities are too low. ``jacobian``: give it the derivatives (hybrj).

    >>> import numpy as np, sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=6, b=1, d=2, T=3), samples=3)
    >>> instance = sl.draw(problem, {"W": sl.FirstRows(6)}, seed=0, trial=0)
    >>> decision = Reference(starts=50).attempt(instance, Budget(), np.random.default_rng(0))
    >>> decision.kind, str(decision.grade)
    ('matched', 'numerical')
    """

    starts: int = 400
    jacobian: bool = False
    spread: float = 1.0

    def __post_init__(self) -> None:
        whole_number("starts", self.starts, least=1)
        positive("spread", self.spread)

    name = "reference"

    def refusal(self, instance: Instance) -> str | None:
        r = len(instance.allocation)
        if r != instance.equations:
            return f"fsolve needs as many unknowns as equations, not {r} and {instance.equations}"
        return None

    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        from scipy.optimize import fsolve

        residual = outputs_minus_targets(instance)
        derivative = jacobian_of(instance) if self.jacobian else None
        shapes = instance.network.shapes
        lengths = [shapes[name][1] for name, _, _ in instance.allocation.labels()]
        size = self.spread / np.sqrt(np.array(lengths, dtype=np.float64))
        goal = ACCURACY * float(np.abs(instance.targets).max())
        calls = 0
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for start in range(1, self.starts + 1):
                x, info, ier, _ = fsolve(
                    residual,
                    rng.standard_normal(size.size) * size,
                    fprime=derivative,
                    full_output=True,
                )
                calls += int(info["nfev"])
                if ier == 1 and np.abs(info["fvec"]).max() <= goal:
                    return Decision(
                        MATCHED,
                        self.name,
                        f"fsolve converged from start {start}",
                        NUMERICAL,
                        x,
                        instance.with_values(x),
                        effort=Effort(starts=start, iterations=calls),
                    )
        reason = f"fsolve found nothing from {self.starts} starts"
        effort = Effort(starts=self.starts, iterations=calls)
        return Decision(UNDECIDED, self.name, reason, effort=effort)


def outputs_minus_targets(instance: Instance) -> Callable[[Array], Array]:
    """x -> vec(outputs - targets), as lean as plain array code gets: fsolve spends its time here."""
    network, allocation = instance.network, instance.allocation
    if not network.is_plain:
        inputs, goal = instance.inputs, instance.targets
        return lambda x: (network.forward(instance.with_values(x), inputs) - goal).ravel()
    weights = {name: np.array(value) for name, value in instance.weights.items()}
    flat = {name: value.reshape(-1) for name, value in weights.items()}
    parts, at = [], 0
    for name in allocation.names:
        index = allocation.flat(name)
        parts.append((flat[name], index, slice(at, at + index.size)))
        at += index.size
    blocks = network.split_inputs(instance.inputs)
    steps = [
        (
            weights[step.weight],
            None if step.encoder is None else weights[step.encoder],
            None if step.block is None else blocks[step.block],
            None if step.bias is None else weights[step.bias],
            None if step.activation == "linear" else ACTIVATIONS[step.activation].value,
        )
        for step in network.steps
    ]
    targets = instance.targets

    def residual(x: Array) -> Array:
        for buffer, index, part in parts:
            buffer[index] = x[part]
        state: Array | None = None
        for weight, encoder, block, bias, activation in steps:
            if block is not None:
                injected = block if encoder is None else encoder @ block
                state = injected if state is None else state + injected
            assert state is not None
            state = weight @ state
            if bias is not None:
                state = state + bias
            if activation is not None:
                state = activation(state)
        assert state is not None
        return (state - targets).ravel()

    return residual


def jacobian_of(instance: Instance) -> Callable[[Array], Array]:
    """x -> d vec(outputs) / d x; compiled for linear networks."""
    if not (instance.network.is_linear and instance.network.is_plain):
        return instance.jacobian
    from sublearn.matchers.search._chain import all_outer
    from sublearn.matchers.search._chain_kernel import chain_room, jacobian

    chain = all_outer(instance)
    room = chain_room(chain)

    def derivative(x: Array) -> Array:
        jacobian(chain, x, room, room.spare, room.columns)
        return room.columns.T.copy()

    return derivative
