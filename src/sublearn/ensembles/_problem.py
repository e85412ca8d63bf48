"""The one object that is asked about: a network, a number of samples, and how things are drawn."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Indices
from sublearn._errors import BadInputError, shown, whole_number
from sublearn._limits import check_memory
from sublearn.allocations import Allocation, Places, Rule
from sublearn.ensembles._distributions import (
    Distribution,
    LowRank,
    Normal,
    check_law,
)
from sublearn.ensembles._given import Given
from sublearn.ensembles._source import Source, Targets, Taught
from sublearn.ensembles._teacher import settled
from sublearn.networks import Network

MOST_SAMPLES = 10**9  # beyond it sizes of arrays overflow before memory is asked for
PARTS = ("weights", "teacher", "inputs")  # that have a law
_LIGHT = 2**26  # bytes; problems that take less are not weighed, they are made by the thousand


@dataclass(frozen=True)
class Ensemble:
    """How frozen weights, the teacher's weights and the inputs are drawn, and what is given instead."""

    weights: Distribution = field(default_factory=Normal)
    teacher: Distribution = field(default_factory=Normal)
    inputs: Distribution = field(default_factory=Normal)
    given: Given = field(default_factory=Given)

    def __post_init__(self) -> None:
        for part in PARTS:
            check_law(part, getattr(self, part))
        if not isinstance(self.given, Given):
            raise BadInputError(f"given must be a Given, not a {type(self.given).__name__}.")

    @property
    def without_density(self) -> tuple[str, ...]:
        """The parts without a density, given or by their law: generic facts say nothing about a draw."""
        laws = [part for part in PARTS if not getattr(self, part).has_density]
        return tuple(dict.fromkeys((*laws, *self.given.parts)))

    def describe(self) -> dict[str, Any]:
        """Names and parameters of the three laws, and the digest of what is given."""
        laws: dict[str, Any] = {part: getattr(self, part).describe() for part in PARTS}
        return {**laws, "given": self.given.digest} if self.given.parts else laws


def Gaussian(g: float = 1.0) -> Ensemble:  # noqa: N802 - reads like the ensemble it returns
    """The paper's ensemble: weights N(0, g^2 / row length) for student and teacher, inputs N(0, 1)."""
    return Ensemble(Normal(g), Normal(g), Normal())


