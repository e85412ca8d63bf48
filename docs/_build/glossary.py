"""Two pages that are written elsewhere: the glossary, from the tables of words; how to contribute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HEAD = """# Glossary

Every word in one place, in the order of the alphabet. The [definitions](definitions.md) tell how they hang
together.

| word | meaning |
|---|---|
"""


def words() -> dict[str, str]:
    """What each word means, from the tables of docs/definitions.md that have the heading "word".

    A row for several words stands for those that have no row of their own.
    """
    text = (ROOT / "docs" / "definitions.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| word \| meaning \|\n\|[-|]+\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    rows = [re.split(r"(?<!\\)\|", row)[1:3] for table in tables for row in table.splitlines()]
    found = {word.strip().strip("*"): meaning.strip() for word, meaning in rows}
    single = {word for word in found if " / " not in word}
    return {
        word: meaning
        for word, meaning in sorted(found.items(), key=lambda item: item[0].lower())
        if word in single or not set(word.split(" / ")) & single
    }


def pages() -> dict[str, str]:
    """The Markdown of both pages, by their paths below docs."""
    rows = []
    for word, meaning in words().items():
        anchor = re.sub(r"\W+", "-", word).strip("-")
        rows.append(f'| <span id="{anchor}">**{word}**</span> | {meaning} |\n')
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {
        "glossary.md": HEAD + "".join(rows),
        "contributing.md": contributing.replace("](docs/", "]("),
    }


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: the pages are added to those of the folder."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
