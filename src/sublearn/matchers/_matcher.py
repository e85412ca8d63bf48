"""The interface that every matcher keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sublearn.ensembles import Instance
from sublearn.matchers._decision import Decision


@dataclass(frozen=True)
class Budget:
    """How much work each rung of the ladder may do. Counts, never seconds."""

    starts: int = 3000  # random starts of the search
    iterations: int = 200  # steps per start
    bits: int = 4096  # largest precision of a proof or a construction
    paths: int = 200_000  # homotopy paths of the complete search
    roots: int = 4000  # largest number of complex solutions that is worth enumerating
    nodes: int = 200_000  # nodes of a branching search


class Matcher(ABC):
    """One way to decide an instance, usable alone.

    A matcher answers MATCHED or REFUTED only when it is sure at the grade it states; otherwise
    UNDECIDED. It draws random numbers only from the generator it is given.
    """

    name: ClassVar[str]  # one word, as it stands in ``decision.rung``

    @abstractmethod
    def refusal(self, instance: Instance) -> str | None:
        """Why this matcher does not apply to the instance, or None if it does."""

    @abstractmethod
    def attempt(self, instance: Instance, budget: Budget, rng: np.random.Generator) -> Decision:
        """Try to decide within the budget."""
