"""How often, and at what cost, ``decide_within`` decides: instances of several networks against eps.

    python benchmarks/decide_within.py [--trials 10]

Prints, for each network and eps (in units of the root mean square of the instance's targets), how many
instances were matched, refuted and left undecided, and the CPU time of one core per instance.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import sublearn as sl

RELATIVE = (0.03, 0.1, 0.3, 1.0)
POINTS = {
    "ReLU 6-8-4, m = 6, W1, 24 in 8 rows": (
        sl.Problem(sl.FeedForward((6, 8, 4), "relu"), 6),
        {"W1": sl.FirstRows(8, 24)},
    ),
    "ReLU 6-8-4, m = 12, W2 whole": (
        sl.Problem(sl.FeedForward((6, 8, 4), "relu"), 12),
        {"W2": sl.FirstRows(4, 32)},
    ),
    "linear 4-2-4, m = 8, all": (
        sl.Problem(sl.FeedForward((4, 2, 4)), 8, teacher=sl.FeedForward((4, 4))),
        {"W1": sl.FirstRows(2, 8), "W2": sl.FirstRows(4, 8)},
    ),
    "linear RNN n = 8, d = 4, T = m = 4, k = 5": (
        sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), 4),
        {"W": sl.FirstRows(5, 16)},
    ),
    "tanh 6-8-4, m = 6, W1, 24 in 8 rows": (
        sl.Problem(sl.FeedForward((6, 8, 4), "tanh"), 6),
        {"W1": sl.FirstRows(8, 24)},
    ),
    "tanh 2-3-2, m = 3, W1, 3 in 2 rows": (
        sl.Problem(sl.FeedForward((2, 3, 2), "tanh"), 3),
        {"W1": sl.FirstRows(2, 3)},
    ),
    "tanh 20-50-5, m = 60, W2 whole": (
        sl.Problem(sl.FeedForward((20, 50, 5), "tanh"), 60),
        {"W2": sl.FirstRows(5, 250)},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10)
    trials = parser.parse_args().trials
    print("| network | eps / rms | matched | refuted | undecided | s each |")
    print("|---|---|---|---|---|---|")
    wrong = 0
    for name, (problem, rules) in POINTS.items():
        settled: dict[int, str] = {}
        for share in RELATIVE:
            kinds = []
            start = time.process_time()
            for trial in range(trials):
                instance = sl.draw(problem, rules, trial=trial)
                rms = float(np.sqrt(np.mean(instance.targets**2)))
                kinds.append(sl.decide_within(instance, share * rms).kind)
                # What is matched at one eps cannot be refuted at a larger one.
                wrong += settled.get(trial) == "matched" and kinds[-1] == "refuted"
                settled[trial] = kinds[-1]
            each = (time.process_time() - start) / trials
            counts = [str(kinds.count(kind)) for kind in ("matched", "refuted", "undecided")]
            print(f"| {name} | {share:g} | {' | '.join(counts)} | {each:.2g} |", flush=True)
    print(f"contradictions: {wrong}")
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()
