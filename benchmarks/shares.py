"""The share of instances decided, over the settings of Figure 2a and beyond.

    python benchmarks/shares.py [--quick] [--workers N] [--seed N] [--json FILE]

Linear RNN with T = n/2, b = 1, d = 4, m = n/2, learnable weights at random in the first k rows. Prints,
for each (n, k), how many trials were matched (with proof), refuted and undecided, with the 95%
interval, and sets the floors beside them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import sublearn as sl


def settings(quick: bool) -> list[tuple[int, int, int, float, bool]]:
    """(n, k, trials, floor on the matched share, whether all must be decided)."""
    many, some, few = (20, 10, 4) if quick else (200, 100, 40)
    out = [(6, k, many, 0.0, True) for k in range(4, 7)]
    out += [(8, k, many, 0.0, True) for k in range(4, 7)]
    out += [(8, k, many, 0.0, False) for k in (7, 8)]
    out += [(12, k, some, 0.99, False) for k in range(4, 13)]
    out += [(16, k, some, 0.99, False) for k in range(4, 17)]
    out += [(24, 24, some, 0.99, False), (32, 32, few, 0.95, False)]
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=505)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows, missed = [], 0
    print("  n   k  trials  matched  refuted  undecided  share (95% interval)      s   floor")
    for n, k, trials, floor, decided in settings(arguments.quick):
        problem = sl.Problem(sl.LinearRNN(n=n, b=1, d=4, T=n // 2), samples=n // 2)
        e = sl.estimate(
            problem,
            {"W": sl.FirstRows(k)},
            trials,
            seed=arguments.seed,
            workers=arguments.workers,
        )
        good = e.bracket[0] >= floor and e.proved == e.matched and not (decided and e.undecided)
        missed += not good
        wanted = "all decided" if decided else (f">= {floor}" if floor else "")
        verdict = ("PASS" if good else "FAIL") if wanted else ""
        low, high = e.confidence
        print(
            f"{n:3d} {k:3d} {e.trials:7d} {e.matched:8d} {e.refuted:8d} {e.undecided:10d}  "
            f"{e.bracket[0]:.3f} ({low:.3f} to {high:.3f}) {e.seconds:8.1f}   {wanted} {verdict}",
            flush=True,
        )
        rows.append({"n": n, "k": k, **e.to_dict()})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("all floors kept" if not missed else f"{missed} floors missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
