"""Derivatives of torch models by captured activations, beside vmap(jacrev); pursuit on 10^8 weights.

    python benchmarks/models.py [--quick] [--json FILE]

First: the columns of J for r = 1000 random entries, m samples and d outputs, by `Derivatives.gather` and by
torch.func.vmap(jacrev) over the same samples in chunks that fit into memory, float32, one thread, processor
time of the same run after a warm-up. Read the ratio; the largest difference is relative to the largest entry.
Both take d backward passes through activations, and jacrev adds the gradients of all weights by sample: for
token models that is about as much again, so the ratio stays near 2 to 3 there; it grows with the weights
where a weight acts once or few times per sample. Floors stand on the latter.
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

FLOORS = {"cnn 3*10^6": 10.0, "mlp 3*10^6": 10.0}  # on vmap(jacrev) over gather
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


def ratio(make: Callable[[], tuple[Any, Any]]) -> dict[str, float]:
    """The same columns both ways."""
    torch = _torch()
    from torch.func import functional_call, jacrev, vmap

    from sublearn.models import Derivatives

    model, inputs = make()
    shapes = {n: tuple(p.shape) for n, p in model.named_parameters()}
    size = sum(p.numel() for p in model.parameters())
    flat = np.zeros(size, dtype=bool)
    flat[np.random.default_rng(0).permutation(size)[:1000]] = True
    masks, start = {}, 0
    for name, shape in shapes.items():
        count = int(np.prod(shape))
        masks[name] = flat[start : start + count].reshape(shape)
        start += count
    Derivatives(model, inputs[:2]).gather(masks)  # what torch sets up on first use
    began = time.process_time()
    ours = Derivatives(model, inputs).gather(masks)
    fast = time.process_time() - began
    own = {n: p.detach() for n, p in model.named_parameters()}
    places = {n: torch.from_numpy(np.flatnonzero(m)) for n, m in masks.items()}

    def outputs(params: Any, sample: Any) -> Any:
        return functional_call(model, params, (sample.unsqueeze(0),)).squeeze(0)

    chunk = max(1, int(2e8) // (size * 10))

    def reference(given: Any) -> Any:
        parts = []
        # torch.func knows no fused attention; the plain one is faster for it.
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            for low in range(0, len(given), chunk):
                found = vmap(jacrev(outputs), in_dims=(None, 0))(own, given[low : low + chunk])
                columns = [found[n].flatten(2)[:, :, places[n]] for n in shapes]
                parts.append(torch.cat(columns, -1).flatten(0, 1))
        return torch.cat(parts).numpy()

    reference(inputs[:2])
    began = time.process_time()
    theirs = reference(inputs)
    slow = time.process_time() - began
    apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return {"weights": size, "ours": fast, "jacrev": slow, "ratio": slow / fast, "apart": apart}


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

    once()
    began = time.process_time()
    once()
    unit = time.process_time() - began
    began = time.process_time()
    found = Derivatives(model, inputs, outputs=outputs if kind == "gpt2" else None)
    limits = Limits(found.shapes)
    target = np.random.default_rng(0).standard_normal(found.outputs.shape)
    chosen = pursue(found, target, 100 if quick else 1000, limits)
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    count = sum(int(mask.sum()) for mask in chosen.masks.values())
    return {
        "weights": size,
        "chosen": count,
        "pass": unit,
        "passes": spent / unit,
        "peak": peak,
        "most": MOST_MEMORY[0] * weights + MOST_MEMORY[1],
    }


def guard_cost() -> dict[str, float]:
    """One check of a model of 3 million weights, and one training step of it."""
    torch = _torch()
    from sublearn.models import guard

    model, inputs = _small_models(False)["mlp 3*10^6"]()
    optimizer = torch.optim.Adam(model.parameters())
    times: dict[str, list[float]] = {"step": [], "check": []}
    watch = guard(model, ["0.bias"])
    for _ in range(5):
        began = time.process_time()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        times["step"].append(time.process_time() - began)
        began = time.process_time()
        watch.check()
        times["check"].append(time.process_time() - began)
    return {name: min(values) for name, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small models only")
    parser.add_argument("--large", action="store_true", help="with --quick: large models too")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--pursuit", choices=("mlp", "gpt2"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    _torch()
    if chosen.pursuit:
        print(json.dumps(pursuit(chosen.pursuit, chosen.quick)))
        return 0
    figures: dict[str, Any] = {}
    good = True
    for name, make in _small_models(chosen.quick).items():
        figures[name] = row = ratio(make)
        good &= row["ratio"] >= FLOORS.get(name, 0.0) and row["apart"] < 1e-3
        print(
            f"{name:<20} {row['weights']:>9} weights  ours {row['ours']:7.2f} s  vmap(jacrev) "
            f"{row['jacrev']:7.2f} s  {row['ratio']:6.1f}x  apart {row['apart']:.0e}"
        )
    cost = figures["guard"] = guard_cost()
    print(f"guard: check {1e3 * cost['check']:.1f} ms beside a step of {1e3 * cost['step']:.1f} ms")
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
