"""What readers see, in a browser: the docs as built, and the report of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser.chromium import Browser

pytestmark = pytest.mark.slow

FAINT = Path(__file__).with_name("faint.js").read_text(encoding="utf-8")
# Wider than the window, and not in a box that scrolls by itself.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SETTINGS = [
    pytest.param(1300, "light", id="light"),
    pytest.param(1300, "dark", id="dark"),
    pytest.param(400, "light", id="narrow"),
]


def _seen(browser: Browser, page: Path, width: int, scheme: str) -> list[str]:
    """What is wrong with a page: console errors, things asked for elsewhere, overflow, faint text."""
    browser.open(page, width=width, scheme=scheme)
    wrong = list(browser.errors)
    if browser.run(OVERFLOW) > 0:
        wrong.append(f"wider than {width} pixels")
    return wrong + browser.run(FAINT)


@pytest.mark.parametrize(("width", "scheme"), SETTINGS)
def test_every_page_of_the_docs_can_be_read(
    browser: Browser, site: Path, width: int, scheme: str
) -> None:
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    assert len(pages) > 40
    wrong = {page.relative_to(site): _seen(browser, page, width, scheme) for page in pages}
    assert {page: found for page, found in wrong.items() if found} == {}


@pytest.mark.parametrize(("width", "scheme"), SETTINGS)
def test_the_report_can_be_read(browser: Browser, report: Path, width: int, scheme: str) -> None:
    assert _seen(browser, report, width, scheme) == []


def test_formulas_are_drawn(browser: Browser, site: Path) -> None:
    browser.open(site / "noise" / "formulas.html")
    heights = (
        "[...document.querySelectorAll('.formula math')].map(m => m.getBoundingClientRect().height)"
    )
    assert len(browser.run(heights)) > 4
    assert min(browser.run(heights)) > 15
    assert "$" not in browser.run("document.querySelector('article').innerText")


def test_examples_of_the_reference_are_code(browser: Browser, site: Path) -> None:
    browser.open(site / "reference" / "verdicts.html")
    prose = "[...document.querySelectorAll('article p')].map(p => p.innerText).join(' ')"
    words = browser.run(prose)
    assert ">>>" not in words and "``" not in words and ":class:" not in words


def test_the_answers_of_the_report_keep_to_their_columns(browser: Browser, report: Path) -> None:
    """No question, answer or reason reaches into another, or out of its line, at any usual width."""
    script = """[...document.querySelectorAll("nav li")].map((li) => {
      const own = li.getBoundingClientRect();
      const parts = [...li.children].map((part) => {
        const range = document.createRange();
        range.selectNodeContents(part);
        const text = range.getBoundingClientRect();
        return [text.left, text.right, text.top, text.bottom];
      });
      return [own.left, own.right, parts];
    })"""
    for width in (400, 800, 1000, 1300, 1900):
        browser.open(report, width=width)
        lines = browser.run(script)
        assert len(lines) > 20
        for left, right, parts in lines:
            shown = [part for part in parts if part[1] > part[0]]
            assert all(left - 0.5 <= part[0] and part[1] <= right + 0.5 for part in shown), width
            for k, (a, b, top, bottom) in enumerate(shown):
                for c, d, upper, lower in shown[k + 1 :]:
                    beside = b <= c + 0.5 or d <= a + 0.5
                    below = bottom <= upper + 2 or lower <= top + 2
                    assert beside or below, width


def test_tables_of_the_report_sort(browser: Browser, report: Path) -> None:
    browser.open(report)
    column = """(() => {
      const table = document.querySelector("table");
      const place = [...table.tHead.rows[0].cells].findIndex((c) => c.dataset.column === "x");
      return [...table.tBodies[0].rows].map((row) => Number(row.cells[place].textContent));
    })()"""
    click = "document.querySelector('th[data-column=x] button').click()"
    assert browser.run(column) == [11, 2, 3, 5, 7, 13]
    browser.run(click)
    assert browser.run(column) == [2, 3, 5, 7, 11, 13]
    assert browser.run("document.querySelector('th[data-column=x]').ariaSort") == "ascending"
    browser.run(click)
    assert browser.run(column) == [13, 11, 7, 5, 3, 2]


def test_the_reader_may_choose_the_colours_of_the_report(browser: Browser, report: Path) -> None:
    browser.open(report, scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    before = browser.run(colour)
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) != before
    assert browser.run(FAINT) == []
