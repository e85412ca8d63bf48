"""Derivatives of torch models by captured activations, beside vmap(jacrev); pursuit on 10^8 weights.

    python benchmarks/models.py [--quick] [--only "mlp 10^5"] [--json FILE]

First: three things that are asked of the Jacobian J of m = 50 samples and d = 10 outputs, each by a fresh
`Derivatives` (what it costs to set up included) and by torch.func.vmap(jacrev) over the same samples: columns
for r = 1000 random entries, J'R for one cotangent, and the squared lengths of all columns. Both sides give
the same numbers in float32 on one thread, processor time of the same run after a warm-up, the least of
several runs where they are short. jacrev is taken at its best: plain attention, which it can batch, the chunk
of samples that is fastest among 1, 2, 5, 10, 25 and 50 (blocks of at most 0.8 GB), and for columns only the
parameters that hold a chosen entry. Beside it, for columns: "as written", all samples at once, all of the
parameters, attention as it comes; and "loop", one torch.autograd.grad for each sample and output. The largest
difference is relative to the largest entry.
What torch sets up once in a process, a second for the first vmap(jacrev), is left out on both sides.
"passes" is what no way by backward passes can avoid for these columns: one forward pass, d backward passes
through activations alone down to the first layer with a chosen entry. What others take over passes is the
most that any such way can gain on them; where that is little the floor is on ours over passes. At 10^5
weights all is a matter of milliseconds, setting up is half of ours, and the floors on jacrev at its best are
lower. Ten times as fast is a floor on vmap(jacrev) as written, at both sizes for MLPs and at 3*10^6 for CNNs
(seven times at 10^5), and on jacrev at its best for both at 3*10^6. For transformers five, as written, there.
Second: residual pursuit of r = 1000 entries among 10^8 random weights, m = 64, 16 outputs each, in units of
one forward and backward pass of the same batch (processor time), with the peak of resident memory, each in a
process of its own. Third: what one `Guard.check` costs beside a training step. Exits with 1 if a floor is
missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before torch is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

CHUNKS = (1, 2, 5, 10, 25, 50)
# On vmap(jacrev) at its best over ours, at 10^5 and at 3*10^6 weights; for columns, or on ours over passes.
FLOORS = {"columns": (2.0, 10.0), "scores": (4.0, 5.0), "squared lengths": (0.0, 0.0)}
# On vmap(jacrev) as written, for columns.
FLOORS_AS_WRITTEN = {"mlp": (10.0, 10.0), "cnn": (7.0, 10.0), "transformer": (0.0, 5.0)}
NEAR = 2.0
MOST_PASSES = {"mlp": 40.0, "gpt2": 200.0}
MOST_MEMORY = (3.0, 1e9)  # times the model, plus bytes


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        print("torch is not installed: pip install 'sublearn[torch]'.")
        raise SystemExit(0) from None
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return torch


def _small_models(quick: bool) -> dict[str, Callable[[], tuple[Any, Any]]]:
    torch = _torch()
    nn = torch.nn

    def cnn(width: int) -> tuple[Any, Any]:
        layers = (
            nn.Conv2d(1, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * 49, 2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, 10),
        )
        return nn.Sequential(*layers), torch.randn(50, 1, 28, 28)

    def transformer(width: int) -> tuple[Any, Any]:
        layers = (
            nn.Linear(28, width),
            *(
                nn.TransformerEncoderLayer(
                    width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
                )
                for _ in range(2)
            ),
            nn.Flatten(),
            nn.Linear(28 * width, 10),
        )
        return nn.Sequential(*layers).eval(), torch.randn(50, 28, 28)

    def mlp(width: int) -> tuple[Any, Any]:
        layers = (nn.Linear(784, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        return nn.Sequential(*layers, nn.Linear(width, 10)), torch.randn(50, 784)

    found: dict[str, Callable[[], tuple[Any, Any]]] = {
        "cnn 10^5": lambda: cnn(22),
        "transformer 10^5": lambda: transformer(64),
        "mlp 10^5": lambda: mlp(110),
    }
    if not quick:
        found["cnn 3*10^6"] = lambda: cnn(120)
        found["transformer 3*10^6"] = lambda: transformer(352)
        found["mlp 3*10^6"] = lambda: mlp(1400)
    return found


def ratios(make: Callable[[], tuple[Any, Any]]) -> dict[str, Any]:
    """The same three answers both ways, in seconds, and how far apart they are."""
    torch = _torch()
    from torch.func import functional_call, jacrev, vmap

    from sublearn.models import Derivatives

    model, inputs = make()
    shapes = {n: tuple(p.shape) for n, p in model.named_parameters()}
    size = sum(p.numel() for p in model.parameters())
    flat = np.zeros(size, dtype=bool)
    flat[np.random.default_rng(0).permutation(size)[:1000]] = True
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    masks = {
        n: part.reshape(shapes[n])
        for n, part in zip(shapes, np.split(flat, ends[:-1]), strict=True)
    }
    places = {n: torch.from_numpy(np.flatnonzero(m)) for n, m in masks.items()}
    own = {n: p.detach() for n, p in model.named_parameters()}
    R = torch.randn(len(inputs), 10)

    held = {n: p for n, p in own.items() if len(places[n])}

    def outputs(params: Any, sample: Any) -> Any:
        return functional_call(model, {**own, **params}, (sample.unsqueeze(0),)).squeeze(0)

    def columns(J: Any, low: int) -> Any:
        return torch.cat([J[n].flatten(2)[:, :, places[n]] for n in held], -1).flatten(0, 1)

    def scores(J: Any, low: int) -> Any:
        part = R[low : low + len(next(iter(J.values())))].flatten()
        return torch.cat([part @ J[n].flatten(0, 1).flatten(1) for n in shapes])

    def norms(J: Any, low: int) -> Any:
        return torch.cat([J[n].flatten(0, 1).flatten(1).square().sum(0) for n in shapes])

    def by_jacrev(answer: Callable[[Any, int], Any], chunk: int, params: Any = own) -> Any:
        jacobians = vmap(jacrev(outputs), in_dims=(None, 0))
        parts = [
            answer(jacobians(params, inputs[low : low + chunk]), low)
            for low in range(0, len(inputs), chunk)
        ]
        return (torch.cat(parts) if answer is columns else sum(parts)).numpy()

    def at_its_best(answer: Callable[[Any, int], Any], chunk: int) -> Any:
        # torch.func knows no fused attention; the plain one is faster for it.
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return by_jacrev(answer, chunk, held if answer is columns else own)

    def by_loop() -> Any:
        rows = []
        for sample in inputs:
            for value in model(sample.unsqueeze(0)).squeeze(0):
                found = torch.autograd.grad(value, list(model.parameters()), retain_graph=True)
                by_name = zip(shapes, found, strict=True)
                rows.append(torch.cat([g.flatten()[places[n]] for n, g in by_name]))
        return torch.stack(rows).numpy()

    def joined(found: dict[str, Any]) -> Any:
        return np.concatenate([found[n].ravel() for n in shapes])

    ours: dict[str, Callable[[], Any]] = {
        "columns": lambda: Derivatives(model, inputs).gather(masks),
        "scores": lambda: joined(Derivatives(model, inputs).scores(R)),
        "squared lengths": lambda: joined(Derivatives(model, inputs).squared_norms()),
    }
    theirs = {"columns": columns, "scores": scores, "squared lengths": norms}
    chunks = [c for c in CHUNKS if c * size * 10 <= 2e8]
    at_its_best(columns, chunks[0])  # what torch sets up on first use
    speed = {c: _spent(lambda c=c: at_its_best(columns, c))[0] for c in chunks}
    best = min(speed, key=lambda c: speed[c])
    row: dict[str, Any] = {"weights": size, "chunk": best, "passes": _passes(model, inputs, masks)}
    for question, mine in ours.items():
        mine()
        fast, found = _least(mine)
        slow, wanted = _least(lambda q=question: at_its_best(theirs[q], best))
        apart = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        row[question] = {"ours": fast, "jacrev": slow, "ratio": slow / fast, "apart": apart}
    fast = row["columns"]["ours"]
    others: dict[str, Callable[[], Any]] = {"loop": by_loop}
    if len(inputs) * size * 10 * 4 * 2 < _free():
        others["as written"] = lambda: by_jacrev(columns, len(inputs))
    for name, run in others.items():
        spent = _least(run)[0]
        row[name] = {"seconds": spent, "ratio": spent / fast}
    return row


def _free() -> float:
    """Bytes of memory that can be had; infinity where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        return 1024.0 * next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return float("inf")


