"""Results that show themselves, all in the same way."""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from html import escape
from math import isfinite
from pathlib import Path
from textwrap import shorten
from typing import Any

from sublearn._errors import BadInputError
from sublearn._files import write_whole
from sublearn._tables import Row, shown, table_bytes
from sublearn.plots._style import Figure, save

Writer = Callable[[Path], object]
_SHOWN_ROWS = 20  # of a table in a notebook


class Shown(ABC):
    """A result that says what it means: ``str`` in words, ``plot`` as a picture, ``table`` as rows.

    ``to_dict`` is for JSON and ``to_frame`` for pandas. A notebook shows words, picture and table;
    :meth:`write_files` writes picture, table and what else there is into a folder.
    """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""

    @abstractmethod
    def plot(self) -> Figure:
        """The picture, as a matplotlib figure."""

    @abstractmethod
    def table(self) -> list[Row]:
        """The numbers behind the picture: rows of plain values by column, for CSV and pandas."""

    @property
    def headline(self) -> str:
        """The result in one line."""
        return str(self).splitlines()[0]

    def to_frame(self) -> Any:
        """The :meth:`table` as a pandas DataFrame."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise BadInputError(
                "to_frame needs pandas, which is not installed: pip install 'sublearn[notebook]'; "
                "table() gives the same rows without it."
            ) from None
        return DataFrame(self.table())

    def save_plot(self, stem: str | Path) -> tuple[Path, Path]:
        """Write the picture to ``stem.png`` and ``stem.svg``; an ending .png or .svg is dropped."""
        return save(self.plot(), stem)

    def write_files(
        self, folder: str | Path, name: str, more: Mapping[str, Writer] | None = None
    ) -> list[Path]:
        """Write ``name.png``, ``name.svg``, ``name.csv`` and what ``more`` writes under its names.

        Each file is written beside and renamed, so that none is ever there in half.
        """
        place = Path(folder)
        pictures = self.save_plot(place / name)  # makes the folder
        table = place / f"{name}.csv"
        write_whole(table, table_bytes(self.table()))
        others = {place / other: write for other, write in (more or {}).items()}
        for path, write in others.items():
            write(path)
        return [*pictures, table, *others]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shorten(self.headline, 90, placeholder=' ...')}>"

    def _repr_html_(self) -> str:
        return html(self._in_words(), self.plot(), self.table())

    def _in_words(self) -> str:
        """What a notebook prints above the picture."""
        return str(self)


def html(words: str, picture: Figure, rows: list[Row]) -> str:
    """Words, a picture, and a table to unfold: one piece for a notebook."""
    file = io.BytesIO()
    picture.savefig(file, format="png")
    coded = base64.b64encode(file.getvalue()).decode()
    image = f'<img alt="" src="data:image/png;base64,{coded}">'
    return f"<pre>{escape(words)}</pre>{image}{_unfolded(rows)}"


def _unfolded(rows: list[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(shown(row.get(name)))}</td>" for name in names) + "</tr>"
        for row in rows[:_SHOWN_ROWS]
    )
    some = f"first {_SHOWN_ROWS} of {len(rows)}" if len(rows) > _SHOWN_ROWS else f"{len(rows)}"
    summary = f"<summary>table, {some} row{'s' * (len(rows) != 1)}</summary>"
    return f"<details>{summary}<table><tr>{head}</tr>{body}</table></details>"


def finite(value: float) -> float | None:
    """JSON knows neither infinity nor NaN: None stands for both."""
    return value if isfinite(value) else None
