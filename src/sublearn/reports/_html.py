"""The little HTML that is needed, with everything escaped that comes from outside."""

from __future__ import annotations

from html import escape


def tag(name: str, text: object, **attributes: object) -> str:
    """An element around escaped text; ``class_`` stands for class, ``_`` in names for a hyphen.

    >>> tag("td", "a < b", class_="number", data_v=3)
    '<td class="number" data-v="3">a &lt; b</td>'
    """
    return around(name, escape(str(text)), **attributes)


def around(name: str, inside: str, **attributes: object) -> str:
    """An element around HTML that is already made."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{words}>{inside}</{name}>"


def paragraphs(text: str) -> str:
    """Each line of a text as a paragraph."""
    return "".join(tag("p", line) for line in text.splitlines() if line.strip())
