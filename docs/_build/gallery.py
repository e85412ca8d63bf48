"""Keeps results of runs in docs/results, and writes the page that shows them, docs/gallery.md.

    python docs/_build/gallery.py runs/paper   stores the finished experiments of a run, and writes the page
    python docs/_build/gallery.py              draws and writes everything again from what is stored

Of an experiment are kept: table.csv, one picture on light and on dark ground, and about.json: budget, commit,
command, versions, seed, trials, and what is found. The same run gives the same bytes. A result of the full
budget is not replaced by one of the quick budget.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from html import escape
from pathlib import Path
from typing import Any

from sublearn._files import write_whole
from sublearn.experiments import ALL, answer
from sublearn.plots import dark, save
from sublearn.reports._section import command
from sublearn.runs import Run, Table
from sublearn.runs import open as open_run
from sublearn.runs._tables import parse_table

DOCS = Path(__file__).resolve().parents[1]
RESULTS = DOCS / "results"
PAGE = DOCS / "gallery.md"
GROUNDS = {"light": nullcontext, "dark": dark}
# Of several pictures the one that answers the question; else the first.
PICTURES = {"linear-size": "best-size", "curvature": "fall-against-angle"}
# How the line of a finding begins that is shown after the answer; else the first that says something else.
SECOND = {
    "example": "Diagonal",
    "fig2a": "At every k",
    "fig2b": "The lowest decided share",
    "fig3a": "At k = 2 every instance",
    "fig3b": "Levenberg-Marquardt comes within",
    "fig3c": "Where some trials are not solved",
    "variance": "diagonal, n = 2, only",
    "columns": "With d = 4",
    "equations": "With none left",
    "growth": "Not every kind",
    "theorem-map": "ffn:3-3-2",
    "deficient-fraction": "In the setting of Figure 2a",
    "non-gaussian": "Without a density",
    "first-order": "The best first-order learner",
    "activations": "A linear layer that matches",
    "generalisation": "With m = T b samples",
    "conjectures": "Labels of noise",
    "beyond": "linear RNN, medians",
    "surplus": "middle of three layers: no",
    "depth": "both of two, half each:",
    "activity": "First 4 rows of W, r = 32",
    "laws": "three linear layers, rows of W2: spreading",
    "mixed": "d = 4, T = m = 4",
    "curvature": "Steps of 4",
    "difficulty": "More noise",
    "linear-size": "Rate at gamma = (0.8, 1, 0.05), expansion",
    "noise-and-size": "Best size by the steady state",
    "deep-size": "gamma3 = 0.05",
    "placement": "With white inputs and m = 8",
    "irrelevant-change": "gamma3 = 0.05, white",
    "forgetting": "a second task's gradient",
    "irrelevant-placement": "room for one of them, m = 6, a second task",
}
PROTOCOLS = ("reference", "construction")  # the paper's: few trials, for they take long
HALF_WIDTH = 0.05
# What is not stored here, and where it is.
ELSEWHERE = {
    "tuning": "It trains a PyTorch model, which the other experiments do without; what a larger confirmation "
    "found, with every line of it, stands on the page about [tuning a few weights](models/tuning.md)."
}


def store(run: Run, name: str, place: Path = RESULTS) -> str:
    """Store one experiment of a run, if it is finished; what was done, in a word."""
    state, declared = run.state(name), run.declared(name)
    if not state.finished or state.failures:
        return "not finished"
    folder = place / name
    if state.budget == "quick" and stored(name, place).get("budget") == "full":
        return "kept: the full budget is stored already"
    content = (run.folder / name / "table.csv").read_bytes()
    manifest = run.manifest
    about = {
        "experiment": name,
        "budget": state.budget,
        "command": command(run, name),
        "commits": declared.get("commits") or _commits(manifest),
        "versions": {k: v for k, v in manifest["versions"].items() if v},
        "tools": manifest.get("tools", {}),
        "seed": state.seed,
        "points": state.points,
        "trials": state.trials,
        "declaration": declared["digest"],
        "table": hashlib.sha256(content).hexdigest(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    write_whole(folder / "table.csv", content)
    _draw_and_say(folder, about)
    return f"stored, {state.budget} budget"


def _commits(manifest: Mapping[str, Any]) -> list[str]:
    """Of all sessions of a run, where its experiments do not say theirs."""
    every = [*(one.get("commit") for one in manifest.get("history", ())), manifest.get("commit")]
    return list(dict.fromkeys(filter(None, every)))


def _draw_and_say(folder: Path, about: dict[str, Any]) -> None:
    """Picture and words of a table that is there."""
    name = about["experiment"]
    experiment, table = ALL[name], rows(folder)
    about["finds"] = experiment.find(table)
    for ground, theme in GROUNDS.items():
        with theme():
            figures = experiment.draw(table)
            picture = PICTURES.get(name, next(iter(figures)))
            png, _ = save(figures[picture], folder / f"{picture}-{ground}")
            png.unlink()  # the .svg is enough
    about["picture"] = picture
    text = json.dumps(about, indent=1, ensure_ascii=False)
    write_whole(folder / "about.json", f"{text}\n".encode())


def rows(folder: Path) -> Table:
    """The stored table."""
    return parse_table((folder / "table.csv").read_bytes())


def stored(name: str, place: Path = RESULTS) -> dict[str, Any]:
    """What is stored of an experiment; empty if nothing is."""
    path = place / name / "about.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


HEAD = """# Gallery

