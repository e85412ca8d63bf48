"""The rules that choose weights: one function each. The race runs them; each also runs alone.

A rule of one's own is a function of a :class:`Setting` that returns scores by name, the largest of
which are chosen within the limits, or boolean masks, which are taken as they are:

    def small_weights(setting):
        return {name: -abs(weight) for name, weight in setting.weights.items()}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Array
from sublearn._errors import BadInputError, one_of
from sublearn.models._limits import Chosen, Limits
from sublearn.models._masks import entries_in
from sublearn.models._pursuit import DerivativeSums, pursue

Values = Mapping[str, NDArray[Any]]
COLUMNS = 2  # pivoted QR looks at this many times as many columns as it can use


class ModelView(Protocol):
    """A model on the samples that a rule chooses by, as arrays; each computed when first looked at."""

    @property
    def weights(self) -> Values:
        """The weights."""

    @property
    def gradient(self) -> Values:
        """The derivative of the mean loss."""

    @property
    def squared_gradients(self) -> Values:
        """The sum over samples of the squared derivative of the sample's loss."""

    @property
    def derivatives(self) -> DerivativeSums:
        """Those of the outputs."""

    @property
    def target(self) -> Array:
        """The change of the outputs that is wanted."""

    @property
    def layers(self) -> Sequence[Sequence[str]]:
        """The names of the weights of each layer, from the output backwards."""

    def outputs(self) -> Array:
        """Those that ``derivatives`` are of, with the weights as they are now, tuned maybe."""


@dataclass(frozen=True)
class Setting:
    """What a rule is asked for, ``budget`` entries within ``limits``, and what it may look at."""

    view: ModelView
    budget: int
    limits: Limits
    rng: np.random.Generator

    @property
    def weights(self) -> Values:
        """The weights, by name."""
        return self.view.weights

    @property
    def gradient(self) -> Values:
        """The derivative of the mean loss, by name."""
        return self.view.gradient


Rule = Callable[[Setting], "Values | Chosen"]


def pursuit(setting: Setting) -> Chosen:
    """Residual pursuit: derivatives that point at what is left of the wanted change."""
    return pursue(setting.view.derivatives, setting.view.target, setting.budget, setting.limits)


def gradient(setting: Setting) -> Values:
    """The largest derivatives of the loss."""
    return {name: np.abs(value) for name, value in setting.gradient.items()}


def fisher(setting: Setting) -> Values:
    """The largest sums over samples of the squared derivative of the loss."""
    return setting.view.squared_gradients


def weight_times_gradient(setting: Setting) -> Values:
    """The largest products of weight and derivative: what setting the weight to zero would change."""
    return {name: np.abs(g * setting.weights[name]) for name, g in setting.gradient.items()}


def gradient_over_weight(setting: Setting) -> Values:
    """The largest derivatives in proportion to the weight."""
    return {
        name: np.abs(g) / (np.abs(setting.weights[name]) + 1e-8)
        for name, g in setting.gradient.items()
    }


def large_gradient_small_weight(setting: Setting) -> Values:
    """The largest difference of ranks: high by derivative, low by weight, over all weights."""
    sizes, grads = (
        np.concatenate([np.abs(values[name]).reshape(-1) for name in setting.limits.shapes])
        for values in (setting.weights, setting.gradient)
    )
    return setting_split(setting, _ranks(grads) - _ranks(sizes))


def magnitude(setting: Setting) -> Values:
    """The largest weights."""
    return {name: np.abs(value) for name, value in setting.weights.items()}


def last_layer(setting: Setting) -> Values:
    """Random entries of the last layer; where it is used up, of the one before it, and so on."""
    return _from_the_end(setting, random(setting))


def last_layer_by_gradient(setting: Setting) -> Values:
    """The largest derivatives of the loss in the last layer, then in the one before it, and so on."""
    return _from_the_end(setting, gradient(setting))


def biases_and_gains(setting: Setting) -> Values:
    """Biases and the gains of normalisations, by derivative; no more than there are."""
    return {
        name: np.abs(value)
        for name, value in setting.gradient.items()
        if len(setting.limits.shapes[name]) <= 1
    }


def random(setting: Setting) -> Values:
    """Any entries, all equally likely."""
    return {name: setting.rng.random(shape) for name, shape in setting.limits.shapes.items()}


