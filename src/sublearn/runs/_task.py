"""A task: how the trials of one point are computed, and what the table says of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from sublearn._tables import Row

Json = str | int | float | bool | None


class Task(ABC):
    """How the trials of one point are computed.

    A task holds no settings of its own: all that it depends on stands in the params of the point, so
    that a run can be declared, stored and resumed by them. It is sent to worker processes, so its
    class stands at the top of a module.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What declarations and manifests call it, such as ``estimate``."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, type]:
        """Names and types (int, float, bool or str) of what is kept of one trial."""

    @property
    def takes(self) -> Mapping[str, str]:
        """What a point may say to it, each with the heading of its column."""
        return {}

    @property
    def headings(self) -> Mapping[str, str]:
        """The columns that ``summarise`` may give, each with its heading; none if the task does not say.

        No param may be called so, and a sweep can then draw them, both of which is checked beforehand.
        """
        return {}

    @property
    def shares(self) -> str | None:
        """A word for tasks that call the same machine code; None where experiments call much of their own."""
        return self.name

    @property
    def version(self) -> int:
        """Raised when the same point gives other rows than before; older shards are then refused."""
        return 1

    @property
    def tools(self) -> Mapping[str, bool]:
        """Programs besides Python that it uses where they are there, and whether they are."""
        return {}

    def settled(self, params: dict[str, Json]) -> dict[str, Json]:
        """The params of a point with all that they refer to named for good, such as a file by its digest."""
        return params

    def check(self, point: Mapping[str, Json]) -> None:  # noqa: B027 - most points need none
        """Raise BadInputError if the point cannot be run; asked of all before anything is written."""

    @abstractmethod
    def run(self, point: Mapping[str, Json], seed: int, trials: range) -> list[Row]:
        """One row per trial, in order; they depend on (point, seed, trials) alone.

        A chunk of trials may be computed as one batch: chunks are part of the declaration and never
        change with the number of workers. In a float column None is kept as nan.
        """

    @abstractmethod
    def summarise(self, point: Mapping[str, Json], rows: Mapping[str, np.ndarray]) -> list[Row]:
        """The lines of the final table for this point, without its params, which stand before them.

        ``rows`` holds the columns of all its trials, in the order of the trials; text is an array of
        objects.
        """