@dataclass(frozen=True)
class Problem:
    """A student network asked to match m samples of a teacher.

    ``teacher`` is None (the same architecture), another network with the same inputs and outputs, or
    another :class:`Source` of targets: :class:`Targets` (no teacher at all), :class:`Labels` (data).

    >>> import sublearn as sl
    >>> problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    >>> problem.equations
    16
    """

    network: Network
    samples: int
    ensemble: Ensemble = field(default_factory=Ensemble)
    teacher: Network | Source | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.network, Network):
            raise BadInputError(f"network must be a sublearn network, not {self.network!r}.")
        samples = whole_number("samples", self.samples, least=1, most=MOST_SAMPLES)
        object.__setattr__(self, "samples", samples)
        if not isinstance(self.ensemble, Ensemble):
            raise BadInputError(f"ensemble must be an Ensemble, not {self.ensemble!r}.")
        self._check_memory()
        self.ensemble.inputs.check(sum(self.network.input_blocks))
        if not (self.teacher is None or isinstance(self.teacher, Network | Source)):
            raise BadInputError(
                f"teacher must be a network or Targets() or Labels(data), not {self.teacher!r}."
            )
        self.source.check(self)
        self.ensemble.given.check(self)
        if self.teacher == self.network:
            object.__setattr__(self, "teacher", None)

    @classmethod
    def from_arrays(
        cls, network: Network, inputs: ArrayLike, targets: ArrayLike | None = None
    ) -> Problem:
        """The problem that a person's arrays are one case of: as many samples, inputs of their rank.

        With ``targets`` there is no teacher (:class:`Targets`): any d m numbers may be asked for. Without
        them the teacher has the student's architecture. Draws have other numbers of these shapes and this
        rank; :meth:`given` is the problem whose draws have these.

        >>> import numpy as np, sublearn as sl
        >>> net = sl.FeedForward((3, 4, 2))
        >>> sl.Problem.from_arrays(net, np.ones((3, 5))).ensemble.inputs  # five times the same sample
        LowRank(g=1.0, rank=1)
        """
        x = settled("inputs", inputs)
        network.split_inputs(x)
        samples = x.shape[-1] if x.ndim else 0
        if x.shape != network.input_shape(samples) or not samples:
            raise BadInputError(f"inputs must be one set of at least one sample, not {x.shape}.")
        if targets is not None:
            network.check_outputs("targets", settled("targets", targets).shape, samples)
        from sublearn.exact import Dyadics

        features = x.reshape(-1, samples)
        # A rank modulo a prime, or of float64 numbers, may be too small; full rank is seen at once.
        rank = int(np.linalg.matrix_rank(features))
        if rank < min(features.shape):
            rank = Dyadics.of(features).whole.rank()
        source = None if targets is None else Targets()
        return cls(network, samples, Ensemble(inputs=law_of_rank(rank, features.shape)), source)

    @classmethod
    def given(
        cls,
        network: Network,
        weights: Mapping[str, ArrayLike] | None = None,
        inputs: ArrayLike | None = None,
        targets: ArrayLike | None = None,
        *,
        samples: int | None = None,
        ensemble: Ensemble | None = None,
        teacher: Network | Source | None = None,
    ) -> Problem:
        """The problem whose every draw has these numbers (:class:`Given`); what they lack is drawn.

        With ``targets`` there is no teacher; without ``inputs`` say how many ``samples`` are drawn. Numbers
        of one's own may be special, so that such a problem has no generic verdict, and is sampled.

        >>> import numpy as np, sublearn as sl
        >>> net = sl.LinearEstimator(inputs=3, outputs=1)
        >>> twice = np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]])  # a sample twice, and a silent input
        >>> problem = sl.Problem.given(net, inputs=twice)
        >>> e = sl.estimate(problem, {"W": sl.Anywhere(1)}, trials=30)
        >>> e.matched + e.refuted, 0 < e.refuted < 30   # refuted where the silent input is learnable
        (30, True)
        """
        laws = Ensemble() if ensemble is None else ensemble
        parts: dict[str, Any] = {"weights": weights, "inputs": inputs, "targets": targets}
        own = Given(**{part: value for part, value in parts.items() if value is not None})
        if not own.parts:
            raise BadInputError("nothing is given: weights, inputs or targets.")
        if own.inputs is None:
            if samples is None:
                raise BadInputError("give samples, the number of them to draw, or inputs.")
            return cls(network, samples, replace(laws, given=own), teacher)
        like = cls.from_arrays(network, own.inputs, own.targets)
        if samples is not None and samples != like.samples:
            raise BadInputError(f"samples is {samples}, but inputs hold {like.samples}.")
        if laws.inputs != Normal():
            raise BadInputError("inputs are given; leave the ensemble's inputs as they are.")
        if teacher is not None and own.targets is not None:
            raise BadInputError("targets are given; leave the teacher out.")
        laws = replace(laws, inputs=like.ensemble.inputs, given=own)
        return replace(like, ensemble=laws, teacher=like.teacher if teacher is None else teacher)

    def _check_memory(self) -> None:
        """Refuse more samples than fit: inputs, states and outputs, as drawn, as residues and on the way.

        Inputs of low rank have two factors besides.
        """
        network, law = self.network, self.ensemble.inputs
        features = sum(network.input_blocks)
        widest = max(shape[0] for shape in network.shapes.values())
        size = 32 * self.samples * (features + widest + network.output_size)
        rank = law.inner or 0
        factors = 32 * rank * (features + self.samples)
        if factors > max(size, _LIGHT):
            check_memory(f"drawing inputs of rank {shown(rank)}", factors, "a smaller rank")
        if size > _LIGHT:
            check_memory(
                f"drawing {self.samples} samples of {network.title!r}", size, "fewer samples"
            )

    @property
    def source(self) -> Source:
        """Where inputs and targets come from."""
        if isinstance(self.teacher, Source):
            return self.teacher
        return Taught(self.network if self.teacher is None else self.teacher)

    @property
    def teacher_network(self) -> Network | None:
        """The teacher's network, the student's own where none is named; None without a teacher."""
        return self.source.network

    @property
    def equations(self) -> int:
        """d m: the numbers that have to be matched."""
        return self.network.output_size * self.samples

    @property
    def effective_samples(self) -> int:
        """m', the samples that count: in a linear network dependent ones add nothing (appendix F.1).

        >>> import sublearn as sl
        >>> sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=9).effective_samples   # T b = 4
        4
        """
        if not self.network.is_linear:
            return self.samples
        law, features = self.ensemble.inputs, sum(self.network.input_blocks)
        rank = law.rank_of(features)
        # A bias adds one direction that does not come from the inputs.
        return min(self.samples, rank + self.network.is_biased)

    @property
    def effective_equations(self) -> int:
        """d m': the equations that are left when dependent samples are taken out."""
        return self.network.output_size * self.effective_samples

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything above: seeds every draw, the same on every machine."""
        teacher = None if self.teacher is None else self.teacher.spec
        content = {
            "format": "sublearn problem 1",
            "network": self.network.spec,
            "samples": self.samples,
            "ensemble": self.ensemble.describe(),
            "teacher": teacher,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def draw_allocation(
        self, rules: Mapping[str, Rule], rng: np.random.Generator, trial: int = 0
    ) -> Allocation:
        """One draw of the rules, for example ``{"W": FirstRows(5)}``.

        A rule without a count takes what d m leaves after the others. Of a list of masks, that of the
        ``trial`` is taken.

        >>> import numpy as np, sublearn as sl
        >>> problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
        >>> a = problem.draw_allocation({"W": sl.FirstRows(5)}, np.random.default_rng(0))
        >>> len(a), int(a.row_counts("W").max()), a.row_counts("W")[5:].tolist()
        (16, 4, [0, 0, 0])
        """
        if not rules:
            raise BadInputError("rules must name at least one weight.")
        given = 0
        open_rules = []
        for name, rule in rules.items():
            self.network.shape(name)
            if not isinstance(rule, Rule):
                raise BadInputError(
                    f"the rule for {name} must be FirstRows, FirstColumns, Anywhere or one of your own, "
                    f"not {rule!r}."
                )
            if rule.count is not None:
                given += rule.count
            elif rule.counted:
                open_rules.append(name)
        if len(open_rules) > 1:
            raise BadInputError(f"give a count to the rules for {', '.join(open_rules)}.")
        rest = self.effective_equations - given
        if open_rules and rest < 1:
            raise BadInputError(
                f"nothing is left of d m = {self.effective_equations} for {open_rules[0]}."
            )
        network, flat = self.network, {}
        for name in (name for name in network.shapes if name in rules):  # whatever the dict's order
            rule, bounds = rules[name], network.degree_bounds(name, self.effective_samples)
            places = Places(name, network.shapes[name], bounds, network.connections.get(name))
            count = rest if rule.count is None else rule.count
            taken = rule.draw(places, count, rng, trial)
            flat[name] = _as_drawn(taken, places, count if rule.counted else None)
        drawn = Allocation(network.shapes, flat)
        network.check_allocation(drawn)
        return drawn


def _as_drawn(drawn: ArrayLike, places: Places, count: int | None) -> Indices:
    """The flat indices that a rule drew, in order, or an error: the rule may be somebody's own."""
    size, many = math.prod(places.shape), "" if count is None else f"{count} "
    try:
        flat = np.sort(np.asarray(drawn))
        right = flat.ndim == 1 and flat.dtype.kind in "iu" and count in (None, flat.size)
    except (TypeError, ValueError):  # no row, or rows of different lengths
        right = False
    if not right or (np.diff(flat, prepend=-1, append=size) <= 0).any():
        raise BadInputError(
            f"the rule for {places.name} must draw {many}different numbers from 0 to {size - 1}, flat "
            f"indices in one row, not {shown(drawn)}."
        )
    return flat.astype(np.int64)


def law_of_rank(rank: int, shape: tuple[int, ...]) -> Distribution:
    """The normal law of inputs (features, m) whose rank is known."""
    return Normal() if rank == min(shape) else LowRank(rank=max(1, rank))
