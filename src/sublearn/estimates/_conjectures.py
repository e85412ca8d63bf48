"""Why Adam suffices on MNIST: the paper's two conjectures, taken apart (appendix E.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from sublearn.allocations import Rule
from sublearn.datasets import Dataset, noise
from sublearn.ensembles import Labels, Problem
from sublearn.estimates._solved import SolvedEstimate, estimate_solved
from sublearn.networks import Network
from sublearn.training import Learner


@dataclass(frozen=True)
class Cell:
    """One cell of the comparison: which data, what was to be reproduced, and how often it was."""

    data: str
    target: str
    result: SolvedEstimate


def compare_conjectures(
    data: Dataset,
    network: Network,
    samples: int,
    rules: Mapping[str, Rule],
    trials: int = 10,
    *,
    learner: str | Learner = "adam",
    steps: int = 4000,
    eps: float = 1e-2,
    seed: int = 0,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Callable[[Cell], None] | None = None,
) -> list[Cell]:
    """Structured data or noise, a label or a vector: solved fractions of the four, and two between.

    The paper trains with Adam on MNIST only and conjectures why it suffices there: "(1) random data is
    inherently more challenging", "(2) [to predict] a label [...] rather than reproducing a full vector
    [...] simplifies the learning objective". Each is varied alone, all else equal:

    data: the data set; the same with its labels shuffled (structure in the inputs only); noise
    (Gaussian inputs, labels at random);
    target: every label right (cross-entropy), or the one-hot vectors within eps (squared error).

    The rows are ordered by data, the label before the vector.
    """
    out = []
    for kind, target, problem, bound in conjecture_problems(data, network, samples, eps, seed):
        found = estimate_solved(
            problem,
            rules,
            trials,
            learner=learner,
            steps=steps,
            seed=seed,
            eps=bound,
            workers=workers,
            executor=executor,
        )
        out.append(Cell(kind, target, found))
        if progress is not None:
            progress(out[-1])
    return out


def conjecture_problems(
    data: Dataset, network: Network, samples: int, eps: float = 1e-2, seed: int = 0
) -> list[tuple[str, str, Problem, float | None]]:
    """(data, target, problem, eps) of each cell of :func:`compare_conjectures`; eps None: labels."""
    q, size = data.features.shape
    kinds = (data, data.shuffled(seed), noise(q, size, data.classes, seed))
    problems = [(kind.name, Problem(network, samples, teacher=Labels(kind))) for kind in kinds]
    targets: tuple[tuple[str, float | None], ...] = (("label", None), ("vector", eps))
    return [(kind, word, problem, bound) for kind, problem in problems for word, bound in targets]
