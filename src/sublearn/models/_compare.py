"""compare: methods x budgets x seeds on one's own samples, with the same effort for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Indices
from sublearn._errors import BadInputError, first_line, one_of, whole_number
from sublearn.models._choice import Standing, plain_numbers
from sublearn.models._choose import RACE, read_rates, telling
from sublearn.models._contest import ALL, ChoiceOptions, Contest, Splits, Trainer, prepare
from sublearn.models._labels import as_labels
from sublearn.models._places import each
from sublearn.models._race import (
    FOLDS,
    LEAST,
    RATES,
    Entrant,
    Outcome,
    Run,
    Watch,
    race,
    split_once,
    stages,
)
from sublearn.models._rules import RULES, Rule, read_rules
from sublearn.plots import Row, Shown, curve, name_axes, panels, shared_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TESTED = 0.3  # of the samples, kept for the test of a comparison


@dataclass(frozen=True)
class Result:
    """One method at one budget and seed: its score on the test samples, and how it came about.

    ``rule`` is what the race picked, or the method itself; ``held_out`` the mean score on the folds
    by which ``rate`` was picked.
    """

    method: str
    budget: int
    seed: int
    score: float
    rule: str
    rate: float
    held_out: float
    chosen: int
    metric: str


@dataclass(frozen=True)
class Difference:
    """The mean of one method's scores minus another's over the same seeds, with its 95% interval."""

    mean: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        if self.pairs < 2 or not np.isfinite(self.mean):
            return f"{self.mean:+.3f}" if np.isfinite(self.mean) else "unknown"
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


def paired_difference(first: ArrayLike, second: ArrayLike) -> Difference:
    """Of scores that belong together in pairs; the interval is Student's, at 95%.

    >>> print(paired_difference([0.9, 0.8, 0.85], [0.8, 0.75, 0.8]))
    +0.067 (-0.005 to +0.138)
    """
    from scipy.stats import t

    with np.errstate(invalid="ignore"):  # a score that is no number is -inf, and as far from all
        gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
        mean, count = float(gaps.mean()), len(gaps)
    if count < 2 or not np.isfinite(mean):
        return Difference(mean, float("-inf"), float("inf"), count)
    half = float(t.ppf(0.975, count - 1)) * float(gaps.std(ddof=1)) / np.sqrt(count)
    return Difference(mean, mean - half, mean + half, count)


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Scores of methods at budgets over seeds; the first method is what the others are held against.

    >>> rows = [Result("race", 10, s, 0.9, "last", 0.1, 0.8, 10, "accuracy") for s in (0, 1)]
    >>> rows += [Result("random", 10, s, 0.7, "random", 0.1, 0.6, 10, "accuracy") for s in (0, 1)]
    >>> print(Comparison(tuple(rows)))
    accuracy on test samples, mean over 2 seeds
    method    r = 10
    race       0.900
    random     0.700
    race minus (95% interval)
    random    +0.200 (+0.200 to +0.200)
    """

    results: tuple[Result, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def methods(self) -> list[str]:
        """In the order in which they were asked for."""
        return list(dict.fromkeys(row.method for row in self.results))

    @property
    def budgets(self) -> list[int]:
        """From small to large."""
        return sorted({row.budget for row in self.results})

    @property
    def seeds(self) -> list[int]:
        """That were run."""
        return sorted({row.seed for row in self.results})

    def scores(self, method: str, budget: int) -> list[float]:
        """Of one method at one budget, seed by seed."""
        rows = [row for row in self.results if (row.method, row.budget) == (method, budget)]
        return [row.score for row in sorted(rows, key=lambda row: row.seed)]

    def difference(self, first: str, second: str, budget: int) -> Difference:
        """Of two methods at one budget, paired by seed."""
        return paired_difference(self.scores(first, budget), self.scores(second, budget))

    @property
    def headline(self) -> str:
        """How much was compared."""
        budgets = ", ".join(map(str, self.budgets))
        return f"of {len(self.methods)} methods, budgets {budgets}, {len(self.seeds)} seeds"

    def __str__(self) -> str:
        wide = max(len(method) for method in self.methods) + 4
        count = len(self.seeds)
        lines = [
            f"{self.results[0].metric} on test samples, mean over {count} seed{'s' * (count > 1)}",
            f"{'method':<{wide}}" + "".join(f"{f'r = {b}':<{_WIDE}}" for b in self.budgets),
        ]
        for method in self.methods:
            cells = (float(np.mean(self.scores(method, budget))) for budget in self.budgets)
            lines.append(f"{method:<{wide}}" + "".join(f"{f' {c:.3f}':<{_WIDE}}" for c in cells))
        first = self.methods[0]
        if len(self.methods) > 1:
            lines.append(f"{first} minus (95% interval)")
        for method in self.methods[1:]:
            gaps = (str(self.difference(first, method, budget)) for budget in self.budgets)
            lines.append(f"{method:<{wide}}" + "".join(f"{gap:<{_WIDE}}" for gap in gaps))
        return "\n".join(line.rstrip() for line in [*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Every result, and the paired differences to the first method."""
        first = self.methods[0]
        return {
            "results": [
                {key: None if value == -np.inf else value for key, value in row.items()}
                for row in self.table()
            ],
            "differences": [
                {
                    "first": first,
                    "second": method,
                    "budget": budget,
                    **dict(zip(("mean", "low", "high"), known, strict=True)),
                }
                for method in self.methods[1:]
                for budget in self.budgets
                for gap in [self.difference(first, method, budget)]
                for known in [plain_numbers((gap.mean, gap.low, gap.high))]
            ],
            "notes": list(self.notes),
        }

    def table(self) -> list[Row]:
        """A row for every result."""
        return [asdict(row) for row in self.results]

    def plot(self) -> Figure:
        """Scores against budgets, a line per method, shaded over the seeds' standard error."""
        fig, axes = panels(1, width=6.4)
        # The first method last, so that it lies on top where lines meet.
        for colour, method in reversed(list(enumerate(self.methods))):
            runs = [np.array(self.scores(method, budget)) for budget in self.budgets]
            means = np.array([values.mean() for values in runs])
            # Of one seed there is no spread, nor of what is not known: 0.
            spreads = [
                one.std(ddof=1) if one.size > 1 and np.isfinite(one).all() else 0.0 for one in runs
            ]
            errors = np.array(spreads) / len(runs[0]) ** 0.5
            curve(
                axes[0],
                self.budgets,
                means,
                means - errors,
                means + errors,
                label=method,
                colour=colour,
                dashed=method == ALL,
            )
        budget_axis(axes[0], self.budgets)
        name_axes(axes[0], "weights tuned r", f"{self.results[0].metric} on test samples")
        shared_legend(fig, axes, across=4)
        return fig


def budget_axis(ax: Axes, budgets: Sequence[int]) -> None:
    """Budgets along a logarithmic axis, each written as it is."""
    ax.set_xscale("log")
    ax.set_xticks(list(budgets), [str(budget) for budget in budgets])
    ax.set_xticks([], minor=True)


_WIDE = 28


def compare(
    model: Any,
    inputs: Any,
    labels: Any,
    budgets: int | Sequence[int],
    *,
    methods: Iterable[str | Rule] | None = None,
    seeds: int | Sequence[int] = 5,
    test: tuple[Any, Any] | None = None,
    rates: Sequence[float] = RATES,
    folds: int = FOLDS,
    watch: Watch | None = None,
    say: Callable[[str], None] | None = None,
    **options: Unpack[ChoiceOptions],
) -> Comparison:
    """A fair comparison: every method's rate is tuned by the same folds, and tested once.

    For each seed 30% of the samples are kept for the test (or ``test`` holds inputs and labels of its
    own, and the seed only changes the folds). Within the others every rule has a race of its own among
    the rates, over the same folds; at its best rate it chooses by all of them, is tuned, and is tested.
    ``methods`` are rules, ``"race"`` and, for reference, ``"all"`` weights, which runs at a tenth of
    the rates. The options are those of :func:`choose`.

    >>> import torch
    >>> model = torch.nn.Linear(4, 3)
    >>> inputs, labels = torch.randn(40, 4), torch.arange(40) % 3
    >>> compare(model, inputs, labels, [2, 5], methods=["race", "last", "random"], seeds=2, steps=2)
    <Comparison of 3 methods, budgets 2, 5, 2 seeds>
    """
    rules, order = _read_methods(methods)
    if isinstance(seeds, (int, np.integer)):
        seeds = range(whole_number("seeds", seeds, least=1))
    numbers = list(seeds)
    sizes = [budgets] if isinstance(budgets, (int, np.integer)) else list(budgets)
    if not sizes or not numbers:
        raise BadInputError("budgets and seeds must each hold at least one number.")
    rates = read_rates(rates)
    own = options.get("loss") is not None or options.get("step") is not None
    joined, count = _with_test(inputs, labels, test, own)
    trainer, limits = prepare(model, joined[0], joined[1], 0, options)
    sizes = [limits.check_budget(budget) for budget in sizes]
    races = _races(rules, order, rates).values()
    per_cell = len(rules) + sum(sum(stages(len(some) * len(own), folds)) for some, own in races)
    total = per_cell * len(sizes) * len(numbers)
    steps = trainer.how.steps
    plan = f"comparison: at most {total} runs of {steps} steps, {total * steps} passes"
    results: list[Result] = []
    with telling(plan, say, watch) as show:
        for number, seed in enumerate(numbers):
            tune, exam = _exam(trainer, count, seed)
            splits = Splits(trainer, folds, seed, tune)
            for place, budget in enumerate(sizes):
                contest = Contest(splits, limits, rules, budget)
                if len(tune) < LEAST * folds:
                    raise BadInputError(
                        f"a comparison in {folds} folds needs at least {LEAST * folds} samples to tune "
                        f"by, not {len(tune)}."
                    )
                start = per_cell * (number * len(sizes) + place)

                def advance(done: int, words: str, start: int = start) -> None:
                    show(start + done, total, words)

                results += compare_cell(contest, order, rates, exam, advance)
        show(total, total, "")
    return Comparison(tuple(results))


def compare_cell(
    contest: Contest,
    methods: Sequence[str],
    rates: Sequence[float],
    exam: Indices,
    advance: Callable[[int, str], None] = lambda done, words: None,
) -> list[Result]:
    """One budget and seed: every method's score on the samples ``exam``."""
    known: dict[Run, Outcome] = {}  # the race and the fixed rules share their runs
    best: dict[str, Standing] = {}
    folds = len(contest.folds)
    runs = 0

    def follow(done: int, total: int, words: str) -> None:
        advance(runs + done, f"r = {contest.budget}: {words}")

    for method, (runners, own) in _races(contest.rules, methods, rates).items():
        best[method] = race(contest, runners, own, folds, known=known, watch=follow)[0]
        runs += sum(stages(len(runners) * len(own), folds))
    scores: dict[Entrant, tuple[float, int]] = {}
    for rule, rate in ((row.rule, row.rate) for row in best.values()):
        if (rule, rate) not in scores:
            advance(runs, f"r = {contest.budget}: test of {rule}")
            chosen = contest.choose(rule, None)
            with contest.trainer.tuned(chosen.masks, contest.samples, rate):
                score, _ = contest.trainer.evaluate(exam)
            scores[rule, rate] = (score, chosen.count)
            runs += 1
    return [
        Result(
            method=method,
            budget=contest.budget,
            seed=contest.seed,
            score=scores[row.rule, row.rate][0],
            rule=row.rule,
            rate=row.rate,
            held_out=row.mean,
            chosen=scores[row.rule, row.rate][1],
            metric=contest.trainer.metric,
        )
        for method, row in ((method, best[method]) for method in methods)
    ]


def _races(
    rules: Iterable[str], methods: Sequence[str], rates: Sequence[float]
) -> dict[str, tuple[list[str], Sequence[float]]]:
    """Who runs for each method, and at which rates: a rule has a race of its own among its rates."""
    slow = [rate / 10 for rate in rates]
    races = {rule: ([rule], slow if rule == ALL else rates) for rule in rules}
    if RACE in methods:
        races[RACE] = [rule for rule in rules if rule != ALL], rates
    return races


def _read_methods(methods: Iterable[str | Rule] | None) -> tuple[dict[str, Rule], list[str]]:
    """The rules that run, and the methods in the order in which they are shown."""
    listed = [RACE, *RULES] if methods is None else list(methods)
    for method in listed:
        if not callable(method):
            one_of("a method", method, (RACE, ALL, *RULES))
    others = [method for method in listed if method not in (RACE, ALL)]
    if not listed:
        raise BadInputError("methods must name at least one method.")
    # The race runs among the rules that are named; on its own, among all.
    rules = read_rules(others or None) if others or RACE in listed else {}
    if ALL in listed:
        rules = {**rules, ALL: RULES["random"]}
    shown = (m if m in (RACE, ALL) else next(iter(read_rules(m))) for m in listed)
    return rules, [str(method) for method in dict.fromkeys(shown)]


def _with_test(
    inputs: Any, labels: Any, test: tuple[Any, Any] | None, own: bool
) -> tuple[Any, int | None]:
    """All samples in one, and how many of them come before the test's."""
    if test is None:
        return (inputs, labels), None

    sizes: list[int] = []

    def join(first: Any, second: Any) -> Any:
        if first is None and second is None:  # labels, where a step needs none
            return None
        sizes.append(len(first))
        if hasattr(first, "detach"):  # a torch tensor, which may lie on another device
            import torch

            return torch.cat([first, torch.as_tensor(second, device=first.device)])
        return np.concatenate([np.asarray(first), np.asarray(second)])

    try:
        known = each(join, as_labels(labels, own), as_labels(test[1], own))
        return (each(join, inputs, test[0]), known), sizes[0]
    except (KeyError, TypeError, ValueError, RuntimeError) as problem:
        raise BadInputError(
            "test must hold inputs and labels of the same kind and shape as those to tune by, one row per "
            f"sample ({first_line(problem)})."
        ) from None


def _exam(trainer: Trainer, count: int | None, seed: int) -> tuple[Indices, Indices]:
    if count is not None:
        return np.arange(count), np.arange(count, trainer.samples)
    # Seeded apart from the folds within, which start from the same seed.
    kept = round(TESTED * trainer.samples)
    return split_once(trainer.samples, kept, seed + (1 << 32), trainer.goal.classes)
