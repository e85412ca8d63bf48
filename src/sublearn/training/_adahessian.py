"""AdaHessian (Yao, Gholami, Shen, Mustafa, Keutzer and Mahoney, AAAI 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sublearn._arrays import Floats, Indices
from sublearn._errors import positive
from sublearn.training._adam import Adam
from sublearn.training._learner import check_settings
from sublearn.training._objective import Objective
from sublearn.training._streams import Streams


@dataclass(frozen=True)
class AdaHessian(Adam):
    """values <- values - rate * mean / (sqrt(square)^power + eps), averages corrected for their start.

    mean <- beta1 mean + (1 - beta1) g and square <- beta2 square + (1 - beta2) D^2, where
    D = z * (H z), z of independent random signs, estimates the diagonal of the Hessian H without bias
    (Hutchinson). Of the original, spatial averaging is off: the matrices here are no convolutions. This
    is what the paper used for ReLU networks; it states no settings, and the defaults are those of the
    original.
    """

    rate: float = 0.15
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-4
    power: float = 1.0

    name = "adahessian"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, power=positive)

    def look(
        self, objective: Objective, values: Floats, streams: Streams
    ) -> tuple[Floats, Indices | None, Floats, Floats]:
        z = streams.signs(objective.size).astype(objective.dtype)
        seen, product = objective.evaluate_second(values, z)
        return seen.loss, seen.right, seen.gradient, z * product

    def spread(self, root: Floats) -> Floats:
        return np.asarray(root**self.power)
