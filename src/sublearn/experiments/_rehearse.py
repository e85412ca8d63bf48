"""A rehearsal: a little of everything, so that all machine code is compiled and kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from sublearn.runs import Experiment, Point, Row


def rehearse(
    experiments: list[Experiment], progress: Callable[[int, str], None] | None = None
) -> None:
    """One trial of the first and the last point of every quick plan, and every matcher alone.

    Nothing is kept but the machine code, which compiles once on a machine; later runs load it.
    """
    from sublearn.ensembles import draw
    from sublearn.experiments.tasks._asked import learnable_of, problem_of
    from sublearn.matchers import Budget, single_thread, standard_ladder

    steps: list[tuple[str, Callable[[], object]]] = []
    for experiment in experiments:
        for point in _ends(experiment):
            steps.append((experiment.name, partial(_one, experiment, point)))
    small: Row = {"network": "lrnn:n=6,b=1,d=2,T=3", "samples": 3, "learn": "W:first-rows=4"}
    curved: Row = {"network": "ffn:3-4-2,activation=relu", "samples": 3, "learn": "W1:first-rows=4"}

    def alone(point: Row) -> None:
        import numpy as np

        problem = problem_of(point)
        instance = draw(problem, learnable_of(point, problem))
        for matcher in standard_ladder():
            if matcher.refusal(instance) is None:
                matcher.attempt(instance, Budget(), np.random.default_rng(0))

    steps += [("matchers", partial(alone, point)) for point in (small, curved)]
    with single_thread():
        for done, (name, step) in enumerate(steps):
            if progress is not None:
                progress(done, name)
            step()


def _ends(experiment: Experiment) -> Iterator[Point]:
    # The paper's protocol and training on labels run on numpy and scipy, tuning on torch: nothing to
    # compile.
    points = [p for p in experiment.quick.points if p.params.get("method") != "reference"]
    if experiment.task.name in ("labelled", "tuning") or not points:
        return
    yield points[0]
    if len(points) > 1:
        yield points[-1]


def _one(experiment: Experiment, point: Point) -> None:
    experiment.task.run(point.params, experiment.quick.seed, range(1))
