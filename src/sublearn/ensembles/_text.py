"""Allocations and laws from text, as the command line writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.allocations import (
    Allocation,
    Anywhere,
    FirstColumns,
    FirstRows,
    Masks,
    OwnRule,
    Rule,
    is_masks_file,
    masks_from_text,
)
from sublearn.ensembles._distributions import (
    Distribution,
    Normal,
    Rademacher,
    Sparse,
    StudentT,
    Uniform,
)
from sublearn.ensembles._problem import PARTS, Ensemble, Problem
from sublearn.networks import Network

FORMS = {
    "all": "W:all",
    "entries": "W:entries=0.0/0.3/1.2",
    "rows": "W:rows=0-2/5",
    "columns": "W:columns=0/4",
    "block": "W:block=0-3x2-5",
    "diagonal": "W:diagonal",
    "spread": "W:spread=16",
    "first-rows": "W:first-rows=5,seed=0",
    "first-columns": "W:first-columns=3,count=8,seed=0",
    "random": "W:random=16,seed=0",
    "rule": "W:rule=NAME,count=8,seed=0",
}
_RULES = ("first-rows", "first-columns", "random", "rule")


@dataclass(frozen=True)
class Learn:
    """What a list of texts asks for: fixed entries, rules still to be drawn, and their seed.

    ``seed`` is None if none was given: then :meth:`draw` takes 0.
    """

    fixed: Allocation
    rules: Mapping[str, Rule] = field(default_factory=dict)
    seed: int | None = None

    def draw(self, problem: Problem) -> Allocation:
        """The fixed entries together with one draw of the rules."""
        if not self.rules:
            return self.fixed
        for rule in self.rules.values():
            if isinstance(rule, Masks):
                raise BadInputError(
                    f"the file holds {len(rule)} masks, and one is asked for: estimate and sweep go through "
                    "them, trial by trial."
                )
        rng = np.random.default_rng(self.seed or 0)
        return self.fixed | problem.draw_allocation(self.rules, rng)


def learn_from_text(network: Network, texts: Iterable[str]) -> Learn:
    """Read texts such as ``W:first-rows=5,seed=0`` or ``W:entries=0.0/1.2``, joined as a union.

    A text that ends in .npz names a file of masks, one for each trial (:func:`load_masks`).

    >>> import sublearn as sl
    >>> net = sl.FeedForward((3, 3))
    >>> learn_from_text(net, ["W1:entries=0.0/2.1", "W1:diagonal"]).fixed.entries["W1"]
    ((0, 0), (1, 1), (2, 1), (2, 2))
    """
    fixed = Allocation(network.shapes, {})
    rules: dict[str, Rule] = {}
    seeds: set[int] = set()
    for text in texts:
        if is_masks_file(text):
            fixed, rules = _with_masks(network, text, fixed, rules)
            continue
        name, colon, rest = text.partition(":")
        parts = [part.strip() for part in rest.split(",")]
        if not colon or not parts[0]:
            every = f", or '{name}:all' for every entry" if name in network.shapes else ""
            raise BadInputError(
                f"{text!r} must read NAME:WHAT, like {FORMS['first-rows']!r}{every}."
            )
        network.shape(name)
        kind, _, value = parts[0].partition("=")
        one_of(f"what to learn in {text!r}", kind, FORMS)
        if kind in _RULES:
            if name in rules:
                raise BadInputError(f"two rules for {name} are given; join them in one.")
            options, numbers = _options(text, kind, parts[1:])
            count = options.get("count")
            if kind == "rule":
                rules[name] = OwnRule(value, count, **numbers)
            else:
                rules[name] = _rule(text, kind, _integer(text, kind, value), count)
            if "seed" in options:
                seeds.add(options["seed"])
        elif len(parts) > 1:
            raise _unreadable(text, kind)
        else:
            fixed |= _fixed(network, name, text, kind, value)
    if len(seeds) > 1:
        raise BadInputError(f"the rules must share one seed, not {sorted(seeds)}.")
    return Learn(fixed, rules, seeds.pop() if seeds else None)


def _with_masks(
    network: Network, text: str, fixed: Allocation, rules: dict[str, Rule]
) -> tuple[Allocation, dict[str, Rule]]:
    """What was read so far, joined with the masks of a file: one of each weight is fixed."""
    more = masks_from_text(text, network)
    if all(len(rule) == 1 for rule in more.values()):
        masks = {name: rule.mask(0) for name, rule in more.items()}
        return fixed | Allocation.from_masks(network, masks), rules
    for name in more:
        if name in rules:
            raise BadInputError(f"two rules for {name} are given; join them in one.")
    return fixed, {**rules, **more}


def _rule(text: str, kind: str, number: int, count: int | None) -> Rule:
    if kind == "first-rows":
        return FirstRows(number, count)
    if kind == "first-columns":
        return FirstColumns(number, count)
    if count is not None:  # the number behind random is the count itself
        raise _unreadable(text, kind)
    return Anywhere(number)


def _fixed(network: Network, name: str, text: str, kind: str, value: str) -> Allocation:
    if kind == "all":
        if value:
            raise _unreadable(text, kind)
        return Allocation.whole(network, [name])
    if kind == "diagonal":
        return Allocation.diagonal(network, name, _integer(text, kind, value or "0"))
    if kind == "spread":
        return Allocation.spread(network, {name: _integer(text, kind, value)})
    size = max(network.shape(name))
    if kind == "rows":
        return Allocation.from_rows(network, name, _numbers(text, kind, value, size))
    if kind == "columns":
        return Allocation.from_columns(network, name, _numbers(text, kind, value, size))
    if kind == "block":
        rows, cross, columns = value.partition("x")
        if not cross:
            raise _unreadable(text, kind)
        return Allocation.block(
            network,
            name,
            _numbers(text, kind, rows, size),
            _numbers(text, kind, columns, size),
        )
    pairs = [pair.split(".") for pair in value.split("/")]
    entries = [[_integer(text, kind, v) for v in pair] for pair in pairs]
    return Allocation.from_entries(network, {name: entries})


def _options(
    text: str, kind: str, parts: list[str]
) -> tuple[dict[str, int], dict[str, int | float]]:
    """Count and seed, and the numbers that a rule of one's own may be given besides."""
    out: dict[str, int] = {}
    numbers: dict[str, int | float] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        own = kind == "rule" and key.isidentifier() and key not in ("name", "self")
        if not equals or key in out or key in numbers:
            raise _unreadable(text, kind)
        if key in ("count", "seed"):
            out[key] = _integer(text, kind, value)
        elif own:
            numbers[key] = _number(text, kind, value)
        else:
            raise _unreadable(text, kind)
    if out.get("seed", 0) < 0:
        raise BadInputError(f"seed must be at least 0 in {text!r}.")
    return out, numbers


