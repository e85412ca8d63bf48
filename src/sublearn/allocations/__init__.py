"""Allocations: which entries of which weights are learnable, and rules that draw them."""

from sublearn.allocations._allocation import Allocation, Entry, mask_of
from sublearn.allocations._files import SUFFIXES
from sublearn.allocations._picture import cells, picture
from sublearn.allocations._rules import Anywhere, FirstColumns, FirstRows, Rule, draw_flat

__all__ = [
    "SUFFIXES",
    "Allocation",
    "Anywhere",
    "Entry",
    "FirstColumns",
    "FirstRows",
    "Rule",
    "cells",
    "draw_flat",
    "mask_of",
    "picture",
]