Every declared experiment: what the source says, what we find, one picture, and the command that makes it
again. This page, and the pictures and tables in `docs/results`, are written from finished
[runs](runs/running.md) by `python docs/_build/gallery.py`: no number on it is typed in by hand, and tests
compute a sample of the stored counts again.

Yes and no are about the question as the table puts it to the test, at its sizes: shares are told apart by
their 95% intervals, means by two standard errors, and what these leave open is not decided. "Hardly" stands
where shares are near 1 from the start and have no room to rise. Allocations of one network are tried on the
same draws: where they are taken together no interval is given, and answers count every draw once. In the
pictures shaded bands are 95% intervals (Clopper and Pearson), and what is undecided is the hatched gap
between the share matched and the share not refuted. "The paper's protocol" is scipy's fsolve from 400 random
starts; the law of the starts and the form of the equations are ours, for the paper names neither, and [how
much they matter](matching/figure-2a.md) is counted.

"""


def page(place: Path = RESULTS) -> str:
    """The Markdown of the gallery."""
    about = {name: stored(name, place) for name in ALL}
    found = {name: _answer(name, each, place) for name, each in about.items() if each}
    lines = [
        HEAD,
        _budgets(about),
        _widths(about, place),
        "\n| experiment | question | answer | budget |\n|---|---|---|---|\n",
    ]
    for name in ALL:
        question, word, budget = ALL[name].title, "", "not stored"
        if name in found:
            question, word = found[name].question, found[name].word or "in words"
            budget = about[name]["budget"]
        lines.append(f"| [{name}](#{name}) | {_text(question)} | {word} | {budget} |\n")
    sections = (_section(name, about[name], found.get(name)) for name in ALL)
    return "".join([*lines, *sections])


def _budgets(about: Mapping[str, Mapping[str, Any]]) -> str:
    """How many results are of which budget."""
    count = Counter(each.get("budget", "") for each in about.values())
    words = f"{count['full']} of {len(about)} experiments are shown at their full budget"
    if count["quick"]:
        words += (
            f", {count['quick']} at the quick one, which is for a look and leaves wide intervals: their full "
            "runs are still to come"
        )
    if count[""]:
        words += f"; {count['']} {'is' if count[''] == 1 else 'are'} not stored here"
    return f"{words}.\n"


def _widths(about: Mapping[str, Mapping[str, Any]], place: Path) -> str:
    """How many decided shares of full budgets have intervals wider than they should have, and why."""
    undecided, small, every = Counter[str](), Counter[str](), 0
    for name in about:
        for row in rows(place / name) if about[name].get("budget") == "full" else ():
            if row.get("undecided") is None or row.get("method") in PROTOCOLS:
                continue
            every += 1
            if row["high"] - row["low"] > 2 * HALF_WIDTH:
                (undecided if row["undecided"] else small)[name] += 1
    if not every:
        return ""
    words = (
        f"\nOf {every:,} shares decided at full budget all have a 95% interval of at most {HALF_WIDTH} to "
        "either side"
    )
    except_for = [
        f"{count.total()} {why} ({', '.join(f'{name} {many}' for name, many in count.most_common())})"
        for count, why in (
            (undecided, "that undecided instances widen"),
            (small, "of small subgroups"),
        )
        if count
    ]
    return f"{words}{', but for ' * bool(except_for)}{' and '.join(except_for)}.\n"


def _answer(name: str, about: Mapping[str, Any], place: Path) -> Any:
    return answer(name, ALL[name].title, rows(place / name), about["finds"])


def _section(name: str, about: Mapping[str, Any], found: Any) -> str:
    experiment = ALL[name]
    lines = [
        f"\n## {_text(experiment.title)} {{ #{name} }}\n",
        f"**The source** ({_text(experiment.source)}): {_text(experiment.claim)}\n",
    ]
    if not about:
        lines.append(
            f"**We find:** not stored here. {ELSEWHERE.get(name, 'It has not been run yet.')}\n"
        )
        return "\n".join([*lines, f"`sublearn reproduce {name} --full`\n"])
    said = f"{found.question} {findings(name, about['finds'], found)}"
    lines.append(f"**We find:** {_text(said)}\n")
    alt = _text(f"{experiment.title}. {found.sentence}").replace("]", "\\]")
    stem = f"results/{name}/{about['picture']}"
    lines += [f"![{alt}]({stem}-{ground}.svg#only-{ground}){{ .wide }}" for ground in GROUNDS]
    words = "".join(f"<p>{escape(line)}</p>" for line in about["finds"].splitlines())
    commits = ", ".join(f"`{_short(commit)}`" for commit in about["commits"]) or "unknown"
    budget = {"full": "Full budget", "quick": "**Quick budget**, for a look"}[about["budget"]]
    lines.append(
        f"\n{budget}: {about['trials']:,} trials of {_several(about['points'], 'point')}, seed "
        f"{about['seed']}, sublearn {about['versions']['sublearn']} at commit {commits}. "
        f"[Table](results/{name}/table.csv), [about it](results/{name}/about.json).\n"
    )
    lines.append(f"`{about['command']}`\n")
    lines.append(f"<details><summary>All that is found</summary>{words}</details>\n")
    return "\n".join(lines)


def findings(name: str, finds: str, found: Any) -> str:
    """Two sentences: what is answered, and one line of the finding that says more."""
    first = f"{found.word.capitalize()}: {found.sentence}." if found.word else ""
    others = [line for line in finds.splitlines() if found.sentence.rstrip(".") not in line]
    chosen = [line for line in others if line.startswith(SECOND.get(name, ""))] or others
    return " ".join(filter(None, [first, *chosen[: 1 if first else 2]]))


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _short(commit: str) -> str:
    """Ten digits of a commit, and what else is said of it."""
    digits, _, more = commit.partition(" ")
    return " ".join(filter(None, [digits[:10], more]))


def _text(words: str) -> str:
    """Words as Markdown: nothing in them is markup."""
    return re.sub(r"([\\`*_\[\]|#$])", r"\\\1", escape(words, quote=False))


def main(folders: list[str]) -> None:
    for folder in folders:
        run = open_run(folder)
        for name in run.names:
            if name in ALL:
                print(f"{name}: {store(run, name)}")
    if not folders:
        for name in ALL:
            if about := stored(name):
                _draw_and_say(RESULTS / name, about)
    write_whole(PAGE, page().encode())


if __name__ == "__main__":
    main(sys.argv[1:])
