"""Subset learning: which weights may change, is it enough, and how sure is the answer.

The public names and the rooms are listed once, in ``__init__.pyi``, which type checkers read too. A
room is imported when a name of it is first used: importing the package loads none of the heavy
libraries.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
