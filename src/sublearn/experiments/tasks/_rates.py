"""The mean rate: the formula, and the slides', against random cycles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

import numpy as np

from sublearn._errors import one_of
from sublearn._seeds import Tag
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.experiments.raman2019 import linear_base, slides_expanded_rate, slides_rate
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.experiments.tasks._repeats import GAMMA, noise_of, stream, whole
from sublearn.networks import LinearEstimator
from sublearn.noise import (
    NOISE_ON,
    PATHS,
    READINGS,
    STARTS,
    Geometry,
    Noise,
    expand_linear,
    local_geometry,
)
from sublearn.runs import Row, Task

SETTINGS = ("expansion", "subset")
FACTORS = (1.4, 2.0, 3.0, 4.0)
PLASTIC = (16, 64, 128, 200)
SAMPLES = (8, 64)
INPUTS = ("white", "correlated")


class Rates(Task):
    """One cell per trial: the mean rate of one cycle, by formula and over ``draws`` random cycles.

    ``setting`` "expansion": a 5 x 10 linear estimator expanded along ``path`` (both, inputs or
    outputs), its loss read on all outputs or projected (``reading``); the trials go through factors
    1.4, 2, 3, 4 and through embedded and random starts. "subset": 8 x 32 weights, of which the trials
    make 16, 64, 128 or 200 plastic at random, on 8 or 64 samples that are ``inputs`` white or
    correlated, with noise on the plastic or on all weights (``noise_on``).
    """

    name = "rates"
    columns: Mapping[str, type] = {
        "cell": str,
        "size": int,
        **dict.fromkeys(("measured", "error", "predicted", "slides"), float),
    }
    takes: Mapping[str, str] = {
        "setting": "setting",
        "path": "grown along",
        "reading": "loss read",
        "inputs": "inputs",
        "noise_on": "noise on",
        **GAMMA,
        "T": "time T of a cycle",
        "draws": "pairs of random cycles",
    }
    headings: Mapping[str, str] = {
        "cell": "cell",
        "size": "plastic weights",
        "measured": "measured mean rate",
        "error": "standard error",
        "predicted": "corrected formula",
        "slides": "slides' formula",
        "off": "(measured - corrected) / standard error",
        "slides_off": "(measured - slides') / standard error",
    }

    def check(self, point: Params) -> None:
        noise_of(point)
        whole(point, "draws", 400, least=2)
        if one_of("setting", str(point.get("setting")), SETTINGS) == "expansion":
            one_of("path", str(point.get("path")), PATHS)
            one_of("reading", str(point.get("reading")), READINGS)
        else:
            one_of("inputs", str(point.get("inputs")), INPUTS)
            one_of("noise_on", str(point.get("noise_on")), NOISE_ON)

    def run(self, point: Params, seed: int, trials: range) -> list[Row]:
        noise, draws = _noise(point), whole(point, "draws", 400, least=2)
        cell = _expansion if point["setting"] == "expansion" else _subset
        # Noise of its own for every cell: what chance does to one it must not do to all.
        text = json.dumps(dict(point), sort_keys=True)
        digest = int.from_bytes(sha256(text.encode()).digest()[:8], "little")
        lines: list[Row] = []
        for trial in trials:
            words, geometry, slides = cell(point, seed, trial)
            measured = geometry.measure(noise, draws, seed=stream(seed, digest, trial))
            line: Row = {"cell": words, "size": geometry.plastic, "measured": measured.mean}
            line |= {"error": measured.error, "predicted": geometry.rate(noise), "slides": slides}
            lines.append(line)
        return lines

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        lines: list[Row] = []
        for cells in zip(*(column.tolist() for column in rows.values()), strict=True):
            line = dict(zip(rows, cells, strict=True))
            gap, other = (line["measured"] - line[name] for name in ("predicted", "slides"))
            lines.append({**line, "off": gap / line["error"], "slides_off": other / line["error"]})
        return lines


def _expansion(point: Params, seed: int, trial: int) -> tuple[str, Geometry, float]:
    factor, start = FACTORS[trial // 2 % len(FACTORS)], STARTS[trial % 2]
    path = str(point["path"])
    # One problem for all: sizes are compared on it.
    base = linear_base(np.random.default_rng([seed, Tag.RATE_BASE]))
    c1, c2 = (factor if path != axis else 1.0 for axis in ("outputs", "inputs"))
    reading, own = str(point["reading"]), stream(seed, trial)
    grown = expand_linear(base, c1, c2, reading=reading, start=start, seed=own)
    slides = slides_expanded_rate(local_geometry(base), c1, c2, _noise(point))
    return f"c = {factor:g}, {start}", local_geometry(grown), slides


def _subset(point: Params, seed: int, trial: int) -> tuple[str, Geometry, float]:
    rng = np.random.default_rng([seed, Tag.RATE_SUBSET, trial])
    plastic, samples = PLASTIC[trial % len(PLASTIC)], SAMPLES[trial // len(PLASTIC) % 2]
    network = LinearEstimator(inputs=32, outputs=8)
    x = rng.standard_normal((32, samples))
    if point["inputs"] == "correlated":
        x = rng.standard_normal((32, 2)) @ rng.standard_normal((2, samples)) + 0.5 * x
    mask = rng.permutation(256).reshape(8, 32) < plastic
    weights = {"W": rng.standard_normal((8, 32))}
    allocation = Allocation.from_masks(network, {"W": mask})
    given = Instance(network, allocation, weights, x, rng.standard_normal((8, 32)) @ x)
    noise = _noise(point)
    geometry = local_geometry(given, on=noise.on)
    return f"{plastic} plastic, m = {samples}", geometry, slides_rate(geometry, noise)


def _noise(point: Params) -> Noise:
    return noise_of(point, str(point.get("noise_on", "plastic")))
