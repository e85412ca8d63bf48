"""The usual recurrent network of neuroscience: rates that leak, driven by inputs beside the recurrence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from sublearn._arrays import Mask
from sublearn._errors import BadInputError, as_float, one_of, shown
from sublearn.networks._activations import ACTIVATIONS
from sublearn.networks._models import StateNetwork, few_units, of_rank
from sublearn.networks._network import Shape, Step
from sublearn.networks._text import register

READOUTS = ("last", "every")
STARTS = ("zero", "weights")


def _leak(value: object) -> float:
    number = as_float(value)
    if not 0.0 < number <= 1.0:
        raise BadInputError(f"leak must be a number above 0 and at most 1, not {shown(value)}.")
    return number


@cache
def _without_diagonal(n: int) -> Mapping[str, Mask]:
    mask = ~np.eye(n, dtype=bool)
    mask.flags.writeable = False
    return MappingProxyType({"W": mask})


@cache
def _rate_steps(
    T: int, activation: str, leak: float, bias: bool, every: bool, given: bool
) -> tuple[Step, ...]:
    out = [Step("h0")] if given else []
    b, c = ("b", "c") if bias else (None, None)
    for t in range(T):
        if t == 0 and not given:
            # W is applied to 0: what is left is Win x.
            out.append(Step("Win", activation, block=0, bias=b, leak=leak))
        else:
            out.append(Step("W", activation, block=t, bias=b, drive="Win", leak=leak))
        if every or t == T - 1:
            out.append(Step("D", bias=c, aside=t < T - 1))
    return tuple(out)


@register("rate:n=50,b=3,d=2,T=10,leak=0.1")
@dataclass(frozen=True)
class RateRNN(StateNetwork):
    """h_t = (1 - leak) h_{t-1} + leak phi(W h_{t-1} + Win x_t + b), y = D h_T + c.

    The inputs enter beside the recurrence, not through W as in the paper's :class:`RNN`. With ``bias``
    there are b (n, 1) and c (d, 1). ``readout="every"`` puts out D h_t + c of every step, (T d, m),
    step by step. The state begins at 0 or, with ``start="weights"``, at the weight h0 (n, 1). Without
    ``autapses`` the diagonal of W does not exist. The factor 1 - leak is what float64 makes of it.

    >>> RateRNN(n=50, b=3, d=2, T=10, leak=0.1, bias=True).shapes
    {'W': (50, 50), 'Win': (50, 3), 'D': (2, 50), 'b': (50, 1), 'c': (2, 1)}
    """

    activation: str = "tanh"
    leak: float = 1.0
    bias: bool = False
    readout: str = "last"
    start: str = "zero"
    autapses: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("activation", self.activation, ACTIVATIONS)
        one_of("readout", self.readout, READOUTS)
        one_of("start", self.start, STARTS)
        for name in ("bias", "autapses"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise BadInputError(f"{name} must be True or False, not {value!r}.")
            object.__setattr__(self, name, bool(value))
        if self.n == 1 and not self.autapses:
            raise BadInputError("autapses must be True where n = 1: nothing else would be in W.")
        if self.T == 1 and self.start == "zero":
            raise BadInputError(
                'T must be at least 2 where start is "zero": at T = 1 nothing has passed through W yet.'
            )
        object.__setattr__(self, "leak", _leak(self.leak))

    @property
    def shapes(self) -> dict[str, Shape]:
        n = self.n
        out = {"W": (n, n), "Win": (n, self.b), "D": (self.d, n)}
        if self.bias:
            out |= {"b": (n, 1), "c": (self.d, 1)}
        return out | ({"h0": (n, 1)} if self.start == "weights" else {})

    @property
    def steps(self) -> tuple[Step, ...]:
        every, given = self.readout == "every", self.start == "weights"
        return _rate_steps(self.T, self.activation, self.leak, self.bias, every, given)

    @property
    def is_sequence(self) -> bool:
        return True

    @property
    def output_size(self) -> int:
        return self.d * (self.T if self.readout == "every" else 1)

    @property
    def connections(self) -> Mapping[str, Mask]:
        return {} if self.autapses else _without_diagonal(self.n)

    def expressible(self, samples: int) -> int:
        """At the last step, the d x m matrices of rank at most n; a bias frees the mean of the samples."""
        if self.readout == "every":
            return super().expressible(samples)
        mean = self.d if self.bias else 0
        return min(self.size, mean + of_rank(self.n, self.d, samples - self.bias))

    def degeneracy(self, samples: int) -> str | None:
        left = samples - self.bias
        narrow = few_units(self.n, self.d, left) if self.readout == "last" else None
        return narrow or super().degeneracy(samples)
