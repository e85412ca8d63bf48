"""The one BLAS call that numpy does not offer: a product subtracted in place from a block."""

import ctypes

from numba.extending import get_cython_function_address

from sublearn._arrays import Array

# SciPy publishes its BLAS as C function pointers with 32-bit integers (scipy.linalg.cython_blas).
_dgemm = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 13)(
    get_cython_function_address("scipy.linalg.cython_blas", "dgemm")
)
_PLAIN = ctypes.c_char(b"N")
_MINUS_ONE = ctypes.c_double(-1.0)
_ONE = ctypes.c_double(1.0)
_KEEP = ctypes.byref(_PLAIN), ctypes.byref(_MINUS_ONE), ctypes.byref(_ONE)


def subtract_product(target: Array, left: Array, right: Array) -> None:
    """target <- target - left right, in place and with no temporary.

    The three are blocks of row-major matrices, so unit stride along the last axis. To BLAS, which
    is column-major, they are the transposes, whence the exchanged order of the factors.
    """
    height, width = target.shape
    inner = left.shape[1]
    if not (height and width and inner):
        return
    plain, minus_one, one = _KEEP
    _dgemm(
        plain,
        plain,
        ctypes.byref(ctypes.c_int(width)),
        ctypes.byref(ctypes.c_int(height)),
        ctypes.byref(ctypes.c_int(inner)),
        minus_one,
        right.ctypes.data,
        ctypes.byref(ctypes.c_int(max(right.strides[0] // 8, width))),
        left.ctypes.data,
        ctypes.byref(ctypes.c_int(max(left.strides[0] // 8, inner))),
        one,
        target.ctypes.data,
        ctypes.byref(ctypes.c_int(max(target.strides[0] // 8, width))),
    )