def pivoted_qr(setting: Setting) -> Values:
    """Pivots of a QR of derivatives of random entries: each far from the span of those before it.

    Of COLUMNS times as many random entries as are asked for; where the rank is used up before the
    budget is, the same again with what is left.
    """
    from scipy.linalg import qr

    limits = setting.limits
    every = np.concatenate([limits.allowed[name].reshape(-1) for name in limits.shapes])
    allowed = np.flatnonzero(every)
    count = min(len(allowed), COLUMNS * setting.budget)
    picks = allowed[np.sort(setting.rng.choice(len(allowed), count, replace=False))]
    every[:] = False
    every[picks] = True
    masks = {n: mask for n, mask in setting_split(setting, every).items() if mask.any()}
    columns = np.asarray(setting.view.derivatives.gather(masks), dtype=np.float64)
    if len(columns) > count:  # no more rows than columns are needed to tell the columns apart
        mix = setting.rng.standard_normal((count, len(columns))) / np.sqrt(count)
        columns = mix @ columns
    scores = np.full(len(every), -np.inf)
    left = np.arange(count)
    rank_order = 0
    while len(left) and rank_order < setting.budget:
        triangle, pivots = qr(columns[:, left], mode="r", pivoting=True, check_finite=False)
        size = np.abs(np.diag(triangle))
        independent = max(1, int((size > 1e-7 * max(size[0], 1e-300)).sum()))
        places = left[pivots[:independent]]
        scores[picks[places]] = -np.arange(rank_order, rank_order + len(places), dtype=np.float64)
        rank_order += len(places)
        left = np.sort(left[pivots[independent:]])
    return setting_split(setting, scores)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "pursuit": pursuit,
        "gradient": gradient,
        "fisher": fisher,
        "weight-times-gradient": weight_times_gradient,
        "gradient-over-weight": gradient_over_weight,
        "large-gradient-small-weight": large_gradient_small_weight,
        "magnitude": magnitude,
        "last": last_layer,
        "last-by-gradient": last_layer_by_gradient,
        "biases-and-gains": biases_and_gains,
        "random": random,
        "pivoted-qr": pivoted_qr,
    }
)
"""The rules that run in the race, by name."""


def read_rules(rules: Iterable[str | Rule] | str | Rule | None) -> dict[str, Rule]:
    """Rules by name, from names, functions or both; every rule where none is named.

    >>> list(read_rules(["last", "random"]))
    ['last', 'random']
    """
    if rules is None:
        return dict(RULES)
    if not isinstance(rules, Iterable) and not callable(rules):
        raise BadInputError(f"rules must be names of rules or functions, not {rules!r:.60}.")
    listed = [rules] if isinstance(rules, str) or callable(rules) else list(rules)
    named: dict[str, Rule] = {}
    for rule in listed:
        if callable(rule):
            name = getattr(rule, "__name__", type(rule).__name__)
            if name in named or name in RULES:
                raise BadInputError(f"two rules are called {name}: give yours another name.")
            named[name] = rule
        else:
            name = one_of("a rule", rule, RULES)
            named[name] = RULES[name]
    if not named:
        raise BadInputError("rules must name at least one rule.")
    return named


def apply_rule(name: str, rule: Rule, setting: Setting) -> Chosen:
    """What the rule chooses, within the limits and with what is required."""
    answer = rule(setting)
    limits = setting.limits
    if isinstance(answer, Chosen):
        return answer
    if not isinstance(answer, Mapping) or not all(key in limits.shapes for key in answer):
        raise BadInputError(
            f"the rule {name} must return scores or masks by the names of the weights, not "
            f"{type(answer).__name__ if not isinstance(answer, Mapping) else sorted(answer)[:3]}."
        )
    taken = limits.start()
    if answer and all(np.asarray(value).dtype == np.bool_ for value in answer.values()):
        # A mask is a score of one for what it holds; the limits still hold.
        answer = {key: np.where(value, 1.0, -np.inf) for key, value in answer.items()}
    left = setting.budget - entries_in(taken)
    try:
        picked = limits.pick(answer, left, taken)
    except BadInputError as problem:
        raise BadInputError(f"the rule {name}: {problem}") from None
    for key, ids in picked.entries.items():
        taken[key].reshape(-1)[ids] = True
    return Chosen(taken, picked.gap)


def setting_split(setting: Setting, flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """A flat array over all weights, by name."""
    shapes = setting.limits.shapes
    parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1])
    return {n: part.reshape(shapes[n]) for n, part in zip(shapes, parts, strict=True)}


def _from_the_end(setting: Setting, scores: Values) -> dict[str, NDArray[Any]]:
    """Only as many layers, from the output backwards, as the budget needs; earlier ones come last."""
    limits = setting.limits
    need = setting.budget
    ranked: dict[str, NDArray[Any]] = {}
    for place, names in enumerate(setting.view.layers):
        free = [name for name in names if name in limits.shapes and limits.allowed[name].any()]
        if not free:
            continue
        top = max(float(scores[name].max(initial=0.0)) for name in free) or 1.0
        for name in free:
            # Scores of one layer lie in [0, 1]; each layer stands below the one after it.
            ranked[name] = scores[name] / top - 2.0 * place
            need -= int(limits.allowed[name].sum())
        if need <= 0 and limits.unit == "entry" and not limits.capped:
            break
    return ranked


def _ranks(values: NDArray[Any]) -> Array:
    return np.argsort(np.argsort(values, kind="stable")).astype(np.float64)
