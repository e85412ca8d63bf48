"""The geometry of any differentiable JAX loss, with the extra ``sublearn[jax]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn._jax import enable_x64
from sublearn.noise._curvature import MatrixTrace, diagonal_at, probed_trace
from sublearn.noise._geometry import Geometry, Surface, check_how

EXACT_WEIGHTS = 2000
"""Weights up to which "auto" takes one Hessian product per weight."""


def loss_geometry(
    loss: Callable[[Any], Any],
    params: Any,
    mask: Any = None,
    *,
    on: str = "plastic",
    trace: str = "auto",
    probes: int = 64,
    seed: int = 0,
) -> Geometry:
    """The geometry of any differentiable JAX function of ``params``, a tree of arrays.

    ``mask``, a tree of 0/1 like ``params``, holds the plastic weights (default: all). The rest is as in
    :func:`sublearn.local_geometry`. Everything is computed in float64.
    """
    check_how(on, trace, probes, seed)
    try:
        import jax
        from jax.flatten_util import ravel_pytree

        double = enable_x64()
    except ImportError:
        raise BadInputError(
            "loss_geometry needs JAX, which is not installed: pip install 'sublearn[jax]'."
        ) from None
    if params is None or not callable(loss):
        raise BadInputError("loss must be a function of params, and params a tree of arrays.")
    with double(True):
        tree = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), params)
        vector, unravel = ravel_pytree(tree)
        size = int(vector.size)
        if not size:
            raise BadInputError("params holds no numbers.")
        plastic = _positions(jax, params, mask, size)
        noisy = plastic if on == "plastic" else np.arange(size)

        def flat_loss(v: Any) -> Any:
            return loss(unravel(v))

        shape = jax.eval_shape(flat_loss, vector).shape
        if shape != ():
            raise BadInputError(f"loss must return one number, not an array of shape {shape}.")
        slope = jax.grad(flat_loss)
        value, full = jax.value_and_grad(flat_loss)(vector)
        gradient = np.zeros(size)
        gradient[plastic] = np.asarray(full)[plastic]

        @jax.jit
        def curvatures(directions: Any) -> Any:
            def along(u: Any) -> Any:
                return u @ jax.jvp(slope, (vector,), (u,))[1]

            return jax.lax.map(along, directions)

        @jax.jit
        def losses(vectors: Any) -> Any:
            return jax.lax.map(flat_loss, vectors)

        def surface(vectors: Array) -> Array:
            with double(True):
                flat = np.asarray(losses(vectors.reshape(-1, size)), dtype=np.float64)
            return flat.reshape(vectors.shape[:-1])

        here = Surface(np.asarray(vector), gradient, plastic, noisy, surface)
        q = float(curvatures((gradient / here.norm)[None])[0]) if here.norm else 0.0
        if trace == "exact" or (trace == "auto" and noisy.size <= EXACT_WEIGHTS):
            diagonal = np.zeros(size)
            diagonal[noisy] = diagonal_at(curvatures, noisy, size, size)
            over = [MatrixTrace(float(diagonal[index].sum()), 0.0, 0) for index in (plastic, noisy)]
        else:
            sets = (plastic, noisy)
            over = [probed_trace(curvatures, index, size, size, probes, seed) for index in sets]
    return here.geometry(over, loss=float(value), q=q, size=size, on=on)


def _positions(jax: Any, params: Any, mask: Any, size: int) -> Any:
    if mask is None:
        return np.arange(size)
    leaves, tree = jax.tree.flatten(params)
    marks, mask_tree = jax.tree.flatten(mask)
    if tree != mask_tree or [np.shape(a) for a in leaves] != [np.shape(a) for a in marks]:
        raise BadInputError("mask must be a tree of the same arrays' shapes as params.")
    flat = np.concatenate([np.ravel(np.asarray(leaf)) for leaf in marks])
    if flat.dtype != bool and not np.isin(flat, (0, 1)).all():
        raise BadInputError("mask must hold only 0 and 1, or true and false.")
    plastic = np.flatnonzero(flat)
    if not plastic.size:
        raise BadInputError("mask is empty: no weight is plastic, so nothing is learned.")
    return plastic
