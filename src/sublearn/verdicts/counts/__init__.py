"""Counts: how many complex solutions an allocation has at generic parameters."""

from sublearn.verdicts.counts._count import SolutionCount, count_solutions
from sublearn.verdicts.counts._count import too_large as too_large
from sublearn.verdicts.counts._msolve import find_msolve, msolve_version, msolve_wanted
from sublearn.verdicts.counts._polynomials import lifted_system as lifted_system
from sublearn.verdicts.counts._polynomials import without_determined as without_determined
from sublearn.verdicts.counts._product import ProductForm as ProductForm
from sublearn.verdicts.counts._product import product_form as product_form

__all__ = ["SolutionCount", "count_solutions", "find_msolve", "msolve_version", "msolve_wanted"]
