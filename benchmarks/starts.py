"""How many instances fsolve matches from 100 starts, by the law of the starts and the form of the equations.

    python benchmarks/starts.py

The paper names neither. Linear RNN, n = 8, T = m = 4, b = 1, d = 4, trials 0 to 19 of seed 1. Raw: the
outputs as polynomials of degree T in the 16 learnable weights. Lifted: Lemma 3.3, the same weights and the
32 numbers of F as unknowns of linear and quadratic equations. Every unknown starts at N(0, s^2).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import fsolve

import sublearn as sl
from sublearn._arrays import Array
from sublearn.matchers import Budget, Reference

SIZES = (8**-0.5, 1.0, 3.0, 10.0)
STARTS = 100
PROBLEM = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)


def raw(instance: sl.Instance, size: float, rng: np.random.Generator) -> bool:
    """Whether the outputs, as functions of the learnable weights, reach their targets."""
    fsolved = Reference(STARTS, spread=size * 8**0.5).attempt(instance, Budget(), rng)
    return fsolved.kind == "matched"


def lifted(instance: sl.Instance, size: float, rng: np.random.Generator) -> bool:
    """Whether W g_B(F) = F and D F X = Y (3.4 and 3.5) are solved, as accurately as raw equations are."""
    weights = {name: np.array(value) for name, value in instance.weights.items()}
    recurrent, encoder, decoder = (weights[name] for name in "WBD")
    places, blocks = instance.allocation.flat("W"), instance.inputs.reshape(4, -1)
    goal = 1e-6 * float(np.abs(instance.targets).max())

    def residual(unknowns: Array) -> Array:
        recurrent.reshape(-1)[places] = unknowns[: places.size]
        states = unknowns[places.size :].reshape(8, 4)
        shifted = np.hstack([states[:, 1:], encoder])
        outputs = decoder @ (states @ blocks) - instance.targets
        return np.concatenate([(recurrent @ shifted - states).ravel(), outputs.ravel()])

    for _ in range(STARTS):
        start = size * rng.standard_normal(places.size + 32)
        _, info, ier, _ = fsolve(residual, start, full_output=True)
        if ier == 1 and np.abs(info["fvec"]).max() <= goal:
            return True
    return False


def matched(solves: Callable[..., bool], rows: int, size: float) -> int:
    count = 0
    for trial in range(20):
        instance = sl.draw(PROBLEM, {"W": sl.FirstRows(rows)}, seed=1, trial=trial)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            count += solves(instance, size, np.random.default_rng([1, trial]))
    return count


if __name__ == "__main__":
    print("k   equations  " + "".join(f"s = {size:<8.2f}" for size in SIZES))
    for rows in (4, 8):
        for solves in (raw, lifted):
            counts = "".join(f"{matched(solves, rows, size):<12}" for size in SIZES)
            print(f"{rows:<4}{solves.__name__:<11}{counts}", flush=True)
