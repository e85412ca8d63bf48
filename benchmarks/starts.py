"""How many instances fsolve matches from 100 starts, by the law of the starts, which the paper does not name.

    python benchmarks/starts.py

Linear RNN, n = 8, T = m = 4, b = 1, d = 4, trials 0 to 19 of seed 1; starts of standard deviation s.
"""

from __future__ import annotations

import numpy as np

import sublearn as sl
from sublearn.matchers import Budget, Reference

SIZES = (8**-0.5, 1.0, 3.0, 10.0)
PROBLEM = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)


def matched(rows: int, size: float) -> int:
    fsolve = Reference(100, spread=size * 8**0.5)
    count = 0
    for trial in range(20):
        instance = sl.draw(PROBLEM, {"W": sl.FirstRows(rows)}, seed=1, trial=trial)
        rng = np.random.default_rng([1, trial])
        count += fsolve.attempt(instance, Budget(), rng).kind == "matched"
    return count


if __name__ == "__main__":
    print("k   " + "".join(f"s = {size:<8.2f}" for size in SIZES))
    for rows in (4, 8):
        print(f"{rows:<4}" + "".join(f"{matched(rows, size):<12}" for size in SIZES))
