"""One BLAS thread inside a decision; the rooms before this one use it too."""

from sublearn._threads import _controller, single_thread

__all__ = ["_controller", "single_thread"]
