"""What is typeset when the pages are built: formulas, and commands that go on in a second line.

LaTeX between dollars becomes MathML, which browsers draw themselves: no script, nothing to fetch.
"""

from __future__ import annotations

import html
import re
from typing import Any

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)
SHELL = re.compile(
    r'<div class="language-(?:text|sh|console) highlight">.*?</div>', flags=re.DOTALL
)
COMMAND = re.compile(r">\$? ?(?:sublearn|python|make|pip|dask) ")
INLINE = re.compile(r"<code>([^<]*--[^<]*)</code>")
OPTION = re.compile(r"--[\w-]+")
# An option or a value with a hyphen, in the text of a line: not inside of a tag.
HYPHENATED = re.compile(r"(?<![^\s>])[^\s<>]*-[^\s<>]{1,40}(?=[\s<])(?![^<]*>)")


def on_page_content(content: str, **kwargs: Any) -> str:
    """Called by mkdocs with the HTML of a page."""
    if "arithmatex" in content:
        content = FORMULA.sub(_mathml, content)
    content = INLINE.sub(
        lambda match: OPTION.sub(r'<span class="word">\g<0></span>', match[0]), content
    )
    return SHELL.sub(_commands, content)


def _mathml(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    block = match[2] == "["
    out: str = convert(html.unescape(match[3]), display="block" if block else "inline")
    # As fences and in quotients, not as relations with space around them.
    plain = r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'
    out = re.sub(r"<mo[^>]*>(&#x0007C;|\||&#x0002F;|/)</mo>", plain, out)
    return f'<div class="formula">{out}</div>' if block else out


def _commands(match: re.Match[str]) -> str:
    """Commands may go on in a next line, which begins with a whole word; drawings and tables may not."""
    if not COMMAND.search(match[0]):
        return match[0]
    words = HYPHENATED.sub(r'<span class="word">\g<0></span>', match[0])
    return words.replace(' highlight"', ' highlight commands"', 1)
