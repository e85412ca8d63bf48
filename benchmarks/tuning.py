"""Which weights to tune: the race against fixed rules, on tasks that were fixed before any run.

    python benchmarks/tuning.py                      a small sample: one task, one seed
    python benchmarks/tuning.py development          what the method was improved on
    python benchmarks/tuning.py confirmation         once, with nothing changed afterwards
    python benchmarks/tuning.py tables confirmation  the tables of what is finished so far

A run keeps its results in benchmarks/results/tuning-*.csv as it goes and goes on from there. It needs
the extras sublearn[torch,data] and transformers; nothing is downloaded.

What is declared here, and fixed before the first run:

- Tasks. A small model is trained on one kind of data, then adapted to another with m samples. The
  development tasks are of the kinds that were studied before this file was written; the confirmation
  tasks are of other shifts, classes, data and architectures, on other seeds.
- Metric. Accuracy on test samples that nobody saw (next-character accuracy for the character model).
- Baselines. Every rule of sublearn.models.RULES, each with its rate tuned on the same folds of the
  same m samples that the race has, every rate on every fold; nobody gets labels beyond these m.
  References, not runners: all weights, and LoRA on two-dimensional weights at the nearest number of
  trainable numbers.
- Expected of the confirmation, at each r in 100, 300, 1000: the race ahead of every fixed rule in the
  paired mean over tasks; mean regret to the best rule in hindsight at most 3 points; at most 6 in any
  task. It may fail, and the tables say so.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

BUDGETS = (100, 300, 1000)
RATES = (0.01, 0.03, 0.1, 0.3)  # a tenth of these where all weights move
STEPS = 60
DEVELOPMENT_SEEDS = (0, 1, 2)
CONFIRMATION_SEEDS = (101, 102, 103, 104, 105)
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Given:
    """A trained model, the m samples to adapt it by, and the test samples."""

    model: Any
    inputs: Any
    labels: Any
    test_inputs: Any
    test_labels: Any


# ---------------------------------------------------------------------------------------- models


def mlp(*sizes: int) -> Any:
    from torch import nn

    layers: list[Any] = []
    for wide, narrow in pairwise(sizes):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(classes: int) -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (1, 14, 14)),
        nn.Conv2d(1, 12, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(384, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def transformer(classes: int) -> Any:
    """Pre-LayerNorm, on the four quarters of a 14 x 14 image."""
    import torch
    from torch import nn

    class Quarters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(49, 32)
            self.places = nn.Parameter(torch.randn(4, 32) * 0.02)
            layer = nn.TransformerEncoderLayer(
                32, 4, 96, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.blocks = nn.ModuleList([layer, _again(layer)])
            self.norm = nn.LayerNorm(32)
            self.head = nn.Linear(32, classes)

        def forward(self, images: Any) -> Any:
            parts = images.view(-1, 2, 7, 2, 7).transpose(2, 3).reshape(-1, 4, 49)
            state = self.embed(parts) + self.places
            for block in self.blocks:
                state = block(state)
            return self.head(self.norm(state).mean(1))

    return Quarters()


def _again(layer: Any) -> Any:
    """A layer of the same kind with weights of its own."""
    import copy

    fresh = copy.deepcopy(layer)
    for module in fresh.modules():
        for reset in ("reset_parameters", "_reset_parameters"):
            if hasattr(module, reset):
                getattr(module, reset)()
    return fresh


def vit(classes: int) -> Any:
    """A small ViT of transformers, with random weights, on 14 x 14 images in four patches."""
    from torch import nn
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        image_size=14,
        patch_size=7,
        num_channels=1,
        num_labels=classes,
    )

    class Images(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vit = ViTForImageClassification(config)

        def forward(self, images: Any) -> Any:
            return self.vit(images.view(-1, 1, 14, 14)).logits

    return Images()


def gpt2(characters: int, length: int) -> Any:
    """A small GPT-2 of transformers, with random weights; its head is tied to its embedding."""
    from torch import nn
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=characters,
        n_positions=length,
        n_embd=32,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )

    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gpt2 = GPT2LMHeadModel(config)

        def forward(self, characters: Any) -> Any:
            return self.gpt2(characters).logits

    return Text()


# ------------------------------------------------------------------------------------------ data


def mnist() -> tuple[Any, Any]:
    """5,000 digits of MNIST, 500 of each, as 28 x 28 images in [0, 1]."""
    import sublearn as sl

    data = sl.datasets.mnist()
    images = np.asarray(data.features, dtype=np.float32).T.reshape(-1, 28, 28) / 255.0
    return images, np.asarray(data.labels)


def small(images: Any) -> Any:
    """Means over 2 x 2 pixels, scaled as is customary: (images, 196)."""
    import torch

    pooled = images.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196)
    return torch.tensor((pooled - 0.1307) / 0.3081, dtype=torch.float32)


def turned(degrees: float) -> Callable[[Any, Any], Any]:
    from scipy.ndimage import rotate

    return lambda images, rng: rotate(images, degrees, axes=(1, 2), reshape=False, order=1)


def blurred(width: float) -> Callable[[Any, Any], Any]:
    from scipy.ndimage import gaussian_filter

    return lambda images, rng: gaussian_filter(images, (0, width, width))


def inverted(images: Any, rng: Any) -> Any:
    return 1.0 - images


def noisy(images: Any, rng: Any) -> Any:
    return np.clip(images + 0.6 * rng.standard_normal(images.shape), 0, 1).astype(np.float32)


def shifted(images: Any, rng: Any) -> Any:
    moved = np.zeros_like(images)
    moved[:, :, 6:] = images[:, :, :-6]
    return moved


def pretrain(model: Any, inputs: Any, labels: Any, epochs: int, rate: float = 2e-3) -> Any:
    import torch

    optimizer = torch.optim.Adam(model.parameters(), rate)
    total = epochs * -(-len(inputs) // 64)
    fall = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total)
    model.train()
    for _ in range(epochs):
        for part in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs[part]), labels[part]).backward()
            optimizer.step()
            fall.step()
    return model.eval()


def per_class(labels: Any, among: Any, each: int, rng: Any) -> tuple[Any, Any]:
    """``each`` samples of every class, shuffled, and the others."""
    classes = np.unique(labels[among])
    some = np.concatenate(
        [rng.choice(among[labels[among] == c], each, replace=False) for c in classes]
    )
    return rng.permutation(some), rng.permutation(np.setdiff1d(among, some))


def shift_task(
    build: Callable[[int], Any], change: Callable[[Any, Any], Any] | None, each: int, epochs: int
) -> Callable[[int], Given]:
    """All ten digits, then the same ten after a change of the images; None: labels permuted."""

    def make(seed: int) -> Given:
        import torch

        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        images, labels = mnist()
        first, second = per_class(labels, np.arange(len(labels)), 250, rng)
        model = pretrain(build(10), small(images[first]), torch.tensor(labels[first]), epochs)
        if change is None:
            order = np.roll(rng.permutation(10), 1)
            fresh, wanted = small(images), order[labels]
        else:
            fresh = small(np.asarray(change(images, rng), dtype=np.float32))
            wanted = labels
        tune, test = per_class(wanted, second, each, rng)
        target = torch.tensor(wanted)
        return Given(model, fresh[tune], target[tune], fresh[test[:1500]], target[test[:1500]])

    return make


def class_task(
    build: Callable[[int], Any], old: tuple[int, ...], each: int, epochs: int
) -> Callable[[int], Given]:
    """Five digits, then the five others under the same five outputs, in random order."""

    def make(seed: int) -> Given:
        import torch

        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        images, labels = mnist()
        new = [digit for digit in range(10) if digit not in old]
        code = np.empty(10, dtype=np.int64)
        code[list(old)], code[new] = np.arange(5), rng.permutation(5)
        inputs, target = small(images), torch.tensor(code[labels])
        first = np.flatnonzero(np.isin(labels, old))
        model = pretrain(build(5), inputs[first], target[first], epochs)
        tune, test = per_class(code[labels], np.flatnonzero(np.isin(labels, new)), each, rng)
        return Given(model, inputs[tune], target[tune], inputs[test[:1500]], target[test[:1500]])

    return make


def digits_task(each: int) -> Callable[[int], Given]:
    """scikit-learn's digits: the even ones, then the odd ones under the same five outputs."""

    def make(seed: int) -> Given:
        import torch

        import sublearn as sl

        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        data = sl.datasets.digits()
        inputs = torch.tensor(np.asarray(data.inputs).T, dtype=torch.float32)
        labels = np.asarray(data.labels)
        code = np.where(labels % 2 == 0, labels // 2, rng.permutation(5)[labels // 2])
        target = torch.tensor(code)
        first = np.flatnonzero(labels % 2 == 0)
        model = pretrain(mlp(64, 96, 48, 5), inputs[first], target[first], 25)
        tune, test = per_class(code, np.flatnonzero(labels % 2 == 1), each, rng)
        return Given(model, inputs[tune], target[tune], inputs[test], target[test])

    return make


def table_task(name: str, trained_on: int, tuned_on: int) -> Callable[[int], Given]:
    """A table of scikit-learn, then the same after its instruments drift: features mixed and moved."""

    def make(seed: int) -> Given:
        import torch
        from sklearn import datasets

        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        data = getattr(datasets, f"load_{name}")()
        inputs = (data.data - data.data.mean(0)) / data.data.std(0)
        width = inputs.shape[1]
        mixing = np.eye(width) + 0.6 * rng.standard_normal((width, width)) / np.sqrt(width)
        drifted = torch.tensor(inputs @ mixing + rng.standard_normal(width), dtype=torch.float32)
        clean = torch.tensor(inputs, dtype=torch.float32)
        target = torch.tensor(data.target)
        order = rng.permutation(len(inputs))
        first, tune = order[:trained_on], order[trained_on : trained_on + tuned_on]
        test = order[trained_on + tuned_on :]
        classes = int(data.target.max()) + 1
        model = pretrain(mlp(width, 64, 32, classes), clean[first], target[first], 40)
        return Given(model, drifted[tune], target[tune], drifted[test], target[test])

    return make


def text_task(windows: int, length: int) -> Callable[[int], Given]:
    """Next characters: prose from Python's help topics, then code from Python's own modules."""

    def make(seed: int) -> Given:
        import os
        import pydoc_data.topics as topics

        import torch

        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)

        def codes(text: str) -> Any:
            kept = [
                ord(c) - 31 if c != "\n" else 0 for c in text if c == "\n" or 32 <= ord(c) < 127
            ]
            return torch.tensor(kept)

        prose = codes("".join(topics.topics[name] for name in sorted(topics.topics)))
        folder = Path(os.__file__).parent
        files = (
            "argparse ast calendar csv datetime difflib fractions heapq shutil statistics textwrap"
        )
        code = codes(
            "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in files.split())
        )

        def draw(source: Any, low: int, high: int, count: int) -> tuple[Any, Any]:
            start = torch.tensor(rng.integers(low, high - length - 1, count))
            found = source[start[:, None] + torch.arange(length + 1)]
            return found[:, :-1], found[:, 1:]

        model = gpt2(96, length)
        optimizer = torch.optim.Adam(model.parameters(), 4e-3)
        steps = 800
        for number in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = 4e-3 * (1 - number / steps)
            inputs, labels = draw(prose, 0, len(prose), 48)
            optimizer.zero_grad()
            outputs = model(inputs).flatten(0, 1)
            torch.nn.functional.cross_entropy(outputs, labels.flatten()).backward()
            optimizer.step()
        half = len(code) // 2
        return Given(model.eval(), *draw(code, 0, half, windows), *draw(code, half, len(code), 400))

    return make


