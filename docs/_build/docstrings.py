"""Docstrings are plain text with a little reST: here they become Markdown, for the reference pages."""

from __future__ import annotations

import re
from typing import Any

import griffe

# Not *emphasis*: a product, a star as in y*, keyword-only marks.
LONE_STAR = re.compile(r"(?<![\w*\\])(\*[^\s*][^*\n]*(?<!\s)\*)(?!\w)|\*")
FIELD = re.compile(r"^(``\w+``(?:, ``\w+``)*)(?=:| =)")


def to_markdown(text: str) -> str:
    """A docstring as Markdown: examples fenced, fields as a list, roles as code.

    >>> print(to_markdown("Uses ``x`` and :class:`~a.B`.\\n\\n>>> 1 + 1\\n2"))
    Uses `x` and `B`.
    <BLANKLINE>
    ```python
    >>> 1 + 1
    2
    ```
    """
    parts = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.lstrip().startswith(">>>"):
            parts.append(_fenced(block))
        elif block.startswith("    "):
            parts.append(block)
        else:
            parts.append(_prose(block))
    # Blocks of one example stay in one fence.
    return "\n\n".join(parts).replace("\n```\n\n```python\n", "\n\n")


def _fenced(block: str) -> str:
    lines = [
        line.removeprefix(" " * (len(block) - len(block.lstrip()))) for line in block.splitlines()
    ]
    return "\n".join(["```python", *lines, "```"])


def _prose(block: str) -> str:
    lines: list[str] = []
    in_list = False
    for line in block.splitlines():
        if line.lstrip().startswith(">>>"):  # an example right below a sentence
            rest = block.splitlines()[block.splitlines().index(line) :]
            return "\n".join([*lines, "", _fenced("\n".join(rest))])
        if FIELD.match(line):
            if not in_list and lines:
                lines.append("")
            in_list = True
            line = f"- {line}"
        elif in_list:
            line = f"  {line}"
        lines.append(_inline(line))
    return "\n".join(lines)


def _inline(line: str) -> str:
    line = re.sub(r":\w+:`~[\w.]*?(\w+)`", r"``\1``", line)
    line = re.sub(r":\w+:`([^`]+)`", r"``\1``", line)
    pieces = re.split(r"(``.+?``|`[^`]+`)", line)
    pieces[::2] = [_plain(piece) for piece in pieces[::2]]
    pieces[1::2] = [piece.replace("``", "`") for piece in pieces[1::2]]
    return "".join(pieces)


def _plain(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("<", "&lt;").replace("[", "\\[").replace("_", "\\_")
    return LONE_STAR.sub(lambda match: match[1] or r"\*", text)


class Docstrings(griffe.Extension):
    """Hands mkdocstrings every docstring of the package as Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called by griffe once an object has all its members."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
