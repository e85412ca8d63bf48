"""What was asked and what came out, in a line each: the first screen of a report.

An experiment's finding has all its numbers. Here stands the one question behind it, and the rule by which
its table answers yes, no, hardly, or none: shares are told apart by their 95% intervals, means by two
standard errors, and what these leave open is not decided. Yes and no are about the source's claim as it
was put to the test, at the sizes of the table. A rule need not ask whether the rows it speaks of are
there: what fails without them has no answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from sublearn._kinds import MAXIMAL, MINIMAL
from sublearn.experiments._conjectures import label_and_vector
from sublearn.experiments._example import apart
from sublearn.experiments._fig2b import by_rows
from sublearn.experiments._generalisation import RNN
from sublearn.experiments._laws import apart_from_normal
from sublearn.experiments._noise_and_size import curves, exponent
from sublearn.experiments._table import NEWTON, by_ladder, copies_in, low_end, pooled
from sublearn.experiments._theorem_map import wrong_words
from sublearn.runs import Row, Table

YES, NO, OPEN = "yes", "no", "not decided"
HARDLY = "hardly"  # where shares are near 1 from the start, and have no room to rise
NEAR_ONE = 0.95  # a share whose interval lies above this is as good as 1

Found = tuple[str, str]  # one of the words above, and why in a sentence


@dataclass(frozen=True)
class Answer:
    """A question, one of the words yes, no, hardly and not decided (or none), and a sentence."""

    question: str
    word: str
    sentence: str


def answer(name: str, question: str, table: Table, finding: str) -> Answer:
    """What the table of an experiment answers; without a rule, what the first line of its finding says.

    >>> answer("own", "Do mine?", Table(), "Yes, as far as was drawn: 0 of 9 fail.\\nMore.")
    Answer(question='Do mine?', word='yes', sentence='as far as was drawn: 0 of 9 fail')
    """
    # The rule of "fig2a" is called _fig2a, and no other name here begins like that.
    rule: Callable[[Table], Found | None] | None = globals().get(f"_{name.replace('-', '_')}")
    try:
        reply = rule(table) if rule is not None and table else None
    except (LookupError, TypeError, ValueError, StopIteration, AssertionError, ArithmeticError):
        reply = None  # rows are missing, or somebody else wrote a table of that name
    if reply is not None:
        return Answer(question, *reply)
    first = finding.splitlines()[0] if finding else ""
    said = re.match(r"(Yes|No|Not decided)( by this)?[,:.]\s*(.*)", first)  # not "No point ..."
    if said is None:
        return Answer(question, "", first)
    return Answer(question, said[1].lower(), said[3].rstrip("."))


def share(row: Row) -> str:
    """For example "59 of 60"."""
    return f"{row['matched']} of {row['trials']}"


def ends(groups: list[Table]) -> tuple[Row, Row]:
    """The first rows of all groups pooled, and the last ones."""
    first, last = (pooled(Table(rows[end] for rows in groups)) for end in (0, -1))
    return first, last


def rise(few: Row, many: Row, where_few: str, where_many: str) -> Found:
    """Whether the share of matches rises from the one to the other."""
    few_open, many_open = (
        f" and {row['undecided']} undecided" if row["undecided"] else "" for row in (few, many)
    )
    counts = f"{share(few)} matched{few_open} {where_few}, {share(many)}{many_open} {where_many}"
    if few["high"] < many["low"]:
        return YES, counts
    if few["low"] > many["high"]:
        return NO, f"it falls: {counts}"
    if min(few["low"], many["low"]) > NEAR_ONE:
        return HARDLY, f"it is near 1 throughout: {counts}"
    return OPEN, f"the intervals overlap: {counts}"


def _warmup(table: Table) -> Found | None:
    equal, other = table.where(moved=0), table.where(lambda row: row["moved"])
    counts = (
        f"{share(pooled(equal))} matched where every row has m, {share(pooled(other))} elsewhere"
    )
    kinds = set(equal.column("verdict")), set(other.column("verdict"))
    if kinds != ({MAXIMAL}, {MINIMAL}):
        return NO, counts
    return YES, f"{counts}; certify proves both"


def _example(table: Table) -> Found | None:
    drawn = [row for row in table if row["verdict"] != MAXIMAL]
    if not drawn:
        return None
    each = "; ".join(
        f"{row['allocation']} {row['share']:.3f}, printed {row['printed']}" for row in drawn
    )
    far = max((abs(apart(row)) for row in drawn), default=0.0)
    words = "outside" if far > 2.0 else "within"
    told = f"{each}: {words} their sampling error, at most {far:.1f} standard errors away"
    return (NO if far > 2.0 else YES), told


def _fig2a(table: Table) -> Found | None:
    ladder = by_ladder(table)
    groups = [rows for _, rows in ladder.apart("n")]
    if any(len(rows) < 2 for rows in groups):
        return None
    if all(pooled(rows)["low"] > NEAR_ONE for rows in groups):
        low = min(ladder, key=lambda row: row["share"])
        least = f"least often {share(low)} at n = {low['n']}, k = {low['k']}"
        return HARDLY, f"near 1 at every size and every k: {share(pooled(ladder))} matched, {least}"
    return rise(*ends(groups), "in the fewest rows", "in all")


def _fig2b(table: Table) -> Found | None:
    ladder = by_ladder(table)
    below, at, above = map(pooled, by_rows(ladder).values())
    words = f"{share(below)} matched below d rows, {share(at)} at d, {share(above)} above"
    if below["matched"] or at["refuted"]:
        return NO, words
    sure = at["low"] > NEAR_ONE and above["low"] > NEAR_ONE
    return (YES if sure else OPEN), words


def _fig3a(table: Table) -> Found | None:
    ladder = by_ladder(table)
    first, *_, last = sorted(ladder.distinct("k"))
    few, many = (pooled(ladder.where(k=k)) for k in (first, last))
    return rise(few, many, f"in k = {first} rows", f"in {last}")


def _fig3b(table: Table) -> Found | None:
    groups = [rows for _, rows in by_ladder(table).apart("n") if len(rows) > 1]
    return rise(*ends(groups), "exactly in the fewest rows", "in all")


def _fig3c(table: Table) -> Found | None:
    above = table.where(lambda row: row["k"] > 40)
    if not above:
        return None
    solved, trials = (int(sum(above.column(name))) for name in ("solved", "trials"))
    words = f"{solved} of {trials} trials above 40 rows have every label right"
    if solved < trials:
        return NO, words
    sure = low_end(solved, trials, copies_in(above)) > 0.9
    return (YES, words) if sure else (OPEN, f"{words}: too few")


def _saturation(table: Table) -> Found | None:
    pairs = []
    for _, both in table.apart("n", "k"):
        theirs, ours = (both.where(method=name) for name in ("reference", "search"))
        if theirs and ours:
            pairs.append((theirs[-1], ours[-1]))
    if not pairs:
        return None
    matched, there, all_of = (
        int(sum(one[side][name] for one in pairs))
        for side, name in ((0, "matched"), (1, "matched"), (1, "trials"))
    )
    words = f"fsolve matches {matched} of {all_of} instances, and {there} have a match by proof"
    return (NO if matched < there else OPEN), words


def _variance(table: Table) -> Found | None:
    both = by_ladder(table.where(scaled="both"))
    if not both:
        return None
    why = "scaled by g, both sides of every equation change by the same power of g"
    return NO, f"it cannot: {why}; where only the student is scaled, it does"


def _columns(table: Table) -> Found | None:
    groups = [rows for _, rows in by_ladder(table).apart("n", "d") if len(rows) > 1]
    return rise(*ends(groups), "in the fewest columns", "in all")


def _growth(table: Table) -> Found | None:
    ends = {(c["family"], c["kind"]): rows[-1] for c, rows in table.apart("family", "kind")}
    stays = {who: row for who, row in ends.items() if row["high"] < 0.9}
    if stays:
        (family, kind), row = next(iter(stays.items()))
        return NO, f"{family}, {kind}: {share(row)} matched at n = {row['n']}"
    sure = all(row["low"] > 0.9 for row in ends.values())
    lowest = min(ends.values(), key=lambda row: row["share"])
    most = f" to {lowest['possible']:.3f}" if lowest["undecided"] else ""
    words = f"the lowest share at the largest n is {lowest['share']:.3f}{most}"
    return (YES if sure else OPEN), words


def _theorem_map(table: Table) -> Found | None:
    every, silent, wrong = (
        int(sum(rows.column("allocations")))
        for rows in (table, table.where(paper="silent"), table.where(wrong=True))
    )
    words = f"of {every} allocations they are wrong about {wrong_words(table)} and silent about {silent}"
    return (NO if wrong else YES), words


def _deficient_fraction(table: Table) -> Found | None:
    layers = table.where(where="one layer")
    most = max(layers, key=lambda row: row["share"])
    if not sum(layers.column("deficient")):
        return OPEN, "no deficient one was drawn"
    return NO, (
        f"up to {most['share']:.0%} are deficient (d = m = {most['d']}, n = {most['n']}; "
        f"{most['deficient']} of {most['looked_at']})"
    )


def _non_gaussian(table: Table) -> Found | None:
    for row, usual in apart_from_normal(table, "case", "setting"):
        words = f"{row['case']} {share(row)}, normal {share(usual)}"
        return NO, f"{row['setting']}: {words} matched"
    return OPEN, "no law differs from the normal one beyond the 95% intervals"


def _first_order(table: Table) -> Found | None:
    words, apart_in = [], []
    for case, rows in ((c["case"], r) for c, r in table.apart("case")):
        strict = rows.where(eps=min(rows.column("eps")))
        newton = strict.where(learner=NEWTON)
        # AdaHessian looks at curvature too.
        first = (row for row in strict if str(row["learner"]).startswith(FIRST))
        best = max(first, key=lambda row: row["within"])
        needed = best["within_high"] < newton[0]["within_low"]
        apart_in.append(needed)
        words.append(
            f"{case}, within {strict[0]['eps']:g}: {'yes' if needed else 'not decided'}, first order "
            f"{best['within']} of {best['trials']}, Levenberg-Marquardt {newton[0]['within']}"
        )
    return (YES if any(apart_in) else OPEN), "; ".join(words)


FIRST = ("gradient-descent", "sgd", "adam")


def _activations(table: Table) -> Found | None:
    kinds = ("linear", "relu", "tanh", "sigmoid")  # of the same feed-forward network
    rows = {kind: table.where(kind=kind, method="ladder") for kind in kinds}
    exact = {kind: pooled(some) for kind, some in rows.items() if some}
    if len(exact) < 2:
        return None
    words = ", ".join(f"{kind} {share(row)}" for kind, row in exact.items())
    low = exact["linear"]["low"]
    other = [row for kind, row in exact.items() if kind != "linear"]
    return (NO if all(r["high"] < low for r in other) else OPEN), f"matched: {words}"


def _generalisation(table: Table) -> Found | None:
    rows = table.where(lambda row: row["solved"], case=RNN)
    most = max(rows.column("samples"))
    fewer = rows.where(lambda row: row["samples"] < most)
    if not fewer:
        return None
    below, solved = (int(sum(fewer.column(name))) for name in ("below_one", "solved"))
    rarely, mostly = (low_end(n, solved, copies_in(fewer)) > 0.5 for n in (solved - below, below))
    words = f"{below} of {solved} exact matches on fewer than {most:.0f} samples beat answering 0"
    return (NO if rarely else YES if mostly else OPEN), words


def _conjectures(table: Table) -> Found | None:
    pairs = label_and_vector(table)
    if not pairs:
        return None
    counts = (sum(one[side]["solved"] for one in pairs) for side in (0, 1))
    words = "labels solved {:.0f}, vectors {:.0f}".format(*counts)
    words += f", of {sum(a['trials'] for a, _ in pairs):.0f} each"
    sure = all(a["low"] > b["high"] for a, b in pairs)
    return (YES, words) if sure else (OPEN, f"{words}: too few to part the intervals")


def _curvature(table: Table) -> Found | None:
    up = table.where(towards="flatter", bends="up")
    short, *_, long = (rows[0] for _, rows in up.apart("steps"))
    words = (
        f"a gradient step {long['steps'] / short['steps']:.0f} times as long gains "
        f"{long['fall']:.2f} of its slope instead of {short['fall']:.2f} (medians), and "
        f"raises the loss of {long['students'] - long['learn']:.0f} of "
        f"{long['students']} students"
    )
    return (YES if long["fall_high"] < short["fall_low"] else OPEN), words


def _difficulty(table: Table) -> Found | None:
    best, inside = [], []
    for _, rows in table.apart("gamma3"):
        low = min(rows, key=lambda row: row["ratio"])
        best.append(low["size"])
        inside.append(rows[0] is not low is not rows[-1])
    calm, *_, noisy = best
    words = f"difficulty over its critical value is lowest at N = {calm:.0f}, with more noise at "
    return (YES if all(inside) and noisy < calm else NO), f"{words}{noisy:.0f} (medians)"


def _rate_check(table: Table) -> Found | None:
    ours, theirs = (sum(abs(row[name]) <= 3 for row in table) for name in ("off", "slides_off"))
    words = (
        f"it lies within 3 standard errors of the measured rate in {theirs} of {len(table)} cells"
    )
    word = NO if theirs < 0.5 * len(table) else YES if theirs > 0.95 * len(table) else OPEN
    return word, f"{words}, the corrected one in {ours}"


def _linear_size(table: Table) -> Found | None:
    row = next(row for row in table.where(quantity="rate") if row["best"] is not None)
    low, high = (row[name] for name in ("best_low", "best_high"))
    slides, ours = (row[name] for name in ("best_slides", "best_predicted"))
    words = f"measured {low:.0f} to {high:.0f}, by the slides {slides:.0f}, by the maximum of <k> "
    return (YES if low <= slides <= high else NO), f"{words}{ours:.0f}"


def _noise_and_size(table: Table) -> Found | None:
    rows = curves(table).get("rate", Table())
    if len(rows) < 3:
        return None
    power, error = exponent(rows)
    words = f"the best size goes as gamma3 to the power {power:.2f} +- {error:.2f}"
    return (YES if abs(power + 2.0) <= 2.0 * error else NO), f"{words}; its variance is gamma3^2"


def _deep_size(table: Table) -> Found | None:
    noisy = table.where(lambda row: row["gamma3"] and row["repeats"] > 1)
    ends = [rows[-1] for _, rows in noisy.apart("gamma3", "cycles")]
    ends = [row for row in ends if row["more"] is not None and row["more_error"]]
    far = max(ends, key=lambda row: row["more"] / row["more_error"])
    more, error = far["more"], far["more_error"]
    words = (
        f"gamma3 = {far['gamma3']:g}: the largest network has {more:+.2f} +- {error:.2f} more error "
        "than the best width"
    )
    return (YES if more > 2.0 * error else OPEN), words


def _placement(table: Table) -> Found | None:
    rows = [row for row in table if row["more"] is not None and row["more_error"]]
    wins = [row for row in rows if row["more"] > 2.0 * row["more_error"]]
    loses = [row for row in rows if row["more"] < -2.0 * row["more_error"]]
    if not rows:
        return None
    words = f"of {len(rows)} settings spreading wins in {len(wins)} and loses in {len(loses)}"
    return (NO if loses else YES if len(wins) == len(rows) else OPEN), words


def _tuning(table: Table) -> Found | None:
    mean = {c["method"]: fmean(rows.column("regret")) for c, rows in table.apart("method")}
    race, best = mean.pop("race"), min(mean, key=mean.__getitem__)
    words = f"mean regret {race:.3f}, of the best single rule ({best}) {mean[best]:.3f}"
    return (YES if race < mean[best] else NO), words