def mnist_mlp(classes: int) -> Any:
    return mlp(196, 96, 48, classes)


# --------------------------------------------------------------------------------------- declared

DEVELOPMENT: dict[str, Callable[[int], Given]] = {
    "digits-odd-mlp-50": digits_task(10),
    "mnist-inverted-mlp": shift_task(mnist_mlp, inverted, 10, 6),
    "mnist-shifted-mlp": shift_task(mnist_mlp, shifted, 10, 6),
    "mnist-relabelled-mlp": shift_task(mnist_mlp, None, 10, 6),
    "mnist-5-to-9-cnn": class_task(cnn, (0, 1, 2, 3, 4), 20, 5),
    "mnist-noisy-transformer": shift_task(transformer, noisy, 10, 10),
}
CONFIRMATION: dict[str, Callable[[int], Given]] = {
    "mnist-02569-mlp": class_task(mnist_mlp, (1, 3, 4, 7, 8), 20, 6),
    "mnist-turned-75-mlp": shift_task(mnist_mlp, lambda *x: turned(75)(*x), 6, 6),
    "mnist-turned-35-cnn": shift_task(cnn, lambda *x: turned(35)(*x), 10, 6),
    "mnist-01367-cnn-50": class_task(cnn, (2, 4, 5, 8, 9), 10, 5),
    "mnist-blurred-turned-transformer": shift_task(
        transformer, lambda i, r: blurred(1.0)(turned(-45)(i, r), r), 10, 10
    ),
    "mnist-blurred-vit": shift_task(vit, lambda *x: blurred(2.5)(*x), 10, 10),
    "wine-drift-mlp": table_task("wine", 60, 40),
    "cancer-drift-mlp": table_task("breast_cancer", 200, 60),
    "characters-gpt2": text_task(64, 16),
}


