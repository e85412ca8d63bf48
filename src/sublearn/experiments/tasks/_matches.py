"""What a match is like: its size, its condition, its worth on fresh samples, what it does to activity."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping

import numpy as np

from sublearn._arrays import Array, Mask
from sublearn._kinds import DecisionKind
from sublearn._seeds import Purpose, trial_stream
from sublearn.ensembles import Instance, draw_weights, fresh_samples
from sublearn.experiments.tasks._decisions import Decided, Decisions
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.experiments.tasks._training import ExactOrWithin
from sublearn.matchers import decide
from sublearn.networks import ACTIVATIONS, Network, Weights, run
from sublearn.runs import Row

_FRESH = 1000  # samples after the match
_QUARTILES = (0.25, 0.5, 0.75)
_SEEDS = 8  # under which a solution is looked for once more
_REDRAWS = 20  # of the learnable weights, for the spread that they have by themselves


class _Measured(Decisions):
    """Decisions, with numbers about the solution of each instance that is matched; nan for the others."""

    measures: Mapping[str, str]

    @property
    def columns(self) -> Mapping[str, type]:
        return {**super().columns, **dict.fromkeys(self.measures, float)}

    @abstractmethod
    def measured(self, decided: Decided, solution: Array) -> dict[str, float]:
        """The numbers, by column."""

    def beside(self, decided: Decided) -> Row:
        solution = decided.decision.values
        if solution is None:
            return dict.fromkeys(self.measures, float("nan"))
        return self.measured(decided, solution)

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        (line,) = super().summarise(point, rows)
        matched = rows["kind"] == DecisionKind.MATCHED
        rungs = Counter(rows["rung"][matched].tolist())
        line["found_by"] = ", ".join(f"{rung} {count}" for rung, count in rungs.most_common())
        for name in self.measures:
            finite = rows[name][matched & np.isfinite(rows[name])]
            ends = np.quantile(finite, _QUARTILES).tolist() if finite.size else [None] * 3
            line |= zip((f"{name}_quarter", name, f"{name}_rest"), ends, strict=True)
        return [line]


def _headings(measures: Mapping[str, str]) -> dict[str, str]:
    headings = {"found_by": "rungs that found the matches"}
    for name, words in measures.items():
        headings |= {
            f"{name}_quarter": f"{words}, lower quartile",
            name: f"{words}, median",
            f"{name}_rest": f"{words}, upper quartile",
        }
    return {**Decisions.headings, **headings}


class Matches(_Measured):
    """Decisions, and what the matches are like, by their quartiles.

    ``size``: the root mean square of the learnt weights over that of the weights drawn in their place.
    ``distance``: that of the change from the weights drawn. ``condition``: the largest singular value
    of the Jacobian at the solution over the least of min(d m, r). ``fresh``: the mean squared error on
    1,000 fresh samples of the teacher over the mean square of their targets. The solution is that of
    the rung that decided, one of many where there are many.
    """

    name = "matches"
    measures = {  # noqa: RUF012
        "size": "size of the solution over that of a draw",
        "distance": "distance from the draw, in the same unit",
        "condition": "condition of the Jacobian there",
        "fresh": "relative error on fresh samples",
    }
    headings = _headings(measures)

    def measured(self, decided: Decided, solution: Array) -> dict[str, float]:
        question, trial, instance, _ = decided
        drawn = instance.values(instance.start)
        unit = float(np.sqrt(np.mean(drawn**2)))
        weights = instance.with_values(solution)
        jacobian = instance.network.jacobian(weights, instance.inputs, instance.allocation)
        sizes = np.linalg.svd(jacobian, compute_uv=False)
        inputs, targets = fresh_samples(question.problem, _FRESH, seed=question.seed, trial=trial)
        error = instance.network.forward(weights, inputs) - targets
        return {
            "size": float(np.sqrt(np.mean(solution**2))) / unit,
            "distance": float(np.sqrt(np.mean((solution - drawn) ** 2))) / unit,
            "condition": float(sizes[0] / sizes[-1]) if sizes[-1] else float("inf"),
            "fresh": float(np.mean(error**2) / np.mean(targets**2)),
        }


class LearntMatches(ExactOrWithin, Matches):
    """Exact matches and what they are like; or, by a learner, matches within eps of the same instances."""

    name = "learnt-matches"
    headings = {**ExactOrWithin.headings, **Matches.headings}  # noqa: RUF012


class Activity(_Measured):
    """Decisions, and how far the nearest match found moves the activity of the hidden units.

    The baseline is the network with its learnable weights as they were drawn; the solution is the one
    nearest to it, of those that the decision and eight more, with other seeds, find. The change of a
    unit is the root mean square, over samples and steps, of its activity with the solution minus that
    at baseline. Twenty other draws of the learnable weights change it too; a unit is *moved* if the
    solution changes it by more than any of these, which another draw would do once in 21.
    ``silent_moved`` is the share among the units none of whose own weights is learnable: those that
    only fixed connections reach. ``change`` is the sum of squared changes over that of baseline
    activity, ``redrawn`` the same for the median of the other draws. ``novel`` is the share of the
    variance of activity with the solution, over samples and steps and summed over units, that no linear
    function of the unit's own activity at baseline explains, ``redrawn_novel`` the same for the median of
    the other draws. ``growth`` is the mean square of the baseline's activity in the last hidden step over
    that in the first.
    """

    name = "activity"
    version = 3  # says how much of the variance is new
    measures = {  # noqa: RUF012
        "moved": "share of hidden units moved",
        "silent_moved": "the same among units without learnable weights",
        "change": "change over baseline activity, squared",
        "redrawn": "the same when the weights are drawn anew",
        "novel": "share of variance that activity before does not explain",
        "redrawn_novel": "that share when the weights are drawn anew",
        "growth": "mean square of baseline activity, last step over first",
    }
    headings = _headings(measures)

    def measured(self, decided: Decided, solution: Array) -> dict[str, float]:
        question, trial, instance, _ = decided
        network, problem = instance.network, question.problem
        start = instance.values(instance.start)
        solutions = [solution]
        for other in range(1, _SEEDS + 1):
            again = decide(instance, budget=question.budget, seed=other).values
            solutions += [] if again is None else [again]
        nearest = min(solutions, key=lambda one: float(np.sum((one - start) ** 2)))
        before = activity(network, instance.start, instance.inputs)
        rng = trial_stream(question.seed, problem.digest, trial, Purpose.TRAINING)
        draws = (draw_weights(network, problem.ensemble.weights, rng) for _ in range(_REDRAWS))
        after, *others = (
            activity(network, instance.with_values(values), instance.inputs)
            for values in (nearest, *map(instance.values, draws))
        )
        spread = np.array([_change(other, before) for other in others])
        change = _change(after, before)
        moved = np.asarray((change > spread).all(axis=0))
        silent = _without(instance)
        hidden = _hidden(network, instance.start, instance.inputs)
        steps = [float(np.mean(states**2)) for _, states in hidden]
        whole_activity = float(np.mean(before**2, axis=1).sum())
        return {
            "moved": float(moved.mean()),
            "silent_moved": float(moved[silent].mean()) if silent.any() else float("nan"),
            "change": float(np.sum(change**2)) / whole_activity,
            "redrawn": float(np.median(np.sum(spread**2, axis=1))) / whole_activity,
            "novel": _novel(after, before),
            "redrawn_novel": float(np.median([_novel(other, before) for other in others])),
            "growth": steps[-1] / steps[0],
        }


def _change(after: Array, before: Array) -> Array:
    """How far each unit is from where it was."""
    return np.asarray(np.sqrt(np.mean((after - before) ** 2, axis=1)))


def _novel(after: Array, before: Array) -> float:
    """The share of the variance after that no linear function of the same unit's activity before explains.

    >>> import numpy as np
    >>> before = np.array([[1.0, -1.0, 1.0, -1.0], [0.0, 0.0, 0.0, 0.0]])
    >>> _novel(3.0 * before + 2.0, before)
    0.0
    >>> _novel(before + [[1.0, 1.0, -1.0, -1.0], [0.0, 0.0, 0.0, 0.0]], before)
    0.5
    """
    x, y = (units - units.mean(axis=1, keepdims=True) for units in (before, after))
    own, all_of = np.sum(x**2, axis=1), float(np.sum(y**2))
    explained = np.sum(x * y, axis=1)[own > 0] ** 2 / own[own > 0]
    return 1.0 - float(explained.sum()) / all_of if all_of else 0.0


def _hidden(network: Network, weights: Weights, inputs: Array) -> list[tuple[str, Array]]:
    """What the units put out after each hidden step, with the name of the step's matrix."""
    trace = run(network, weights, inputs)
    steps = list(zip(network.steps, trace.before, strict=True))[:-1]
    return [
        (step.weight, ACTIVATIONS[step.activation].value(before))
        for step, before in steps
        if not step.aside
    ]


def activity(network: Network, weights: Weights, inputs: Array) -> Array:
    """What every hidden unit puts out: a row a unit, over all steps and samples.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.FeedForward((1, 2, 1), activation="relu")
    >>> activity(net, {"W1": np.array([[1.0], [-1.0]]), "W2": np.ones((1, 2))}, np.array([[3.0, -2.0]]))
    array([[3., 0.],
           [0., 2.]])
    """
    units: dict[str, list[Array]] = {}
    for name, states in _hidden(network, weights, inputs):
        units.setdefault(name, []).append(states)
    return np.vstack([np.hstack(steps) for steps in units.values()])


def _without(instance: Instance) -> Mask:
    """Which hidden units have no learnable weight of their own."""
    names = dict(_hidden(instance.network, instance.start, instance.inputs))
    return np.concatenate([~instance.allocation.mask(name).any(axis=1) for name in names])
