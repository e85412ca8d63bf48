"""The race for JAX models: the same rules and the same folds, with Adam on masked gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError, whole_number
from sublearn._jax import enable_x64
from sublearn.models._choice import Choice, Standing
from sublearn.models._jax import JaxDerivatives, JaxModel
from sublearn.models._limits import Limits, Where, layer_of
from sublearn.models._pursuit import wanted_change
from sublearn.models._race import FOLDS, LEAST, RATES, Outcome, Watch, race, split_samples
from sublearn.models._rules import RULES, Chosen, Rule, Setting, apply_rule, read_rules

STEPS = 60
BATCH = 64
FALLBACK = "last"


def choose_jax(
    model: JaxModel,
    inputs: Any,
    labels: Any,
    budget: int,
    *,
    method: str | Rule = "race",
    rules: Iterable[str | Rule] | None = None,
    rates: Sequence[float] = RATES,
    folds: int = FOLDS,
    steps: int = STEPS,
    batch: int = BATCH,
    within: Where = None,
    forbidden: Where = None,
    required: Where = None,
    at_most: int | Mapping[str, int] | None = None,
    unit: str = "entry",
    seed: int = 0,
    watch: Watch | None = None,
) -> Choice:
    """Choose ``budget`` entries of a JAX model's parameters to tune on these samples.

    As :func:`choose` does for torch: rules and rates race on folds of the samples, and the winner
    chooses again by all of them; or ``method`` names one rule alone. Labels that are whole numbers are
    classes, tuned by cross-entropy; others are targets, tuned by squared error. Where the model's
    ``trainable`` masks whole parameters, only these are chosen from.

    >>> import jax.numpy as jnp
    >>> model = JaxModel(lambda p, x: x @ p["w"] + p["b"], {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)})
    >>> choose_jax(model, np.eye(3), np.array([0, 1, 1]), 2, method="gradient").masks["b"]
    array([ True,  True])
    """
    if not isinstance(model, JaxModel):
        raise BadInputError(f"model must be a JaxModel, not {type(model).__name__}.")
    tuner = _Tuner(model, inputs, labels, steps, batch, seed)
    shapes = {name: model.shapes[name] for name in model.shapes if name in model.masks}
    limits = Limits(
        shapes, within=within, forbidden=forbidden, required=required, at_most=at_most, unit=unit
    )
    budget = limits.check_budget(budget)
    folds = whole_number("folds", folds, least=2)
    notes: list[str] = []
    racing = method == "race"
    if not racing:
        runners = read_rules(method)
    elif tuner.samples < LEAST * folds:
        notes.append(
            f"{tuner.samples} samples are too few to race in {folds} folds ({LEAST * folds} are "
            f"needed): chosen by '{FALLBACK}' instead"
        )
        racing, runners = False, {FALLBACK: RULES[FALLBACK]}
    else:
        runners = read_rules(rules)
    contest = _Contest(tuner, limits, runners, budget, folds, seed)
    standings: list[Standing] = []
    name = next(iter(runners))
    if racing:
        standings = race(contest, list(runners), [float(r) for r in rates], folds, watch=watch)
        name = standings[0].rule
    chosen = contest.choose(name, None)
    if chosen.count < budget:
        notes.append(f"{chosen.count} of the {budget} that the budget allows")
    return Choice(
        masks=chosen.masks,
        budget=budget,
        method=name,
        rate=standings[0].rate if standings else None,
        standings=tuple(standings),
        metric="accuracy" if tuner.classes else "1 - error / variance",
        gap=chosen.gap,
        seed=seed,
        notes=tuple(notes),
    )


class _Tuner:
    """A JAX model with its samples: loss, gradients, tuning and scores, compiled once per shape."""

    def __init__(
        self, model: JaxModel, inputs: Any, labels: Any, steps: int, batch: int, seed: int
    ) -> None:
        import jax

        self.model, self.seed = model, whole_number("seed", seed, least=0)
        self.steps = whole_number("steps", steps, least=1)
        self.batch = whole_number("batch", batch, least=1)
        self.inputs = jax.tree.map(np.asarray, inputs)
        self.labels = np.asarray(labels)
        self.classes = self.labels.dtype.kind in "iu"
        self.samples = len(jax.tree.leaves(self.inputs)[0])
        if self.labels.ndim == 0 or len(self.labels) != self.samples:
            raise BadInputError(
                f"labels must be as many as the samples, {self.samples}, not "
                f"{len(self.labels) if self.labels.ndim else 'a single number'}."
            )
        outputs = np.asarray(model.apply(model.params, self.inputs))
        if not np.isfinite(outputs).all():
            raise BadInputError("model gives NaN or infinite outputs on inputs.")
        if self.classes:
            if outputs.ndim != 2 or self.labels.ndim != 1:
                raise BadInputError(
                    "labels that are classes need one row of outputs per sample, not outputs of shape "
                    f"{outputs.shape}."
                )
            if self.labels.min() < 0 or self.labels.max() >= outputs.shape[1]:
                raise BadInputError(
                    f"labels must be classes from 0 to {outputs.shape[1] - 1}, not "
                    f"{self.labels.min()} to {self.labels.max()}."
                )
        elif self.labels.size != outputs.size:
            raise BadInputError(
                f"labels must have the shape of the outputs, {outputs.shape}, not {self.labels.shape}."
            )
        else:
            self.labels = self.labels.reshape(outputs.shape)
        self._run = jax.jit(self._adam)
        self._gradient = jax.jit(jax.grad(self._loss))
        self._squares = jax.jit(self._squared)

    def take(self, ids: Any) -> tuple[Any, Any]:
        """Some samples with their labels."""
        import jax

        return jax.tree.map(lambda leaf: leaf[ids], self.inputs), self.labels[ids]

    def _loss(self, params: Any, x: Any, y: Any) -> Any:
        import jax

        outputs = self.model.apply(params, x)
        if self.classes:
            logs = jax.nn.log_softmax(outputs)
            return -jax.numpy.take_along_axis(logs, y[:, None], axis=1).mean()
        return jax.numpy.square(outputs - y).mean()

    def _squared(self, params: Any, x: Any, y: Any) -> Any:
        import jax

        def add(total: Any, sample: Any) -> Any:
            one = jax.tree.map(lambda leaf: leaf[None], sample)
            found = jax.grad(self._loss)(params, *one)
            return jax.tree.map(lambda t, g: t + g * g, total, found), None

        zeros = jax.tree.map(jax.numpy.zeros_like, params)
        return jax.lax.scan(add, zeros, (x, y))[0]

    def _adam(self, params: Any, masks: Any, x: Any, y: Any, batches: Any, rate: Any) -> Any:
        """Adam (Kingma and Ba, 2015) on the masked entries, with a rate that falls to zero."""
        import jax

        tree, count = jax.tree.map, self.steps

        def step(state: Any, given: Any) -> Any:
            weights, mean, square = state
            number, ids = given
            some = tree(lambda leaf: leaf[ids], x)
            found = jax.grad(self._loss)(weights, some, y[ids])
            found = tree(lambda g, m: jax.numpy.where(m, g, 0), found, masks)
            mean = tree(lambda a, g: 0.9 * a + 0.1 * g, mean, found)
            square = tree(lambda a, g: 0.999 * a + 0.001 * g * g, square, found)
            falling = rate * (1 - (number - 1) / count) / (1 - 0.9**number)

            def moved(w: Any, a: Any, s: Any, m: Any) -> Any:
                new = w - falling * a / (jax.numpy.sqrt(s / (1 - 0.999**number)) + 1e-8)
                return jax.numpy.where(m, new, w).astype(w.dtype)

            return (tree(moved, weights, mean, square, masks), mean, square), None

        zeros = tree(jax.numpy.zeros_like, params)
        numbers = jax.numpy.arange(1, count + 1, dtype=jax.numpy.float32)
        return jax.lax.scan(step, (params, zeros, zeros), (numbers, batches))[0][0]

    def tuned(self, masks: Mapping[str, Mask], ids: Any, rate: float) -> Any:
        """The parameters, tuned at ``rate`` on the samples ``ids``."""
        import jax

        rng = np.random.default_rng(self.seed)
        size = min(self.batch, len(ids))
        whole = size == len(ids)
        batches = np.stack(
            [
                np.arange(size) if whole else rng.permutation(len(ids))[:size]
                for _ in range(self.steps)
            ]
        )
        x, y = self.take(ids)
        tree = self.model.mask_tree({n: m for n, m in masks.items() if m.any()})
        params = jax.tree.map(jax.numpy.asarray, self.model.params)
        return self._run(params, tree, x, y, batches, rate)

    def score(self, params: Any, ids: Any) -> Outcome:
        """Accuracy, or one less the error over the variance; and the loss."""
        x, y = self.take(ids)
        loss = float(self._loss(params, x, y))
        outputs = np.asarray(self.model.apply(params, x), dtype=np.float64)
        if not np.isfinite(outputs).all():
            return (0.0 if self.classes else -np.inf), np.inf
        if self.classes:
            return float((outputs.argmax(1) == y).mean()), loss
        spread = float(self.labels.astype(np.float64).var()) or 1.0
        return 1.0 - float(np.square(outputs - y).mean()) / spread, loss


class _View:
    """What rules look at; see :class:`sublearn.models._rules.View`."""

    def __init__(self, tuner: _Tuner, ids: Any, names: Sequence[str]) -> None:
        self._tuner, self._ids, self._names = tuner, ids, list(names)

    def _named(self, tree: Any) -> dict[str, NDArray[Any]]:
        found = self._tuner.model.arrays(tree)
        return {name: found[name] for name in self._names}

    @cached_property
    def weights(self) -> dict[str, NDArray[Any]]:
        return self._named(self._tuner.model.params)

    @cached_property
    def gradient(self) -> dict[str, NDArray[Any]]:
        tuner = self._tuner
        return self._named(tuner._gradient(tuner.model.params, *tuner.take(self._ids)))

    @cached_property
    def squared_gradients(self) -> dict[str, NDArray[Any]]:
        tuner = self._tuner
        return self._named(tuner._squares(tuner.model.params, *tuner.take(self._ids)))

    @cached_property
    def derivatives(self) -> JaxDerivatives:
        return JaxDerivatives(self._tuner.model, self._tuner.take(self._ids)[0], self._names)

    @cached_property
    def target(self) -> Array:
        labels, outputs = self._tuner.labels[self._ids], self.derivatives.outputs
        if self._tuner.classes:
            return wanted_change(outputs, labels=labels)
        return wanted_change(outputs, targets=labels.reshape(outputs.shape))

    @cached_property
    def layers(self) -> list[list[str]]:
        """A tree does not say which layer acts last: those in which the outputs are affine do.

        Second differences along a random direction vanish there. Ties go by the tree, backwards.
        """
        groups: dict[str, list[str]] = {}
        for name in self._names:
            groups.setdefault(layer_of(name), []).append(name)
        values = {n: np.asarray(v, dtype=np.float64) for n, v in self._tuner.model.arrays().items()}
        rng = np.random.default_rng(0)
        bent = []
        with enable_x64()(True):
            x = self._tuner.take(self._ids[:8])[0]

            def outputs(group: list[str], moves: Mapping[str, Any], far: float) -> Any:
                moved = {n: values[n] + far * moves[n] for n in group}
                model = self._tuner.model
                return np.asarray(model.apply(model.tree({**values, **moved}), x))

            for group in groups.values():
                moves = {n: 0.1 * rng.standard_normal(values[n].shape) for n in group}
                low, middle, high = (outputs(group, moves, far) for far in (-1.0, 0.0, 1.0))
                scale = float(np.abs(high - low).max()) or 1.0
                bent.append(float(np.abs(high - 2 * middle + low).max()) / scale > 1e-5)
        order = [g for g, curved in zip(groups.values(), bent, strict=True) if not curved]
        rest = [g for g, curved in zip(groups.values(), bent, strict=True) if curved]
        return [*order[::-1], *rest[::-1]]


class _Contest:
    """Chooses anew in every fold, tunes on one part and scores on the other."""

    def __init__(
        self,
        tuner: _Tuner,
        limits: Limits,
        rules: Mapping[str, Rule],
        budget: int,
        folds: int,
        seed: int,
    ) -> None:
        self.tuner, self.limits, self.rules = tuner, limits, rules
        self.budget, self.seed = budget, seed
        classes = tuner.labels if tuner.classes else None
        self.folds = (
            split_samples(tuner.samples, folds, seed, classes) if tuner.samples >= folds else []
        )
        self._chosen: dict[tuple[str, int], Chosen] = {}
        self._views: dict[int, _View] = {}

    def run(self, rule: str, rate: float, fold: int) -> Outcome:
        """Score and loss on what the fold holds out."""
        tune, score = self.folds[fold]
        params = self.tuner.tuned(self.choose(rule, fold).masks, tune, rate)
        return self.tuner.score(params, score)

    def choose(self, rule: str, fold: int | None) -> Chosen:
        """What the rule chooses by the tuning part of a fold; by all samples where it is None."""
        key = (rule, -1 if fold is None else fold)
        if key not in self._chosen:
            if key[1] not in self._views:
                ids = np.arange(self.tuner.samples) if fold is None else self.folds[fold][0]
                self._views[key[1]] = _View(self.tuner, ids, list(self.limits.shapes))
            rng = np.random.default_rng([self.seed, key[1] + 1, crc32(rule.encode())])
            setting = Setting(self._views[key[1]], self.budget, self.limits, rng)
            self._chosen[key] = apply_rule(rule, self.rules[rule], setting)
        return self._chosen[key]