# ----------------------------------------------------------------------------------------- running

COLUMNS = (
    "task", "seed", "budget", "method", "score", "rule", "rate", "held_out", "chosen",
    "samples", "weights", "untuned",
)  # fmt: skip
RACE, ALL, LORA = "race", "all", "lora"


class Lora:
    """The reference: W + B A on the last two-dimensional weights, of about ``budget`` numbers."""

    def __init__(self, contest: Any) -> None:
        self.contest, self.trainer = contest, contest.trainer
        layers = contest.view().layers
        order = [
            n for names in layers for n in names if contest.limits.shapes[n][1:] and "emb" not in n
        ]
        matrices = [name for name in order if len(contest.limits.shapes[name]) == 2]
        sizes = np.cumsum([sum(contest.limits.shapes[name]) for name in matrices])
        fits = [
            (abs(math.log(rank * size / contest.budget)), -count, rank)
            for count, size in enumerate(sizes.tolist(), 1)
            for rank in range(1, 17)
        ]
        _, count, self.rank = min(fits)
        self.names = matrices[:-count]
        self.size = int(self.rank * sizes[-count - 1])

    def tuned(self, ids: Any, rate: float) -> dict[str, Any]:
        import torch
        from torch.func import functional_call

        trainer = self.trainer
        draws = torch.Generator().manual_seed(self.contest.seed)
        base = {name: trainer.free[name].detach() for name in self.names}
        pairs = {}
        for name, weight in base.items():
            rows, columns = weight.shape
            start = torch.randn(self.rank, columns, generator=draws) / math.sqrt(columns)
            pairs[name] = (torch.zeros(rows, self.rank, requires_grad=True), start.requires_grad_())
        numbers = [number for pair in pairs.values() for number in pair]
        optimizer = torch.optim.Adam(numbers, rate)
        inputs, labels = trainer.inputs[ids], trainer.labels[ids]
        for step in range(trainer.how.steps):
            for group in optimizer.param_groups:
                group["lr"] = rate * (1 - step / trainer.how.steps)
            optimizer.zero_grad()
            held = {name: base[name] + b @ a for name, (b, a) in pairs.items()}
            trainer.loss_of(functional_call(trainer.model, held, (inputs,)), labels).backward()
            optimizer.step()
        return {name: (base[name] + b @ a).detach() for name, (b, a) in pairs.items()}

    def score(self, tune: Any, exam: Any, rate: float) -> tuple[float, float]:
        held = self.tuned(tune, rate)
        before = {name: self.trainer.free[name].detach().clone() for name in held}
        try:
            for name, value in held.items():
                self.trainer.free[name].data.copy_(value)
            found: tuple[float, float] = self.trainer.evaluate(exam)
        finally:
            for name, value in before.items():
                self.trainer.free[name].data.copy_(value)
        return found

    def run(self, rule: str, rate: float, fold: int) -> tuple[float, float]:
        return self.score(*self.contest.folds[fold], rate)


