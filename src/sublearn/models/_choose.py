"""choose: which weights to tune, by the race or by one rule alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.models._choice import Choice, Standing
from sublearn.models._contest import ChoiceOptions, Contest, Splits, choice_passes, prepare
from sublearn.models._labels import OWN
from sublearn.models._pursuit import ROUNDS
from sublearn.models._race import FOLDS, LEAST, RATES, Record, Watch, fingerprint, race, stages
from sublearn.models._rules import RULES, Rule, read_rules

RACE = "race"
# With few samples little can be told; outputs are linear in the last layer, so little can go wrong.
FALLBACK = "last"


def choose(
    model: Any,
    inputs: Any,
    labels: Any,
    budget: int,
    *,
    method: str | Rule = RACE,
    rules: Iterable[str | Rule] | None = None,
    rates: Sequence[float] = RATES,
    folds: int = FOLDS,
    seed: int = 0,
    resume: str | Path | None = None,
    watch: Watch | None = None,
    say: Callable[[str], None] | None = None,
    **options: Unpack[ChoiceOptions],
) -> Choice:
    """Choose ``budget`` entries of a torch or JAX model's weights to tune on these samples.

    By default the race: the samples are cut into ``folds``; each in turn is held out to score by,
    while every rule chooses by the others and is tuned on them at each rate; after each fold the
    better half goes on. The winner chooses again by all samples. ``method`` names one rule instead
    (see ``RULES``), or is a rule of one's own, a function of a setting; ``rules`` says who runs in the
    race. ``resume`` names a file that a race writes to and goes on from. The model is left as it was,
    to the bit. A model in JAX is a :class:`JaxModel`.

    Options of the training: ``steps`` and ``batch``; ``loss(outputs, labels)``, ``step(model, inputs,
    labels)`` or ``loop(model, masks, inputs, labels, rate)`` in place of ours; ``metric(outputs,
    labels)``, higher is better, in place of our score; ``forward(model, inputs)``, outputs of a torch
    model that returns neither a tensor nor logits. Options of what may be chosen: ``within``,
    ``forbidden`` and ``required`` name weights, layers or patterns, ``at_most`` the largest number in
    one layer, and ``unit="row"`` takes whole rows.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    >>> inputs, labels = torch.randn(40, 4), torch.arange(40) % 3
    >>> choose(model, inputs, labels, budget=10, rules=["last", "magnitude"], steps=5).count
    10
    >>> choose(model, inputs, labels, budget=10, method="last")
    <Choice: 10 of 67 weights by last>
    """
    trainer, limits = prepare(model, inputs, labels, seed, options)
    budget = limits.check_budget(budget)
    folds = whole_number("folds", folds, least=2)
    rates = read_rates(rates)
    notes: list[str] = []
    racing = method == RACE
    if not racing:
        if rules is not None:
            raise BadInputError("rules say who runs in the race; method names one rule alone.")
        runners = read_rules(
            method if callable(method) else one_of("method", method, (RACE, *RULES))
        )
    else:
        runners = read_rules(rules)
    if racing and trainer.samples < LEAST * folds:
        notes.append(
            f"{trainer.samples} samples are too few to race in {folds} folds ({LEAST * folds} are "
            f"needed): chosen by '{FALLBACK}' instead"
        )
        racing, runners = False, {FALLBACK: RULES[FALLBACK]}
    elif racing and trainer.goal.kind == OWN and rules is None:
        runners = {k: v for k, v in runners.items() if k not in ("pursuit", "pivoted-qr")}
        notes.append(
            "without labels that are classes, or numbers like the outputs, pursuit and pivoted QR did not run"
        )
    contest = Contest(Splits(trainer, folds, seed), limits, runners, budget)
    standings: list[Standing] = []
    passes = 0
    name = next(iter(runners))
    if racing:
        standings, passes = _run_race(contest, rates, resume, watch, say)
        name = standings[0].rule
    chosen = contest.choose(name, None)
    rate = standings[0].rate if standings else None
    error = None
    if trainer.goal.kind != OWN and (standings or name == "pursuit"):
        middle = rates[len(rates) // 2]
        error = contest.linearisation_error(chosen.masks, middle if rate is None else rate)
    if chosen.count < budget:
        notes.append(
            f"{chosen.count} of the {budget} that the budget allows: "
            + ("no further whole row fits" if limits.unit == "row" else "the rule knows no more")
        )
    return Choice(
        masks=chosen.masks,
        budget=budget,
        method=name,
        rate=rate,
        standings=tuple(standings),
        metric=trainer.metric,
        gap=chosen.gap,
        linearisation_error=error,
        passes=passes,
        seed=seed,
        notes=tuple(notes),
    )


def read_rates(rates: Sequence[float]) -> tuple[float, ...]:
    """The rates as distinct positive numbers."""
    try:
        numbers = tuple(dict.fromkeys(float(rate) for rate in rates))
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or not all(np.isfinite(rate) and rate > 0 for rate in numbers):
        raise BadInputError(f"rates must be positive numbers, not {rates!r}.")
    return numbers


def _run_race(
    contest: Contest,
    rates: Sequence[float],
    resume: str | Path | None,
    watch: Watch | None,
    say: Callable[[str], None] | None,
) -> tuple[list[Standing], int]:
    trainer, runners, folds = contest.trainer, list(contest.rules), len(contest.folds)
    runs = sum(stages(len(runners) * len(rates), folds))
    passes = runs * trainer.how.steps
    passes += (folds + 1) * choice_passes(runners, min(trainer.goal.width, 32), ROUNDS)
    record = Record(resume, question_digest(contest, rates)) if resume is not None else None
    cost = (
        f"race: {len(runners)} rules at {len(rates)} rates, {runs} runs of {trainer.how.steps} steps, "
        f"about {passes} passes over {len(contest.folds[0][0])} samples"
    )
    with telling(cost, say, watch) as advance:
        standings = race(contest, runners, rates, folds, known=record, watch=advance)
    if not any(np.isfinite(loss) for row in standings for loss in row.losses):
        raise BadInputError(
            "model has a loss of NaN or infinity after every short run: give smaller rates, or labels and a "
            "loss that training makes smaller."
        )
    return standings, passes


@contextmanager
def telling(plan: str, say: Callable[[str], None] | None, watch: Watch | None) -> Iterator[Watch]:
    """Say what is about to be done, and within how far it is.

    Whom nobody is given to tell: standard error, where somebody is looking.
    """
    shown = sys.stderr.isatty()

    def write(text: str, end: str = "\n") -> None:
        if shown:
            print(text, end=end, file=sys.stderr, flush=True)

    (say or write)(plan)
    try:
        yield watch or (lambda done, total, words: write(f"\r\x1b[K{done} of {total} {words}", ""))
    finally:
        if watch is None:
            write("\r\x1b[K", "")


def question_digest(contest: Contest, rates: Sequence[float]) -> str:
    """Of all that the outcomes of a race depend on: model, samples, limits, settings, own functions."""
    trainer, limits = contest.trainer, contest.limits
    content = sha256()
    settings: list[Any] = [contest.budget, contest.seed, len(contest.folds)]
    settings += [trainer.how.steps, trainer.how.batch]
    settings += [list(rates), limits.unit, trainer.metric, sorted(limits.left({}).items())]
    own = [(name, rule) for name, rule in contest.rules.items() if RULES.get(name) is not rule]
    content.update((repr(settings) + fingerprint(own)).encode())
    for name, mask in (*limits.allowed.items(), *limits.required.items()):
        content.update(repr((name, mask.shape)).encode())
        content.update(np.packbits(mask).tobytes())
    for part in trainer.contents():
        content.update(part)
    return content.hexdigest()[:24]
