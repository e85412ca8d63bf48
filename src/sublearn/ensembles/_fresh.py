"""More samples of the teacher that an instance was drawn with."""

from __future__ import annotations

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._seeds import Purpose, trial_stream
from sublearn.ensembles._problem import Problem
from sublearn.ensembles._source import draw_weights


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