def _spent(run: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = run()
    return time.process_time() - began, found


def _least(run: Callable[[], Any]) -> tuple[float, Any]:
    """The fastest of up to ten runs, as many as a second holds."""
    best = _spent(run)
    total = best[0]
    for _ in range(9):
        if total > 1:
            break
        again = _spent(run)
        total += again[0]
        best = min(best, again, key=lambda pair: pair[0])
    return best


def _passes(model: Any, inputs: Any, masks: dict[str, Any]) -> float:
    """One forward pass and a backward pass per output through activations, for no parameter's sake."""
    torch = _torch()
    chosen = {int(name.split(".")[0]) for name, mask in masks.items() if mask.any()}
    below, above = model[: min(chosen) + 1], model[min(chosen) + 1 :]
    state = below(inputs).detach().requires_grad_()  # nothing is asked for behind it
    for p in model.parameters():
        p.requires_grad_(False)

    def run() -> None:
        below(inputs)
        found = above(state)
        for k in range(found.shape[1]):
            R = torch.zeros_like(found)
            R[:, k] = 1
            torch.autograd.grad(found, state, R, retain_graph=True)

    try:
        run()
        return _least(run)[0]
    finally:
        for p in model.parameters():
            p.requires_grad_(True)


def _large(kind: str) -> tuple[Any, Any, int]:
    torch = _torch()
    nn = torch.nn
    if kind == "mlp":
        width = 4980
        layers: list[Any] = [nn.Linear(784, width), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, 16)), torch.randn(64, 784), 16
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_positions=64, n_embd=768, n_layer=9, n_head=12)
    model = GPT2LMHeadModel(config).eval()
    return model, {"input_ids": torch.randint(0, 50257, (64, 32))}, 16


