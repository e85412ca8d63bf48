"""Learning under noise: rates, best sizes, steady states, placement."""

from sublearn.noise._candidates import Candidates, candidate_placements
from sublearn.noise._compare import SteadyComparison, compare_steady
from sublearn.noise._curvature import basis_diagonal as basis_diagonal
from sublearn.noise._curvature import hessian_product as hessian_product
from sublearn.noise._curvature import layers_diagonal as layers_diagonal
from sublearn.noise._drift import Drift, measure_drift, predict_drift
from sublearn.noise._exchanges import Exchanges
from sublearn.noise._geometry import Best, Critical, Geometry, local_geometry
from sublearn.noise._growth import PATHS as PATHS
from sublearn.noise._growth import READINGS as READINGS
from sublearn.noise._growth import STARTS as STARTS
from sublearn.noise._growth import (
    add_synapses,
    copy_units,
    expand_linear,
    expansion_path,
    grow,
    zero_pad,
)
from sublearn.noise._growth import semi_orthogonal as semi_orthogonal
from sublearn.noise._jax import loss_geometry
from sublearn.noise._loss import error_signal as error_signal
from sublearn.noise._loss import flatten as flatten
from sublearn.noise._loss import loss_at as loss_at
from sublearn.noise._loss import matrices as matrices
from sublearn.noise._loss import plastic_positions as plastic_positions
from sublearn.noise._measure import MeasuredRate, Rate, SecondOrderWarning
from sublearn.noise._noise import NOISE_ON as NOISE_ON
from sublearn.noise._noise import Homeostasis, Noise, SecondTask, step_correlation
from sublearn.noise._place import (
    Placement,
    PlacementRow,
    draw_lessons,
    place,
)
from sublearn.noise._settled import TOLERANCE as TOLERANCE
from sublearn.noise._settled import SteadyState, find_steady_state
from sublearn.noise._simulate import Simulation, simulate
from sublearn.noise._sizes import DEGREE as DEGREE
from sublearn.noise._sizes import (
    Exponent,
    MeasuredSize,
    SizeCurve,
    SizeFormula,
    best_redundancy,
    best_size,
    closed_form_size,
    measure_best_size,
)
from sublearn.noise._sizes import peak_of_batches as peak_of_batches
from sublearn.noise._steady import Known, SteadyPrediction, Walk, predict_steady_state

__all__ = [
    "Best",
    "Candidates",
    "Critical",
    "Drift",
    "Exchanges",
    "Exponent",
    "Geometry",
    "Homeostasis",
    "Known",
    "MeasuredRate",
    "MeasuredSize",
    "Noise",
    "Placement",
    "PlacementRow",
    "Rate",
    "SecondOrderWarning",
    "SecondTask",
    "Simulation",
    "SizeCurve",
    "SizeFormula",
    "SteadyComparison",
    "SteadyPrediction",
    "SteadyState",
    "Walk",
    "add_synapses",
    "best_redundancy",
    "best_size",
    "candidate_placements",
    "closed_form_size",
    "compare_steady",
    "copy_units",
    "draw_lessons",
    "expand_linear",
    "expansion_path",
    "find_steady_state",
    "grow",
    "local_geometry",
    "loss_geometry",
    "measure_best_size",
    "measure_drift",
    "place",
    "predict_drift",
    "predict_steady_state",
    "simulate",
    "step_correlation",
    "zero_pad",
]
