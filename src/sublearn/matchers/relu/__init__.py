"""ReLU networks whose first layer learns: complementarity, branch and bound, and proofs at the leaves."""

from sublearn.matchers.relu._deep import Deep
from sublearn.matchers.relu._relu import Relu

__all__ = ["Deep", "Relu"]
