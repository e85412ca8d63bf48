"""Formulas: LaTeX between dollars becomes MathML when the pages are built.

Browsers draw MathML themselves: no script, no font, nothing to fetch.
"""

from __future__ import annotations

import html
import re
from typing import Any

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)


def on_page_content(content: str, **kwargs: Any) -> str:
    """Called by mkdocs with the HTML of a page."""
    if "arithmatex" not in content:
        return content
    from latex2mathml.converter import convert

    def mathml(match: re.Match[str]) -> str:
        block = match[2] == "["
        out: str = convert(html.unescape(match[3]), display="block" if block else "inline")
        # As fences and in quotients, not as relations with space around them.
        out = re.sub(
            r"<mo[^>]*>(&#x0007C;|\||&#x0002F;|/)</mo>",
            r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>',
            out,
        )
        return f'<div class="formula">{out}</div>' if block else out

    return FORMULA.sub(mathml, content)