def cells(task: str, make: Callable[[int], Given], seed: int, wanted: list[int]) -> Any:
    """The rows of each budget in turn, in the order of COLUMNS."""
    import torch

    from sublearn.models import FOLDS, RULES, Contest, Splits, compare_cell, prepare, race

    given = make(seed)
    count = len(given.inputs)
    trainer, limits = prepare(
        given.model,
        torch.cat([given.inputs, given.test_inputs]),
        torch.cat([given.labels, given.test_labels]),
        0,
        {"steps": STEPS},
    )
    samples, exam = np.arange(count), np.arange(count, trainer.samples)
    untuned, _ = trainer.evaluate(exam)
    splits = Splits(trainer, FOLDS, seed, samples)
    for budget in wanted:
        rules = {**RULES, ALL: RULES["random"]} if budget == BUDGETS[0] else dict(RULES)
        contest = Contest(splits, limits, rules, budget)
        rows = [
            (r.method, r.score, r.rule, r.rate, r.held_out, r.chosen)
            for r in compare_cell(contest, [RACE, *rules], RATES, exam)
        ]
        lora = Lora(contest)
        best = race(lora, [LORA], RATES, FOLDS)[0]
        score, _ = lora.score(samples, exam, best.rate)
        rows.append((LORA, score, LORA, best.rate, best.mean, lora.size))
        yield [
            (task, seed, 0 if row[0] == ALL else budget, *row, count, limits.size, untuned)
            for row in rows
        ]


