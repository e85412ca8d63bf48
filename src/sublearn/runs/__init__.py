"""Runs: declared experiments computed by any workers, kept on disk, resumed, summed up in tables."""

from sublearn._tables import Row
from sublearn.runs._execute import Progress, execute
from sublearn.runs._experiment import BUDGETS, Experiment, Plan, Point
from sublearn.runs._experiment import Points as Points
from sublearn.runs._forecast import Forecast, forecast
from sublearn.runs._manifest import versions as versions
from sublearn.runs._run import ExperimentState, Run, summary
from sublearn.runs._run import open_run as open
from sublearn.runs._sweep import sweep_from_dict, sweep_from_file
from sublearn.runs._tables import Table
from sublearn.runs._task import Json, Task

__all__ = [
    "BUDGETS",
    "Experiment",
    "ExperimentState",
    "Forecast",
    "Json",
    "Plan",
    "Point",
    "Progress",
    "Row",
    "Run",
    "Table",
    "Task",
    "execute",
    "forecast",
    "open",
    "summary",
    "sweep_from_dict",
    "sweep_from_file",
]
