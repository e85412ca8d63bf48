"""A linear network against its size: the mean rate, or the steady-state error."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn._seeds import Tag
from sublearn.ensembles import Instance
from sublearn.experiments.raman2019 import linear_base, linear_lessons, slides_size
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.experiments.tasks._repeats import (
    BEST,
    CUBIC,
    GAMMA,
    Paired,
    best_of,
    by_case,
    changed,
    irrelevant_of,
    is_level,
    listed,
    noise_of,
    stream,
    top_of,
    whole,
    with_errors,
)
from sublearn.noise import (
    DEGREE,
    Geometry,
    add_synapses,
    best_redundancy,
    closed_form_size,
    expand_linear,
    local_geometry,
    predict_steady_state,
    simulate,
    step_correlation,
)
from sublearn.plots import finite
from sublearn.runs import Row

QUANTITIES = ("rate", "steady state")
GROW = ("expansion", "synapses")
INPUTS, OUTPUTS, SAMPLES = 10, 5, 40


class LinearSizes(Paired):
    """One curve against size per point: the 5 x 10 estimator grown by each of the ``factors``.

    ``grow`` says whether by expansion with c1 = c2 or by so many synapses per connection. ``quantity``
    "rate": the mean rate over ``draws`` random cycles, on one problem. "steady state": the simulated
    error from a third of ``cycles`` on, each repeat with its own teacher and start, n2 mixed by
    ``mixing``; ``irrelevant`` "second task" or "homeostasis" says what n2 is instead, and nothing is
    predicted then. A repeat goes through the sizes.

    The table has a line per size. ``best``: where the measured curve has its optimum, by a polynomial
    in log N through the sizes, with its 95% interval over repeats; ``best_of_curve``: that of the predicted
    values at the same sizes, on the same inputs; ``best_predicted``: by the formula for the best size;
    ``best_slides``: by the slides'.
    """

    name = "linear-sizes"
    version = 2  # predictions with the correction for few modes
    columns: Mapping[str, type] = {
        "repeat": int,
        "size": int,
        **dict.fromkeys(("value", "change", "predicted", "best_predicted"), float),
    }
    takes: Mapping[str, str] = {
        "quantity": "quantity",
        "grow": "way of growing",
        **GAMMA,
        "T": "time of a cycle T",
        "mixing": "old part of n2",
        "irrelevant": "task-irrelevant change n2",
        "cycles": "cycles",
        "draws": "pairs of cycles per batch",
        "factors": "sizes, as factors c",
    }
    headings: Mapping[str, str] = {
        "size": "number of weights N",
        "repeats": "repeats",
        "value": "measured",
        "error": "standard error",
        "predicted": "predicted",
        "ratio": "measured over predicted",
        "change": "last third of the cycles less the one before",
        "change_error": "standard error of the change",
        "level": "settled",
        "best": "best size measured",
        **BEST,
    }

    def check(self, point: Params) -> None:
        noise_of(point)
        whole(point, "draws", 400, least=2)
        whole(point, "cycles", 1500, least=6)
        steady = one_of("quantity", str(point.get("quantity")), QUANTITIES) == "steady state"
        grow = one_of("grow", str(point.get("grow")), GROW)
        if irrelevant_of(point) != "white" and not steady:
            raise BadInputError(
                f"irrelevant must be 'white' for the rate of a cycle, not {point.get('irrelevant')!r}."
            )
        step = 1.0 if grow == "synapses" else 1.0 / OUTPUTS
        for factor in listed(point, "factors"):
            if factor < 1 or abs(factor / step - round(factor / step)) > 1e-6:
                raise BadInputError(
                    f"factors must be multiples of {step:g}, from 1 on, not {factor:g}."
                )

    def cases(self, point: Params) -> list[float]:
        return listed(point, "factors")

    def one(self, point: Params, seed: int, repeat: int, case: float) -> Row:
        one = _steady if point["quantity"] == "steady state" else _rate
        return {"repeat": repeat, **one(point, seed, repeat, case)}

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        sizes, table = by_case(rows, "size", "value")
        steady = point["quantity"] == "steady state"
        # Synapses come in whole numbers: few sizes lie below the best one, and higher degrees waver there.
        degree = CUBIC if steady and point["grow"] == "synapses" else DEGREE
        best = best_of(sizes, -table if steady else table, degree)
        said = np.array([rows["predicted"][rows["size"] == size][0] for size in sizes])
        best["best_of_curve"] = top_of(sizes, -said if steady else said, degree)
        # Where no formula holds none has a best size.
        if irrelevant_of(point) == "white":
            best["best_predicted"] = finite(float(rows["best_predicted"][0]))
            best["best_slides"] = slides_size(noise_of(point), sizes[0]).value
        else:
            best |= {"best_predicted": None, "best_slides": None}
        lines: list[Row] = []
        for size in sizes:
            here = rows["size"] == size
            cells = with_errors(value=rows["value"][here], change=rows["change"][here])
            predicted = finite(float(rows["predicted"][here][0]))
            line: Row = {"size": size, "repeats": int(here.sum()), **cells, "predicted": predicted}
            line["ratio"] = float(cells["value"]) / predicted if predicted else None
            lines.append({**line, "level": not steady or is_level(cells), **best})
        return lines


def _rate(point: Params, seed: int, repeat: int, factor: float) -> Row:
    """One batch of random cycles at one size."""
    noise, draws = noise_of(point), whole(point, "draws", 400, least=2)
    synapses = point["grow"] == "synapses"
    geometry = _grown(seed, synapses, factor)
    measured = geometry.measure(noise, draws, seed=stream(seed, geometry.plastic, repeat))
    if synapses:
        more = best_redundancy(_grown(seed, True, 1.0), noise).value
        best = None if more is None else more * INPUTS * OUTPUTS
    else:
        best = closed_form_size(noise, a=0.5).value
    return {
        "size": geometry.plastic,
        "value": measured.mean,
        "change": 0.0,
        "predicted": geometry.rate(noise),
        "best_predicted": best,
    }


@lru_cache(maxsize=64)
def _grown(seed: int, synapses: bool, factor: float) -> Geometry:
    base = linear_base(np.random.default_rng([seed, Tag.SIZES_BASE]))
    if synapses:
        return local_geometry(add_synapses(base, round(factor)))
    return local_geometry(expand_linear(base, factor, factor))


def _steady(point: Params, seed: int, repeat: int, factor: float) -> Row:
    """One simulated repeat at one size; level if its last third is as its second."""
    cycles, own = whole(point, "cycles", 1500, least=6), range(repeat, repeat + 1)

    def lesson(task: int = 0) -> Instance:
        if point["grow"] == "synapses":
            kept = {"task": task, "samples": SAMPLES, "seed": seed}
            return add_synapses(linear_lessons(INPUTS, OUTPUTS, own, **kept)[0], round(factor))
        shape = round(factor * INPUTS), round(factor * OUTPUTS)
        return linear_lessons(*shape, own, task=task, seed=seed)[0]

    given, white = lesson(), noise_of(point)
    noise = changed(white, point, lambda: lesson(1))
    run = simulate(given, noise, cycles=cycles, repeats=own, seed=seed)
    early, late = (run.errors[0, third * cycles // 3 :][: cycles // 3].mean() for third in (1, 2))
    # Makes gamma2^2 act as if it were (1 + rho) / (1 - rho) times as large, with many weights. Along
    # synapses rank(H) stays and Tr H grows with their number: to leading order the same best size.
    rho = step_correlation(noise.mixing)
    best = closed_form_size(white, a=0.5).value
    return {
        "size": len(given.allocation),
        "value": float(early + late) / 2,
        "change": float(late - early),
        "predicted": predict_steady_state(given, noise).value,
        "best_predicted": None if best is None else best * (1 + rho) / (1 - rho),
    }
