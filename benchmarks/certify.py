"""What exact rank costs beside the ways of getting a rank that people use today.

    python benchmarks/certify.py [--quick] [--json FILE]

One run, one BLAS thread, best of several interleaved rounds: read the ratios, not the times.
Exits with 1 if a floor is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import flint
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor

from sublearn.exact import (
    ColumnBasis,
    PrimeField,
    columns,
    eliminate,
    greedy,
    peel,
    smallest_circuit,
)

Array = NDArray[np.float64]
FIELD = PrimeField(8388593)
RESULTS: list[dict[str, Any]] = []


def recurrent(
    rng: np.random.Generator, n: int, T: int, b: int, d: int, m: int, repeat: bool = False
) -> tuple[Array, Array]:
    """Factors of W for Y = D sum_t W^(T-t+1) B X_t at a random point modulo p.

    With `repeat` the last sample equals the first, so that d m is never reached.
    """
    W, B, D = (FIELD.random(rng, shape) for shape in ((n, n), (n, b), (d, n)))
    X = FIELD.random(rng, (T, b, m))
    if repeat:
        X[:, :, -1] = X[:, :, 0]
    left, states = [D], [FIELD.matmul(B, X[0])]
    for t in range(1, T):
        left.append(FIELD.matmul(left[-1], W))
        states.append(FIELD.add(FIELD.matmul(W, states[-1]), FIELD.matmul(B, X[t])))
    return np.stack(left), np.stack(states[::-1])


def interleaved(rounds: int, *jobs: Callable[[], object]) -> list[float]:
    """The best time of each job in seconds, the jobs taking turns."""
    best = [float("inf")] * len(jobs)
    for _ in range(rounds):
        for k, job in enumerate(jobs):
            begin = time.perf_counter()
            job()
            best[k] = min(best[k], time.perf_counter() - begin)
    return best


def peak_memory(task: str) -> float:
    """Peak resident memory in MiB of this file run as its own process on one task."""
    done = subprocess.run(
        [sys.executable, __file__, "--task", task], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def own_peak() -> float:
    """Peak resident memory of this process in MiB.

    Read from the kernel's account of this program: `ru_maxrss` would include the parent's peak,
    which a child inherits.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    import resource

    scale = 2**20 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def heading(text: str, *header: str) -> None:
    print(f"\n{text}\n" + "".join(f"{word:>14}" for word in header), flush=True)


def row(table: str, **cells: float | int | str) -> None:
    RESULTS.append({"table": table, **cells})
    shown = (f"{c:.4g}" if isinstance(c, float) else str(c) for c in cells.values())
    print("".join(f"{text:>14}" for text in shown), flush=True)


def floor(text: str, value: float, bound: float, at_least: bool) -> None:
    passed = value >= bound if at_least else value <= bound
    sign = ">=" if at_least else "<="
    print(f"  {'PASS' if passed else 'FAIL'}  {text}: {value:.4g} {sign} {bound:g}", flush=True)
    RESULTS.append({"table": "floors", "floor": text, "value": value, "bound": bound})
    RESULTS[-1]["passed"] = bool(passed)


