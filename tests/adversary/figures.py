"""Copy the figures of the last ``make attack`` into the page about it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIRST, LAST = "<!-- figures -->\n", "<!-- end of figures -->"


def main() -> None:
    """Put build/attack/summary.md between the two marks of docs/attack.md."""
    page = ROOT / "docs" / "attack.md"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(FIRST)
    after = rest.partition(LAST)[2]
    figures = (ROOT / "build" / "attack" / "summary.md").read_text(encoding="utf-8")
    page.write_text(f"{before}{FIRST}{figures}{LAST}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
