"""What counting settles is settled first, and what is then not looked at is said."""

from __future__ import annotations

import pytest

import sublearn as sl
from sublearn.networks import network_from_text
from sublearn.verdicts import _certify as certifier
from sublearn.verdicts._gates import FEW_POINTS, GATED_POINTS


def _verdict(text: str, samples: int, name: str, count: int) -> sl.Verdict:
    problem = sl.Problem(network_from_text(text), samples)
    return sl.certify(problem, sl.Allocation.spread(problem.network, {name: count}))


def test_172_weights_where_320_are_needed_are_settled_by_counting() -> None:
    verdict = _verdict("ffn:64-128-64-10,activation=relu,bias=yes", 32, "W3", 172)
    assert (verdict.kind, verdict.grade.kind, verdict.needed) == ("minimal", "proof", 320)
    assert verdict.gates is not None and verdict.gates.sampled == FEW_POINTS
    assert any("few gates were sampled" in reason for reason in verdict.reasons)


def test_small_networks_are_looked_at_as_closely_as_ever() -> None:
    verdict = _verdict("ffn:4-5-2,activation=relu", 4, "W1", 7)
    assert (verdict.kind, verdict.grade.kind) == ("minimal", "proof")  # 7 where d m = 8
    assert verdict.gates is not None and verdict.gates.sampled == GATED_POINTS
    assert not any("few gates" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("count", [5, 7, 8, 12])
def test_fewer_gates_change_no_verdict(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    closely = _verdict("ffn:4-5-2,activation=relu", 4, "W1", count)
    monkeypatch.setattr(certifier, "_LIGHT", 0)
    briefly = _verdict("ffn:4-5-2,activation=relu", 4, "W1", count)
    assert (closely.kind, closely.grade, closely.needed) == (
        briefly.kind,
        briefly.grade,
        briefly.needed,
    )
    counted = count < 8
    assert briefly.gates is not None
    assert briefly.gates.sampled == (FEW_POINTS if counted else GATED_POINTS)