def run(which: str, folder: Path = RESULTS) -> None:
    """Run what is missing of a set of tasks, and keep it as it comes."""
    import torch

    torch.set_num_threads(1)
    torch.set_flush_denormal(
        True
    )  # units that died leave numbers too small to matter and slow to add
    tasks, seeds = {
        "sample": ({"digits-odd-mlp-50": DEVELOPMENT["digits-odd-mlp-50"]}, (7,)),
        "development": (DEVELOPMENT, DEVELOPMENT_SEEDS),
        "confirmation": (CONFIRMATION, CONFIRMATION_SEEDS),
    }[which]
    file = folder / f"tuning-{which}.csv"
    done = {(row["task"], row["seed"], row["budget"]) for row in read(which, folder)}
    folder.mkdir(exist_ok=True)
    if not file.exists():
        file.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for seed in seeds:
        for task, make in tasks.items():
            wanted = [r for r in BUDGETS if (task, seed, r) not in done]
            start = time.perf_counter()
            for rows in cells(task, make, seed, wanted) if wanted else ():
                # One write for a cell: a run that is stopped leaves whole cells only.
                with file.open("a", encoding="utf-8", newline="") as out:
                    text = [",".join(_plain(value) for value in row) + "\n" for row in rows]
                    out.write("".join(text))
                print(f"{task}, seed {seed}, r = {rows[0][2]}: {time.perf_counter() - start:.0f} s")
                sys.stdout.flush()
    tables(which, folder)


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read(which: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The rows of finished cells."""
    file = folder / f"tuning-{which}.csv"
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        rows: list[dict[str, Any]] = list(csv.DictReader(lines))
    for row in rows:
        row.update({name: int(row[name]) for name in ("seed", "budget", "chosen", "samples")})
        row.update({name: float(row[name]) for name in ("score", "rate", "held_out", "untuned")})
    return rows


def tables(which: str, folder: Path = RESULTS) -> None:
    """What was expected and what came, per number of weights, as Markdown."""
    from sublearn.models import paired_difference

    rows = read(which, folder)
    if not rows:
        print("nothing is finished yet")
        return
    rules = list(dict.fromkeys(r["method"] for r in rows if r["method"] not in (RACE, ALL, LORA)))
    for budget in BUDGETS:
        held = {
            (r["task"], r["seed"], r["method"]): r["score"] for r in rows if r["budget"] == budget
        }
        every = {(r["task"], r["seed"]): r["score"] for r in rows if r["method"] == ALL}
        names = list(dict.fromkeys(task for task, _, _ in held))
        cell = {task: sorted({s for t, s, _ in held if t == task}) for task in names}
        if not names:
            continue
        print(f"\n### r = {budget}: {sum(map(len, cell.values()))} cells\n")
        print("| task | " + " | ".join([RACE, *rules, LORA, ALL, "best rule", "regret"]) + " |")
        print("|---" * (len(rules) + 6) + "|")
        regret = {}
        means: dict[str, list[float]] = {method: [] for method in (RACE, *rules, LORA, ALL)}
        for task in names:
            hindsight = [max(held[task, s, rule] for rule in rules) for s in cell[task]]
            line = []
            for method in (RACE, *rules, LORA, ALL):
                scores = [
                    every[task, s] if method == ALL else held[task, s, method] for s in cell[task]
                ]
                means[method].append(float(np.mean(scores)))
                line.append(f"{np.mean(scores):.3f}")
            regret[task] = float(np.mean(hindsight)) - means[RACE][-1]
            print(
                f"| {task} | "
                + " | ".join(line)
                + f" | {np.mean(hindsight):.3f} | {regret[task]:.3f} |"
            )
        print(
            "| mean | "
            + " | ".join(f"{np.mean(means[m]):.3f}" for m in (RACE, *rules, LORA, ALL))
            + f" |  | {np.mean(list(regret.values())):.3f} |"
        )
        print(
            "\n| rule | race minus rule, mean over tasks (95%) | regret of the rule (worst task) |"
        )
        print("|---|---|---|")
        behind = []
        for rule in rules:
            gap = paired_difference(means[RACE], means[rule])
            lost = [
                float(
                    np.mean([max(held[t, s, k] for k in rules) - held[t, s, rule] for s in cell[t]])
                )
                for t in names
            ]
            print(f"| {rule} | {gap} | {np.mean(lost):.3f} ({max(lost):.3f}) |")
            if gap.mean <= 0:
                behind.append(rule)
        worst = max(regret, key=lambda task: regret[task])
        mean = float(np.mean(list(regret.values())))
        print(
            f"\n- ahead of every fixed rule: {'yes' if not behind else 'no, not of ' + ', '.join(behind)}"
        )
        print(f"- mean regret at most .030: {'yes' if mean <= 0.03 else 'no'}, {mean:.3f}")
        most = regret[worst]
        print(
            f"- at most .060 in any task: {'yes' if most <= 0.06 else 'no'}, {most:.3f} in {worst}"
        )


def main(words: list[str]) -> None:
    if words[:1] == ["tables"]:
        tables(words[1] if len(words) > 1 else "confirmation")
        return
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as problem:
        print(
            f"skipped: {problem.name} is not installed (pip install 'sublearn[torch]' transformers)"
        )
        return
    if words:
        run(words[0])
        return
    with TemporaryDirectory() as folder:  # a sample is run anew every time
        run("sample", Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