def _number(text: str, kind: str, value: str) -> int | float:
    try:
        number = float(value)
    except ValueError:
        raise _unreadable(text, kind) from None
    return int(value) if value.lstrip("-").isdigit() else number


def _numbers(text: str, kind: str, value: str, size: int) -> list[int]:
    out: list[int] = []
    for part in value.split("/"):
        first, dash, last = part.partition("-")
        if dash:
            low, high = _integer(text, kind, first), _integer(text, kind, last)
            if high < low:
                raise BadInputError(f"the range {part} in {text!r} runs backwards.")
            # A range that ends outside is refused by its end, and never written out.
            out += range(low, high + 1) if high < size else [high]
        else:
            out.append(_integer(text, kind, first))
    return out


def _integer(text: str, kind: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise _unreadable(text, kind) from None


def _unreadable(text: str, kind: str) -> BadInputError:
    return BadInputError(f"{text!r} cannot be read: write it like {FORMS[kind]!r}.")


LAWS: dict[str, type[Distribution]] = {
    "normal": Normal,
    "uniform": Uniform,
    "student-t": StudentT,
    "rademacher": Rademacher,
    "sparse": Sparse,
}
_SETTINGS = {"student-t": "df", "sparse": "density"}


def ensemble_from_text(text: str) -> Ensemble:
    """Laws by part, such as ``weights=uniform teacher=normal*2``; parts not named are normal.

    ``*2`` is the scale g of appendix E.3; ``student-t:5`` has 5 degrees of freedom, of ``sparse:0.2`` a
    fifth of the numbers are not 0.

    >>> ensemble_from_text("weights=uniform teacher=student-t:5*2").teacher
    StudentT(g=2.0, df=5.0)
    """
    laws: dict[str, Any] = {}
    for word in text.split():
        part, equals, rest = word.partition("=")
        one_of(f"the part of {word!r}", part, PARTS)
        named, star, scale = rest.partition("*")
        name, colon, setting = named.partition(":")
        if not equals or part in laws:
            raise BadInputError(f"the ensemble {text!r} must name each part once: weights=uniform.")
        one_of(f"the law of {word!r}", name, LAWS)
        if colon and name not in _SETTINGS:
            raise BadInputError(f"the law of {word!r} takes no number: {name}.")
        try:
            g = float(scale) if star else 1.0
            settings = {_SETTINGS[name]: float(setting)} if colon else {}
        except ValueError:
            raise BadInputError(
                f"the numbers of {word!r} must be numbers: normal*2, student-t:5, sparse:0.2*2."
            ) from None
        law: Any = LAWS[name]
        laws[part] = law(g, **settings)
    return Ensemble(**laws)