def pursuit(kind: str, quick: bool) -> dict[str, float]:
    """Passes and peak memory of one pursuit; run in a process of its own."""
    _torch()
    from sublearn.models import Derivatives, Limits, pursue

    model, inputs, outputs = _large(kind)
    size = sum(p.numel() for p in model.parameters())
    weights = sum(p.numel() * p.element_size() for p in model.parameters())

    def once() -> None:
        at_once = 64 if kind == "mlp" else 8
        for low in range(0, 64, at_once):
            if kind == "mlp":
                loss = model(inputs[low : low + at_once]).square().mean()
            else:
                loss = model(input_ids=inputs["input_ids"][low : low + at_once]).logits
                loss = loss[:, :, :16].square().mean()
            loss.backward()
        model.zero_grad(set_to_none=True)

    began = time.process_time()
    found = Derivatives(model, inputs, outputs=outputs if kind == "gpt2" else None)
    limits = Limits(found.shapes)
    target = np.random.default_rng(0).standard_normal(found.outputs.shape)
    chosen = pursue(found, target, 100 if quick else 1000, limits)
    spent = time.process_time() - began
    peak = _peak()  # before the plain passes, whose gradients and logits take as much
    once()
    began = time.process_time()
    once()
    unit = time.process_time() - began
    count = sum(int(mask.sum()) for mask in chosen.masks.values())
    return {
        "weights": size,
        "chosen": count,
        "pass": unit,
        "passes": spent / unit,
        "peak": peak,
        "most": MOST_MEMORY[0] * weights + MOST_MEMORY[1],
    }


