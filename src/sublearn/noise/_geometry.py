"""``local_geometry``: slope and curvature of a loss where the weights are now."""

from __future__ import annotations

import numpy as np

from sublearn._arrays import Array, Indices
from sublearn._errors import one_of, whole_number
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.noise._curvature import curvature_along, traces
from sublearn.noise._loss import (
    check_instance,
    error_signal,
    flatten,
    loss_at,
    plastic_positions,
    squared_error,
)
from sublearn.noise._noise import NOISE_ON
from sublearn.noise._rates import Geometry, Surface
from sublearn.verdicts import is_affine

TRACES = ("auto", "exact", "estimate")


def local_geometry(
    instance: Instance, *, on: str = "plastic", trace: str = "auto", probes: int = 64, seed: int = 0
) -> Geometry:
    """F, |g|, q = ghat'H ghat and Tr H where an instance starts, on its plastic set and on the noisy one.

    The loss is F = 1/(2m) sum_s |y_s - y*_s|^2; the learnable weights are the plastic ones. Synaptic
    noise falls ``on`` the "plastic" weights or on "all". ``trace="auto"`` computes traces exactly where
    the work is bounded, else estimates them from ``probes`` random sign vectors, with the standard error
    in ``trace_error``. For any other loss see :func:`sublearn.noise.loss_geometry`.

    >>> import numpy as np, sublearn as sl
    >>> net = sl.LinearEstimator(inputs=2, outputs=1)
    >>> x = np.eye(2) * np.sqrt(2)                    # H is the identity
    >>> given = sl.Instance(net, sl.Allocation.whole(net), {"W": [[3.0, 4.0]]}, x, np.zeros((1, 2)))
    >>> geo = sl.local_geometry(given)
    >>> round(geo.loss, 12), round(geo.gradient_norm, 12), round(geo.q, 12), round(geo.trace, 12)
    (12.5, 5.0, 1.0, 2.0)
    """
    check_instance(instance)
    check_how(on, trace, probes, seed)
    network, weights, x = instance.network, instance.start, instance.inputs
    with single_thread():
        outputs = network.forward(weights, x)
        value = float(squared_error(outputs, instance.targets))
        plastic = plastic_positions(instance)
        noisy: Indices = plastic if on == "plastic" else np.arange(network.size)
        signal = error_signal(outputs, instance.targets)
        full = flatten(network, network.vjp(weights, x, signal))
        gradient = np.zeros_like(full)
        gradient[plastic] = full[plastic]
        norm = float(np.linalg.norm(gradient))
        q = curvature_along(instance, gradient / norm) if norm else 0.0
        sets = [plastic] if noisy is plastic else [plastic, noisy]
        over = traces(instance, sets, trace, probes, seed)
        moving = Allocation.whole(network) if on == "all" else instance.allocation
        quadratic = is_affine(network, moving)

    def surface(vectors: Array) -> Array:
        return loss_at(instance, vectors)

    return Geometry(
        loss=value,
        gradient_norm=norm,
        q=q,
        trace=over[0].value,
        trace_error=over[0].error,
        noise_trace=over[-1].value,
        noise_trace_error=over[-1].error,
        plastic=plastic.size,
        noisy=noisy.size,
        size=network.size,
        probes=over[0].probes,
        quadratic=quadratic,
        on=on,
        _surface=Surface(flatten(network, weights), gradient, plastic, noisy, surface),
    )


def check_how(on: str, trace: str, probes: int, seed: int) -> None:
    """Refuse what no geometry can be taken with."""
    one_of("noise on", on, NOISE_ON)
    one_of("trace", trace, TRACES)
    whole_number("probes", probes, least=2)
    whole_number("seed", seed, least=0)
