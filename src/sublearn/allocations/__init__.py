"""Allocations: which entries of which weights are learnable, and rules that draw them."""

from sublearn.allocations._allocation import Allocation, Entry, mask_of
from sublearn.allocations._allocation import an_allocation as an_allocation
from sublearn.allocations._files import SUFFIXES
from sublearn.allocations._files import flat_entries as flat_entries
from sublearn.allocations._files import from_flat_entries as from_flat_entries
from sublearn.allocations._own_rules import Masks, OwnRule, load_masks, register_rule
from sublearn.allocations._own_rules import is_masks_file as is_masks_file
from sublearn.allocations._own_rules import masks_from_text as masks_from_text
from sublearn.allocations._own_rules import masks_with_digest as masks_with_digest
from sublearn.allocations._picture import cells, picture
from sublearn.allocations._rules import Anywhere, FirstColumns, FirstRows, Places, Rule

__all__ = [
    "SUFFIXES",
    "Allocation",
    "Anywhere",
    "Entry",
    "FirstColumns",
    "FirstRows",
    "Masks",
    "OwnRule",
    "Places",
    "Rule",
    "cells",
    "load_masks",
    "mask_of",
    "picture",
    "register_rule",
]
