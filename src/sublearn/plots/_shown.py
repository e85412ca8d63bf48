"""Results that show themselves, all in the same way."""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from html import escape
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublearn.plots._style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Shown(ABC):
    """A result that says what it means: ``str`` in words, ``to_dict`` for JSON, ``plot`` as a picture.

    A notebook shows words and picture; :meth:`save_plot` writes the picture to files.
    """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""

    @abstractmethod
    def plot(self) -> Figure:
        """The picture, as a matplotlib figure."""

    def save_plot(self, stem: str | Path) -> tuple[Path, Path]:
        """Write the picture to ``stem.png`` and ``stem.svg``."""
        return save(self.plot(), stem)

    def _repr_html_(self) -> str:
        return html(str(self), self.plot())


def html(words: str, picture: Figure) -> str:
    """Words and a picture for a notebook, in one piece."""
    file = io.BytesIO()
    picture.savefig(file, format="png")
    coded = base64.b64encode(file.getvalue()).decode()
    return f'<pre>{escape(words)}</pre><img alt="" src="data:image/png;base64,{coded}">'


def finite(value: float) -> float | None:
    """JSON knows neither infinity nor NaN: None stands for both."""
    return value if isfinite(value) else None
