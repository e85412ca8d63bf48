"""Instances: one draw of frozen weights, inputs and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Array, Indices, real_numbers
from sublearn._errors import BadInputError, by_name, whole_number
from sublearn._seeds import Purpose, trial_stream
from sublearn.allocations import Allocation, Rule, an_allocation
from sublearn.ensembles._problem import Problem, law_of_rank
from sublearn.ensembles._source import Drawn, check_teacher, draw_weights
from sublearn.ensembles._teacher import Teacher, settled
from sublearn.networks import Network

if TYPE_CHECKING:
    from sublearn.exact import Dyadics


@dataclass(frozen=True)
class Origin:
    """Where a drawn instance comes from: trial number ``trial`` of a problem under a seed."""

    problem: Problem
    seed: int
    trial: int


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """A student with frozen weights, asked for given targets on given inputs.

    An instance is what it was made from. Given as arrays, it is those float64 numbers, exactly. With a
    ``teacher`` (:meth:`from_teacher`, :func:`draw`) the targets are the teacher's outputs as real
    numbers, and with ``input_factors`` the inputs are the exact product of two float64 matrices;
    ``targets`` and ``inputs`` are then their nearest float64 view. ``weights`` holds every weight; the
    learnable entries are 0 there and mean nothing. What they were given as stands in :attr:`start`,
    where learning begins; no digest, decision or certificate looks at it.

    ``origin`` says which draw it was; None for an instance that somebody made. A copy with other numbers
    (``dataclasses.replace``) is a given instance: it has neither teacher nor origin, and starts at 0.
    """

    network: Network
    allocation: Allocation
    weights: Mapping[str, Array]
    inputs: Array
    targets: Array
    teacher: Teacher | None = field(init=False, default=None)
    input_factors: tuple[Array, Array] | None = field(init=False, default=None)
    origin: Origin | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        network, allocation = self.network, self.allocation
        if not isinstance(network, Network):
            raise BadInputError(f"network must be a sublearn network, not {network!r}.")
        an_allocation("allocation", allocation)
        by_name(self.weights)
        if dict(allocation.shapes) != network.shapes:
            raise BadInputError("the allocation does not belong to the instance's network.")
        network.check_allocation(allocation)
        if not len(allocation):
            raise BadInputError("the allocation has no learnable weight (r = 0).")
        network.check_weights(self.weights)
        for name, shape in network.shapes.items():
            if np.ndim(self.weights[name]) != 2:
                given = np.shape(self.weights[name])
                raise BadInputError(f"weight {name} must have shape {shape}, not {given}.")
        frozen, learnable = {}, []
        for name in network.shapes:
            value = real_numbers(f"weight {name}", self.weights[name])
            flat = allocation.flat(name)
            learnable.append(value.ravel()[flat])
            value.ravel()[flat] = 0.0
            frozen[name] = settled(f"weight {name}", value)
        inputs, targets = settled("inputs", self.inputs), settled("targets", self.targets)
        network.split_inputs(inputs)
        if inputs.shape != network.input_shape(inputs.shape[-1]) or not inputs.shape[-1]:
            raise BadInputError(
                f"inputs must be one set of at least one sample, not {inputs.shape}."
            )
        network.check_outputs("targets", targets.shape, inputs.shape[-1])
        object.__setattr__(self, "weights", MappingProxyType(frozen))
        object.__setattr__(self, "_learnable", np.concatenate(learnable))
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "targets", targets)

    @classmethod
    def from_teacher(
        cls,
        network: Network,
        allocation: Allocation,
        weights: Mapping[str, ArrayLike],
        inputs: ArrayLike | tuple[ArrayLike, ArrayLike],
        teacher_weights: Mapping[str, ArrayLike],
        teacher: Network | None = None,
    ) -> Instance:
        """A student asked for the exact outputs of a teacher, given by its weights.

        ``teacher`` is the teacher's network, the student's where it is None. ``inputs`` is an array, or
        a pair of matrices (features x k) and (k x samples) whose exact product they are.

        >>> import numpy as np, sublearn as sl
        >>> net = sl.FeedForward((2, 1))
        >>> x = np.array([[0.1, 0.2, 0.3], [0.3, 0.1, 0.7]])
        >>> planted = {"W1": np.array([[0.1, 0.7]])}
        >>> instance = sl.Instance.from_teacher(net, sl.Allocation.whole(net), planted, x, planted)
        >>> sl.decide(instance).kind   # three equations for two weights
        'matched'
        >>> rounded = sl.Instance(net, instance.allocation, planted, x, instance.targets)
        >>> sl.decide(rounded).kind
        'refuted'
        """
        shown = network if teacher is None else teacher
        if not isinstance(shown, Network):
            raise BadInputError(f"teacher must be a network, not {teacher!r}.")
        source = Teacher(shown, _floats(teacher_weights))
        given, factors = _inputs_of(network, inputs)
        check_teacher(network, shown, given.shape[-1] if given.ndim else 0)
        drawn = Drawn(given, factors, source.outputs(given), source)
        return cls._made(network, allocation, _floats(weights), drawn)

    @classmethod
    def given(
        cls,
        network: Network,
        allocation: Allocation,
        weights: Mapping[str, ArrayLike],
        inputs: ArrayLike | tuple[ArrayLike, ArrayLike],
        targets: ArrayLike,
    ) -> Instance:
        """A student asked for float64 targets; ``inputs`` as in :meth:`from_teacher`."""
        view, factors = _inputs_of(network, inputs)
        drawn = Drawn(view, factors, real_numbers("targets", targets))
        return cls._made(network, allocation, _floats(weights), drawn)

    @classmethod
    def _made(
        cls,
        network: Network,
        allocation: Allocation,
        weights: Mapping[str, Array],
        drawn: Drawn,
        origin: Origin | None = None,
    ) -> Instance:
        """A student asked for the targets of these samples."""
        out = cls(network, allocation, weights, drawn.inputs, drawn.targets)
        vars(out).update(teacher=drawn.teacher, input_factors=drawn.factors, origin=origin)
        return out

    def __repr__(self) -> str:
        made = "drawn" if self.origin is not None else "given" if self.teacher is None else "taught"
        learnable = f"{len(self.allocation)} learnable weights"
        return f"<Instance of {self.network.title}, {made}: {self.samples} samples, {learnable}>"

    @cached_property
    def start(self) -> Mapping[str, Array]:
        """All weights, the learnable ones as they were given: where learning begins.

        >>> import numpy as np, sublearn as sl
        >>> net = sl.FeedForward((2, 1))
        >>> first = sl.Allocation.from_entries(net, {"W1": [(0, 0)]})
        >>> given = sl.Instance(net, first, {"W1": [[3.0, 4.0]]}, np.eye(2), np.zeros((1, 2)))
        >>> given.weights["W1"].tolist(), given.start["W1"].tolist()
        ([[0.0, 4.0]], [[3.0, 4.0]])
        """
        whole = self._as_given()
        return MappingProxyType({n: settled(f"weight {n}", value) for n, value in whole.items()})

    def _as_given(self) -> dict[str, Array]:
        """All weights as they were given, finite or not."""
        return self.with_values(vars(self)["_learnable"])

    def with_allocation(self, allocation: Allocation) -> Instance:
        """The same numbers with other learnable weights, each starting where it was."""
        out = Instance(self.network, allocation, self._as_given(), self.inputs, self.targets)
        kept = ("teacher", "input_factors", "origin", "_asking", "exact_inputs")
        vars(out).update({name: vars(self)[name] for name in kept if name in vars(self)})
        return out

    @property
    def problem(self) -> Problem | None:
        """What it was drawn from; None for an instance that somebody made."""
        return None if self.origin is None else self.origin.problem

    @property
    def generic_problem(self) -> Problem:
        """The problem that these numbers are one case of: inputs of their rank, this kind of teacher.

        What :func:`certify` says of it holds for almost every such case; of these numbers it says nothing.

        >>> import numpy as np, sublearn as sl
        >>> net = sl.LinearEstimator(inputs=2, outputs=1)
        >>> twice, weights = np.array([[1.0, 1.0], [2.0, 2.0]]), {"W": np.ones((1, 2))}
        >>> given = sl.Instance.given(net, sl.Allocation.whole(net), weights, twice, [[0.0, 1.0]])
        >>> sl.certify(given.generic_problem, given.allocation).kind
        'minimal'
        """
        asks = self.asking
        like = Problem.from_arrays(
            self.network, self.inputs, self.targets if asks is None else None
        )
        if asks is None:
            return like
        laws, teacher = like.ensemble, asks[0].network
        if self.inputs_are_rounded:
            exact = asks[1]
            laws = replace(laws, inputs=law_of_rank(exact.whole.rank(), exact.shape))
        return Problem(
            self.network, self.samples, laws, None if teacher == self.network else teacher
        )

    def only(self, samples: Sequence[int]) -> Instance:
        """The same student and teacher on some of the samples; a given instance, whatever this one was."""
        kept = list(samples)
        if "_asking" in vars(self):
            exact = self.exact_inputs.take(columns=kept)
            return self.on(self.network, self.allocation, self._as_given(), exact, samples=kept)
        factors = self.input_factors
        if factors is not None:
            factors = factors[0], np.ascontiguousarray(factors[1][:, kept])
        inputs = np.ascontiguousarray(self.inputs[..., kept])
        network, chosen, whole = self.network, self.allocation, self._as_given()
        if self.teacher is None:
            return Instance.given(network, chosen, whole, factors or inputs, self.targets[:, kept])
        drawn = Drawn(inputs, factors, self.teacher.outputs(inputs), self.teacher)
        return self._made(network, chosen, whole, drawn)

    def taught_by(self, network: Network, teacher: Teacher) -> Instance:
        """The same numbers in another network of the same shapes, with another teacher."""
        drawn = Drawn(self.inputs, self.input_factors, teacher.outputs(self.inputs), teacher)
        return self._made(network, self.allocation, self._as_given(), drawn)

    @cached_property
    def generic(self) -> bool:
        """Whether the numbers were drawn from laws with densities.

        Only then may facts be used that hold with probability 1. The draw is made again, and every
        number compared: what was edited since has no such rights.
        """
        origin = self.origin
        if origin is None or origin.problem.ensemble.without_density:
            return False
        if origin.problem.source.lacks_density:
            return False
        again = draw(origin.problem, self.allocation, seed=origin.seed, trial=origin.trial)
        (networks, mine), (others, theirs) = self._made_of(), again._made_of()
        same_parts = networks == others and mine.keys() == theirs.keys()
        return same_parts and all(np.array_equal(mine[part], theirs[part]) for part in mine)

    def _made_of(self) -> tuple[list[Network], dict[str, Array]]:
        """The networks, and all numbers by what they are."""
        networks, numbers = [self.network], {"inputs": self.inputs, "targets": self.targets}
        numbers |= {f"weight {name}": value for name, value in self.weights.items()}
        if self.teacher is not None:
            networks.append(self.teacher.network)
            numbers |= {f"teacher {name}": value for name, value in self.teacher.weights.items()}
        if self.input_factors is not None:
            numbers |= zip(("left", "right"), self.input_factors, strict=True)
        return networks, numbers

    @property
    def inputs_are_rounded(self) -> bool:
        """Whether ``inputs`` is only the float64 view of :attr:`exact_inputs`."""
        return self.input_factors is not None or "_asking" in vars(self)

    @property
    def asking(self) -> tuple[Teacher, Dyadics] | None:
        """The teacher whose outputs are the targets, and its inputs; None where targets are given."""
        if "_asking" in vars(self):
            taken: tuple[Teacher, Dyadics] | None = vars(self)["_asking"]
            return taken
        return None if self.teacher is None else (self.teacher, self.exact_inputs)

    def on(
        self,
        network: Network,
        allocation: Allocation,
        weights: Mapping[str, Array],
        inputs: Dyadics,
        *,
        samples: Sequence[int] | None = None,
        targets: Array | None = None,
    ) -> Instance:
        """A student on other exact inputs, asked for the targets of this instance on some samples.

        Or for float64 ``targets`` of its own.
        """
        columns = list(range(self.samples)) if samples is None else list(samples)
        view = inputs.floats().reshape(network.input_shape(inputs.shape[1]))
        asking = None if targets is not None else self.asking
        shown = self.targets[:, columns] if targets is None else targets
        out = Instance(network, allocation, weights, view, shown)
        if asking is not None and samples is not None:
            asking = asking[0], asking[1].take(columns=columns)
        vars(out).update(_asking=asking, exact_inputs=inputs)
        return out

    @cached_property
    def exact_inputs(self) -> Dyadics:
        """The inputs without rounding, one row per number of a sample: (features, m)."""
        from sublearn.exact import Dyadics

        if self.input_factors is not None:
            return Dyadics.of(self.input_factors[0]) * Dyadics.of(self.input_factors[1])
        return Dyadics.of(self.inputs.reshape(-1, self.samples))

    @cached_property
    def exact_targets(self) -> Dyadics | None:
        """The targets without rounding, (d, m); None where they are not rational numbers.

        They are not where the teacher has tanh or sigmoid units.
        """
        from sublearn.exact import Dyadics

        asking = self.asking
        if asking is None:
            return Dyadics.of(self.targets)
        return asking[0].exact_outputs(asking[1]) if asking[0].is_rational else None

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

    @cached_property
    def in_degrees(self) -> Indices:
        """How many weights exist in the row of each learnable one, in the order of the labels."""
        parts = [
            self.network.in_degrees(name)[self.allocation.flat(name) // columns]
            for name, (_, columns) in self.network.shapes.items()
        ]
        return np.concatenate(parts)

    def residual(self, values: ArrayLike) -> Array:
        """Outputs minus targets, (d, m), in float64."""
        return self.network.forward(self.with_values(values), self.inputs) - self.targets

    def jacobian(self, values: ArrayLike) -> Array:
        """The derivative of :meth:`residual` by the learnable weights, (d m, r), in float64."""
        return self.network.jacobian(self.with_values(values), self.inputs, self.allocation)


def check_instance(instance: object) -> Instance:
    """``instance`` itself, or a sentence that says where one comes from."""
    if not isinstance(instance, Instance):
        raise BadInputError(
            "instance must be an Instance(network, allocation, weights, inputs, targets), or as draw() "
            f"gives, not {instance!r}."
        )
    return instance


def _floats(weights: Mapping[str, ArrayLike]) -> dict[str, Array]:
    by_name(weights)
    return {name: real_numbers(f"weight {name}", value) for name, value in weights.items()}


def _inputs_of(
    network: Network, inputs: ArrayLike | tuple[ArrayLike, ArrayLike]
) -> tuple[Array, tuple[Array, Array] | None]:
    """The float64 view of inputs, and the two factors where they are an exact product."""
    if not isinstance(inputs, tuple):
        return real_numbers("inputs", inputs), None
    features = sum(network.input_blocks)
    factors = [settled("a factor of the inputs", factor) for factor in inputs]
    shapes = [factor.shape for factor in factors]
    pair = [len(shape) for shape in shapes] == [2, 2]
    if not pair or shapes[0][0] != features or shapes[0][1] != shapes[1][0]:
        raise BadInputError(
            f"inputs must be an array, or a pair of matrices ({features} x k) and (k x samples), not "
            f"{' and '.join(map(str, shapes))}."
        )
    left, right = factors
    return (left @ right).reshape(network.input_shape(right.shape[1])), (left, right)


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

    The targets are the teacher's outputs as real numbers, and inputs of low rank the exact product of
    their factors, so that linearly dependent samples stay dependent: nothing is left out.

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
    if isinstance(allocation, Allocation):
        chosen = allocation
    else:
        chosen = problem.draw_allocation(
            allocation, trial_stream(seed, problem.digest, trial, Purpose.ALLOCATION), trial
        )
    rng = trial_stream(seed, problem.digest, trial, Purpose.WEIGHTS)
    return draw_from(rng, problem, chosen, Origin(problem, int(seed), int(trial)))


def draw_from(
    rng: np.random.Generator, problem: Problem, chosen: Allocation, origin: Origin | None = None
) -> Instance:
    """One draw of a problem from a stream of the caller's: a given instance without ``origin``."""
    network, given = problem.network, problem.ensemble.given
    weights = {**draw_weights(network, problem.ensemble.weights, rng), **given.weights}
    drawn = given.instead_of(problem.source.draw(problem, rng))
    return Instance._made(network, chosen, weights, drawn, origin)


def fresh_samples(
    problem: Problem, count: int, *, seed: int = 0, trial: int = 0
) -> tuple[Array, Array]:
    """``count`` new inputs, and what the teacher of ``draw(problem, ., seed=seed, trial=trial)`` says.

    The inputs are drawn like those of the instance, independently of them. From labelled data they are
    samples that the instance does not have.

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    >>> inputs, targets = fresh_samples(problem, 100, seed=0, trial=17)
    >>> inputs.shape, targets.shape
    ((4, 1, 100), (4, 100))
    """
    whole_number("count", count, least=1)
    whole_number("seed", seed, least=0)
    whole_number("trial", trial, least=0)
    if problem.ensemble.given.inputs is not None:
        raise BadInputError("inputs are given: no law says what fresh ones would be.")
    # The same draws in the same order as `draw` makes them.
    rng = trial_stream(seed, problem.digest, trial, Purpose.WEIGHTS)
    draw_weights(problem.network, problem.ensemble.weights, rng)
    own = trial_stream(seed, problem.digest, trial, Purpose.FRESH)
    return problem.source.fresh(problem, count, rng, own)
