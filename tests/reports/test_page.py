"""The page: valid, whole, offline, honest about what is missing, and readable."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

import sublearn.runs as runs
from sublearn.cli import app
from sublearn.experiments import find
from sublearn.plots import curve, figure, name_axes
from sublearn.reports import page, write
from sublearn.reports._section import command
from sublearn.runs import Experiment, Json, Plan, Point, Row, Run, Table, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMPTY = {"meta", "img", "br", "link"}
NASTY = '<script>alert("x")</script> & more'


class Square(Task):
    """x squared, with trouble where it is asked for."""

    name = "square"
    columns = {"y": float}  # noqa: RUF012

    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        if point["trouble"]:
            raise RuntimeError("this point cannot be computed <b>")
        x = float(str(point["x"]))
        return [{"y": x * x + trial} for trial in trials]

    def summarise(self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray]) -> list[Row]:
        return [{"mean": float(rows["y"].mean()) / 3, "words": NASTY, "all": 7}]


def _draw(table: Table) -> dict[str, Figure]:
    fig, ax = figure()
    curve(ax, [row["x"] for row in table], [row["mean"] for row in table], label="squares")
    name_axes(ax, "x", "mean")
    return {"squares": fig}


def _experiment(trouble: bool = False) -> Experiment:
    points = tuple(Point({"x": x, "trouble": trouble and x == 2}, trials=2) for x in range(3))
    plan = Plan(points, seed=4)
    return Experiment(
        "squares" if not trouble else "troubled",
        "Squares <grow>",
        "section 0",
        'a claim with "quotes" & <signs>.',
        Square(),
        plan,
        plan,
        0.1,
        {"x": "x", "trouble": "trouble", "mean": "mean of y", "words": "words", "all": "all"},
        _draw,
        lambda table: f"There are {len(table)} rows.\nThe last line.",
    )


class Page(HTMLParser):
    """The elements of a page, with every tag closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute stands twice in {tag}"
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def words(self) -> str:
        return " ".join(data for tag, data in self.text if tag not in ("script", "style"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("page") / "run"
    return runs.execute([_experiment(), _experiment(trouble=True)], out=folder)


@pytest.fixture(scope="module")
def parsed(run: Run) -> Page:
    return Page(page(run))


def test_the_page_is_written_whole(run: Run) -> None:
    path = write(run.folder)
    assert path == run.folder / "report.html"
    text = path.read_text(encoding="utf-8")
    assert text == page(run), "the same run gives the same page"
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")


def test_it_is_a_sound_page(parsed: Page) -> None:
    assert parsed.all("html")[0]["lang"] == "en"
    for once in ("title", "h1", "main", "nav", "footer"):
        assert len(parsed.all(once)) == 1
    ids = [a["id"] for _, a in parsed.elements if "id" in a]
    assert len(ids) == len(set(ids))
    links = [a["href"] for a in parsed.all("a")]
    assert links and all(str(link).startswith("#") and str(link)[1:] in ids for link in links)


def test_nothing_is_fetched(run: Run, parsed: Page) -> None:
    for tag, attributes in parsed.elements:
        assert tag not in ("link", "iframe", "object", "embed")
        assert "srcset" not in attributes
        source = attributes.get("src")
        assert source is None or source.startswith("data:image/svg+xml;base64,")
    code = "".join(data for tag, data in parsed.text if tag in ("style", "script"))
    assert "@import" not in code and "url(" not in code
    assert not re.search(r"fetch\(|XMLHttpRequest|https?:", code)


def test_pictures_have_words_and_commands(run: Run, parsed: Page) -> None:
    images = parsed.all("img")
    assert len(images) == 2
    assert all(len(str(image["alt"])) > 20 for image in images)
    commands = [data for tag, data in parsed.text if tag == "code"]
    assert commands == [f"sublearn sweep {name}.toml" for name in run.names]


def test_claims_stand_beside_findings(parsed: Page) -> None:
    words = parsed.words()
    assert words.count('a claim with "quotes" & <signs>.') == 2
    assert "There are 3 rows." in words and "There are 2 rows." in words


def test_what_comes_from_outside_is_escaped(run: Run, parsed: Page) -> None:
    assert NASTY not in page(run)
    assert NASTY in parsed.words()


def test_failures_and_missing_points_are_shown(parsed: Page) -> None:
    words = parsed.words()
    assert "1 of 2 experiments finished" in words
    assert "Not finished: 2 of 3 points are there, 2 trials are missing." in words
    assert "this point cannot be computed <b>" in words
    assert "1 failed" in words


def test_tables_are_whole_and_carry_every_digit(run: Run) -> None:
    text = page(run)
    (first, second) = re.findall(r"<table>(.*?)</table>", text, flags=re.DOTALL)
    for part, rows in ((first, 3), (second, 2)):
        heads = re.findall(r"<th ", part)
        lines = re.findall(r"<tr>((?:<td.*?</td>)+)</tr>", part)
        assert len(lines) == rows
        assert all(line.count("<td") == len(heads) for line in lines)
    cells = re.findall(r'<td class="number"(?: data-v="([^"]+)")?>([^<]*)</td>', first)
    exact = [float(full or short) for full, short in cells]
    assert exact == [row[name] for row in run.table("squares") for name in ("x", "mean")]
    assert "The same in every row: trouble: no; words:" in text


def test_versions_and_seed_stand_at_the_foot(run: Run, parsed: Page) -> None:
    words = parsed.words()
    for name, version in run.manifest["versions"].items():
        assert version is None or f"{name} {version}" in words
    at = [data for tag, data in parsed.text if tag in ("dt", "dd")]
    assert at[at.index("seed") + 1] == "4"


def test_commands_of_our_experiments_can_be_typed(tmp_path: Path) -> None:
    experiment = find("warmup")
    light = Plan((Point(experiment.quick.points[0].params, trials=1),))
    made = runs.execute([replace(experiment, quick=light)], out=tmp_path / "r", seed=3)
    text = command(made, "warmup")
    assert text == "sublearn reproduce warmup --quick --seed 3"
    result = CliRunner().invoke(app, [*shlex.split(text)[1:], "--list"])
    assert result.exit_code == 0, result.output


def test_a_run_that_has_not_begun_has_a_page(run: Run, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((run.folder / "manifest.json").read_bytes())
    words = Page(page(runs.open(tmp_path))).words()
    assert "0 of 2 experiments finished" in words
    assert "Not finished: 0 of 3 points are there" in words


def _luminance(colour: str) -> float:
    wide = colour if len(colour) == 7 else "#" + "".join(c * 2 for c in colour[1:])
    parts = [int(wide[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_stands_out_in_light_and_dark(run: Run) -> None:
    """WCAG 2.1, contrast of at least 4.5 to 1 (AA) for every pair of text and ground that occurs."""
    css = page(run)
    themes = re.findall(r"--paper:.*?--warn: #\w+;", css, flags=re.DOTALL)
    assert len(themes) == 4  # light, dark by preference, dark by choice, paper
    assert themes[1].split() == themes[2].split()
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#\w+);", theme))
        for text in ("ink", "faint", "link", "bad"):
            for ground in ("paper", "card", "ours", "warn"):
                pair = sorted(_luminance(colours[name]) for name in (text, ground))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (text, ground, theme)


def test_the_first_screen_says_what_was_found(run: Run, tmp_path: Path) -> None:
    said = replace(_experiment(), find=lambda table: "Yes, as drawn: 3 of 3 grow.\nThe rest.")
    text = page(runs.execute([said], out=tmp_path / "said"))
    assert text.index("What was found") < text.index("<main")
    nav = text[text.index("<nav") : text.index("</nav>")]
    assert "1 question: 1 yes." in nav and "as drawn: 3 of 3 grow" in nav
    assert 'href="#squares">Squares &lt;grow&gt;</a>' in nav
    plain = page(run)
    assert "There are 3 rows." in plain[plain.index("<nav") : plain.index("</nav>")]
