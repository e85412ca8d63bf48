"""Estimates: reproducible on any number of workers, honest about what is not known."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pytest

import sublearn as sl
from sublearn.estimates import MatchQuestion, Trial, Unfinished, confidence_sequence
from sublearn.estimates import _exact as room

SMALL = sl.Problem(sl.LinearRNN(n=6, b=1, d=4, T=3), samples=3)
RULE = {"W": sl.FirstRows(5)}


def test_counts_add_up_and_bracket_holds_the_share() -> None:
    e = sl.estimate(SMALL, RULE, trials=30, seed=2)
    assert e.matched + e.refuted + e.undecided == e.trials == 30
    assert e.bracket == (e.matched / 30, (e.matched + e.undecided) / 30)
    assert e.confidence[0] <= e.bracket[0] <= e.bracket[1] <= e.confidence[1]
    assert sum(e.rungs.values()) == 30 - e.undecided
    assert e.proved == e.matched, "every match of a linear network is proved"
    by_search = sum(r.kind == "matched" and r.rung == "search" for r in e.records)
    assert e.curve[-1][1] == by_search <= e.matched
    assert json.loads(json.dumps(e.to_dict(), allow_nan=False))["matched"] == e.matched


def test_trials_do_not_depend_on_their_company(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sl.estimate(SMALL, RULE, trials=20, seed=2).records
    monkeypatch.setattr(MatchQuestion, "chunk", 3)
    assert sl.estimate(SMALL, RULE, trials=20, seed=2).records == whole
    assert sl.estimate(SMALL, RULE, trials=7, seed=2).records == whole[:7]
    question = MatchQuestion(SMALL, RULE, seed=2)
    backwards = [question.answer(range(i, i + 1))[0] for i in (19, 4, 11)]
    assert backwards == [whole[19], whole[4], whole[11]]


def test_trials_are_decisions_of_drawn_instances() -> None:
    """Trial i is decide(draw(..., trial=i)), with the seed and the budget that were asked for."""
    few = sl.Budget(starts=1, iterations=12, paths=30)

    def decided(seed: int, budget: sl.Budget, again: int) -> list[tuple[object, ...]]:
        drawn = [sl.draw(SMALL, RULE, seed=seed, trial=trial) for trial in range(6)]
        found = [sl.decide(instance, budget=budget, seed=again) for instance in drawn]
        return [(d.kind, d.rung, d.effort.starts, d.effort.iterations) for d in found]

    records = sl.estimate(SMALL, RULE, trials=6, seed=7, budget=few).records
    assert [(r.kind, r.rung, r.starts, r.iterations) for r in records] == decided(7, few, 7)
    # Each of the three is seen: other instances, another budget, other starts.
    others = [decided(0, few, 7), decided(7, sl.Budget(), 7), decided(7, few, 0)]
    assert all(other != decided(7, few, 7) for other in others)


@pytest.mark.slow
def test_two_processes_give_what_one_gives() -> None:
    one = sl.estimate(SMALL, RULE, trials=40, seed=4)
    two = sl.estimate(SMALL, RULE, trials=40, seed=4, workers=2)
    assert one.records == two.records
    assert one == two


def test_any_executor_will_do() -> None:
    with ThreadPoolExecutor(2) as pool:
        shared = sl.estimate(SMALL, RULE, trials=16, seed=2, executor=pool)
    assert shared == sl.estimate(SMALL, RULE, trials=16, seed=2)


def test_ctrl_c_means_after_a_run_what_it_meant_before() -> None:
    def own(number: int, frame: object) -> None:
        raise AssertionError("nobody sends a signal here")

    before = signal.signal(signal.SIGINT, own)
    try:
        with ThreadPoolExecutor(2) as pool:
            sl.estimate(SMALL, RULE, trials=2, seed=2, executor=pool)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_certify_is_asked_first() -> None:
    network = SMALL.network
    rows = sl.Allocation.block(network, "W", rows=range(4), columns=range(3))
    e = sl.estimate(SMALL, rows)
    assert not e.sampled and e.bracket == (1.0, 1.0) and e.verdict is not None
    assert "no sampling needed" in str(e)
    crowded = sl.Allocation.from_rows(network, "W", [0, 1])
    assert sl.estimate(SMALL, crowded).bracket == (0.0, 0.0)
    checked = sl.estimate(SMALL, rows, trials=5, sample_always=True)
    assert checked.matched == 5 and checked.rungs == {"construct": 5}
    refuted = sl.estimate(SMALL, crowded, trials=5, sample_always=True)
    assert refuted.refuted == 5 and refuted.rungs == {"rank": 5}


def test_stops_early_and_only_by_the_order_of_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    e = sl.estimate(SMALL, RULE, trials=400, seed=2, precision=0.2)
    assert e.trials < 400
    assert (e.confidence[1] - e.confidence[0]) / 2 <= 0.2
    monkeypatch.setattr(MatchQuestion, "chunk", 5)
    assert sl.estimate(SMALL, RULE, trials=400, seed=2, precision=0.2) == e


def test_reference_never_refutes_and_never_beats_the_ladder() -> None:
    ladder = sl.estimate(SMALL, RULE, trials=12, seed=2)
    reference = sl.estimate(SMALL, RULE, trials=12, seed=2, method="reference")
    assert reference.refuted == 0
    for ours, theirs in zip(ladder.records, reference.records, strict=True):
        if theirs.kind == "matched":
            assert ours.kind == "matched"


def test_an_interrupted_run_keeps_what_it_has() -> None:
    """Ctrl-C after the second chunk: the trials so far, with the interval that may stop at any time."""

    def stop(now: sl.Estimate) -> None:
        if now.trials >= 16:
            raise KeyboardInterrupt

    with pytest.raises(Unfinished, match="after 16 trials") as caught:
        sl.estimate(SMALL, RULE, trials=1000, seed=2, progress=stop)
    found, whole = caught.value.estimate, sl.estimate(SMALL, RULE, trials=16, seed=2)
    assert found.records == whole.records
    ends = [confidence_sequence(s, 16, 0.975) for s in (found.matched, 16 - found.refuted)]
    assert found.confidence == (ends[0][0], ends[1][1])
    assert found.confidence[0] < whole.confidence[0]
    with pytest.raises(KeyboardInterrupt):  # nothing decided, nothing to keep
        sl.estimate(SMALL, RULE, trials=9, executor=_Interrupted())


class _Interrupted(ThreadPoolExecutor):
    def submit(self, *_: object, **__: object) -> NoReturn:  # type: ignore[override]
        raise KeyboardInterrupt


def test_progress_is_told() -> None:
    seen: list[int] = []
    sl.estimate(SMALL, RULE, trials=20, seed=2, progress=lambda e: seen.append(e.trials))
    assert seen == sorted(seen) and seen[-1] == 20


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("trials", {"trials": 0}),
        ("precision", {"precision": 0.7}),
        ("method", {"method": "guess"}),
        ("workers", {"workers": 0}),
    ],
)
def test_nonsense_is_refused(words: str, arguments: dict[str, object]) -> None:
    with pytest.raises(sl.BadInputError, match=words):
        sl.estimate(SMALL, RULE, **arguments)  # type: ignore[arg-type]


def test_draws_are_golden() -> None:
    """The first numbers of trial 17, drawn here again from the documented recipe."""
    instance = sl.draw(SMALL, RULE, seed=7, trial=17)
    digest = np.frombuffer(bytes.fromhex(SMALL.digest), dtype="<u4").tolist()
    rng = np.random.default_rng([7, *digest, 17, 0])
    W = rng.standard_normal((6, 6)) / np.sqrt(6)
    B, D = rng.standard_normal((6, 1)), rng.standard_normal((4, 6)) / np.sqrt(6)
    X = rng.standard_normal((3, 1, 3))
    Wt = rng.standard_normal((6, 6)) / np.sqrt(6)
    Bt, Dt = rng.standard_normal((6, 1)), rng.standard_normal((4, 6)) / np.sqrt(6)
    frozen = ~instance.allocation.mask("W")
    assert (instance.weights["W"][frozen] == W[frozen]).all()
    assert (instance.weights["W"][~frozen] == 0).all()
    assert (instance.weights["B"] == B).all() and (instance.weights["D"] == D).all()
    assert (instance.inputs == X).all()
    power, targets = Wt, np.zeros((4, 3))
    for t in (2, 1, 0):
        targets, power = targets + Dt @ power @ Bt @ X[t], power @ Wt
    assert np.allclose(instance.targets, targets, rtol=1e-12)


def test_what_cannot_be_decided_is_refused_at_once() -> None:
    with pytest.raises(sl.BadInputError, match="rules by name"):
        sl.estimate(SMALL, sl.FirstRows(5), trials=3)  # type: ignore[arg-type]
    with pytest.raises(sl.BadInputError, match="instance must be an Instance"):
        sl.decide(SMALL)  # type: ignore[arg-type]


def test_results_are_one_line_in_a_shell() -> None:
    instance = sl.draw(SMALL, RULE, seed=2)
    decision = sl.decide(instance)
    estimate = sl.estimate(SMALL, RULE, trials=3, seed=2)
    verdict = sl.certify(SMALL, instance.allocation)
    for thing in (instance, decision, estimate, verdict):
        assert repr(thing).startswith("<") and "\n" not in repr(thing) and len(repr(thing)) < 300
    assert str(decision).startswith("matched by search (proof)")


def test_teachers_that_minimal_sets_aside_are_sampled() -> None:
    """A ReLU teacher that is off on both samples wants 0, and a student that can switch off gives it."""
    problem = sl.Problem(sl.FeedForward((1, 2, 1), "relu"), 2)
    held = sl.Allocation.from_entries(problem.network, {"W1": [(0, 0)]})
    e = sl.estimate(problem, held, trials=60)
    assert e.verdict is not None and e.verdict.kind == "minimal" and e.sampled
    silent = 0
    for record in e.records:
        instance = sl.draw(problem, held, trial=record.trial)
        frozen_is_off = (instance.weights["W1"][1] @ instance.inputs <= 0).all()
        if frozen_is_off and not instance.targets.any():
            silent += 1
            assert record.kind == "matched"
    assert 0 < silent < 60


def trial(number: int, kind: str, rung: str, starts: int) -> Trial:
    return Trial(number, kind, rung, "proof", 0.0, starts, 0, 0)


def test_the_saturation_curve_counts_what_starts_found() -> None:
    """E.1 asks how many starts are enough: what needed none, or failed, says nothing about that."""
    records = (
        trial(0, "matched", "search", 1),
        trial(1, "matched", "search", 4),
        trial(2, "matched", "nonlinear", 4),
        trial(3, "matched", "construct", 0),
        trial(4, "matched", "affine", 0),
        trial(5, "matched", "nonlinear", 0),  # a linear system behind the output activation
        trial(6, "matched", "complete", 30),  # the search had given up after 30 starts
        trial(7, "refuted", "rank", 10),
        trial(8, "undecided", "", 100),
        trial(9, "matched", "relu", 0),  # by branching
        trial(10, "matched", "relu", 2),
    )
    question = MatchQuestion(SMALL, RULE)
    e = sl.Estimate(question, records)
    assert (e.trials, e.matched, e.refuted, e.undecided) == (11, 9, 1, 1)
    assert e.curve == [(1, 1), (2, 2), (4, 4)]
    assert "restarts against matches: 0 by 0, 1 by 1, 2 by 2, 4 by 4" in e.details
    assert sl.Estimate(question, records[3:4]).curve == []


@pytest.mark.parametrize("kind", ["minimal", "maximal"])
def test_nothing_numerical_stops_sampling(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = sl.Allocation.block(SMALL.network, "W", rows=range(4), columns=range(3))
    verdict = sl.certify(SMALL, held)

    def settled(grade: sl.Grade) -> sl.Estimate:
        said = replace(verdict, kind=kind, grade=grade)
        monkeypatch.setattr(room, "certify", lambda *_, **__: said)
        return sl.estimate(SMALL, held, trials=3)

    assert not settled(sl.Grade("proof")).sampled
    assert not settled(sl.Grade("probability", 1e-13)).sampled
    found = settled(sl.Grade("numerical"))
    assert found.sampled and found.matched == 3  # the truth of this allocation is 1


def test_too_few_weights_of_a_tanh_network_are_refuted_by_rank() -> None:
    """Five weights drawn anew for each trial cannot follow six outputs; all twelve of W1 may."""
    problem = sl.Problem(sl.FeedForward((3, 4, 2), "tanh"), 3)
    few = sl.estimate(problem, {"W1": sl.Anywhere(5)}, trials=6)
    assert (few.refuted, few.rungs) == (6, {"rank": 6})
    assert {record.grade for record in few.records} == {"proof"}
    assert sl.estimate(problem, {"W1": sl.Anywhere(12)}, trials=6).matched > 0
