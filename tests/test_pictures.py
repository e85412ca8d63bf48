"""Every result draws itself, on light and on dark ground, and shows itself in a notebook."""

from __future__ import annotations

import numpy as np
import pytest

import sublearn as sl
from sublearn.plots import Shown, dark

CROSS = {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]}
NET = sl.FeedForward((3, 3, 2))
PROBLEM = sl.Problem(NET, 2)
RELU = sl.Problem(sl.FeedForward((3, 4, 2), activation="relu"), 3)


def results() -> dict[str, Shown]:
    drawn = sl.draw(RELU, {"W1": sl.FirstRows(4)}, trial=1)
    return {
        "verdict": sl.certify(PROBLEM, sl.Allocation.from_entries(NET, CROSS)),
        "estimate": sl.estimate(RELU, {"W1": sl.FirstRows(4)}, trials=5),
        "proved": sl.estimate(PROBLEM, sl.Allocation.whole(NET, ["W2"]), trials=5),
        "within": sl.estimate_within(RELU, {"W1": sl.FirstRows(4)}, 5, eps=0.1),
        "matched": sl.decide(sl.draw(PROBLEM, sl.Allocation.whole(NET, ["W2"]))),
        "other": sl.decide(sl.draw(RELU, {"W1": sl.FirstRows(2)}, trial=1)),
        "training": sl.train(drawn, "levenberg-marquardt", steps=20, starts=3),
    }


RESULTS = results()


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_itself(name: str) -> None:
    result = RESULTS[name]
    light = result.plot()
    with dark():
        other = result.plot()
    assert light.axes and light.get_facecolor() != other.get_facecolor()
    page = result._repr_html_()
    assert page.startswith("<pre>") and "data:image/png;base64," in page
    assert isinstance(result.to_dict(), dict)


def test_the_picture_of_a_verdict_marks_what_it_says() -> None:
    verdict = RESULTS["verdict"]
    assert isinstance(verdict, sl.Verdict)
    (ax,) = verdict.plot().axes
    assert len(ax.patches) == 4, "the smallest dependent set: all four weights"
    cells = np.asarray(ax.get_images()[0].get_array())
    (place,) = verdict.idle.entries["W1"]
    learnable = {tuple(cells[entry].tolist()) for entry in CROSS["W1"] if entry != place}
    assert len(learnable) == 1 and tuple(cells[place].tolist()) not in learnable


def test_the_bar_of_an_estimate_has_the_counts() -> None:
    estimate = RESULTS["estimate"]
    assert isinstance(estimate, sl.Estimate)
    (ax,) = estimate.plot().axes
    widths = {bar.get_label(): bar.patches[0].get_width() for bar in ax.containers}
    wanted = {
        "matched": estimate.matched,
        "undecided": estimate.undecided,
        "refuted": estimate.refuted,
    }
    assert widths == {f"{w}: {n}": pytest.approx(n / 5) for w, n in wanted.items() if n}
    (line,) = ax.lines
    assert tuple(line.get_xdata()) == estimate.confidence
