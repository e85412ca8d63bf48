"""Which instances of networks with activations stay undecided, and what the last rungs settle.

    python benchmarks/undecided.py [--trials N] [--seed N] [--only WORDS] [--json FILE]
    python benchmarks/undecided.py --shallow SEEDS

Each instance is decided by the ladder without its last two rungs, ``deep`` and ``boxes``; what is left
undecided is given to these. Prints both counts, and the CPU time that the last rungs take on instances
that they settle, and on those that stay undecided. With --shallow: k = m = 10, r = 40 in a shallow network,
trial 0 of the first seeds, each with its rung, nodes and CPU time; what stays undecided takes up to a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import sublearn as sl
from sublearn.ensembles import learn_from_text
from sublearn.matchers import standard_ladder
from sublearn.networks import network_from_text

Setting = tuple[str, int, str]

RELU: list[Setting] = [
    ("ffn:6-8-8-4,activation=relu", 6, "W1:first-rows=8"),
    ("ffn:6-8-8-4,activation=relu", 6, "W1:first-rows=6"),
    ("ffn:6-8-8-4,activation=relu", 6, "W1:first-rows=4"),
    ("ffn:6-8-8-8-4,activation=relu", 6, "W1:first-rows=8"),
    ("ffn:6-8-8-8-4,activation=relu", 6, "W2:first-rows=8"),
    ("ffn:6-12-12-4,activation=relu", 4, "W1:first-rows=12"),
    ("ffn:3-4-4-2,activation=relu", 3, "W1:random=6"),
    ("ffn:3-4-4-2,activation=relu", 3, "W1:random=3 W2:random=3"),
]
CURVED: list[Setting] = [
    *(("ffn:2-3-1,activation={phi}", m, f"W1:random={m}") for m in range(1, 7)),
    *(("ffn:2-3-3-2,activation={phi}", m, f"W1:random={2 * m}") for m in (1, 2, 3)),
    *(("ffn:2-3-3-2,activation={phi}", m, f"W1:random={m} W2:random={m}") for m in (1, 2, 3)),
    *(("rnn:n=4,b=1,d=1,T=2,activation={phi}", m, f"W:random={m}") for m in (1, 2, 3, 4)),
]


def settings() -> list[Setting]:
    """The table's rows."""
    bent = [(net.format(phi=phi), m, how) for phi in ("tanh", "sigmoid") for net, m, how in CURVED]
    return [*RELU, *bent]


def look(setting: Setting, trials: int, seed: int) -> dict[str, Any]:
    """Counts before and after the last rungs, and their CPU seconds."""
    spec, samples, learn = setting
    network = network_from_text(spec)
    problem, rules = (
        sl.Problem(network, samples=samples),
        learn_from_text(network, learn.split()).rules,
    )
    before, last = standard_ladder()[:-2], standard_ladder()[-2:]
    counts: Counter[str] = Counter()
    seconds: dict[str, list[float]] = {"settled": [], "left": []}
    for trial in range(trials):
        instance = sl.draw(problem, rules, seed=seed, trial=trial)
        kind = sl.decide(instance, ladder=before).kind
        counts[f"{kind} before"] += 1
        if kind != "undecided":
            counts[f"{kind} now"] += 1
            continue
        begin = time.process_time()
        kind = sl.decide(instance, ladder=last).kind
        seconds["left" if kind == "undecided" else "settled"].append(time.process_time() - begin)
        counts[f"{kind} now"] += 1
    return {
        "network": spec,
        "samples": samples,
        "learn": learn,
        "trials": trials,
        **{
            f"{kind} {when}": counts[f"{kind} {when}"]
            for when in ("before", "now")
            for kind in ("matched", "refuted", "undecided")
        },
        **{f"{kind}: mean CPU s": sum(x) / len(x) if x else None for kind, x in seconds.items()},
    }


def shallow(seeds: int) -> None:
    """Beyond the sizes of Figure 3b, one line for each seed."""
    problem = sl.Problem(network_from_text("ffn:6-10-4,activation=relu"), samples=10)
    print("| seed | answer | rung | nodes | CPU s |\n|---|---|---|---|---|")
    for seed in range(seeds):
        instance = sl.draw(problem, {"W1": sl.FirstRows(10)}, seed=seed)
        begin = time.process_time()
        found = sl.decide(instance)
        seconds = time.process_time() - begin
        words = found.kind, found.rung, found.effort.nodes, f"{seconds:.2g}"
        print("|", seed, "|", " | ".join(map(str, words)), "|", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="settings whose words contain these")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--shallow", type=int, metavar="SEEDS", help="only these, one by one")
    asked = parser.parse_args()
    if asked.shallow is not None:
        shallow(asked.shallow)
        return 0
    found = []
    print(
        "| network | m | learnable | undecided before | now | matched, refuted now | CPU s settled "
        "| left |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for setting in settings():
        if asked.only not in " ".join(map(str, setting)):
            continue
        row = look(setting, asked.trials, asked.seed)
        found.append(row)
        settled, left = (
            "" if row[f"{kind}: mean CPU s"] is None else f"{row[f'{kind}: mean CPU s']:.2g}"
            for kind in ("settled", "left")
        )
        print(
            f"| {row['network']} | {row['samples']} | {row['learn']} | {row['undecided before']} "
            f"| {row['undecided now']} | {row['matched now']}, {row['refuted now']} | {settled} | {left} |",
            flush=True,
        )
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
