"""What the pages show is what happens: every command runs, every example prints what it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from typer.testing import CliRunner

import sublearn as sl
from built import built_by
from sublearn.cli import app
from sublearn.networks import network_from_text

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def _commands() -> list[object]:
    found: dict[str, list[object]] = {}
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in block.splitlines() if not language else []:
                command = line.removeprefix("$ ")
                if command.startswith("sublearn "):
                    # Thousands of draws take their time.
                    many = "--draws" in command or "--trials" in command
                    found[command] = [pytest.mark.slow] if many else []
    return [pytest.param(command, marks=marks, id=command) for command, marks in found.items()]


def _examples() -> list[object]:
    return [
        pytest.param(block, id=page.relative_to(ROOT).as_posix())
        for page in PAGES
        for language, block in BLOCK.findall(page.read_text(encoding="utf-8"))
        if language == "python" and "import sublearn" in block
    ]


@pytest.mark.parametrize("command", _commands())
def test_commands_of_the_pages_run(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    words = shlex.split(command)[1:]
    if "--allocation" in words:
        asked = words[words.index("--network") : words.index("--allocation")]
        made = runner.invoke(app, ["design", *asked, "--learn", "W2", "--out", "mask.json"])
        assert made.exit_code == 0, made.output
    if words[0] == "check":
        problem = sl.Problem(sl.LinearRNN(n=2, b=1, d=1, T=2), samples=2)
        rows = sl.Allocation.from_rows(problem.network, "W", [0])
        certificate = sl.decide(sl.draw(problem, rows)).certificate
        assert certificate is not None
        certificate.save("match.json")
        sl.certify(problem, rows).save("verdict.json")
    if "exists.npz" in command:
        np.savez("exists.npz", W=np.tri(20, dtype=bool))
    if "own.npz" in words:
        net = network_from_text(words[words.index("--network") + 1])
        rng = np.random.default_rng(0)
        own = {name: rng.normal(size=shape) for name, shape in net.shapes.items()}
        inputs = rng.normal(size=net.input_shape(4))
        # Not yet learned: learning begins at these weights.
        np.savez("own.npz", inputs=inputs, targets=1.1 * net.forward(own, inputs), **own)
    result = runner.invoke(app, words)
    assert result.exit_code == 0, result.output
    assert result.output.strip()


@pytest.mark.parametrize("block", _examples())
def test_examples_of_the_pages_print_what_they_say(
    block: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "import torch" in block:
        pytest.importorskip("torch", reason="torch is tested by make test-models")
    monkeypatch.chdir(tmp_path)
    said = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
    with patch.dict(sl.training.LEARNERS):  # what a page adds is forgotten again
        exec(compile(block, "example", "exec"), {})
    assert capsys.readouterr().out.splitlines() == said


def test_no_page_waits_for_its_numbers() -> None:
    for page in PAGES:
        left = re.findall(r"@@\w*@?|\b(?:TODO|FIXME|XXX)\b", page.read_text(encoding="utf-8"))
        assert not left, f"{page.name}: {left}"


def test_numbers_of_the_front_page_stand_in_the_gallery() -> None:
    gallery, front = (
        (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("gallery", "index")
    )
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|([^|]*gallery\.md#[^|]*)\|$", front, flags=re.MULTILINE)
    assert len(rows) >= 10
    for answer, links in rows:
        names = re.findall(r"gallery\.md#([\w-]+)", links)
        found = "".join(
            gallery.partition(f"{{ #{name} }}")[2].partition("\n## ")[0] for name in names
        )
        words = re.sub(r"\]\([^)]*\)", "]", answer).replace(",", "")
        for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.²])", words):
            assert re.search(rf"(?<![\w.]){re.escape(number)}(?![\w.]*\d)", found), (number, names)


def test_every_public_name_stands_in_the_reference() -> None:
    pages = built_by("reference").pages()
    rooms = {name for name in sl.__all__ if f"reference/{name}.md" in pages}
    index = pages["reference/index.md"]
    assert [n for n in set(sl.__all__) - rooms if f"| [`sl.{n}`][" not in index] == []
    for room in sorted(rooms):
        page = pages[f"reference/{room}.md"]
        names = [n for n in import_module(f"sublearn.{room}").__all__ if n not in ("Grade",)]
        assert [n for n in names if f"toc_label: {n}," not in page] == [], room


def test_every_word_of_the_definitions_stands_in_the_glossary() -> None:
    glossary = built_by("glossary")
    words = glossary.words()
    for word in ("network", "needed", "rank", "wasted", "grade", "exact match / match within eps"):
        assert word in words
    assert "needed / rank / wasted / surplus" not in words  # they have rows of their own
    assert all(f"**{word}**" in glossary.pages()["glossary.md"] for word in words)


def test_docstrings_become_markdown() -> None:
    """Code, fields, stars that are no emphasis, examples that go on after an empty line."""
    text = "Of y* and y*: *generic*.\n\n``a``: one\nmore\n``b``: [2]\n\n>>> 1\n1\n\n>>> 2\n2"
    assert built_by("docstrings").to_markdown(text) == (
        "Of y\\* and y\\*: *generic*.\n\n- `a`: one\n  more\n- `b`: \\[2]\n\n"
        "```python\n>>> 1\n1\n\n>>> 2\n2\n```"
    )


def test_formulas_are_typeset_with_nothing_to_fetch() -> None:
    pytest.importorskip("latex2mathml")
    typeset = built_by("typeset").on_page_content
    out = typeset('<p><span class="arithmatex">\\(a &lt; b\\)</span></p>')
    assert out.startswith("<p><math") and "arithmatex" not in out and "&amp;" not in out


def test_commands_are_not_broken_behind_a_hyphen() -> None:
    line = '<div class="language-text highlight"><span id="a-1">sublearn x --out y\n</span></div>'
    out = built_by("typeset").on_page_content(line)
    assert '<span class="word">--out</span> y' in out and 'id="a-1"' in out
    inline = built_by("typeset").on_page_content("<p><code>train --start given</code> --x</p>")
    assert inline == '<p><code>train <span class="word">--start</span> given</code> --x</p>'
    drawing = line.replace("sublearn x", "a --> b")
    assert built_by("typeset").on_page_content(drawing) == drawing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_is_there(page: Path) -> None:
    """Public names, files of the repository and targets of make: none is left from an older version."""
    if page.name == "names.md":
        return  # which tells the old ones
    text = page.read_text(encoding="utf-8")
    missing = []
    for name in set(re.findall(r"\bsl((?:\.\w+)+)", text)):
        try:
            attrgetter(name[1:])(sl)
        except AttributeError:
            missing.append(f"sl{name}")
    missing += [f"sm.{n}" for n in re.findall(r"\bsm\.(\w+)", text) if n not in sl.models.__all__]
    files = re.findall(r"\b(?:src|tests|benchmarks|docs)/[\w/.-]+\.\w+", text)
    to_write = "src/sublearn/experiments/_rows.py"  # by the reader
    missing += [file for file in files if file != to_write and not (ROOT / file).exists()]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"`make ([a-z-]+)`", text)
    missing += [t for t in targets if not re.search(rf"^{t}:", makefile, flags=re.MULTILINE)]
    assert missing == []


def _pages() -> dict[Path, str]:
    """The text of every page, of those too that are made when the docs are built."""
    docs = ROOT / "docs"
    pages = {page: page.read_text(encoding="utf-8") for page in docs.rglob("*.md")}
    for name in ("reference", "glossary"):
        pages |= {docs / path: text for path, text in built_by(name).pages().items()}
    notebooks = built_by("notebooks")
    pages |= {docs / f"tutorials/{n}.md": notebooks.page(n)[0] for n in notebooks.names()}
    return pages


def _nav_files(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from _nav_files(value)
    elif isinstance(entry, list):
        for value in entry:
            yield from _nav_files(value)


def test_the_navigation_lists_every_page_once() -> None:
    yaml = pytest.importorskip("yaml")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = sorted(_nav_files(config["nav"]))
    assert listed == sorted(page.relative_to(ROOT / "docs").as_posix() for page in _pages())


def test_every_page_is_reached_from_the_start_page() -> None:
    """A reader who only follows links finds every page that the navigation lists."""
    docs, pages = ROOT / "docs", _pages()
    seen: set[Path] = set()
    ahead = [docs / "index.md"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)", pages[page])
        ahead += [(page.parent / link).resolve() for link in links]
    assert sorted(str(page.relative_to(docs)) for page in set(pages) - seen) == []


def test_the_pictures_that_are_kept_are_those_that_are_drawn() -> None:
    drawn = {"front", *built_by("pictures").results()}
    kept = {path.name for path in (ROOT / "docs" / "pictures").iterdir()}
    assert kept == {f"{name}-{ground}.svg" for name in drawn for ground in ("light", "dark")}
