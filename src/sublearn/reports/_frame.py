"""What stands around the experiments: how far the run is, contents, how to read it, the foot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sublearn.experiments import answer
from sublearn.reports._html import around, paragraphs, tag
from sublearn.runs import ExperimentState, Run


def badge(state: ExperimentState) -> str:
    """One word on how far an experiment is, or how much of it is missing."""
    if state.failures:
        return tag("span", f"{state.failures} failed", class_="badge bad")
    if state.finished:
        return tag("span", state.budget, class_="badge")
    words = f"{state.points_done} of {state.points} points"
    return tag("span", words, class_="badge part")


def summary(states: Mapping[str, ExperimentState]) -> str:
    """How much of what was asked is there."""
    done = sum(state.finished and not state.failures for state in states.values())
    failed = sum(state.failures for state in states.values())
    budgets = " and ".join(sorted({state.budget for state in states.values()}))
    seeds = " and ".join(str(seed) for seed in sorted({s.seed for s in states.values()}))
    trials = sum(state.trials_done for state in states.values())
    total = sum(state.trials for state in states.values())
    words = (
        f"{done} of {len(states)} experiments finished, {budgets} budget, seed {seeds}; {trials:,} of "
        f"{total:,} trials. "
    )
    if done < len(states):
        words += "What is missing is marked. "
    if failed:
        words += f"{failed} failures are listed with their experiments. "
    if "quick" in budgets:
        words += "A quick budget leaves wide intervals: they are shown, not hidden."
    return tag("p", words, class_="lead")


def damage(run: Run) -> str:
    """What of the run's folder cannot be used, if anything; it counts as not there."""
    damaged = run.damage
    if not damaged:
        return ""
    items = "".join(tag("li", sentence) for sentence in damaged)
    words = "Parts of this run are damaged and left out; the commands below make them anew"
    return around("div", tag("h3", words) + around("ul", items), class_="warn", role="note")


def contents(run: Run, states: Mapping[str, ExperimentState]) -> str:
    """What was found, a line for each experiment: the question, the answer, and why."""
    answers = {
        name: answer(name, run.declared(name)["title"], run.table(name), run.finds(name))
        for name in run.names
    }
    items = ""
    for name, said in answers.items():
        whole = states[name].finished and not states[name].failures
        link = tag("span", name, class_="name") + tag("a", said.question, href=f"#{name}")
        word = tag("span", said.word, class_=f"answer {said.word[:3]}") if said.word else ""
        why = tag("span", said.sentence, class_="why")
        items += around("li", f"{link}{'' if whole else badge(states[name])} {word} {why}")
    counts = Counter(said.word for said in answers.values() if said.word)
    each = ", ".join(
        f"{counts[word]} {word}" for word in ("yes", "no", "hardly", "not decided") if counts[word]
    )
    several = f"{len(answers)} questions" if len(answers) > 1 else "1 question"
    lead = tag("p", f"{several}: {each}.", class_="count") if each else ""
    inside = f"{tag('h2', 'What was found')}{lead}{around('ol', items)}"
    return f'<nav aria-label="What was found">{inside}</nav>\n'


_GUIDE = """\
Match probability (MP): how likely it is that some values of the learnable weights reproduce the \
teacher's outputs exactly. Every trial draws an instance and decides it: matched (a real solution \
exists), refuted (none exists) or undecided (the work allowed was spent).
Lines show the share matched. Where instances are undecided, a dotted line shows the share not refuted, \
and the gap between the two is hatched: the true share lies in it. Shaded bands are 95% intervals \
(Clopper and Pearson) around both.
"The paper's protocol" runs scipy's fsolve from 400 random starts and counts what it does not find as no \
match; its dashed lines are what that count gives, numerical and never a proof. The law of the starts \
(that of the frozen weights) and the form of the equations (the outputs as polynomials) are ours: the \
paper names neither, and the share depends on both.
How sure: a proof; wrong with a probability of at most so much; or numerical, where rounding decides. \
The tables say how many decisions are of which kind.
"""


def guide() -> str:
    """How to read the page."""
    inside = tag("summary", "How to read this page") + paragraphs(_GUIDE)
    return around("details", inside, class_="guide") + "\n"


def foot(run: Run) -> str:
    """With what the run was made."""
    manifest = run.manifest
    versions = ", ".join(
        f"{name} {version}" for name, version in manifest["versions"].items() if version
    )
    lines = [
        ("versions", versions),
        ("commit", manifest.get("commit") or "not run from a checkout"),
        ("seed", _seeds(run)),
        ("machine", manifest.get("machine", "unknown")),
        *_tools(manifest),
    ]
    if manifest.get("history"):
        lines.append(("earlier", f"parts of this run were made with {len(manifest['history'])} other "
                                 "sets of versions; manifest.json lists them"))  # fmt: skip
    items = "".join(tag("dt", name) + tag("dd", words) for name, words in lines)
    return f"<footer>{tag('h2', 'Made with')}{around('dl', items)}</footer>\n"


def _tools(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    tools = manifest.get("tools", {})
    if "msolve" in manifest:  # as it was written before other tools could be
        tools = {"msolve": manifest["msolve"]}
    return [(name, "found" if there else "not found") for name, there in tools.items()]


def _seeds(run: Run) -> str:
    by_seed: dict[int, list[str]] = {}
    for name in run.names:
        by_seed.setdefault(run.declared(name)["seed"], []).append(name)
    if len(by_seed) == 1:
        return str(next(iter(by_seed)))
    return "; ".join(f"{seed} ({', '.join(names)})" for seed, names in by_seed.items())
