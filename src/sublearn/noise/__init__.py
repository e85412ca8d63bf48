"""Learning under noise: rates, best sizes, steady states, placement."""

from sublearn.noise._drift import Drift, measure_drift, predict_drift
from sublearn.noise._geometry import local_geometry
from sublearn.noise._growth import Grown, add_synapses, expand_linear, expansion_path, zero_pad
from sublearn.noise._measure import MeasuredRate, SecondOrderWarning, Validity
from sublearn.noise._measured_sizes import MeasuredSize, measure_best_size
from sublearn.noise._pictures import (
    best_size_against_noise,
    difficulty_against_size,
    sigmoid_path,
    slope_against_curvature,
)
from sublearn.noise._place import Placement, PlacementRow, place
from sublearn.noise._place_draws import candidate_placements, draw_lessons
from sublearn.noise._rates import Best, Critical, Geometry
from sublearn.noise._simulate import Simulation, simulate, step_correlation
from sublearn.noise._simulate_data import FreshInputs
from sublearn.noise._simulate_settings import (
    DEEP_NOISE,
    DEEP_WIDTHS,
    LINEAR_GAMMAS,
    LINEAR_MIXINGS,
    LINEAR_SIZES,
    deep_sigmoid,
    linear_steady_state,
)
from sublearn.noise._simulate_settled import SteadyState, find_steady_state
from sublearn.noise._sizes import (
    Exponent,
    SizeCurve,
    best_redundancy,
    best_size,
    closed_form_size,
    implicit_size,
    slides_nonlinear_size,
    slides_size,
)
from sublearn.noise._slides import slides_expanded_rate, slides_rate
from sublearn.noise._steady import SteadyPrediction, Walk, predict_steady_state

__all__ = [
    "DEEP_NOISE",
    "DEEP_WIDTHS",
    "LINEAR_GAMMAS",
    "LINEAR_MIXINGS",
    "LINEAR_SIZES",
    "Best",
    "Critical",
    "Drift",
    "Exponent",
    "FreshInputs",
    "Geometry",
    "Grown",
    "MeasuredRate",
    "MeasuredSize",
    "Placement",
    "PlacementRow",
    "SecondOrderWarning",
    "Simulation",
    "SizeCurve",
    "SteadyPrediction",
    "SteadyState",
    "Validity",
    "Walk",
    "add_synapses",
    "best_redundancy",
    "best_size",
    "best_size_against_noise",
    "candidate_placements",
    "closed_form_size",
    "deep_sigmoid",
    "difficulty_against_size",
    "draw_lessons",
    "expand_linear",
    "expansion_path",
    "find_steady_state",
    "implicit_size",
    "linear_steady_state",
    "local_geometry",
    "measure_best_size",
    "measure_drift",
    "place",
    "predict_drift",
    "predict_steady_state",
    "sigmoid_path",
    "simulate",
    "slides_expanded_rate",
    "slides_nonlinear_size",
    "slides_rate",
    "slides_size",
    "slope_against_curvature",
    "step_correlation",
    "zero_pad",
]
