"""The deep sigmoid network of the published pictures, against its width."""

from __future__ import annotations

from collections.abc import Mapping

from sublearn.experiments.raman2019 import (
    deep_noise,
    deep_sigmoid,
    implicit_size,
    slides_nonlinear_size,
)
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.experiments.tasks._repeats import (
    BEST,
    CUBIC,
    GAMMA,
    Paired,
    best_of,
    by_case,
    noise_of,
    whole,
    widths_of,
    with_errors,
)
from sublearn.runs import Row

LAST = 50
"""Cycles at the end over which the error is taken, as the sources do."""
BASE = 235
"""Weights of the network that is padded, width 5 with its biases."""


class DeepSizes(Paired):
    """Five hidden layers of each of the ``widths``, learning for ``cycles`` cycles.

    A repeat goes through the widths, and has one teacher, one start and one
    sequence of inputs for all widths, so that widths are compared pair by pair. The table has a line
    per width: ``more``, how much more error than the width of the smallest mean; ``less``, how much
    less than the first width; ``change``, the last tenth of the cycles less the tenth before. ``best_size``:
    where the curve has its minimum, by a cubic in log N, with its 95% interval over repeats;
    ``best_predicted``: by the equation of the published code; ``best_slides``: by the slides' formula.
    """

    name = "deep-sizes"
    version = 2  # simulations round in another order
    columns: Mapping[str, type] = {
        "repeat": int,
        "width": int,
        "size": int,
        "value": float,
        "change": float,
    }
    takes: Mapping[str, str] = {**GAMMA, "cycles": "cycles", "widths": "widths compared"}
    headings: Mapping[str, str] = {
        "width": "width of the five hidden layers",
        "size": "number of weights N",
        "repeats": "paired repeats",
        "value": "error of the last 50 cycles",
        "error": "standard error",
        "best": "smallest mean error",
        "more": "more error than the best",
        "more_error": "standard error, paired",
        "less": "less error than the first width",
        "less_error": "standard error, paired",
        "change": "last tenth of the cycles less the tenth before",
        "change_error": "standard error, paired",
        "best_size": "size of the smallest error, fitted",
        **{name: words for name, words in BEST.items() if name != "best_of_curve"},
    }

    def check(self, point: Params) -> None:
        noise_of(point)
        whole(point, "cycles", 1500, least=10)
        self.cases(point)

    def cases(self, point: Params) -> list[int]:
        return widths_of(point, "from 5 to 1000", most=1000)

    def one(self, point: Params, seed: int, repeat: int, case: int) -> Row:
        (g1, g2, g3), cycles = noise_of(point).gamma, whole(point, "cycles", 1500, least=10)
        own, noise = range(repeat, repeat + 1), deep_noise(g3, g1, g2)
        run = deep_sigmoid(case, noise, cycles=cycles, repeats=own, seed=seed)
        errors, tenth = run.errors[0], cycles // 10
        return {
            "repeat": repeat,
            "width": case,
            "size": sum(matrix[0].size for matrix in run.weights.values()),
            "value": float(run.final(min(LAST, cycles))[0]),
            "change": float(errors[-tenth:].mean() - errors[-2 * tenth : -tenth].mean()),
        }

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        widths, table = by_case(rows, "width", "value")
        best, noise = int(table.mean(axis=0).argmin()), noise_of(point)
        sizes = [int(rows["size"][rows["width"] == width][0]) for width in widths]
        size = best_of(sizes, -table, CUBIC)
        size["best_size"] = size.pop("best")
        size["best_predicted"] = implicit_size(noise, BASE).value
        size["best_slides"] = slides_nonlinear_size(noise, BASE).value
        lines: list[Row] = []
        for place, width in enumerate(widths):
            here = rows["width"] == width
            line: Row = {"width": width, "size": sizes[place], **size}
            line |= {"repeats": table.shape[0], "best": place == best}
            line |= with_errors(
                value=table[:, place],
                more=table[:, place] - table[:, best],
                less=table[:, 0] - table[:, place],
                change=rows["change"][here],
            )
            lines.append(line)
        return lines
