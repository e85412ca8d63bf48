"""What the pages show is what happens: every command runs, every example prints what it says."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import api_page
import sublearn as sl
from sublearn.cli import app

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
    result = runner.invoke(app, words)
    assert result.exit_code == 0, result.output
    assert result.output.strip()


@pytest.mark.parametrize("block", _examples())
def test_examples_of_the_pages_print_what_they_say(
    block: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "import torch" in block:
        pytest.importorskip("torch", reason="torch is tested by make test-models")
    said = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
    exec(compile(block, "example", "exec"), {})
    assert capsys.readouterr().out.splitlines() == said


def test_every_public_name_stands_on_its_page_as_its_docstring_says() -> None:
    written = api_page.PAGE.read_text(encoding="utf-8")
    names = [n for n in sl.__all__ if not inspect.ismodule(getattr(sl, n))]
    missing = [n for n in names if f"| `sl.{n}` |" not in written]
    assert not missing
    assert written == api_page.page(), "write it again: python tests/api_page.py"


def test_every_page_is_reached_from_the_start_page() -> None:
    """A reader who only follows links finds every page that the navigation lists."""
    docs = ROOT / "docs"
    seen: set[Path] = set()
    ahead = [docs / "index.md"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8"))
        ahead += [(page.parent / link).resolve() for link in links]
    assert sorted(str(page.relative_to(docs)) for page in set(docs.rglob("*.md")) - seen) == []
