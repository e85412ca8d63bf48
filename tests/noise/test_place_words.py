"""When a placement counts as better: by a gap that is both of use and sure."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sublearn.noise import Noise, Placement


def _row(name: str, errors: np.ndarray) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        steady=SimpleNamespace(per_repeat=errors, mean=float(errors.mean())),
    )


@pytest.mark.parametrize(
    ("gap", "error", "repeats", "better"),
    [
        (0.05, 0.001, 16, True),
        (0.05, 0.024, 16, True),  # a little above two standard errors
        (0.05, 0.026, 16, False),  # a little below
        (0.05, 0.2, 16, False),
        (0.009, 0.0001, 16, False),  # sure, but of no use
        (0.011, 0.0001, 16, True),
        (0.05, 0.0, 1, True),  # one repeat has no standard error
    ],
)
def test_what_counts_as_better(gap: float, error: float, repeats: int, better: bool) -> None:
    # As many repeats above the mean gap as below it, so that its standard error is `error`.
    swing = np.resize([1.0, -1.0], repeats) if repeats > 1 else np.zeros(1)
    swing *= error * np.sqrt(max(repeats - 1, 1))
    common = np.linspace(0.2, 0.6, repeats)
    rows = (_row("one", common), _row("other", common + gap + swing))
    made = Placement(rows, Noise((0.1, 0.0, 0.0)), 100)  # type: ignore[arg-type]
    assert made.margin(made.rows[1])[0] == pytest.approx(gap)
    assert made._ties(made.rows[1]) == (not better)
