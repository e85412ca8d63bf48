"""Subset learning: which weights may change, is it enough, and how sure is the answer.

The public names and the rooms are listed once, in ``__init__.pyi``, which type checkers read too. A
room is imported when a name of it is first used: importing the package loads none of the heavy
libraries.
"""

import os
import signal
import sys

# As the command ("-m" stands there while Python looks for what it is to run), and not as a worker of it:
# until __main__ writes Ctrl-C down, it ends the process without a word, also while what follows is loaded.
# Where it is ignored (nohup) it stays so.
if (
    os.path.basename("".join(sys.argv[:1])) in ("-m", "sublearn", "sublearn.exe")
    and "--multiprocessing-fork" not in sys.orig_argv
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
del os, signal, sys

import lazy_loader  # noqa: E402 - it takes long enough to be interrupted

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
