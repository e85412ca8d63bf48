"""``local_geometry``: slope and curvature of a loss where the weights are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Indices
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.networks import Network
from sublearn.noise._curvature import curvature_along, traces
from sublearn.noise._loss import (
    NOISE_ON,
    Setting,
    check_setting,
    error_signal,
    squared_error,
)
from sublearn.noise._rates import Geometry, Surface
from sublearn.verdicts import is_affine

TRACES = ("auto", "exact", "estimate")


def local_geometry(
    network: Network | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    *,
    inputs: ArrayLike | None = None,
    targets: ArrayLike | None = None,
    allocation: Allocation | None = None,
    noise_on: str = "plastic",
    trace: str = "auto",
    probes: int = 64,
    seed: int = 0,
    loss: Callable[[Any], Any] | None = None,
    params: Any = None,
    mask: Any = None,
) -> Geometry:
    """F, |g|, q = ghat'H ghat and Tr H at the weights, on the plastic set and on the noisy one.

    For a network the loss is F = 1/(2m) sum_s |y_s - y*_s|^2 on ``inputs`` and ``targets``;
    ``allocation`` holds the plastic weights (default: all). For any other loss give ``loss``, a
    differentiable JAX function of ``params``, and ``mask``, a tree of 0/1 like ``params`` (needs the
    extra ``sublearn[jax]``). Synaptic noise falls on the plastic weights or on all (``noise_on``).

    ``trace="auto"`` computes traces exactly where the work is bounded, else estimates them from
    ``probes`` random sign vectors, with the standard error in ``trace_error``.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=2, outputs=1)
    >>> x = np.eye(2) * np.sqrt(2)                    # H is the identity
    >>> geo = sl.local_geometry(net, {"W": [[3.0, 4.0]]}, inputs=x, targets=np.zeros((1, 2)))
    >>> round(geo.loss, 12), round(geo.gradient_norm, 12), round(geo.q, 12), round(geo.trace, 12)
    (12.5, 5.0, 1.0, 2.0)
    """
    one_of("noise_on", noise_on, NOISE_ON)
    one_of("trace", trace, TRACES)
    whole_number("probes", probes, least=2)
    whole_number("seed", seed, least=0)
    if loss is not None:
        given = {"network": network, "weights": weights, "inputs": inputs, "targets": targets}
        extra = [name for name, value in given.items() if value is not None]
        if extra or allocation is not None:
            names = ", ".join(extra or ["allocation"])
            raise BadInputError(f"a loss of its own takes params and mask, not {names}.")
        from sublearn.noise._jax import jax_geometry

        return jax_geometry(loss, params, mask, noise_on, trace, probes, seed)
    if network is None or weights is None or inputs is None or targets is None:
        raise BadInputError(
            "give a network, its weights, inputs= and targets=, or a JAX function as loss= with params=."
        )
    if params is not None or mask is not None:
        raise BadInputError(
            "params and mask belong to loss=; a network takes weights and allocation."
        )
    setting = check_setting(network, weights, inputs, targets, allocation, noise_on)
    with single_thread():
        return geometry_of(setting, noise_on, trace, probes, seed)


def geometry_of(
    setting: Setting,
    noise_on: str = "plastic",
    trace: str = "auto",
    probes: int = 64,
    seed: int = 0,
) -> Geometry:
    """The geometry of a checked setting."""
    network, weights, x = setting.network, setting.weights, setting.inputs
    outputs = network.forward(weights, x)
    value = float(squared_error(outputs, setting.targets))
    plastic = setting.plastic
    noisy: Indices = plastic if noise_on == "plastic" else np.arange(network.size)
    full = setting.flatten(network.vjp(weights, x, error_signal(outputs, setting.targets)))
    gradient = np.zeros_like(full)
    gradient[plastic] = full[plastic]
    norm = float(np.linalg.norm(gradient))
    q = curvature_along(setting, gradient / norm) if norm else 0.0
    sets = [plastic] if noisy is plastic else [plastic, noisy]
    found = traces(setting, sets, trace, probes, seed)
    moving = Allocation.whole(network) if noise_on == "all" else setting.allocation
    return Geometry(
        loss=value,
        gradient_norm=norm,
        q=q,
        trace=found[0].value,
        trace_error=found[0].error,
        noise_trace=found[-1].value,
        noise_trace_error=found[-1].error,
        plastic=plastic.size,
        noisy=noisy.size,
        size=network.size,
        probes=found[0].probes,
        quadratic=is_affine(network, moving),
        _surface=Surface(setting.vector, gradient, plastic, noisy, setting.loss),
    )
