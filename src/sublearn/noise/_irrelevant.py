"""What task-irrelevant change is where it is no white noise: learning on another task, homeostasis.

Both are what the slides name as its examples. Their direction is decided by the weights, so it is not
independent of gradient and curvature, which every formula of this room takes it to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sublearn._errors import positive
from sublearn.ensembles import Instance, check_instance


@dataclass(frozen=True, eq=False)
class SecondTask:
    """n2 = -g2/|g2|, g2 the gradient of another task's loss on the plastic weights: learning on other tasks.

    ``instance`` gives the network and the samples of that task, or several do, one for each repeat; which
    weights are plastic and where they start, the first task says.

    >>> import numpy as np, sublearn as sl
    >>> net, W, X = sl.LinearEstimator(inputs=2, outputs=1), np.zeros((1, 2)), np.eye(2)
    >>> first, second = (
    ...     sl.Instance(net, sl.Allocation.whole(net), {"W": W}, X[:, [k]], np.ones((1, 1))) for k in (0, 1)
    ... )
    >>> noise = sl.Noise((0.1, 0.1, 0.0), irrelevant=sl.noise.SecondTask(second))
    >>> sl.simulate(first, noise, cycles=5, repeats=1).weights["W"].round(3).tolist()
    [[[0.5, 0.5]]]
    """

    word: ClassVar[str] = "a second task"

    instance: Instance | Sequence[Instance]

    def __post_init__(self) -> None:
        several = isinstance(self.instance, list | tuple)
        held: Sequence[Instance] = self.instance if several else [self.instance]  # type: ignore
        for one in held:
            check_instance(one)
        object.__setattr__(self, "instance", tuple(held) if several else self.instance)


@dataclass(frozen=True)
class Homeostasis:
    """n2 pulls every unit's incoming weights to a norm: -d/|d|, d the gradient of sum (|w_i| - norm)^2 / 2.

    w_i are the rows of the weight matrices, frozen entries counted; biases are left alone. Only plastic
    weights move. Without a ``norm`` each row has that with which the simulation starts.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=2, outputs=1)
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": [[3.0, 4.0]]}, np.eye(2), np.zeros((1, 2)))
    >>> noise = sl.Noise((0.0, 0.5, 0.0), irrelevant=sl.noise.Homeostasis(norm=3.0))
    >>> sl.simulate(given, noise, cycles=4, repeats=1).weights["W"].round(3).tolist()
    [[[1.8, 2.4]]]
    """

    word: ClassVar[str] = "homeostasis"

    norm: float | None = None

    def __post_init__(self) -> None:
        if self.norm is not None:
            object.__setattr__(self, "norm", positive("norm", self.norm))


Irrelevant = SecondTask | Homeostasis
