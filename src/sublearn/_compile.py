"""Machine code for the loops that no array expression says well, kept on disk between runs.

Whoever uses the package for the first time waits for the compiler, and is told so (:func:`_patience`).
Where neither the package's folder nor the user's own can be written, machine code lives in memory only.
The wrappers have types so that the type checker sees the Python signatures.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from math import inf
from typing import Any, TypeVar, cast

import numba
from numba.core import caching, event
from numba.extending import intrinsic, overload

Function = TypeVar("Function", bound=Callable[..., Any])
# Nobody calls these functions from C: that wrapper of theirs need not be compiled.
_USUAL: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """The same function as machine code, free of the interpreter lock, every rounding as written.

    What is computed may then depend on nothing but the numbers. The compiler keeps a copy of a function
    for each caller, and which one is called depends on what was compiled or loaded before: copies whose
    sums it may order as it likes give other last digits, and so another search.
    """
    return _machine_code(function)


def lean(function: Function) -> Function:
    """The same for a function that makes no array: references to arrays are not counted inside.

    Counting costs a tenth of a loop that hands many arrays on, and the compiler as much.
    """
    return _machine_code(function, _nrt=False)


def inlined(function: Function) -> Function:
    """The same as `lean`, its code put in the place of every call: for parts of a loop that are called often.

    A call hands over every number of every array's shape, so it costs as much as a small loop.
    """
    return _machine_code(function, forceinline=True, _nrt=False)


def any_order(function: Function) -> Function:
    """The same where sums may be taken in any order, which vector units need: for exact ones only."""
    return _machine_code(function, fastmath={"contract", "reassoc", "nsz"})


def _machine_code(function: Function, **options: Any) -> Function:
    try:
        made = cast(Any, numba.njit(cache=True, **_USUAL, **options)(function))
    except RuntimeError as problem:
        if "cannot cache" not in str(problem):
            raise
        _WATCH.kept = False
        return cast(Function, numba.njit(**_USUAL, **options)(function))
    file = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if file is not None:  # None where nothing is compiled at all: NUMBA_DISABLE_JIT
        file.__class__ = _Kept
    return cast(Function, made)


class _Kept(caching.IndexDataCacheFile):
    """Machine code on disk that several processes may write at once.

    numba numbers the files of a function's machine code, and enters the number in an index before the
    file is there: of two processes, one could load what the other compiled for other types, or what an
    older version of the package left under the same number. Here each has a name of its own and is there
    before it is entered; an entry that is lost to a process that writes at the same time is made again.
    """

    def save(self, key: Any, data: Any) -> None:
        file = cast(Any, self)  # numba has no types
        own = hashlib.sha256(repr((file._version, file._source_stamp, key)).encode())
        name = file._data_name(int(own.hexdigest()[:15], 16))
        file._save_data(name, data)
        file._save_index({**file._load_index(), key: name})


class _Watch(event.Listener):
    """Tells whoever waits that the compiler is at work, once."""

    def __init__(self) -> None:
        self.kept = True  # whether machine code can be kept on disk
        self._told = False
        self._spent = 0.0  # seconds of compiling so far
        self._nested = 0
        self._since = 0.0
        self._timer = threading.Timer(0.0, self._tell)

    def on_start(self, event: event.Event) -> None:
        self._nested += 1
        while at_next_compiling:
            at_next_compiling.popitem()[1]()
        if self._nested > 1:
            return
        self._since = time.perf_counter()
        left = _patience(self.kept) - self._spent
        if left <= 0:
            self._tell()
        elif not self._told and left < inf:
            self._timer = threading.Timer(left, self._tell)
            self._timer.daemon = True
            with suppress(RuntimeError):  # no more threads to be had: then nothing is said
                self._timer.start()

    def on_end(self, event: event.Event) -> None:
        self._nested -= 1
        if not self._nested:
            self._timer.cancel()
            self._spent += time.perf_counter() - self._since

    def _tell(self) -> None:
        if self._told:
            return
        self._told = True
        how = "once, for 3 to 15 seconds" if self.kept else "each time: no folder can keep it"
        with suppress(OSError, ValueError):  # nobody reads on, or the stream is closed
            print(f"sublearn: compiling machine code, {how}.", file=sys.stderr, flush=True)


def is_kept() -> bool:
    """Whether machine code can be kept on disk."""
    return _WATCH.kept


def in_worker() -> bool:
    """Whether another process of ours started this one, to work for it."""
    return multiprocessing.parent_process() is not None or multiprocessing.current_process().daemon


def _patience(kept: bool) -> float:
    """Seconds of compiling after which whoever waits is told.

    A person at a terminal or in a notebook: one. A batch job has one line in its log where compiling
    takes long enough to be wondered at. Where machine code cannot be kept, every run pays for it: it says so
    at once. A worker leaves it to the process that started it, and a program that reads what is said in its
    own process (a test, ``redirect_stderr``) asked for other words.
    """
    if "ipykernel" in sys.modules:
        return 1.0
    if sys.stderr is None or sys.stderr.closed or in_worker():
        return inf
    seen = sys.stderr.isatty()
    if not seen and sys.stderr is not sys.__stderr__:
        return inf
    return 0.0 if not kept else 1.0 if seen else 5.0


# What is to be done as soon as something has to be compiled, by name: see ``_ahead``.
at_next_compiling: dict[str, Callable[[], None]] = {}
_WATCH = _Watch()
event.register("numba:compile", _WATCH)  # type: ignore[no-untyped-call]


def serves(stub: Callable[..., Any], kind: type) -> Callable[[Function], Function]:
    """Let a function be what compiled code finds behind ``stub`` where its first argument is a ``kind``.

    ``kind`` is a NamedTuple. One compiled loop can so serve several kinds of systems: it is compiled for
    each when it is first called with it, together with the functions of that kind alone.
    """
    from numba.extending import overload

    def register(function: Function) -> Function:
        dispatcher = cast(Any, function)
        kept = ("_nrt", "error_model", "forceinline", "no_cfunc_wrapper")
        options: Any = {k: v for k, v in dispatcher.targetoptions.items() if k in kept}

        def choose(*arguments: Any) -> Any:
            given = getattr(arguments[0], "instance_class", None)
            return dispatcher.py_func if given is kind else None

        overload(stub, jit_options=options, strict=False)(choose)
        return function

    return register


def fma(a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once, in the precision of a.

    Compilers may fuse the two where they like; here it is written, so that every copy of a function
    gives the same digits, at the speed of one instruction.
    """
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return type(a)(float(exact))


def _fused(context: Any, a: Any, b: Any, c: Any) -> Any:
    return a(a, a, a), lambda context, builder, signature, values: builder.fma(*values)


_one_instruction: Any = intrinsic(_fused)


@overload(fma, strict=False)
def _by_precision(a: Any, b: Any, c: Any) -> Any:
    return lambda a, b, c: _one_instruction(a, b, c)


def wide() -> None:
    """Let the function that says so first use vectors of 64 bytes: by itself the compiler avoids them."""


def _widened(context: Any) -> Any:
    def code(context: Any, builder: Any, *_: Any) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return numba.types.none(), code


_attribute: Any = intrinsic(_widened)
overload(wide, inline="always")(lambda: lambda: _attribute())
