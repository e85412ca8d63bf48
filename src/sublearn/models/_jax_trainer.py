"""Short training runs of a JAX model on few of its weights, and what rules look at there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError
from sublearn._jax import enable_x64
from sublearn.models._contest import Setup, no_gradient, one_number, outcome
from sublearn.models._guard import check_loop
from sublearn.models._jax import JaxDerivatives, JaxModel, no_forward, wide
from sublearn.models._labels import CLASSES, LEFT_OUT, NO_GOAL, OWN, GivenLabels, as_labels
from sublearn.models._limits import layer_of
from sublearn.models._places import check_apart, count_samples, one_row_each, running
from sublearn.models._race import Outcome, fingerprint

_KINDS = (jax.Array, np.ndarray, np.generic, float, int)


class JaxTrainer:
    """A JAX model as a :class:`sublearn.models._contest.Trainer`, compiled once per shape.

    Where the model's ``trainable`` masks parameters, only these are chosen from.
    """

    def __init__(self, model: JaxModel, inputs: Any, labels: Any, how: Setup | None = None) -> None:
        self.model, self.how = model, how or Setup()
        self.params = jax.tree.map(jax.numpy.asarray, model.params)
        self.how.check_labels(labels)
        no_forward(self.how.forward)
        self.inputs = jax.tree.map(np.asarray, inputs)
        self.samples = count_samples(jax.tree.leaves(self.inputs))
        self.labels = jax.tree.map(np.asarray, as_labels(labels, self.how.own))
        self.shapes = {name: shape for name, shape in model.shapes.items() if name in model.masks}
        with running(jax.tree.leaves(self.inputs)):
            outputs = np.asarray(model.outputs(self.params, self.inputs))
        one_row_each(outputs.shape, self.samples)
        known = self.labels if isinstance(self.labels, np.ndarray) else None
        finite = bool(np.isfinite(outputs).all())
        self.goal = GivenLabels(known, outputs.shape, finite=finite, own=self.how.own)
        if self.how.step is None:  # which may have a use for samples that meet
            rounding = 1e-3 if outputs.dtype.itemsize >= 4 else 5e-2
            given = lambda ids: np.asarray(model.outputs(self.params, self.take(ids)[0]))  # noqa: E731
            check_apart(outputs[: self.how.batch], given, rounding)
        if self.goal.kind == CLASSES and outputs.ndim != 2:
            raise BadInputError(
                "labels that are classes need one row of outputs per sample, not outputs of shape "
                f"{outputs.shape}."
            )
        self.metric = self.how.scores(self.goal)
        self._run = jax.jit(self._adam)
        self._gradient = jax.jit(jax.grad(self._loss))
        self._squares = jax.jit(self._squared)
        own = self.how.step is not None or self.how.loss is not None
        if own and self.how.loop is None:
            # Not compiled: what no parameter moves is a plain number there.
            jax.vjp(self._followed, self.params)

    def take(self, ids: Any) -> tuple[Any, Any]:
        """Some samples with their labels."""
        return jax.tree.map(lambda leaf: leaf[ids], (self.inputs, self.labels))

    def _loss(self, params: Any, x: Any, y: Any) -> Any:
        if self.how.step is not None:
            return one_number("step", self.how.step(params, x, y), _KINDS, "an array of JAX")
        outputs = self.model.outputs(params, x)
        if self.how.loss is not None:
            return one_number("loss", self.how.loss(outputs, y), _KINDS, "an array of JAX")
        outputs = wide(outputs)
        if self.goal.kind == CLASSES:
            logs, used = jax.nn.log_softmax(outputs), y != LEFT_OUT
            right = jax.numpy.take_along_axis(logs, jax.numpy.maximum(y, 0)[:, None], axis=1)[:, 0]
            return -jax.numpy.where(used, right, 0).sum() / jax.numpy.maximum(used.sum(), 1)
        return jax.numpy.square(outputs - y.reshape(outputs.shape)).mean()

    def _followed(self, params: Any) -> Any:
        """The loss on a batch, if any parameter moves it."""
        loss = self._loss(params, *self.take(slice(0, self.how.batch)))
        if not isinstance(loss, jax.core.Tracer):
            raise no_gradient("loss" if self.how.step is None else "step", "jax.numpy")
        return loss

    def _squared(self, params: Any, x: Any, y: Any) -> Any:
        def add(total: Any, sample: Any) -> Any:
            one = jax.tree.map(lambda leaf: leaf[None], sample)
            gradient = jax.grad(self._loss)(params, *one)
            return jax.tree.map(lambda t, g: t + wide(g) ** 2, total, gradient), None

        zeros = jax.tree.map(lambda leaf: jax.numpy.zeros_like(wide(leaf)), params)
        return jax.lax.scan(add, zeros, (x, y))[0]

    def _adam(self, params: Any, masks: Any, x: Any, y: Any, batches: Any, rate: Any) -> Any:
        """Adam (Kingma and Ba, 2015) on the masked entries, with a rate that falls to zero.

        Steps are summed in single precision at least, and rounded to the weight's own.
        """
        tree, count = jax.tree.map, self.how.steps

        def rounded(weights: Any) -> Any:
            return tree(lambda w, p: w.astype(p.dtype), weights, params)

        def step(state: Any, given: Any) -> Any:
            weights, mean, square = state
            number, ids = given
            some_x, some_y = tree(lambda leaf: leaf[ids], (x, y))
            gradient = jax.grad(self._loss)(rounded(weights), some_x, some_y)
            gradient = tree(lambda g, m: jax.numpy.where(m, wide(g), 0), gradient, masks)
            mean = tree(lambda a, g: 0.9 * a + 0.1 * g, mean, gradient)
            square = tree(lambda a, g: 0.999 * a + 0.001 * g * g, square, gradient)
            falling = rate * (1 - (number - 1) / count) / (1 - 0.9**number)

            def moved(w: Any, a: Any, s: Any, m: Any) -> Any:
                new = w - falling * a / (jax.numpy.sqrt(s / (1 - 0.999**number)) + 1e-8)
                return jax.numpy.where(m, new, w).astype(w.dtype)

            return (tree(moved, weights, mean, square, masks), mean, square), None

        start = tree(wide, params)
        zeros = tree(jax.numpy.zeros_like, start)
        numbers = jax.numpy.arange(1, count + 1, dtype=jax.numpy.float32)
        return rounded(jax.lax.scan(step, (start, zeros, zeros), (numbers, batches))[0][0])

    @contextmanager
    def tuned(self, masks: Mapping[str, Mask], ids: Any, rate: float) -> Iterator[None]:
        before = self.params
        try:
            self.params = self._tune(masks, ids, rate)
            yield
        finally:
            self.params = before

    def _tune(self, masks: Mapping[str, Mask], ids: Any, rate: float) -> Any:
        x, y = self.take(ids)
        if self.how.loop is not None:
            params = self.how.loop(self.params, masks, x, y, rate)
            check_loop(self.model.arrays(self.params), self.model.arrays(params), masks)
            return params
        rng = np.random.default_rng(self.how.seed)
        size = min(self.how.batch, len(ids))
        whole = size == len(ids)
        batches = np.stack(
            [
                np.arange(size) if whole else rng.permutation(len(ids))[:size]
                for _ in range(self.how.steps)
            ]
        )
        tree = self.model.mask_tree({n: m for n, m in masks.items() if m.any()})
        return self._run(self.params, tree, x, y, batches, rate)

    def evaluate(self, ids: Any) -> Outcome:
        x, y = self.take(ids)
        loss = float(self._loss(self.params, x, y))
        if self.goal.kind == OWN and self.how.metric is None:
            return outcome(-loss, loss)
        outputs = self.model.outputs(self.params, x)
        if self.how.metric is not None:
            return outcome(self.how.metric(outputs, y), loss)
        return outcome(self.goal.score(np.asarray(outputs, dtype=np.float64), ids), loss)

    def entries(self, masks: Mapping[str, Mask]) -> Array:
        now = self.model.arrays(self.params)
        parts = [now[name][masks[name]] for name in self.shapes if name in masks]
        return np.concatenate(parts).astype(np.float64)

    def view(self, ids: Any, seed: int) -> JaxView:
        return JaxView(self, ids)

    def contents(self) -> Iterable[bytes]:
        yield self.how.functions
        yield fingerprint(self.model.apply).encode()
        for leaf in jax.tree.leaves((self.params, self.inputs, self.labels)):
            array = np.asarray(leaf)
            yield repr((array.shape, str(array.dtype))).encode()
            yield array.tobytes()


class JaxView:
    """What rules look at; see :class:`sublearn.models._rules.ModelView`."""

    def __init__(self, trainer: JaxTrainer, ids: Any) -> None:
        self._trainer, self._ids, self._names = trainer, ids, list(trainer.shapes)

    def _named(self, tree: Any) -> dict[str, NDArray[Any]]:
        arrays = self._trainer.model.arrays(jax.tree.map(wide, tree))
        return {name: arrays[name] for name in self._names}

    @cached_property
    def weights(self) -> dict[str, NDArray[Any]]:
        return self._named(self._trainer.params)

    @cached_property
    def gradient(self) -> dict[str, NDArray[Any]]:
        trainer = self._trainer
        return self._named(trainer._gradient(trainer.params, *trainer.take(self._ids)))

    @cached_property
    def squared_gradients(self) -> dict[str, NDArray[Any]]:
        trainer = self._trainer
        return self._named(trainer._squares(trainer.params, *trainer.take(self._ids)))

    @cached_property
    def derivatives(self) -> JaxDerivatives:
        trainer = self._trainer
        return JaxDerivatives(trainer.model, trainer.take(self._ids)[0], self._names)

    @cached_property
    def target(self) -> Array:
        if self._trainer.goal.kind == OWN:
            raise BadInputError(NO_GOAL)
        return self._trainer.goal.target(self.derivatives.outputs, self._ids)

    def outputs(self) -> Array:
        trainer = self._trainer
        now = trainer.model.arrays(trainer.params)
        return JaxDerivatives(trainer.model, trainer.take(self._ids)[0], self._names, now).outputs

    @cached_property
    def layers(self) -> list[list[str]]:
        """A tree does not say which layer acts last: those in which the outputs are affine do.

        Second differences along a random direction vanish there. Ties go by the tree, backwards.
        """
        groups: dict[str, list[str]] = {}
        for name in self._names:
            groups.setdefault(layer_of(name), []).append(name)
        model = self._trainer.model
        values = {n: np.asarray(v, dtype=np.float64) for n, v in model.arrays().items()}
        rng = np.random.default_rng(0)
        straight: list[list[str]] = []
        bent: list[list[str]] = []
        with enable_x64()(True):
            x = self._trainer.take(self._ids[:8])[0]
            for group in groups.values():
                moves = {n: rng.standard_normal(values[n].shape) for n in group}
                low, middle, high = (
                    np.asarray(
                        model.at(values | {n: values[n] + far * moves[n] for n in group}, x),
                        dtype=np.float64,
                    )
                    for far in (-1.0, 0.0, 1.0)
                )
                scale = float(np.abs(high - low).max()) or 1.0
                noise = 8 * self.derivatives.rounding * float(np.abs(middle).max())
                curved = float(np.abs(high - 2 * middle + low).max()) > 1e-5 * scale + noise
                (bent if curved else straight).append(group)
        return [*straight[::-1], *bent[::-1]]
