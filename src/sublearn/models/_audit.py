"""Can the weights that may change move the outputs at all? An audit of a torch or JAX model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sublearn._arrays import Array, Indices, Mask
from sublearn._errors import BadInputError, one_of
from sublearn._files import write_whole
from sublearn.models._files import file_to_write
from sublearn.models._jax import JaxModel, no_forward
from sublearn.models._labels import CLASSES, GivenLabels, as_labels
from sublearn.models._masks import as_masks, is_array, mask_at
from sublearn.models._pursuit import DerivativeSums
from sublearn.models._spectrum import DENSE, STRONG, Spectrum, even_columns, spectrum, zero_columns
from sublearn.models._structure import Structure
from sublearn.plots import COLOURS, figure, legend, name_axes

Answer = Literal["ok", "warn", "fail"]
ORDER: tuple[Answer, ...] = ("ok", "warn", "fail")
PERTURB = 0.01
MOST_WASTE = 0.05
"""The share of wasted weights that draws a warning; half of them is a failure."""


@dataclass(frozen=True)
class LayerRow:
    """One parameter: how many of its entries may change, and what they add to the rank.

    ``rank`` is the sum of their leverages, so that the rows add up to the rank of the model;
    ``idle`` is count - rank. ``zero`` entries move no output at all, ``dead`` rows of the parameter
    (units) hold only such entries.
    """

    name: str
    count: int
    size: int
    rank: float
    zero: int
    dead: int

    @property
    def idle(self) -> float:
        """Entries less what they add to the rank."""
        return self.count - self.rank


@dataclass(frozen=True, eq=False)
class Audit:
    """What the weights that may change can do to the outputs, to first order.

    J holds the derivatives of the m samples' outputs (``needed`` numbers) by the ``count`` entries
    that may change. ``rank`` is its rank, ``wasted`` = min(count, needed) - rank the entries that
    turn a knob which others turn already, ``surplus`` = count - needed where positive. The
    ``verdict`` is ok, warn or fail, with ``reasons``, and numerical in grade: floating point decides,
    and ``gap`` says how clearly. Rank is a veto and no ranking: a low one predicts failure, among
    good ones it says nothing about which learns best.
    """

    rank: int
    needed: int
    count: int
    verdict: Answer
    reasons: tuple[str, ...]
    layers: tuple[LayerRow, ...]
    covered: tuple[int, int]
    gap: float
    clear: bool
    reachable: float | None
    parallel: tuple[tuple[tuple[str, int], ...], ...]
    perturbed: float
    precision: str
    samples: int
    values: Array = field(repr=False)
    leverage: Mapping[str, Array] = field(repr=False)
    grade: str = "numerical"

    @property
    def wasted(self) -> int:
        """min(count, needed) - rank."""
        return min(self.count, self.needed) - self.rank

    @property
    def surplus(self) -> int:
        """How many entries more than outputs there are."""
        return max(0, self.count - self.needed)

    @property
    def outputs(self) -> int:
        """Outputs per sample that were looked at."""
        return self.needed // self.samples

    def exit_code(self, fail_on: str = "fail") -> int:
        """1 if the verdict is as bad as ``fail_on`` or worse, else 0.

        ``fail_on`` is warn, fail or never.
        """
        level = one_of("fail_on", fail_on, ("warn", "fail", "never"))
        if level == "never":
            return 0
        return int(ORDER.index(self.verdict) >= ORDER.index(level))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        names = (
            "verdict", "grade", "rank", "needed", "count", "wasted", "surplus", "samples", "outputs",
            "clear", "reachable", "perturbed", "precision",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in names},
            "reasons": list(self.reasons),
            "gap": self.gap if math.isfinite(self.gap) else None,
            "layers_with_weights": list(self.covered),
            "layers": [{**asdict(row), "idle": row.idle} for row in self.layers],
            "parallel": [[list(entry) for entry in group] for group in self.parallel],
            "singular_values": [float(v) for v in self.values],
        }

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=2)

    def save(self, path: str | Path) -> None:
        """Write :meth:`to_json` to a .json file."""
        write_whole(file_to_write(path, ".json"), (self.to_json() + "\n").encode())

    def plot(self, ax: Any = None) -> Any:
        """A picture: per parameter, what its entries add to the rank and what they do not."""
        if ax is None:
            _, ax = figure(height=0.8 + 0.22 * len(self.layers))
        names = [row.name for row in self.layers]
        rank = [row.rank for row in self.layers]
        idle = [max(row.idle, 0.0) for row in self.layers]
        ax.barh(names, rank, color=COLOURS[0], label="adds to the rank")
        ax.barh(names, idle, left=rank, color=COLOURS[1], alpha=0.5, label="does not")
        ax.invert_yaxis()
        name_axes(ax, "weights that may change", "", title=f"{self.verdict}: rank {self.rank}")
        legend(ax)
        return ax

    def __str__(self) -> str:
        where = (
            "at the weights as they are"
            if self.perturbed == 0
            else f"with the trainable weights moved at random by {self.perturbed:g} of their size"
        )
        lines = [
            f"{self.verdict}  ({self.grade})",
            f"rank {self.rank} of {min(self.count, self.needed)}: {self.count} weights may change, "
            f"{self.needed} outputs ({self.samples} samples x {self.outputs}), {self.wasted} wasted",
            f"derivatives taken {where}, in {self.precision} precision; gap at the rank {self.gap:.1e}",
            f"weights that may change lie in {self.covered[0]} of {self.covered[1]} layers",
        ]
        if self.reachable is not None:
            lines.append(f"share of the residual within reach {self.reachable:.1%}")
        lines += [f"- {reason}" for reason in self.reasons]
        wide = max([len(row.name) for row in self.layers] + [9])
        lines.append(
            f"  {'parameter':<{wide}} {'change':>8} {'of':>10} {'rank':>9} {'idle':>9} "
            f"{'zero':>6} {'dead':>5}"
        )
        lines += [
            f"  {row.name:<{wide}} {row.count:>8} {row.size:>10} {row.rank:>9.1f} "
            f"{abs(row.idle) if abs(row.idle) < 0.05 else row.idle:>9.1f} "
            f"{row.zero:>6} {row.dead:>5}"
            for row in self.layers
        ]
        return "\n".join(lines)


def audit(
    model: Any,
    inputs: Any,
    what: Any = None,
    labels: Any = None,
    *,
    targets: Any = None,
    outputs: Any = None,
    forward: Any = None,
    perturb: float = PERTURB,
    precision: str = "auto",
    samples_at_once: int | None = None,
    seed: int = 0,
) -> Audit:
    """Rank, waste and reach of the weights that may change, and a verdict: ok, warn or fail.

    ``what`` says which weights: a choice, masks, names, or None for those that require a gradient
    (so a PEFT model is audited as it is); see :func:`as_masks`. With ``labels`` or ``targets`` the
    share of the residual within reach is reported too; labels are as :func:`choose` takes them, for
    sequences one per position, and nothing is wanted where one is -100. ``outputs`` chooses output
    numbers, as for language models (:class:`Derivatives`). Derivatives are taken with the trainable
    weights moved at random by ``perturb`` of their size, because special points hide rank: LoRA with
    B = 0 shows half of it. The model itself is left as it is.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    >>> inputs = torch.eye(3)
    >>> found = audit(model, inputs, ["0.bias", "1.bias"])
    >>> found.rank, found.needed, found.wasted, found.verdict
    (2, 6, 4, 'fail')
    """
    if not isinstance(perturb, (int, float)) or not 0 <= perturb < 1:
        raise BadInputError(f"perturb must lie from 0 up to 1, not {perturb!r}.")
    one_of("precision", precision, ("auto", "double", "single"))
    if is_array(what):
        raise BadInputError(
            "what must say which weights may change, by names or masks by name, and is an array: the "
            "order is audit(model, inputs, what, labels)."
        )
    masks = as_masks(model, what)
    options: dict[str, Any] = {"outputs": outputs, "perturb": perturb, "seed": seed}
    derivatives: DerivativeSums
    if isinstance(model, JaxModel):
        no_forward(forward)
        derivatives, structure, seen = model.prepared(inputs, masks, **options)
    else:
        from sublearn.models import prepared

        options |= {"forward": forward, "samples_at_once": samples_at_once}
        derivatives, structure, seen = prepared(model, inputs, masks, precision, options)
    residual = _residual(derivatives, labels, targets, outputs is not None)
    return audit_derivatives(
        derivatives, masks, structure, precision=seen, residual=residual, perturbed=perturb
    )


def _residual(derivatives: Any, labels: Any, targets: Any, some: bool = False) -> Array | None:
    """What is wanted of the outputs, or of ``some`` of them."""
    if labels is None and targets is None:
        return None
    if labels is not None and targets is not None:
        raise BadInputError("give labels or targets, not both.")
    given, called = (labels, "labels") if targets is None else (targets, "targets")
    if hasattr(given, "detach"):
        from sublearn.models._inputs import array_of

        given = array_of(given)
    numbers = np.asarray(as_labels(given))
    if targets is not None:
        numbers = numbers.astype(np.float64)
    values = np.asarray(derivatives.outputs, dtype=np.float64)
    shape = values.shape if some else (len(values), *(derivatives.output_shape or (1,)))
    goal = GivenLabels(numbers, shape, finite=True, called=called)
    if some and goal.kind == CLASSES:
        raise BadInputError(
            "labels are classes among all outputs, of which outputs= looks at some: leave one of them out."
        )
    return goal.target(values, slice(None)).ravel()


def audit_derivatives(
    derivatives: DerivativeSums,
    masks: Mapping[str, Mask],
    structure: Structure | None = None,
    *,
    precision: str = "double",
    residual: Array | None = None,
    perturbed: float = 0.0,
) -> Audit:
    """The audit of given derivatives, whatever model they are of."""
    outputs = np.asarray(derivatives.outputs)
    needed = int(outputs.size)
    samples = int(outputs.shape[0])
    order = [name for name in derivatives.shapes if name in masks]
    counts = {name: int(masks[name].sum()) for name in order}
    count = sum(counts.values())

    even: list[Mask] = []

    def blocks() -> Iterator[Array]:
        even.clear()
        for part in _pieces(masks, order, max(1, DENSE // needed)):
            block = np.asarray(derivatives.gather(part), dtype=np.float64)
            even.append(even_columns(block, samples, precision))
            yield block

    seen = spectrum(blocks, needed, count, precision=precision, residual=residual)
    zero = zero_columns(seen.lengths, precision)
    rows, entries, zeros = [], [], {}
    ends = np.cumsum(list(counts.values()))[:-1]
    leverage = dict(zip(order, np.split(seen.leverage, ends), strict=True))
    for name, still in zip(order, np.split(zero, ends), strict=True):
        flat = np.flatnonzero(masks[name])
        entries += [(name, int(e)) for e in flat]
        zeros[name] = flat[still]
        rows.append(
            LayerRow(
                name,
                counts[name],
                int(masks[name].size),
                float(leverage[name].sum()),
                zeros[name].size,
                _dead_rows(flat, still, masks[name].shape),
            )
        )
    parallel = tuple(tuple(entries[i] for i in group) for group in seen.parallel)
    covered = structure.covered(order) if structure else (len(order), len(derivatives.shapes))
    verdict, reasons = _judge(seen, rows, count, needed, len(parallel), covered)
    if structure is not None and (zero.any() or seen.rank < min(count, needed)):
        alike = np.split(np.concatenate(even) & ~zero, ends)
        reasons += structure.explain(
            {row.name: row.idle for row in rows},
            zeros,
            {n: int(c.sum()) for n, c in zip(order, alike, strict=True) if samples > 1},
            needed // samples,
        )
    return Audit(
        rank=seen.rank,
        needed=needed,
        count=count,
        verdict=verdict,
        reasons=tuple(reasons),
        layers=tuple(rows),
        covered=covered,
        gap=seen.gap,
        clear=seen.clear,
        reachable=seen.reachable,
        parallel=parallel,
        perturbed=perturbed,
        precision=precision,
        samples=samples,
        values=seen.values,
        leverage=leverage,
    )


def _pieces(
    masks: Mapping[str, Mask], order: Sequence[str], most: int
) -> Iterator[dict[str, Mask]]:
    """Masks in pieces of at most ``most`` entries, in order."""
    piece: dict[str, Mask] = {}
    size = 0
    for name in order:
        flat = np.flatnonzero(masks[name])
        while flat.size:
            room = most - size
            piece[name] = mask_at(masks[name].shape, flat[:room])
            size += min(room, flat.size)
            flat = flat[room:]
            if size == most:
                yield piece
                piece, size = {}, 0
    if piece:
        yield piece


def _dead_rows(flat: Indices, zero: Mask, shape: tuple[int, ...]) -> int:
    if len(shape) < 2 or not zero.any():
        return 0
    row = flat // math.prod(shape[1:])
    return int((np.bincount(row) > 0).sum() - np.unique(row[~zero]).size)


def _judge(
    seen: Spectrum,
    rows: Sequence[LayerRow],
    count: int,
    needed: int,
    parallel: int,
    covered: tuple[int, int],
) -> tuple[Answer, list[str]]:
    """The verdict and what stands against these weights, worst first."""
    best = min(count, needed)
    wasted = best - seen.rank
    verdict: Answer = "ok"
    reasons: list[str] = []

    def say(level: Answer, sentence: str) -> None:
        nonlocal verdict
        verdict = max(verdict, level, key=ORDER.index)
        reasons.append(sentence)

    if seen.rank == 0:
        say("fail", "no weight that may change moves any output on these samples.")
        return verdict, reasons
    if not seen.clear:
        say(
            "warn",
            f"the singular values show no clear gap at the rank (a jump by {seen.gap:.1e}), so the "
            "rank is uncertain: more samples, or double precision, may settle it.",
        )
    if wasted >= 0.5 * best:
        say(
            "fail", f"{wasted} of {best} are wasted: at least half turn knobs that others turn too."
        )
    elif wasted > MOST_WASTE * best:
        say("warn", f"{wasted} of {best} are wasted: they turn knobs that others turn too.")
    zero = sum(row.zero for row in rows)
    if zero:
        dead = sum(row.dead for row in rows)
        units = f", {dead} units among them with no other" if dead else ""
        say(
            "warn" if zero > MOST_WASTE * count else "ok",
            f"{zero} weights move no output on these samples{units}.",
        )
    whole = [row.name for row in rows if row.zero == row.count]
    if whole:
        names = ", ".join(whole[:3]) + (f" and {len(whole) - 3} more" if len(whole) > 3 else "")
        say("warn", f"nothing in {names} moves any output on these samples.")
    if parallel:
        say(
            "ok", f"{parallel} groups of weights have derivatives that are multiples of each other."
        )
    if seen.reachable is not None and seen.reachable < 0.1:
        say(
            "warn",
            f"only {seen.reachable:.1%} of the residual lies in the span of the directions that are "
            f"reached easily (singular values above {STRONG:g} of the largest).",
        )
    return verdict, reasons
