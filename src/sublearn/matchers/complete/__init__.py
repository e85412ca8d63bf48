"""Complete: all complex solutions of an instance, so that it can be refuted."""

from sublearn.matchers.complete._complete import Complete

__all__ = ["Complete"]
