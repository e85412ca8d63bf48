"""A lab's own network, as the lab has it: a plain loop in NumPy, and arrays in files.

``python lab.py`` writes W.npy, Win.npy, D.npy, x.npy and y.npy beside it. Nothing here is of sublearn.
"""

import numpy as np

UNITS, TRIALS, STEPS, LEAK = 50, 100, 10, 0.2


def run(W, Win, D, x):
    """What the network puts out at the end of each trial, for x of shape (trials, steps, 3)."""
    y = []
    for trial in x:
        rates = np.zeros(UNITS)
        for step in trial:
            rates = (1 - LEAK) * rates + LEAK * np.tanh(W @ rates + Win @ step)
        y.append(D @ rates)
    return np.array(y)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    W = 1.2 * rng.normal(size=(UNITS, UNITS)) / np.sqrt(UNITS)
    np.fill_diagonal(W, 0.0)  # no neuron connects to itself
    Win = rng.normal(size=(UNITS, 3))
    D = rng.normal(size=(2, UNITS)) / np.sqrt(UNITS)
    x = rng.normal(size=(TRIALS, STEPS, 3))
    for name, array in {"W": W, "Win": Win, "D": D, "x": x, "y": run(W, Win, D, x)}.items():
        np.save(f"{name}.npy", array)
