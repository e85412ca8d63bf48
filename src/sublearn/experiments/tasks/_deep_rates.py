"""The rate of one cycle of deep sigmoid networks against their width, measured and by formula."""

from __future__ import annotations

from collections.abc import Mapping

from sublearn.experiments.raman2019 import implicit_size, slides_nonlinear_size
from sublearn.experiments.tasks._difficulties import Difficulties, student
from sublearn.experiments.tasks._point import Columns, Params
from sublearn.experiments.tasks._repeats import (
    BEST,
    CUBIC,
    best_of,
    by_case,
    noise_of,
    stream,
    top_of,
    whole,
    with_errors,
)
from sublearn.runs import Row


class DeepRates(Difficulties):
    """The students of `difficulty`: the rate over ``draws`` random cycles, beside <k> by formula.

    The table has a line per width, with means over students; ``gain`` and ``gain_predicted`` are more than
    at the first width, student by student. ``best``: where the measured curve has its
    optimum, by a cubic in log N, with its 95% interval over students; ``best_of_curve``: that of <k>;
    ``best_predicted``: by the equation of the published code; ``best_slides``: by the slides'.
    """

    name = "deep-rates"
    columns: Mapping[str, type] = {
        "repeat": int,
        "width": int,
        "size": int,
        **dict.fromkeys(("value", "predicted"), float),
    }
    takes: Mapping[str, str] = {**Difficulties.takes, "draws": "pairs of cycles"}
    headings: Mapping[str, str] = {
        "width": "width of the five hidden layers",
        "size": "number of weights N",
        "repeats": "students",
        "value": "measured rate, mean",
        "error": "standard error",
        "predicted": "mean rate <k> by formula",
        "gain": "measured, more than at the first width",
        "gain_error": "standard error, paired",
        "gain_predicted": "the same by formula",
        "off": "measured less formula",
        "off_error": "standard error, paired",
        "best": "best size measured",
        **BEST,
    }

    def check(self, point: Params) -> None:
        super().check(point)
        whole(point, "draws", 100, least=2)

    def one(self, point: Params, seed: int, repeat: int, case: int) -> Row:
        noise, widths = noise_of(point), self.cases(point)
        approached, draws = whole(point, "approached", 30, least=0), whole(point, "draws", 100)
        geometry = student(seed, repeat, approached, tuple(widths))[widths.index(case)]
        measured = geometry.measure(noise, draws, seed=stream(seed, repeat, case))
        kept = {"value": measured.mean, "predicted": geometry.rate(noise)}
        return {"repeat": repeat, "width": case, "size": geometry.plastic, **kept}

    def summarise(self, point: Params, rows: Columns) -> list[Row]:
        sizes, table = by_case(rows, "size", "value")
        said, noise = by_case(rows, "size", "predicted")[1], noise_of(point)
        best = best_of(sizes, table, CUBIC)
        best["best_of_curve"] = top_of(sizes, said.mean(axis=0), CUBIC)
        best["best_predicted"] = implicit_size(noise, sizes[0]).value
        best["best_slides"] = slides_nonlinear_size(noise, sizes[0]).value
        lines: list[Row] = []
        for place, size in enumerate(sizes):
            width = int(rows["width"][rows["size"] == size][0])
            values, formula = table[:, place], said[:, place]
            cells = with_errors(value=values, gain=values - table[:, 0], off=values - formula)
            cells["predicted"] = float(formula.mean())
            cells["gain_predicted"] = float((formula - said[:, 0]).mean())
            lines.append({"width": width, "size": size, "repeats": len(table), **cells, **best})
        return lines
