"""A rehearsal: a little of everything, so that all machine code is compiled and kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context

from sublearn.runs import Experiment, Point, Row

# The rungs for linear networks and those for ReLU share little code: two processes begin with one each.
# A lift with few free states has Newton steps of its own.
_LINEAR: Row = {"network": "lrnn:n=6,b=1,d=2,T=3", "samples": 3, "learn": "W:first-rows=4"}
_FEW: Row = {"network": "lrnn:n=6,b=1,d=4,T=3", "samples": 3, "learn": "W:first-rows=5"}
_CURVED: Row = {"network": "ffn:3-4-2,activation=relu", "samples": 3, "learn": "W1:first-rows=4"}


def rehearse(
    experiments: list[Experiment],
    progress: Callable[[int, str], None] | None = None,
    workers: int = 1,
) -> None:
    """Every matcher alone, and one trial of the first and the last point of every quick plan.

    Nothing is kept but the machine code, which compiles once on a machine; later runs load it. With
    several workers, each step is done by one of so many processes.
    """
    steps: list[tuple[str, Callable[[], object]]] = [
        ("matchers", partial(_matchers, point)) for point in (_LINEAR, _CURVED, _FEW)
    ]
    for experiment in experiments:
        steps += [(experiment.name, partial(_one, experiment, p)) for p in _ends(experiment)]

    say = progress or (lambda done, name: None)
    if workers == 1:
        for done, (name, step) in enumerate(steps):
            say(done, name)
            step()
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        names = {pool.submit(step): name for name, step in steps}
        for done, finished in enumerate(as_completed(names)):
            finished.result()
            say(done, names[finished])


def _matchers(point: Row) -> None:
    """Every rung of the ladder that takes the point's instance, whether the one before decides or not."""
    import numpy as np

    from sublearn.ensembles import draw
    from sublearn.experiments.tasks._asked import learnable_of, problem_of
    from sublearn.matchers import Budget, single_thread, standard_ladder

    problem = problem_of(point)
    instance = draw(problem, learnable_of(point, problem))
    with single_thread():
        for matcher in standard_ladder():
            if matcher.refusal(instance) is None:
                matcher.attempt(instance, Budget(), np.random.default_rng(0))


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
    from sublearn.matchers import single_thread

    with single_thread():
        experiment.task.run(point.params, experiment.quick.seed, range(1))
