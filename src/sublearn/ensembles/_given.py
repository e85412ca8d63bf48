"""Numbers of one's own, which every draw of a problem has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, real_numbers
from sublearn._errors import BadInputError, by_name
from sublearn.allocations import Allocation
from sublearn.ensembles._distributions import LowRank, Normal
from sublearn.ensembles._source import Drawn
from sublearn.ensembles._teacher import settled

if TYPE_CHECKING:
    from sublearn.ensembles._problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class Given:
    """Numbers that are not drawn: weights by name, inputs and targets, any of them.

    They stand in the place of what would be drawn, and are exactly these float64 numbers. They may be
    special (zeros, ties, repeated samples), so no generic fact holds for a draw that has them. Learnable
    weights may be given too: they are where learning begins. Equal numbers have equal digests, on every
    machine.

    >>> import numpy as np, sublearn as sl
    >>> given = sl.ensembles.Given(inputs=np.ones((3, 5)))
    >>> problem = sl.Problem(sl.FeedForward((3, 4, 2)), 5, sl.Ensemble(given=given))
    >>> instance = sl.draw(problem, {"W1": sl.Anywhere(6)}, trial=7)
    >>> bool((instance.inputs == 1).all()), instance.teacher is None, instance.generic
    (True, False, False)
    """

    weights: Mapping[str, Array] = field(default_factory=dict)
    inputs: Array | None = None
    targets: Array | None = None

    def __post_init__(self) -> None:
        by_name(self.weights)
        kept = {name: real_numbers(f"weight {name}", value) for name, value in self.weights.items()}
        for value in kept.values():  # which may hold anything where it is learnable
            value.flags.writeable = False
        object.__setattr__(self, "weights", MappingProxyType(kept))
        for part in ("inputs", "targets"):
            if getattr(self, part) is not None:
                object.__setattr__(self, part, settled(part, getattr(self, part)))

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only dict can be neither sent to a process nor copied.
        return Given, (dict(self.weights), self.inputs, self.targets)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is given, of weights, inputs and targets."""
        arrays = {"weights": self.weights or None, "inputs": self.inputs, "targets": self.targets}
        return tuple(part for part, value in arrays.items() if value is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """The same, with every weight by its name."""
        return (*self.weights, *(part for part in self.parts if part != "weights"))

    def check(self, problem: Problem) -> None:
        """Refuse a problem that these numbers do not go with."""
        network, law = problem.network, problem.ensemble.inputs
        for name, value in self.weights.items():
            if value.shape != network.shape(name):
                raise BadInputError(
                    f"weight {name} must have shape {network.shape(name)}, not {value.shape}."
                )
        if self.weights:
            others = {n: np.zeros(s) for n, s in network.shapes.items() if n not in self.weights}
            network.check_weights({**others, **self.weights})
        if self.inputs is not None:
            wanted = network.input_shape(problem.samples)
            if self.inputs.shape != wanted:
                raise BadInputError(f"inputs must have shape {wanted}, not {self.inputs.shape}.")
            if problem.source.is_labelled or type(law) not in (Normal, LowRank):
                raise BadInputError(
                    "inputs are given, so that neither data nor another law can bring them; the law of "
                    "the inputs is Normal(), or LowRank() to tell their rank."
                )
        if self.targets is not None:
            shape = (network.output_size, problem.samples)
            if self.targets.shape != shape:
                raise BadInputError(f"targets must have shape {shape}, not {self.targets.shape}.")
            if self.inputs is None:
                raise BadInputError("targets are given, and no inputs that they belong to.")
            if problem.teacher_network is not None:
                raise BadInputError("targets are given: the teacher must be Targets(), none.")

    def instead_of(self, drawn: Drawn) -> Drawn:
        """What was drawn, with given inputs and targets in its place; a teacher sees these inputs."""
        if self.inputs is not None and drawn.teacher is not None:
            targets = drawn.teacher.outputs(self.inputs)
            drawn = Drawn(self.inputs, None, targets, drawn.teacher)
        elif self.inputs is not None:
            drawn = replace(drawn, inputs=self.inputs, factors=None)
        return drawn if self.targets is None else replace(drawn, targets=self.targets)

    def settles(self, problem: Problem, allocation: Allocation) -> bool:
        """Whether nothing is left to draw: inputs, targets and all weights with a frozen entry are given."""
        if self.targets is None:
            return False
        lacking = (name for name in problem.network.shapes if name not in self.weights)
        exist = problem.network.existing
        return all(allocation.flat(name).size == int(exist(name).sum()) for name in lacking)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names, shapes and numbers."""
        arrays = {f"weight {name}": self.weights[name] for name in sorted(self.weights)}
        arrays |= {part: getattr(self, part) for part in self.parts if part != "weights"}
        head = {
            "format": "sublearn given 1",
            "shapes": [[name, *value.shape] for name, value in arrays.items()],
        }
        h = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        for value in arrays.values():
            h.update(np.ascontiguousarray(value, dtype="<f8").tobytes())
        return h.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Given: {', '.join(self.names) or 'nothing'}>"
