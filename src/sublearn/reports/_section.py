"""One experiment on the page: claim, finding, pictures, command, table, failures."""

from __future__ import annotations

import shlex
from base64 import b64encode
from html import escape
from pathlib import Path

from sublearn.experiments import ALL
from sublearn.reports._frame import badge
from sublearn.reports._html import around, paragraphs, tag
from sublearn.reports._table import table
from sublearn.runs import ExperimentState, Run

_LONG = 14  # rows; longer tables are folded


def section(run: Run, name: str, state: ExperimentState) -> str:
    """The section of one experiment."""
    entry = run.declared(name)
    heading = around("h2", tag("span", entry["title"]) + " " + badge(state))
    parts = [heading, tag("p", entry["source"], class_="source") if entry["source"] else ""]
    if not state.finished:
        parts.append(_unfinished(state))
    parts.append(_claim_and_finding(run, name))
    for picture in run.pictures(name):
        drawn = run.picture(picture) if picture.suffix == ".svg" else b""
        if drawn:
            parts.append(_picture(picture, drawn, name, entry["title"], run.finds(name)))
    button = '<button type="button" class="copy" data-copy="text">copy</button>'
    parts.append(around("div", tag("code", command(run, name)) + button, class_="command"))
    rows = run.table(name)
    if rows:
        inside = tag("summary", f"Table, {len(rows)} rows")
        inside += table(rows, entry["headings"], name)
        shown = {} if len(rows) > _LONG else {"open": ""}
        parts.append(around("details", inside, class_="numbers", **shown))
    parts.append(_failures(run, name))
    return around("section", "\n".join(filter(None, parts)), id=name) + "\n"


def _unfinished(state: ExperimentState) -> str:
    left = state.trials - state.trials_done
    if not left:
        words = (
            "All trials are there, and their table is not; the command below makes it, with --out."
        )
        return tag("p", words, class_="warn", role="note")
    words = (
        f"Not finished: {state.points_done} of {state.points} points are there, {left:,} trials are "
        "missing. What follows rests on the points that are complete. The command below goes on with it, "
        "with --out and the name of this run's folder behind it."
    )
    return tag("p", words, class_="warn", role="note")


def _claim_and_finding(run: Run, name: str) -> str:
    claim, finds = run.declared(name)["claim"], run.finds(name)
    cards = ""
    if claim:
        cards += around("div", tag("h3", "The source says") + paragraphs(claim), class_="card")
    if finds:
        inside = tag("h3", "We find") + paragraphs(finds)
        cards += around("div", inside, class_="card ours", id=f"{name}-finding")
    return around("div", cards, class_="cards") if cards else ""


def _picture(path: Path, drawn: bytes, name: str, title: str, finds: str) -> str:
    # As an image of its own: the names inside one drawing do not meet those of another, and no script
    # that somebody put into it is run.
    data = b64encode(drawn).decode()
    # For who does not see it: the first thing that it shows. The rest stands in text and table.
    first = finds.splitlines()[0] if finds else "The numbers stand in the table below."
    alt = escape(f"{title}. {first}")
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{alt}">'
    caption = tag("figcaption", f"{name}/{path.stem}.svg and .png")
    return around("figure", image + caption)


def command(run: Run, name: str) -> str:
    """What to type to make this part of the page again; where the run's folder lies does not matter."""
    entry = run.declared(name)
    words = ["sublearn", "sweep", f"{name}.toml"]
    if name in ALL:
        words = ["sublearn", "reproduce", name, f"--{entry['budget']}"]
        if entry["seed"] != ALL[name].plan(entry["budget"]).seed:
            words += ["--seed", str(entry["seed"])]
    return shlex.join(words)


def _failures(run: Run, name: str) -> str:
    failed = [failure for failure in run.failures if failure["experiment"] == name]
    if not failed:
        return ""
    items = ""
    for failure in failed:
        params = ", ".join(f"{key} = {value}" for key, value in failure.get("params", {}).items())
        where = f"{failure['step']}{': ' if params else ''}{params}"
        items += around("li", tag("b", where) + " " + tag("span", failure["error"]))
    words = f"{len(failed)} failed, and left out of the table and the pictures"
    return around("div", tag("h3", words) + around("ul", items), class_="warn", role="note")
