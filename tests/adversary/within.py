"""Attack on ``decide_within``: points within eps against refutations, lower bounds against points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from flint import arb, ctx, fmpq

import sublearn as sl
from adversary import distance
from adversary.cells import Cell, ImpossibleError, make, rng_of
from adversary.truth import BITS, bent, read
from adversary.verbs import Outcome

BUDGET = sl.Budget(starts=12, iterations=60, bits=1024, paths=500, roots=20, nodes=600)
# eps in parts of the least distance that was found: just above and below it, and farther off.
FACTORS = (1.0005, 0.97, 1.3, 0.6)


def within(cell: Cell, index: int) -> Outcome:
    """A match is run forward here; a refutation meets the nearest point that was found here."""
    # Cells get one case each: biases and what else changes with the index change with the cell.
    case = make(cell, index + int(rng_of("within", *cell).integers(6)))
    old = ctx.prec
    ctx.prec = BITS
    try:
        return _compare(case.instance, case.planted, rng_of("within", *cell, index))
    finally:
        ctx.prec = old


def _compare(instance: sl.Instance, planted: bool, rng: np.random.Generator) -> Outcome:
    asked, phi = read(instance)
    asked = replace(asked, wanted=bent(phi, asked.wanted))
    search = distance.Nearby(asked)
    scale = float(np.sqrt(np.mean(search.targets**2)))
    if not np.isfinite(scale) or scale > 1e6:
        raise ImpossibleError("targets too large for float64")
    scale = scale or 1.0
    point, far = search.best(rng)
    if planted or far < 1e-7 * scale:
        eps = float(scale * 10.0 ** rng.uniform(-4, 0))
    else:
        eps = float(far * FACTORS[int(rng.integers(4))])
    room = arb(fmpq(*eps.as_integer_ratio()))
    near = np.isfinite(far) and bool(distance.distance(asked, point) <= room)
    ours, why = None, ""
    if planted or near:
        ours, why = "matched", "planted" if planted else "a point"
    else:
        found = distance.refuted(asked, room)
        if found is not None:
            ours, why = "refuted", found
    said = sl.decide_within(instance, eps, budget=BUDGET)
    if said.kind == "matched" and said.values is not None and said.certificate is None:
        reached = distance.distance(asked, [float(v) for v in said.values])
        if reached > room:
            note = f"values at distance {reached.str(6)}, said within {eps!r}"
            return Outcome(True, note, str(ours), said.kind)
        if reached <= room and ours is None:
            ours, why = "matched", "the point that was said, run forward here"
    if said.certificate is not None and not said.certificate.check():
        return Outcome(True, "a certificate that does not hold", str(ours), said.kind)
    definite = ours is not None and said.kind != "undecided"
    note = None
    if definite and said.kind != ours:
        note = f"within {eps!r}: {ours} ({why}), said {said.kind}: {said.reason}"
    return Outcome(definite, note, str(ours), said.kind)
