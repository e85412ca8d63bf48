"""The race on learners whose scores are known, and its record on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sublearn import BadInputError
from sublearn.models._race import Record, fingerprint, race, split_once, split_samples, stages

RULES = ["a", "b", "c", "d"]
RATES = [0.01, 0.1, 1.0]


class Toy:
    """Scores that depend on (rule, rate, fold) alone: a quality, and noise of the fold."""

    def __init__(self, noise: float = 0.0) -> None:
        self.noise = noise
        self.ran: list[tuple[str, float, int]] = []

    def quality(self, rule: str, rate: float) -> float:
        return {"a": 0.45, "b": 0.8, "c": 0.6, "d": 0.1}[rule] - 0.1 * abs(np.log10(rate) + 1)

    def run(self, rule: str, rate: float, fold: int) -> tuple[float, float]:
        self.ran.append((rule, rate, fold))
        rng = np.random.default_rng([ord(rule), int(rate * 100), fold])
        return self.quality(rule, rate) + self.noise * rng.standard_normal(), 1.0


def test_the_best_wins_and_half_goes_on() -> None:
    toy = Toy()
    standings = race(toy, RULES, RATES, 3)
    assert (standings[0].rule, standings[0].rate) == ("b", 0.1)
    assert stages(12, 3) == [12, 6, 4]
    assert [sum(fold == s for _, _, fold in toy.ran) for s in range(3)] == [12, 6, 4]
    assert len(toy.ran) == len(set(toy.ran)) == 22
    assert len(standings) == 12
    # By hand, the six best of the first fold.
    second = {entrant[:2] for entrant in toy.ran if entrant[2] == 1}
    assert second == {(rule, rate) for rule in "bc" for rate in RATES}
    # Those that ran more folds stand before those that ran fewer, whatever they scored.
    assert [len(row.scores) for row in standings] == [3] * 4 + [2] * 2 + [1] * 6


def test_equal_scores_are_told_apart_by_the_loss() -> None:
    class Losses(Toy):
        def run(self, rule: str, rate: float, fold: int) -> tuple[float, float]:
            return 0.5, {"a": 3.0, "b": 2.0, "c": 1.0, "d": 4.0}[rule] + rate

    assert race(Losses(), RULES, RATES, 2)[0].rule == "c"


def test_a_race_that_was_stopped_goes_on(tmp_path: Path) -> None:
    whole = race(Toy(0.2), RULES, RATES, 3)

    class Stops(Toy):
        def run(self, rule: str, rate: float, fold: int) -> tuple[float, float]:
            if len(self.ran) == 15:
                raise KeyboardInterrupt
            return super().run(rule, rate, fold)

    file = tmp_path / "race.jsonl"
    with pytest.raises(KeyboardInterrupt):
        race(Stops(0.2), RULES, RATES, 3, known=Record(file, "question"))
    rest = Toy(0.2)
    assert race(rest, RULES, RATES, 3, known=Record(file, "question")) == whole
    assert len(rest.ran) == 22 - 15
    # A line that was cut off in writing is run again, and what follows it is still read.
    text = file.read_text()
    file.write_text(text[:-10])
    for expected in (1, 0):
        rest = Toy(0.2)
        assert race(rest, RULES, RATES, 3, known=Record(file, "question")) == whole
        assert len(rest.ran) == expected


def test_infinite_losses_survive_the_record(tmp_path: Path) -> None:
    record = Record(tmp_path / "race.jsonl", "q")
    record["a", 0.1, 0] = (float("-inf"), float("inf"))
    again = Record(tmp_path / "race.jsonl", "q")
    assert again["a", 0.1, 0] == (float("-inf"), float("inf"))


def test_records_of_other_races_are_refused(tmp_path: Path) -> None:
    Record(tmp_path / "race.jsonl", "one")
    with pytest.raises(BadInputError, match="belongs to another race"):
        Record(tmp_path / "race.jsonl", "two")
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(BadInputError, match="is not the record of a race"):
        Record(tmp_path / "text", "one")
    with pytest.raises(BadInputError, match="there is no folder"):
        Record(tmp_path / "nowhere" / "race.jsonl", "one")


def test_progress_counts_every_run() -> None:
    told: list[tuple[int, int]] = []
    race(Toy(), RULES, RATES, 3, watch=lambda done, total, words: told.append((done, total)))
    assert told == [(done, 22) for done in range(22)] + [(22, 22)]


def test_shared_runs_are_run_once() -> None:
    toy, known = Toy(), {}
    for rule in RULES:
        race(toy, [rule], RATES, 3, known=known)
    assert race(toy, RULES, RATES, 3, known=known) == race(Toy(), RULES, RATES, 3)
    assert len(toy.ran) == len(set(toy.ran)) == 36


@pytest.mark.parametrize("classes", [None, np.repeat(np.arange(5), 9)])
def test_every_sample_scores_once(classes: np.ndarray | None) -> None:
    found = split_samples(45, 4, 7, classes)
    assert sorted(i for _, score in found for i in score) == list(range(45))
    for (tune, score), (same, _) in zip(found, split_samples(45, 4, 7, classes), strict=True):
        assert sorted([*tune, *score]) == list(range(45))
        assert len(score) in (11, 12)
        assert (tune == same).all()
        if classes is not None:
            assert {int((classes[score] == c).sum()) for c in range(5)} <= {2, 3}


@pytest.mark.parametrize("classes", [None, np.repeat(np.arange(5), 10)])
def test_a_test_part_takes_its_share_of_every_class(classes: np.ndarray | None) -> None:
    tune, held = split_once(50, 15, 3, classes)
    assert len(held) == 15 and sorted([*tune, *held]) == list(range(50))
    if classes is not None:
        assert [int((classes[held] == c).sum()) for c in range(5)] == [3] * 5
    assert not np.array_equal(held, split_once(50, 15, 4, classes)[1])


def test_functions_that_hold_long_arrays_are_told_apart() -> None:
    """As text long arrays lose their middle."""
    first = np.zeros(5000)
    second = first.copy()
    second[2500] = 1.0
    weighing = lambda array: lambda outputs, labels: array.sum()  # noqa: E731
    assert fingerprint(weighing(first)) == fingerprint(weighing(first.copy()))
    assert fingerprint(weighing(first)) != fingerprint(weighing(second))
