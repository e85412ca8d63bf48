"""From a run's folder to report.html."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from sublearn._files import write_whole
from sublearn.reports._frame import contents, damage, foot, guide, summary
from sublearn.reports._html import tag
from sublearn.reports._section import section
from sublearn.runs import Run
from sublearn.runs import open as open_run

NAME = "report.html"


def write(folder: str | Path) -> Path:
    """Write the page of a run into its folder, beside and renamed, and return its path.

    The page is one file: pictures, style and script are inside, and nothing is fetched. A run that is
    still under way, or that failed in places, is shown as far as it is, and says so.
    """
    run = open_run(folder)
    path = run.folder / NAME
    # Words that a file cannot hold stand there written out.
    text = page(run).encode(errors="backslashreplace")
    write_whole(path, text, kept="the run itself is kept as it is")
    return path


def page(run: Run) -> str:
    """The page as text: the same run gives the same text."""
    states = {state.experiment: state for state in run.states()}
    title = "sublearn: " + (next(iter(states)) if len(states) == 1 else "what was run and found")
    # Before anything is painted, so that a dark page does not flash.
    early = 'try{var t=localStorage.getItem("theme");if(t)document.documentElement.dataset.theme=t}catch(e){}'
    head = (
        '<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"{tag('title', title)}\n<style>\n{_asset('style.css')}</style>\n<script>{early}</script>\n"
    )
    sections = "".join(section(run, name, states[name]) for name in run.names)
    body = (
        '<a class="skip" href="#first">Skip to the results</a>\n'
        f"<header>{tag('h1', title)}"
        '<button type="button" id="theme" aria-label="Switch between light and dark">'
        "light / dark</button></header>\n"
        f"{summary(states)}{damage(run)}{contents(run, states)}{guide()}"
        f'<main id="first">\n{sections}</main>\n{foot(run)}'
        f"<script>\n{_asset('script.js')}</script>\n"
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}</head>\n<body>\n{body}</body>\n</html>\n'


def _asset(name: str) -> str:
    return files("sublearn.reports").joinpath(name).read_text(encoding="utf-8")
