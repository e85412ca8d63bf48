"""What exact targets cost where they are not needed.

    python benchmarks/exact_targets.py [--quick]

The same instances twice: as drawn, so that the targets are the teacher's outputs as real numbers and the
rights of a draw are established by drawing again; and as plain float64 arrays that are believed to be a
draw. None has more equations than weights, so no decision should need more than float64 targets. CPU time
of one core to draw and decide, the two taken in turns, the least of five rounds; decisions agree but where a
rounded target changes the answer, which is counted. Exits with 1 if exact targets cost more than 10%.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

# Before numpy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import sublearn as sl
from sublearn.ensembles import Instance

SEED = 73109
MOST = 1.10
SETTINGS = {
    "linear RNN, n = 8, k = 8": ("lrnn:n=8,b=1,d=4,T=4", 4, {"W": sl.FirstRows(8)}, 160),
    "linear RNN, n = 8, k = 5": ("lrnn:n=8,b=1,d=4,T=4", 4, {"W": sl.FirstRows(5)}, 80),
    "linear RNN, n = 8, k = 4": ("lrnn:n=8,b=1,d=4,T=4", 4, {"W": sl.FirstRows(4)}, 160),
    "linear RNN, n = 16, k = 16": ("lrnn:n=16,b=1,d=4,T=8", 8, {"W": sl.FirstRows(16)}, 40),
    "three linear layers": ("ffn:4-8-8-6", 4, {"W2": sl.Anywhere(24)}, 80),
    "shallow ReLU, k = 8": ("ffn:6-8-4,activation=relu", 6, {"W1": sl.FirstRows(8)}, 40),
    "tanh RNN": ("rnn:n=6,b=1,d=2,T=3", 3, {"W": sl.FirstRows(6)}, 40),
}


def plain(instance: Instance) -> Instance:
    """The same numbers as float64 arrays, with the rights of a draw taken on trust."""
    out = Instance(
        instance.network, instance.allocation, instance.weights, instance.inputs, instance.targets
    )
    object.__setattr__(out, "origin", instance.origin)
    vars(out)["generic"] = True
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the trials")
    quick = parser.parse_args().quick
    print(f"{'what':<28}{'trials':>8}{'plain ms':>10}{'exact ms':>10}{'ratio':>8}{'differ':>8}")
    missed = []
    for what, (text, samples, rules, trials) in SETTINGS.items():
        problem = sl.Problem(sl.networks.network_from_text(text), samples)
        count = max(4, trials // 4) if quick else trials
        seconds: dict[bool, float] = {True: float("inf"), False: float("inf")}
        kinds: dict[bool, list[str]] = {}
        for turn in range(6):  # the first loads machine code
            for exact in (True, False) if turn % 2 else (False, True):
                begin = time.process_time()
                drawn = (sl.draw(problem, rules, seed=SEED, trial=t) for t in range(count))
                kinds[exact] = [
                    str(sl.decide(one if exact else plain(one), seed=SEED).kind) for one in drawn
                ]
                if turn:
                    seconds[exact] = min(seconds[exact], time.process_time() - begin)
        ratio = seconds[True] / seconds[False]
        differ = sum(one != other for one, other in zip(kinds[True], kinds[False], strict=True))
        each = [1000 * seconds[exact] / count for exact in (False, True)]
        print(f"{what:<28}{count:>8}{each[0]:>10.2f}{each[1]:>10.2f}{ratio:>8.3f}{differ:>8}")
        if ratio > MOST:
            missed.append(f"{what}: {ratio:.3f} > {MOST}")
    print(f"{len(missed)} limits missed" + "".join(f"; {text}" for text in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
