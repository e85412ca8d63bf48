"""Tasks: how the trials of a point are computed. Experiments and sweeps share them."""

from sublearn.experiments.tasks._decisions import ByEquations, Decisions, Saturation
from sublearn.experiments.tasks._deep_rates import DeepRates
from sublearn.experiments.tasks._deep_sizes import DeepSizes
from sublearn.experiments.tasks._difficulties import Difficulties
from sublearn.experiments.tasks._directions import Directions
from sublearn.experiments.tasks._forgetting import Forgetting
from sublearn.experiments.tasks._labelled import Labelled
from sublearn.experiments.tasks._linear_sizes import LinearSizes
from sublearn.experiments.tasks._matches import Activity, LearntMatches, Matches
from sublearn.experiments.tasks._placements import Placements
from sublearn.experiments.tasks._ranks import Ranks
from sublearn.experiments.tasks._rates import Rates
from sublearn.experiments.tasks._repeats import GAMMA as GAMMA
from sublearn.experiments.tasks._repeats import IRRELEVANT as IRRELEVANT
from sublearn.experiments.tasks._training import ExactOrWithin, FreshErrors, Learners
from sublearn.experiments.tasks._tuning import Tuning
from sublearn.experiments.tasks._verdicts import Deficiency, Verdicts
from sublearn.runs import Task

_EVERY: tuple[Task, ...] = (
    Decisions(),
    Saturation(),
    ByEquations(),
    Matches(),
    LearntMatches(),
    Activity(),
    Ranks(),
    Verdicts(),
    Deficiency(),
    Directions(),
    Difficulties(),
    Rates(),
    LinearSizes(),
    DeepSizes(),
    DeepRates(),
    Placements(),
    Forgetting(),
    ExactOrWithin(),
    Learners(),
    Labelled(),
    FreshErrors(),
    Tuning(),
)
TASKS: dict[str, Task] = {task.name: task for task in _EVERY}
"""Every shared task by its name, as a sweep's file writes it."""

__all__ = [
    "TASKS",
    "Activity",
    "ByEquations",
    "Decisions",
    "DeepRates",
    "DeepSizes",
    "Deficiency",
    "Difficulties",
    "Directions",
    "ExactOrWithin",
    "Forgetting",
    "FreshErrors",
    "Labelled",
    "Learners",
    "LearntMatches",
    "LinearSizes",
    "Matches",
    "Placements",
    "Ranks",
    "Rates",
    "Saturation",
    "Tuning",
    "Verdicts",
]
