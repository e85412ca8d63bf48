"""Instances: one draw of frozen weights, inputs and targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublearn._errors import BadInputError, whole_number
from sublearn.allocations import Allocation, Rule
from sublearn.ensembles._distributions import Distribution
from sublearn.ensembles._problem import Labels, Problem, Targets
from sublearn.networks import Network

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """A student with frozen weights, asked for given targets on given inputs.

    An instance IS its float64 numbers: that is what is decided and proved. ``weights`` holds every
    weight; the learnable entries are 0 there and mean nothing. ``problem`` is what it was drawn from;
    None for an instance that somebody made.
    """

    network: Network
    allocation: Allocation
    weights: Mapping[str, Array]
    inputs: Array
    targets: Array
    problem: Problem | None = None

    def __post_init__(self) -> None:
        network, allocation = self.network, self.allocation
        if dict(allocation.shapes) != network.shapes:
            raise BadInputError("the allocation does not belong to the instance's network.")
        if not len(allocation):
            raise BadInputError("the allocation has no learnable weight (r = 0).")
        network.check_weights(self.weights)
        frozen = {}
        for name in network.shapes:
            value = np.array(self.weights[name], dtype=np.float64)
            value.ravel()[allocation.flat(name)] = 0.0
            frozen[name] = _settled(f"weight {name}", value)
        inputs = _settled("inputs", np.array(self.inputs, dtype=np.float64))
        targets = _settled("targets", np.array(self.targets, dtype=np.float64))
        network.split_inputs(inputs)
        wanted = (network.output_size, inputs.shape[-1])
        if inputs.shape != network.input_shape(inputs.shape[-1]) or not inputs.shape[-1]:
            raise BadInputError(
                f"inputs must be one set of at least one sample, not {inputs.shape}."
            )
        if targets.shape != wanted:
            raise BadInputError(f"targets must have shape {wanted}, not {targets.shape}.")
        object.__setattr__(self, "weights", MappingProxyType(frozen))
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "targets", targets)

    def __repr__(self) -> str:
        made = "given" if self.problem is None else "drawn"
        return f"<Instance of {self.network.spec}, {made}: {self.samples} samples, {self.allocation!r}>"

    @property
    def generic(self) -> bool:
        """Whether the numbers were drawn from laws with densities.

        Only then may facts be used that hold with probability 1.
        """
        problem = self.problem
        if problem is None or problem.ensemble.without_density:
            return False
        if isinstance(problem.teacher, Labels):
            return False
        return not isinstance(problem.teacher, Targets) or problem.teacher.law.has_density

    @property
    def samples(self) -> int:
        """The number m of samples."""
        return int(self.inputs.shape[-1])

    @property
    def equations(self) -> int:
        """d m."""
        return self.targets.size

    def with_values(self, values: ArrayLike) -> dict[str, Array]:
        """All weights, with the learnable ones set to ``values`` in the order of the labels."""
        x = np.asarray(values, dtype=np.float64)
        if x.shape != (len(self.allocation),):
            raise BadInputError(f"values must have shape ({len(self.allocation)},), not {x.shape}.")
        out, start = {}, 0
        for name in self.network.shapes:
            flat = self.allocation.flat(name)
            matrix = np.array(self.weights[name])
            matrix.ravel()[flat] = x[start : start + flat.size]
            out[name] = matrix
            start += flat.size
        return out

    def values(self, weights: Mapping[str, Array]) -> Array:
        """The learnable entries of ``weights``, in the order of the labels."""
        parts = [
            np.asarray(weights[n]).ravel()[self.allocation.flat(n)] for n in self.network.shapes
        ]
        return np.concatenate(parts)

    def residual(self, values: ArrayLike) -> Array:
        """Outputs minus targets, (d, m), in float64."""
        return self.network.forward(self.with_values(values), self.inputs) - self.targets


def _settled(name: str, value: Array) -> Array:
    if not np.isfinite(value).all():
        raise BadInputError(f"{name} must be finite.")
    value.flags.writeable = False
    return value


def draw(
    problem: Problem,
    allocation: Allocation | Mapping[str, Rule],
    *,
    seed: int = 0,
    trial: int = 0,
) -> Instance:
    """Trial number ``trial``: it depends on (seed, problem, trial) and on nothing else.

    The allocation, or the rules that draw one, has a random stream of its own, so that different
    allocations are compared on the same frozen weights, teachers and inputs.

    Linearly dependent samples of a linear network are left out, as appendix F.1 does, whether the
    law makes them dependent or, with signs and zeros, chance: a match on the m' independent ones is a
    match on all. (Kept, they would no longer be dependent after the targets were rounded to float64.)
    Where student or teacher has a bias, it is the affinely dependent ones.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    >>> instance = sl.draw(problem, {"W": sl.FirstRows(5)}, seed=0, trial=17)
    >>> len(instance.allocation), instance.targets.shape
    (16, (4, 4))
    """
    if not isinstance(allocation, (Allocation, Mapping)):
        raise BadInputError(
            'allocation must be an Allocation, or rules by name such as {"W": FirstRows(5)}, not '
            f"{allocation!r}."
        )
    whole_number("seed", seed, least=0)
    whole_number("trial", trial, least=0)
    digest = np.frombuffer(bytes.fromhex(problem.digest), dtype="<u4").tolist()
    network, ensemble = problem.network, problem.ensemble
    if isinstance(allocation, Allocation):
        held = allocation
    else:
        held = problem.draw_allocation(allocation, np.random.default_rng([seed, *digest, trial, 1]))
    rng = np.random.default_rng([seed, *digest, trial, 0])
    weights = draw_weights(network, ensemble.weights, rng)
    if isinstance(problem.teacher, Labels):
        data = problem.teacher.data
        inputs, targets = data.take(rng.choice(data.size, problem.samples, replace=False))
        return Instance(network, held, weights, inputs, targets, problem)
    inputs = ensemble.inputs.draw(rng, network.input_shape(problem.samples))
    if isinstance(problem.teacher, Targets):
        targets = problem.teacher.law.draw(rng, (network.output_size, problem.samples))
        return Instance(network, held, weights, inputs, targets, problem)
    teacher = network if problem.teacher is None else problem.teacher
    if teacher.is_linear:
        counted = problem.effective_samples
        if problem.teacher is not None:
            # A teacher with a bias tells samples apart that a student without one cannot.
            own = replace(problem, network=teacher, teacher=None)
            counted = max(counted, own.effective_samples)
        inputs = inputs[..., :counted]
        # Signs and zeros may be dependent by chance; that helps only where both networks are linear.
        if network.is_linear and not ensemble.inputs.has_density:
            biased = any(step.bias is not None for step in (*network.steps, *teacher.steps))
            inputs = inputs[..., _independent(inputs.reshape(-1, inputs.shape[-1]), biased)]
    targets = teacher.forward(draw_weights(teacher, ensemble.teacher, rng), inputs)
    return Instance(network, held, weights, inputs, targets, problem)


def _independent(samples: Array, biased: bool) -> list[int]:
    """Each sample that is no linear combination of those before it (affine, with a bias); exact.

    At least one is kept: where all are zero it says what a linear network does with zeros.
    """
    from flint import fmpq, fmpq_mat

    matrix = np.vstack([samples, np.ones(samples.shape[1])]) if biased else samples
    ratios = [value.as_integer_ratio() for value in matrix.ravel().tolist()]
    rows, columns = matrix.shape
    reduced, rank = fmpq_mat(rows, columns, [fmpq(*ratio) for ratio in ratios]).rref()
    pivots, column = [], 0
    for row in range(rank):
        while reduced[row, column] == 0:
            column += 1
        pivots.append(column)
    return pivots or [0]


def draw_weights(network: Network, law: Distribution, rng: np.random.Generator) -> dict[str, Array]:
    """Weights of every matrix, a row of length n scaled by 1 / sqrt(n) (appendix E.3)."""
    return {
        name: law.draw(rng, shape) / np.sqrt(shape[1]) for name, shape in network.shapes.items()
    }
