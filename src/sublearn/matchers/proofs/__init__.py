"""Proofs: balls of numbers, the Krawczyk test, and certificates that can be checked again."""

from sublearn.matchers.proofs._certificate import Certificate
from sublearn.matchers.proofs._prove import prove

__all__ = ["Certificate", "prove"]
