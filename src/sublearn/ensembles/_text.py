"""Allocations and laws from text, as the command line writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sublearn._errors import BadInputError, one_of
from sublearn.allocations import Allocation, Anywhere, FirstColumns, FirstRows, Rule
from sublearn.ensembles._distributions import (
    Distribution,
    Normal,
    Rademacher,
    Sparse,
    StudentT,
    Uniform,
)
from sublearn.ensembles._problem import Ensemble, Problem
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
}
_RULES = ("first-rows", "first-columns", "random")


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
        rng = np.random.default_rng(self.seed or 0)
        return self.fixed | problem.draw_allocation(self.rules, rng)


def learn_from_text(network: Network, texts: Iterable[str]) -> Learn:
    """Read texts such as ``W:first-rows=5,seed=0`` or ``W:entries=0.0/1.2``, joined as a union.

    >>> import sublearn as sl
    >>> net = sl.FeedForward((3, 3))
    >>> learn_from_text(net, ["W1:entries=0.0/2.1", "W1:diagonal"]).fixed.entries["W1"]
    ((0, 0), (1, 1), (2, 1), (2, 2))
    """
    fixed = Allocation(network.shapes, {})
    rules: dict[str, Rule] = {}
    seeds: set[int] = set()
    for text in texts:
        name, colon, rest = text.partition(":")
        parts = [part.strip() for part in rest.split(",")]
        if not colon or not parts[0]:
            raise BadInputError(f"{text!r} must read NAME:WHAT, like {FORMS['first-rows']!r}.")
        network.shape(name)
        kind, _, value = parts[0].partition("=")
        one_of(f"what to learn in {text!r}", kind, FORMS)
        if kind in _RULES:
            if name in rules:
                raise BadInputError(f"two rules for {name} are given; join them in one.")
            options = _options(text, kind, parts[1:])
            rules[name] = _rule(text, kind, _integer(text, kind, value), options.get("count"))
            if "seed" in options:
                seeds.add(options["seed"])
        elif len(parts) > 1:
            raise _unreadable(text, kind)
        else:
            fixed |= _fixed(network, name, text, kind, value)
    if len(seeds) > 1:
        raise BadInputError(f"the rules must share one seed, not {sorted(seeds)}.")
    return Learn(fixed, rules, seeds.pop() if seeds else None)


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


def _options(text: str, kind: str, parts: list[str]) -> dict[str, int]:
    out: dict[str, int] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in ("count", "seed") or not equals or key in out:
            raise _unreadable(text, kind)
        out[key] = _integer(text, kind, value)
    if out.get("seed", 0) < 0:
        raise BadInputError(f"seed must be at least 0 in {text!r}.")
    return out


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
_PARTS = ("weights", "teacher", "inputs")


def ensemble_from_text(text: str) -> Ensemble:
    """Laws by part, such as ``weights=uniform teacher=normal*2``; parts not named are normal.

    ``*2`` is the scale g of appendix E.3.

    >>> ensemble_from_text("weights=uniform teacher=normal*2").teacher
    Normal(g=2.0)
    """
    laws: dict[str, Distribution] = {}
    for word in text.split():
        part, equals, rest = word.partition("=")
        one_of(f"the part of {word!r}", part, _PARTS)
        name, star, scale = rest.partition("*")
        if not equals or part in laws:
            raise BadInputError(f"the ensemble {text!r} must name each part once: weights=uniform.")
        one_of(f"the law of {word!r}", name, LAWS)
        try:
            g = float(scale) if star else 1.0
        except ValueError:
            raise BadInputError(f"the scale of {word!r} must be a number: normal*2.") from None
        laws[part] = LAWS[name](g)
    return Ensemble(**laws)
