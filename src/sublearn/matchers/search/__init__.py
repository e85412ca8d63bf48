"""Search: the fast root finder, on lifted coordinates where there are any."""

from sublearn.matchers.search._search import Search

__all__ = ["Search"]
