"""A rehearsal: a little of everything, so that all machine code is compiled and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import chain, count
from multiprocessing import get_context

from sublearn.runs import Experiment, Point, Row

Step = tuple[str, Callable[[], object]]

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
    several workers, each part is done by one of so many processes.
    """
    parts = _parts(experiments)
    done = count()

    def say(name: str) -> None:
        if progress is not None:
            progress(next(done), name)

    if workers == 1:
        for name, step in chain(*parts):
            say(name)
            step()
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        submitted = {pool.submit(_do, [step for _, step in part]): part for part in parts}
        for finished in as_completed(submitted):
            finished.result()
            for name, _ in submitted[finished]:
                say(name)


def _parts(experiments: list[Experiment]) -> list[list[Step]]:
    """All steps, those that call the same kernels together: two processes would compile them twice.

    Decisions come last, when most of what their rungs call has been compiled.
    """
    parts: dict[str, list[Step]] = {}
    for experiment in sorted(experiments, key=lambda each: each.task.shares is None):
        steps = [(experiment.name, partial(_one, experiment, p)) for p in _ends(experiment)]
        parts.setdefault(experiment.task.shares or experiment.name, []).extend(steps)
    matchers: list[list[Step]] = [
        [("matchers", partial(_matchers, point))] for point in (_LINEAR, _CURVED, _FEW)
    ]
    return matchers + [part for part in parts.values() if part]


def _do(steps: list[Callable[[], object]]) -> None:
    for step in steps:
        step()


def _matchers(point: Row) -> None:
    """Every rung of the ladder that takes the point's instance, whether the one before decides or not."""
    import numpy as np

    from sublearn.ensembles import draw
    from sublearn.experiments.tasks._point import learnable_of, problem_of
    from sublearn.matchers import Budget, single_thread, standard_ladder

    problem = problem_of(point)
    instance = draw(problem, learnable_of(point, problem))
    with single_thread():
        for matcher in standard_ladder():
            if matcher.refusal(instance) is None:
                matcher.attempt(instance, Budget(), np.random.default_rng(0))


def _ends(experiment: Experiment) -> list[Point]:
    # The paper's protocol and training on labels run on numpy and scipy, tuning on torch: nothing to
    # compile.
    if experiment.task.name in ("labelled", "tuning"):
        return []
    points = [p for p in experiment.quick.points if p.params.get("method") != "reference"]
    return [*points[:1], *points[1:][-1:]]


def _one(experiment: Experiment, point: Point) -> None:
    from sublearn.matchers import single_thread

    with single_thread():
        experiment.task.run(point.params, experiment.quick.seed, range(1))
