"""k = d: what the units must put out is determined, so its signs decide."""

from __future__ import annotations

from sublearn.patterns._system import System


def sign_contradiction(system: System) -> str | None:
    """Why no unit outputs >= 0 give the targets of some sample, for k = d; None if nothing is wrong.

    With as many units as outputs W2^1 is square; where it is regular, a_s = (W2^1)^-1 R_s is the only
    candidate, and a ReLU puts out nothing negative. In rationals.
    """
    from flint import fmpq_mat

    if system.k != system.d:
        return None
    try:
        outputs = fmpq_mat(system.readout).solve(fmpq_mat(system.rest)).tolist()
    except ZeroDivisionError:
        return None
    for i, row in enumerate(outputs):
        for s, value in enumerate(row):
            if value < 0:
                return (
                    f"k = d = {system.d}: unit {system.units[i]} would have to put out a negative "
                    f"number on sample {s}"
                )
    return None
