"""A choice of weights to tune: masks by name, how they were chosen, and what spoke for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Mask
from sublearn._errors import BadInputError
from sublearn.models._files import reading_entries, write_entries
from sublearn.models._masks import entries_in, mask_at

FORMAT = "sublearn choice 1"
_SAID = ("budget", "method", "rate", "metric", "gap", "linearisation_error", "passes", "seed")


@dataclass(frozen=True)
class Standing:
    """How one rule at one rate did in the race: its scores on the folds that it ran."""

    rule: str
    rate: float
    scores: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the scores; higher is better."""
        return float(np.mean(self.scores))

    @property
    def spread(self) -> float | None:
        """Standard deviation of the scores over the folds; None of one alone, or where one is infinite."""
        known = len(self.scores) > 1 and np.isfinite(self.scores).all()
        return float(np.std(self.scores, ddof=1)) if known else None

    @property
    def loss(self) -> float:
        """The mean loss on what was held out."""
        return float(np.mean(self.losses))


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Which entries of which weights may change, by name, and how they were chosen.

    ``masks`` holds one boolean array for every weight that could have been chosen from, of the
    weight's own shape. ``budget`` is how many entries were asked for; fewer are chosen where a rule
    knows no more, or whole rows do not fill it. ``method`` is the rule that chose, ``rate`` the rate
    that won with it. ``standings`` says who ran in the race and how they did, the winner first.
    ``gap`` is the relative distance at the cut, between the last score chosen and the first that was
    not: where it is near zero, other arithmetic may choose other entries. ``linearisation_error`` is
    the share of the change of the outputs, after tuning, that the derivatives do not account for.

    >>> choice = Choice.from_masks({"fc.weight": [[True, False], [False, False]], "fc.bias": [False, True]})
    >>> print(choice)
    2 of 6 weights chosen by hand
      layer        chosen   of  share
      fc.weight         1    4  25.0%
      fc.bias           1    2  50.0%
    """

    masks: Mapping[str, Mask]
    budget: int
    method: str
    rate: float | None = None
    standings: tuple[Standing, ...] = ()
    metric: str = ""
    gap: float | None = None
    linearisation_error: float | None = None
    passes: int = 0
    seed: int = 0
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def from_masks(cls, masks: Mapping[str, ArrayLike], method: str = "by hand") -> Choice:
        """A choice of one's own: anything that numpy can read as booleans, by name."""
        own: dict[str, Mask] = {}
        for name, values in masks.items():
            array = np.asarray(values)
            if array.dtype != np.bool_:
                raise BadInputError(
                    f"masks[{name!r}] must hold truth values, not {array.dtype.name}."
                )
            own[name] = array
        return cls(own, entries_in(own), method)

    @property
    def count(self) -> int:
        """How many entries are chosen."""
        return entries_in(self.masks)

    @property
    def size(self) -> int:
        """How many entries could have been chosen."""
        return sum(mask.size for mask in self.masks.values())

    @property
    def layers(self) -> list[dict[str, Any]]:
        """One row per weight that has a chosen entry: its name, how many, of how many, what share."""
        return [
            {"layer": name, "chosen": int(mask.sum()), "of": mask.size, "share": mask.mean().item()}
            for name, mask in self.masks.items()
            if mask.any()
        ]

    @property
    def digest(self) -> str:
        """Of the masks alone: two choices with the same entries have the same digest."""
        content = sha256()
        for name in sorted(self.masks):
            mask = self.masks[name]
            content.update(json.dumps([name, list(mask.shape)]).encode())
            content.update(np.flatnonzero(mask).astype("<i8").tobytes())
        return content.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Choice):
            return NotImplemented
        return self.digest == other.digest and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Choice: {self.count} of {self.size} weights by {self.method}>"

    def __str__(self) -> str:
        rate = f", rate {self.rate:g}" if self.rate is not None else ""
        how = f"by {self.method}" if self.method != "by hand" else self.method
        lines = [f"{self.count} of {self.size} weights chosen {how}{rate}"]
        if self.standings:
            lines += ["", f"the race ({self.metric} on samples held out; {self.passes} passes)"]
            best: dict[str, Standing] = {}  # the first line of each rule
            for row in self.standings:
                best.setdefault(row.rule, row)
            lines.append(f"  {'rule':<27} {'rate':>6}  {'mean':>7}  {'spread':>7}  folds")
            for row in best.values():
                spread = "" if row.spread is None else f"{row.spread:.3f}"
                lines.append(
                    f"  {row.rule:<27} {row.rate:>6g}  {row.mean:>7.3f}  {spread:>7}  {len(row.scores)}"
                    + ("  won" if row is self.standings[0] else "")
                )
            lines.append("")
        rows = self.layers
        wide = max([len(row["layer"]) for row in rows] + [8])
        digits = max([len(str(row["of"])) for row in rows] + [3])
        lines.append(f"  {'layer':<{wide}}  {'chosen':>8}  {'of':>{digits}}  {'share':>5}")
        lines += [
            f"  {row['layer']:<{wide}}  {row['chosen']:>8}  {row['of']:>{digits}}  {row['share']:>5.1%}"
            for row in rows
        ]
        if self.gap is not None:
            lines.append(f"gap at the cut {self.gap:.2g}")
        if self.linearisation_error is not None:
            lines.append(f"linearisation error after tuning {self.linearisation_error:.2g}")
        lines += list(self.notes)
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the masks, which only their counts stand for."""
        return {
            **{name: getattr(self, name) for name in _SAID},
            "notes": list(self.notes),
            "chosen": self.count,
            "of": self.size,
            "digest": self.digest,
            "layers": self.layers,
            "standings": [
                {
                    **asdict(row),
                    "scores": plain_numbers(row.scores),
                    "losses": plain_numbers(row.losses),
                }
                for row in self.standings
            ],
        }

    def save(self, path: str | Path) -> None:
        """Write a .npz: the chosen entries as flat indices, the shapes, and the rest as JSON."""
        write_entries(path, FORMAT, self.masks, self.to_dict())


def load(path: str | Path) -> Choice:
    """The choice that :meth:`Choice.save` wrote.

    >>> import tempfile
    >>> choice = Choice.from_masks({"fc.bias": [True, False, True]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     choice.save(f"{folder}/mask.npz")
    ...     load(f"{folder}/mask.npz") == choice
    True
    """
    with reading_entries(path, FORMAT, "a choice") as (about, stored):
        masks = {name: mask_at(saved["shape"], saved["entries"]) for name, saved in stored.items()}
        standings = tuple(
            Standing(
                row["rule"],
                row["rate"],
                _numbers(row["scores"], -np.inf),
                _numbers(row["losses"], np.inf),
            )
            for row in about["standings"]
        )
        said = {name: about[name] for name in _SAID}
        choice = Choice(masks, standings=standings, notes=tuple(about["notes"]), **said)
        if choice.digest != about["digest"]:
            raise BadInputError(f"{path} is damaged: its entries do not have the digest it names.")
    return choice


def plain_numbers(values: Sequence[float]) -> list[float | None]:
    """Numbers for JSON, which knows no infinity: a run that went astray has None."""
    return [value if np.isfinite(value) else None for value in values]


def _numbers(values: Sequence[float | None], astray: float) -> tuple[float, ...]:
    return tuple(astray if value is None else float(value) for value in values)
