"""More samples of the teacher that an instance was drawn with."""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn._seeds import Purpose, trial_stream
from sublearn.ensembles._distributions import LowRank
from sublearn.ensembles._instance import draw_weights
from sublearn.ensembles._problem import Labels, Problem, Targets


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
    network, ensemble = problem.network, problem.ensemble
    # The same draws in the same order as `draw` makes them.
    rng = trial_stream(seed, problem.digest, trial, Purpose.WEIGHTS)
    draw_weights(network, ensemble.weights, rng)
    own = trial_stream(seed, problem.digest, trial, Purpose.FRESH)
    if isinstance(problem.teacher, Labels):
        data = problem.teacher.data
        taken = rng.choice(data.size, problem.samples, replace=False)
        left = np.setdiff1d(np.arange(data.size), taken)
        if count > left.size:
            raise BadInputError(
                f"count must be at most {left.size}, the samples of {data.name} that are left, "
                f"not {count}."
            )
        return data.take(own.choice(left, count, replace=False))
    if isinstance(problem.teacher, Targets):
        raise BadInputError("targets without a teacher say nothing about fresh samples.")
    if isinstance(ensemble.inputs, LowRank):
        raise BadInputError(
            "inputs of low rank span other directions in every draw: none are fresh."
        )
    ensemble.inputs.draw(rng, network.input_shape(problem.samples))
    teacher = network if problem.teacher is None else problem.teacher
    weights = draw_weights(teacher, ensemble.teacher, rng)
    inputs = ensemble.inputs.draw(own, network.input_shape(count))
    return inputs, teacher.forward(weights, inputs)
