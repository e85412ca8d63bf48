"""Levenberg-Marquardt: damped Gauss-Newton steps, for many starts of many instances at once.

Each step solves (J'J + mu I) h = -J'f, or the equal system with J J' where that is smaller. mu follows
the ratio of the fall of the loss to the fall that the linear model predicts (Marquardt 1963; Nielsen,
"Damping parameter in Marquardt's method", IMM report 1999-05).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sublearn._arrays import Floats, Indices, Mask
from sublearn._errors import BadInputError, fraction, positive
from sublearn.training._learner import Learner, State, check_settings
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams

LEAST_DAMPING, MOST_DAMPING = 1e-15, 1e12  # in units of the largest diagonal entry of J'J
WINDOW = 10  # steps after which a row must have gained something


@dataclass(frozen=True)
class LevenbergState(State):
    residual: Floats  # f
    jacobian: Floats  # J
    normal: Floats  # J'J, or J J' where that is smaller
    gradient: Floats  # J'f
    scale: Floats  # the largest diagonal entry of J'J
    mu: Floats
    growth: Floats  # what mu is multiplied with at the next step that fails
    before: Floats  # the loss at the last multiple of WINDOW steps
    stuck: Mask
    steps: int


@dataclass(frozen=True)
class LevenbergMarquardt(Learner):
    """values <- values + h where the loss falls, with (J'J + mu I) h = -J'f; else mu grows.

    f are the d m residuals and J their Jacobian, so the loss is the squared error. mu starts at
    ``damping`` times the largest diagonal entry of J'J. A row gives up where its loss fell by less than
    the share ``gain`` over 10 steps, or where no mu makes it fall: it stands at a local minimum, nearly.

    >>> LevenbergMarquardt().name
    'levenberg-marquardt'
    """

    damping: float = 1e-3
    gain: float = 0.1

    name = "levenberg-marquardt"
    usual_steps = most_steps = 200
    scales = (1.0, 3.0, 0.3, 10.0)

    def __post_init__(self) -> None:
        check_settings(self, damping=positive, gain=fraction)

    def init(self, objective: Objective, values: Floats, streams: Streams) -> LevenbergState:
        if objective.loss_name != "squared error":
            raise BadInputError(
                f"{self.name} minimises the squared error; loss must be 'squared error', not "
                f"{objective.loss_name!r}."
            )
        f, jacobian = objective.linearise(values)
        here = _here(objective, values, f, _mean_square(f), jacobian)
        return LevenbergState(
            **here,
            mu=self.damping * here["scale"],
            growth=np.full_like(here["scale"], 2.0),
            before=here["loss"],
            stuck=np.zeros(here["scale"].shape, dtype=bool),
            steps=0,
        )

    def step(self, objective: Objective, state: LevenbergState, streams: Streams) -> LevenbergState:
        with np.errstate(all="ignore"):
            h = _damped(state)
            values = state.values + h
            f = objective.residual(values)
            loss = _mean_square(f)
            bent = state.mu[:, None] * h - state.gradient
            predicted = np.einsum("bi,bi->b", h, bent) / f.shape[1]
            ratio = (state.loss - loss) / predicted
            better = (loss < state.loss) & (ratio > 0)
            fall = np.maximum(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3)
            mu = np.where(better, state.mu * fall, state.mu * state.growth)
            new = replace(
                state,
                mu=mu,
                growth=np.where(better, 2.0, 2.0 * state.growth),
                steps=state.steps + 1,
            )
            if better.any():
                new = _moved(objective, new, np.flatnonzero(better), values, f, loss)
            return self._judged(new)

    def stuck(self, state: LevenbergState) -> Mask:
        return state.stuck

    def _judged(self, state: LevenbergState) -> LevenbergState:
        """Mark the rows that have given up."""
        lost = ~(state.mu <= MOST_DAMPING * state.scale)
        if state.steps % WINDOW:
            return replace(state, stuck=lost)
        slow = ~(state.loss <= (1.0 - self.gain) * state.before)
        return replace(state, stuck=lost | slow, before=state.loss.copy())


def _moved(
    objective: Objective,
    state: LevenbergState,
    rows: Indices,
    values: Floats,
    f: Floats,
    loss: Floats,
) -> LevenbergState:
    """The state after some rows took their step."""
    everywhere = rows.size == loss.size
    part = objective if everywhere else objective.select(rows)
    x = values[rows]
    new = _here(part, x, f[rows], loss[rows], part.jacobian(x))
    for name, fresh in new.items():
        old = getattr(state, name)
        if not everywhere and fresh is not None:
            whole = old.copy()
            whole[rows] = fresh
            new[name] = whole
    out = replace(state, **new)
    return replace(out, mu=np.maximum(out.mu, LEAST_DAMPING * out.scale))


def _here(
    objective: Objective, values: Floats, f: Floats, loss: Floats, jacobian: Floats
) -> dict[str, Any]:
    """What a state holds of the place where its rows are."""
    transposed = np.swapaxes(jacobian, 1, 2)
    wide = jacobian.shape[1] < jacobian.shape[2]
    return {
        "values": values,
        "loss": loss,
        "right": objective.right(values) if objective.has_labels else None,
        "residual": f,
        "jacobian": jacobian,
        "normal": jacobian @ transposed if wide else transposed @ jacobian,
        "gradient": np.einsum("bei,be->bi", jacobian, f),
        "scale": np.einsum("bei,bei->bi", jacobian, jacobian).max(axis=1),
    }


def _damped(state: LevenbergState) -> Floats:
    damped = state.normal.copy()
    size = np.arange(damped.shape[1])
    damped[:, size, size] += np.maximum(state.mu, 1e-300)[:, None]
    if state.jacobian.shape[1] < state.jacobian.shape[2]:
        y = _solve(damped, state.residual)
        return -np.asarray(np.einsum("bei,be->bi", state.jacobian, y))
    return -_solve(damped, state.gradient)


def _mean_square(f: Floats) -> Floats:
    out: Floats = np.einsum("be,be->b", f, f) / f.shape[1]
    return out


def _solve(matrices: Floats, right: Floats) -> Floats:
    """Solutions of a stack of systems; nan where a matrix is singular, which rejects the step."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        out = np.full_like(right, np.nan)
        for number, (matrix, vector) in enumerate(zip(matrices, right, strict=True)):
            try:
                out[number] = np.linalg.solve(matrix, vector)
            except np.linalg.LinAlgError:
                continue
        return out