def _peak() -> int:
    """Bytes of resident memory at most; Linux counts the parent's in ru_maxrss, and not in VmHWM."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def guard_cost() -> dict[str, float]:
    """A training step of a model of 3 million weights, and a check: all still, all moved, all put back."""
    torch = _torch()
    from sublearn.models import guard

    model, inputs = _small_models(False)["mlp 3*10^6"]()
    optimizer = torch.optim.Adam(model.parameters())
    times: dict[str, list[float]] = {"step": [], "moved": [], "put back": [], "still": []}

    def timed(name: str, ask: Callable[[], Any]) -> None:
        began = time.process_time()
        ask()
        times[name].append(time.process_time() - began)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    for _ in range(5):
        watch, putting = guard(model, ["0.bias"]), guard(model, ["0.bias"], restore=True)
        timed("step", step)
        timed("moved", watch.check)
        timed("put back", putting.check)
        timed("still", watch.check)
    return {name: min(values) for name, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small models only")
    parser.add_argument("--large", action="store_true", help="with --quick: large models too")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--only", help="this model of the first part alone, or guard, and no other part"
    )
    parser.add_argument("--pursuit", choices=("mlp", "gpt2"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    _torch()
    if chosen.pursuit:
        print(json.dumps(pursuit(chosen.pursuit, chosen.quick)))
        return 0
    figures: dict[str, Any] = {}
    good = True
    for name, make in _small_models(chosen.quick).items():
        if chosen.only not in (None, name):
            continue
        figures[name] = row = ratios(make)
        passes = row["passes"]
        print(
            f"{name}: {row['weights']} weights, passes {passes:.3f} s, jacrev in chunks of {row['chunk']}"
        )
        for question in ("columns", "scores", "squared lengths"):
            cell = row[question]
            near = question == "columns" and cell["ours"] <= NEAR * passes
            floor = FLOORS[question][row["weights"] > 10**6]
            good &= (near or cell["ratio"] >= floor) and cell["apart"] < 1e-3
            print(
                f"  {question:<16} ours {cell['ours']:7.3f} s  vmap(jacrev) {cell['jacrev']:7.3f} s  "
                f"{cell['ratio']:6.1f}x  apart {cell['apart']:.0e}"
            )
        cell = row["columns"]
        print(
            f"  columns over passes: ours {cell['ours'] / passes:.1f}, jacrev {cell['jacrev'] / passes:.1f}"
        )
        for other in ("as written", "loop"):
            if other in row:
                cell = row[other]
                print(f"  columns, {other:<10} {cell['seconds']:7.3f} s  {cell['ratio']:6.1f}x")
        if "as written" in row:
            floor = FLOORS_AS_WRITTEN[name.split()[0]][row["weights"] > 10**6]
            good &= row["as written"]["ratio"] >= floor
    if chosen.only not in (None, "guard"):
        return 0 if good else 1
    cost = figures["guard"] = {name: 1e3 * seconds for name, seconds in guard_cost().items()}
    print("guard, ms:", ", ".join(f"{name} {spent:.1f}" for name, spent in cost.items()))
    if chosen.only:
        return 0
    for kind in () if chosen.quick and not chosen.large else ("mlp", "gpt2"):
        command = [sys.executable, __file__, "--pursuit", kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        figures[kind] = row = json.loads(done.stdout.splitlines()[-1])
        good &= row["passes"] <= MOST_PASSES[kind] and row["peak"] <= row["most"]
        print(
            f"pursuit, {kind:<5} {row['weights']:>10} weights  {row['passes']:6.1f} passes of "
            f"{row['pass']:.2f} s  peak {row['peak'] / 1e9:.2f} GB of {row['most'] / 1e9:.2f} GB"
        )
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
