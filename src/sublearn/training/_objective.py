"""The loss as a function of the learnable weights, for many instances and starts at once.

    objective = Objective(instances, starts=50)          # batch = instances x starts, instance by instance
    objective.batch, objective.size                      # how many rows values have, and r
    objective.loss(values)                               # (batch,)
    objective.evaluate(values)                           # loss, gradient (batch, r), labels right
    objective.evaluate_second(values, tangent)           # the same, and the Hessian times tangent
    objective.residual(values)                           # outputs - targets, (batch, d m)
    objective.linearise(values)                          # residual, and Jacobian (batch, d m, r)
    objective.select(kept)                               # only these rows of the batch from now on

``values`` is (batch, r): row a holds the learnable weights of instance a // starts, in the order of its
allocation's labels. Rows never influence each other, not by a last bit. Rows of the residual and the
Jacobian are ordered (output, sample), as in :meth:`Network.jacobian`. What learnable weights cannot
change was computed once, when the objective was made (``_folding.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sublearn._arrays import Floats, Indices
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.ensembles import Instance
from sublearn.networks import Arrays, Dual, Duals, walk
from sublearn.training._folding import Folded, fold
from sublearn.training._losses import LOSSES
from sublearn.training._passes import (
    jacobian,
    outputs,
    pull,
    pull_second,
    weights_along,
    weights_at,
)

# Entries of the largest matrix up to which instances are stacked; larger ones are folded one by one.
SMALL = 4096


@dataclass(frozen=True)
class Evaluation:
    """At given values: ``loss`` (batch,), ``gradient`` (batch, r), and how many labels are right.

    ``right`` (batch,) counts the samples whose largest output is the label's, and no other's; it is
    None where the targets are no labels.
    """

    loss: Floats
    gradient: Floats
    right: Indices | None


class Objective:
    """Mean loss over the samples, of instances of one network with equally many learnable weights.

    ``loss`` is "squared error" (the mean over the d m outputs, the paper's MSE) or "cross-entropy"
    (softmax over the outputs; the targets must be one-hot). ``dtype`` float32 computes in single
    precision.

    >>> import numpy as np, sublearn as sl
    >>> from sublearn.training import Objective
    >>> problem = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
    >>> instances = [sl.draw(problem, {"W1": sl.FirstRows(5)}, trial=i) for i in range(3)]
    >>> objective = Objective(instances, starts=2)
    >>> values = np.ones((objective.batch, objective.size))
    >>> objective.evaluate(values).gradient.shape, objective.jacobian(values).shape
    ((6, 24), (6, 24, 24))
    """

    def __init__(
        self,
        instances: Instance | Sequence[Instance],
        *,
        starts: int = 1,
        loss: str = "squared error",
        dtype: Any = np.float64,
    ) -> None:
        given = [instances] if isinstance(instances, Instance) else list(instances)
        whole_number("starts", starts, least=1)
        _check(given)
        if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise BadInputError(f"dtype must be float64 or float32, not {np.dtype(dtype).name}.")
        self._loss = LOSSES[one_of("loss", loss, LOSSES)]
        targets = np.stack([instance.targets for instance in given])
        labelled = is_one_hot(targets)
        if not labelled and self._loss.name == "cross-entropy":
            raise BadInputError(
                "loss cross-entropy needs targets that are labels: one 1 in each column, else 0."
            )
        which = np.repeat(np.arange(len(given)), starts)
        targets = targets.astype(dtype)
        small = max(rows * columns for rows, columns in given[0].network.shapes.values()) <= SMALL
        # What is folded depends on which weights learn, so only instances that agree are stacked.
        if not small or len({instance.allocation.names for instance in given}) > 1:
            parts = [
                _Part(fold([instance], dtype, stacked=small), target[None], starts)
                for instance, target in zip(given, targets, strict=True)
            ]
        else:
            folded = fold(given, dtype, stacked=True)
            if len(given) > 1 and starts > 1:
                folded, targets = folded.select(which), targets[which]
            parts = [_Part(folded, targets, which.size)]
        self._set(parts, labelled, which)

    def _set(self, parts: list[_Part], labelled: bool, instance_of: Indices) -> None:
        self._parts = parts
        self._labelled = labelled
        self.instance_of: Indices = instance_of
        self.batch = int(instance_of.size)

    def _changed(self, parts: list[_Part], instance_of: Indices) -> Objective:
        out = object.__new__(Objective)
        out._loss = self._loss
        out._set(parts, self._labelled, instance_of)
        return out

    @property
    def size(self) -> int:
        """The number r of learnable weights."""
        return int(self._parts[0].folded.places.shape[1])

    @property
    def samples(self) -> int:
        """The number m of samples."""
        return int(self._parts[0].targets.shape[-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """In which everything is computed."""
        return self._parts[0].targets.dtype

    @property
    def loss_name(self) -> str:
        """Which loss it is."""
        return self._loss.name

    @property
    def has_labels(self) -> bool:
        """Whether the targets are one-hot, so that labels can be right."""
        return self._labelled

    def select(self, kept: Any) -> Objective:
        """The objective of some rows of the batch, at least one: a boolean mask, or rising indices."""
        index = np.arange(self.batch)[kept]
        parts = []
        for part, rows in self._split():
            mine = index[(index >= rows.start) & (index < rows.stop)] - rows.start
            if mine.size:
                parts.append(part.select(mine))
        return self._changed(parts, self.instance_of[index])

    def at(self, samples: Indices) -> Objective:
        """The objective on a mini-batch: ``samples`` (batch, size), a row of sample numbers each."""
        parts = [part.at(samples[rows]) for part, rows in self._split()]
        return self._changed(parts, self.instance_of)

    def outputs(self, values: Floats) -> Floats:
        """The networks' outputs, (batch, d, m)."""
        return self._run(lambda part, x: (outputs(part.folded, x),), values)[0]

    def loss(self, values: Floats) -> Floats:
        """The loss, (batch,)."""

        def one(part: _Part, x: Floats) -> tuple[Floats, ...]:
            return (self._loss.value(outputs(part.folded, x), part.targets),)

        return self._run(one, values)[0]

    def right(self, values: Floats) -> Indices:
        """How many labels are right, (batch,)."""
        if not self._labelled:
            raise BadInputError("the targets are no labels (one 1 in each column, else 0).")
        right: Indices = self._run(lambda part, x: (part.right(outputs(part.folded, x)),), values)[
            0
        ]
        return right

    def evaluate(self, values: Floats) -> Evaluation:
        """Loss, gradient and labels right, in one pass forward and one back."""

        def one(part: _Part, x: Floats) -> tuple[Floats, ...]:
            weights = weights_at(part.folded, x)
            trace = walk(part.folded.steps, weights, Arrays())
            loss, slope = self._loss.value_and_slope(trace.outputs, part.targets)
            gradient = pull(part.folded, weights, trace, slope)
            return loss, gradient, *([part.right(trace.outputs)] if self._labelled else [])

        return Evaluation(*self._with_right(self._run(one, values)))

    def evaluate_second(self, values: Floats, tangent: Floats) -> tuple[Evaluation, Floats]:
        """:meth:`evaluate`, and the Hessian of the loss times ``tangent``, (batch, r)."""

        def one(part: _Part, x: Floats, z: Floats) -> tuple[Floats, ...]:
            folded, targets = part.folded, part.targets
            weights = weights_along(folded, x, z)
            trace = walk(folded.steps, weights, Duals())
            ends, moves = trace.outputs
            loss, slope = self._loss.value_and_slope(ends, targets)
            bend = self._loss.curvature(ends, targets, moves)
            gradient, product = pull_second(folded, weights, trace, Dual(slope, bend))
            return product, loss, gradient, *([part.right(ends)] if self._labelled else [])

        product, *rest = self._run(one, values, tangent)
        return Evaluation(*self._with_right(rest)), product

    def gradient(self, values: Floats) -> Floats:
        """The gradient of the loss, (batch, r)."""
        return self.evaluate(values).gradient

    def hvp(self, values: Floats, tangent: Floats) -> Floats:
        """The Hessian of the loss times ``tangent``, (batch, r)."""
        return self.evaluate_second(values, tangent)[1]

    def residual(self, values: Floats) -> Floats:
        """Outputs minus targets, (batch, d m)."""

        def one(part: _Part, x: Floats) -> tuple[Floats, ...]:
            difference = outputs(part.folded, x) - part.targets
            return (difference.reshape(x.shape[0], -1),)

        return self._run(one, values)[0]

    def linearise(self, values: Floats) -> tuple[Floats, Floats]:
        """The residual (batch, d m) and its Jacobian (batch, d m, r)."""

        def one(part: _Part, x: Floats) -> tuple[Floats, ...]:
            weights = weights_at(part.folded, x)
            trace = walk(part.folded.steps, weights, Arrays())
            difference = trace.outputs - part.targets
            return difference.reshape(x.shape[0], -1), jacobian(part.folded, weights, trace)

        residual, slopes = self._run(one, values)
        return residual, slopes

    def jacobian(self, values: Floats) -> Floats:
        """d residual / d values, (batch, d m, r)."""
        return self.linearise(values)[1]

    def _split(self) -> Iterator[tuple[_Part, slice]]:
        """The parts, and which rows of the batch each holds."""
        start = 0
        for part in self._parts:
            yield part, slice(start, start + part.rows)
            start += part.rows

    def _run(self, action: Callable[..., tuple[Floats, ...]], *arrays: Floats) -> list[Floats]:
        """``action`` on each part and its rows of the arrays; what it returns, put together."""
        given = [self._rows(array) for array in arrays]
        results = [action(part, *(x[rows] for x in given)) for part, rows in self._split()]
        if len(results) == 1:
            return list(results[0])
        return [np.concatenate(pieces) for pieces in zip(*results, strict=True)]

    def _rows(self, values: Floats) -> Floats:
        rows = np.asarray(values, dtype=self.dtype)
        if rows.shape != (self.batch, self.size):
            wanted = (self.batch, self.size)
            raise BadInputError(f"values must have shape (batch, r) = {wanted}, not {rows.shape}.")
        return rows

    def _with_right(self, results: list[Floats]) -> list[Any]:
        return results if self._labelled else [*results, None]


@dataclass(frozen=True)
class _Part:
    """Rows of a batch that are computed together: one instance, or small ones stacked."""

    folded: Folded
    targets: Floats  # (rows or 1, d, m)
    rows: int

    def select(self, kept: Indices) -> _Part:
        targets = self.targets if self.targets.shape[0] == 1 else self.targets[kept]
        return _Part(self.folded.select(kept), targets, kept.size)

    def at(self, samples: Indices) -> _Part:
        targets = np.take_along_axis(self.targets, samples[:, None, :], axis=-1)
        return _Part(self.folded.at(samples), targets, self.rows)

    def right(self, outputs: Floats) -> Indices:
        return labels_right(outputs, self.targets)


def _check(instances: Sequence[Instance]) -> None:
    if not instances or not all(isinstance(instance, Instance) for instance in instances):
        raise BadInputError("instances must be an Instance or a non-empty list of them.")
    first = instances[0]
    for other in instances[1:]:
        if other.network != first.network:
            raise BadInputError(
                f"instances must share one network, not {first.network.title} and {other.network.title}."
            )
        for what, ours, theirs in (
            ("as many learnable weights", len(first.allocation), len(other.allocation)),
            ("as many samples", first.samples, other.samples),
        ):
            if ours != theirs:
                raise BadInputError(
                    f"instances must have {what} as each other, not {ours} and {theirs}."
                )


def is_one_hot(targets: Floats) -> bool:
    """Whether targets (..., d, m) hold one 1 in each column, else 0: then they are labels."""
    zero_or_one = bool(np.isin(targets, (0.0, 1.0)).all())
    return zero_or_one and bool((targets.sum(axis=-2) == 1.0).all())


def labels_right(outputs: Floats, targets: Floats) -> Indices:
    """On how many samples the label's output is the largest, and no other is as large, (...)."""
    said = np.einsum("...ij,...ij->...j", targets, outputs)
    reached = (outputs >= said[..., None, :]).sum(axis=-2)  # by the label, and by whom else
    return np.asarray((reached == 1).sum(axis=-1))