def square_jacobian(rng: np.random.Generator, needed: int) -> Array:
    """`needed` random columns of the Jacobian of a recurrent network with d m = needed."""
    d = int(needed**0.5)
    n, T, b = 2 * d, 8, max(1, d // 8)
    left, right = recurrent(rng, n, T, b, d, d)
    chosen = rng.permutation(n * n)[:needed]
    return columns(FIELD, left, right, *np.divmod(chosen, n))


def rank_table(quick: bool) -> None:
    rng = np.random.default_rng(0)
    heading(
        "1. Exact rank of a square Jacobian, milliseconds and ratios to exact.eliminate",
        "needed",
        "eliminate",
        "flint",
        "flint+fill",
        "float LU",
        "flint/ours",
        "+fill/ours",
        "ours/LU",
    )
    ratios = {}
    for needed in (64, 256, 1024) if quick else (64, 256, 1024, 4096):
        matrix = square_jacobian(rng, needed)
        full = eliminate(FIELD, matrix.copy()).rank
        made: list[flint.nmod_mat] = []

        def fill(matrix: Array = matrix, made: list[flint.nmod_mat] = made) -> None:
            entries = np.where(matrix < 0, matrix + FIELD.p, matrix).astype(np.int64)
            made[:] = [flint.nmod_mat(*matrix.shape, entries.ravel().tolist(), FIELD.p)]

        # Copies are made outside the clock: a caller has no further use for the columns.
        copies: list[Array] = []
        rounds = {64: 50, 256: 20, 1024: 7}.get(needed, 2)
        copies += [matrix.copy() for _ in range(2 if needed > 2000 else rounds)]
        ours, lu = interleaved(
            rounds, lambda c=copies: eliminate(FIELD, c.pop()), lambda a=matrix: lu_factor(a)
        )
        slow = 1 if needed > 2000 else max(2, rounds // 4)
        filling, ranking = interleaved(slow, fill, lambda m=made: m[0].rank())
        if made[0].rank() != full if needed < 2000 else False:
            raise AssertionError("flint disagrees")
        ratios[needed] = (ranking + filling) / ours, ours / lu
        row(
            "rank",
            needed=needed,
            eliminate=1e3 * ours,
            flint=1e3 * ranking,
            flint_and_fill=1e3 * (ranking + filling),
            float_lu=1e3 * lu,
            flint_ratio=ranking / ours,
            flint_and_fill_ratio=(ranking + filling) / ours,
            lu_ratio=ours / lu,
        )
    print("  flint: nmod_mat.rank; fill: the matrix made from a list, which is the way in.")
    print("  float LU: scipy lu_factor of the same numbers, which proves nothing about rank.")
    for needed, (gain, cost) in ratios.items():
        if needed > 64:
            least = 5 if needed > 2000 else 10
            floor(f"flint with fill / ours at {needed}", gain, least, at_least=True)
        if needed >= 1024:
            floor(f"ours / float64 LU at {needed}", cost, 1.3, at_least=False)
    if not quick:
        used = peak_memory("rank")
        floor("peak MiB at 4096, the whole process", used, 400, at_least=False)


def float_table(quick: bool) -> None:
    heading(
        "   Float64 rank (numpy matrix_rank) of learnable sets proved to have full rank",
        "n",
        "d m",
        "wrong",
        "of",
    )
    rng = np.random.default_rng(1)
    for n in (12, 16, 20, 24, 28, 32):
        T = m = n // 2
        d, k, draws = 4, 6, 20
        wrong = done = 0
        while done < draws:
            chosen = rng.permutation(k * n)[: d * m]
            i, j = np.divmod(chosen, n)
            left, right = recurrent(rng, n, T, 1, d, m)
            # Full rank modulo a prime is a proof of full generic rank.
            if eliminate(FIELD, columns(FIELD, left, right, i, j)).rank < d * m:
                continue
            W, D = (rng.normal(size=s) / n**0.5 for s in ((n, n), (d, n)))
            B, X = rng.normal(size=(n, 1)), rng.normal(size=(T, 1, m))
            lefts, states = [D], [B @ X[0]]
            for t in range(1, T):
                lefts.append(lefts[-1] @ W)
                states.append(W @ states[-1] + B @ X[t])
            terms = zip(lefts, states[::-1], strict=True)
            real = sum(one[:, None, i] * two[None, j].swapaxes(1, 2) for one, two in terms)
            wrong += int(np.linalg.matrix_rank(np.reshape(real, (d * m, -1)))) < d * m
            done += 1
        row("float rank", n=n, needed=d * m, wrong=wrong, draws=draws)


def peel_table(quick: bool) -> None:
    heading(
        "2. One feed-forward layer n x n, d = m, d m random entries, milliseconds",
        "d = m",
        "n",
        "rank",
        "by counting",
        "peel",
        "dense",
        "dense/peel",
    )
    rng = np.random.default_rng(2)
    gain = 0.0
    for d, n in ((32, 40), (32, 64), (32, 128), (64, 80), (64, 128), (64, 256)):
        if quick and (d, n) in ((64, 80), (64, 256)):
            continue
        mask = np.zeros(n * n, dtype=bool)
        mask[rng.permutation(n * n)[: d * d]] = True
        mask = mask.reshape(n, n)

        def dense(mask: Array = mask, d: int = d, n: int = n) -> int:
            left, right = FIELD.random(rng, (1, d, n)), FIELD.random(rng, (1, n, d))
            return eliminate(FIELD, columns(FIELD, left, right, *np.nonzero(mask))).rank

        found = peel(mask, d, d, FIELD, rng)
        if found.rank != dense():
            raise AssertionError("peel and dense disagree")
        rounds = 2 if d > 32 else 5
        quickly, slowly = interleaved(rounds, lambda a=mask, d=d: peel(a, d, d, FIELD, rng), dense)
        row(
            "peel",
            d=d,
            n=n,
            rank=found.rank,
            exact=str(found.exact),
            peel=1e3 * quickly,
            dense=1e3 * slowly,
            ratio=slowly / quickly,
        )
        if (d, n) == (64, 128):
            gain = slowly / quickly
    floor("dense / peel at d = m = 64, n = 128", gain, 5, at_least=True)


def dense_scan(factors: tuple[Array, Array], order: NDArray[np.int64], n: int) -> int:
    """Form columns in order, 1024 at a time, until the basis is full or none is left."""
    basis = ColumnBasis(FIELD, factors[0].shape[1] * factors[1].shape[2])
    for begin in range(0, order.size, 1024):
        ids = order[begin : begin + 1024]
        basis.push(columns(FIELD, *factors, *np.divmod(ids, n)))
        if basis.rank == factors[0].shape[1] * factors[1].shape[2]:
            break
    return basis.rank


def orders(rng: np.random.Generator, n: int) -> dict[str, NDArray[np.int64]]:
    """Weight orders, from easy to hard."""
    size = np.abs(rng.standard_normal((n, n)))
    scale = np.exp(1.5 * rng.standard_normal(n))[:, None]
    return {
        "random": rng.permutation(n * n),
        "row scales": np.argsort(-(size * scale).ravel()),
        "row by row": np.arange(n * n),
    }


def greedy_table(quick: bool) -> None:
    n, T, b, d, m = (256 if quick else 512), 8, 4, 32, 32
    heading(
        f"3. Best basis among {n * n} weights, d m = {d * m}, seconds",
        "order",
        "samples",
        "rank",
        "greedy",
        "dense scan",
        "scan/greedy",
    )
    rng = np.random.default_rng(3)
    gains = []
    for repeat in (False, True):
        factors = recurrent(rng, n, T, b, d, m, repeat)
        for name, order in orders(rng, n).items():
            found = greedy(FIELD, [factors], order, rng)
            (ours,) = interleaved(3, lambda f=factors, o=order: greedy(FIELD, [f], o, rng))
            begin = time.perf_counter()
            if dense_scan(factors, order, n) != found.size:
                raise AssertionError("greedy and the dense scan disagree")
            scan = time.perf_counter() - begin
            row(
                "greedy",
                order=name,
                samples="one repeated" if repeat else "generic",
                rank=found.size,
                greedy=ours,
                dense=scan,
                ratio=scan / ours,
            )
            if repeat:
                gains.append(scan / ours)
    print("  dense scan: columns formed and eliminated in the same order, 1024 at a time, with the")
    print("  same kernels but no screening; stops as soon as the rank is d m. With generic samples")
    print("  that happens early and there is little to save. With a repeated sample the rank never")
    print("  reaches d m, so the scan has to see every weight; so would any scan that must show a")
    print(
        "  network degenerate. The floor is on those rows. Orders: random; |Gaussian| scores with"
    )
    print("  log-normal row scales; and row by row, where a row gives T b = 32 and the rest waste.")
    if quick:
        print(f"  (floors are for 262144 weights; smallest gain here {min(gains):.3g})")
        return
    floor("dense scan / greedy, one sample repeated, worst order", min(gains), 10, at_least=True)
    floor("peak MiB of greedy, whole process", peak_memory("greedy"), 300, at_least=False)


def circuit_table(quick: bool) -> None:
    heading(
        "4. A small circuit of a deficient Jacobian, milliseconds",
        "d m",
        "columns",
        "rank",
        "circuit size",
        "eliminate",
        "circuit",
        "share",
    )
    rng = np.random.default_rng(4)
    shares: dict[int, float] = {}
    for d, m in ((16, 32), (32, 32)):
        n, T, b = 64, 8, m // 8
        repeated = recurrent(rng, n, T, b, d, m, repeat=True)
        generic = recurrent(rng, n, T, b, d, m)
        full_row = np.concatenate([np.arange(n), n + rng.permutation(n * n - n)])
        cases = [
            (repeated, rng.permutation(n * n)[: d * m]),
            (generic, full_row[: d * m]),
            (generic, rng.permutation(n * n)[: 2 * d * m]),
        ]
        for factors, ids in cases:
            matrix = columns(FIELD, *factors, *np.divmod(ids, n))
            echelon = eliminate(FIELD, matrix.copy())
            if echelon.rank == ids.size:
                raise AssertionError("not deficient")
            circuit = smallest_circuit(echelon, rng)
            copies = [matrix.copy() for _ in range(9)]
            whole, part = interleaved(
                9,
                lambda c=copies: eliminate(FIELD, c.pop()),
                lambda e=echelon: smallest_circuit(e, rng),
            )
            shares[d * m] = max(shares.get(d * m, 0.0), part / whole)
            row(
                "circuit",
                needed=d * m,
                columns=ids.size,
                rank=echelon.rank,
                size=circuit.size,
                eliminate=1e3 * whole,
                circuit=1e3 * part,
                share=part / whole,
            )
    print("  rows: a repeated sample; one row of W learnable throughout; twice as many as needed.")
    for needed, share in shares.items():
        floor(f"circuit / eliminate at {needed}, worst case", share, 0.1, at_least=False)


def run_task(task: str) -> None:
    """Do one piece of work in this process and print its peak memory in MiB."""
    rng = np.random.default_rng(5)
    if task == "rank":
        eliminate(FIELD, square_jacobian(rng, 4096))
    else:
        factors = recurrent(rng, 512, 8, 4, 32, 32, repeat=True)
        for order in orders(rng, 512).values():
            greedy(FIELD, [factors], order, rng)
    print(own_peak())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out size 4096 and shrink 3.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all rows there")
    parser.add_argument("--task", choices=("rank", "greedy"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        run_task(given.task)
        return 0
    for table in (rank_table, float_table, peel_table, greedy_table, circuit_table):
        table(given.quick)
    missed = [r["floor"] for r in RESULTS if r["table"] == "floors" and not r["passed"]]
    print(f"\n{len(missed)} floors missed" + "".join(f"; {text}" for text in missed))
    if given.json:
        given.json.write_text(json.dumps(RESULTS, indent=1) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
