"""Shallow ReLU networks: complementarity, branch and bound, and proofs at the leaves."""

from sublearn.matchers.relu._relu import Relu

__all__ = ["Relu"]
