"""Matchers: ways to decide whether one instance has a real solution, behind one interface."""

from sublearn._threads import single_thread
from sublearn.matchers._affine import Affine
from sublearn.matchers._boxed import Boxed
from sublearn.matchers._construct import Construct
from sublearn.matchers._decision import Decision, Effort
from sublearn.matchers._halfspaces import Halfspaces
from sublearn.matchers._ladder import decide, standard_ladder
from sublearn.matchers._matcher import Budget, Matcher
from sublearn.matchers._nonlinear import Nonlinear
from sublearn.matchers._rank import Rank
from sublearn.matchers._reference import Reference
from sublearn.matchers.complete import Complete
from sublearn.matchers.identities import Copy, Intertwine
from sublearn.matchers.proofs import Certificate, prove
from sublearn.matchers.relu import Deep, Relu
from sublearn.matchers.search import Search
from sublearn.matchers.within import decide_within

__all__ = [
    "Affine",
    "Boxed",
    "Budget",
    "Certificate",
    "Complete",
    "Construct",
    "Copy",
    "Decision",
    "Deep",
    "Effort",
    "Halfspaces",
    "Intertwine",
    "Matcher",
    "Nonlinear",
    "Rank",
    "Reference",
    "Relu",
    "Search",
    "decide",
    "decide_within",
    "prove",
    "single_thread",
    "standard_ladder",
]
