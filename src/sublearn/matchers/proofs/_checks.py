"""Checking certificates from their numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sublearn._arrays import Array
from sublearn.ensembles import Instance
from sublearn.exact import is_prime
from sublearn.matchers._simplify import simplify
from sublearn.matchers.proofs._balls import precision
from sublearn.matchers.proofs._certificate import Certificate, Check
from sublearn.matchers.proofs._dyadic import Dyadic, to_ball, to_float
from sublearn.matchers.proofs._equations import ChainEquations, RootEquations
from sublearn.matchers.proofs._krawczyk import ball_inverse, box, contracts, shift, spread
from sublearn.networks import Network
from sublearn.verdicts import is_affine

BACKWARD_ERROR = 1e-10  # of an affine certificate's centre, which float64 arithmetic found


def check(certificate: Certificate, max_bits: int) -> Check:
    """See :meth:`Certificate.check`."""
    instance, contradiction = simplify(certificate.instance)
    if contradiction is not None:
        return Check(False, contradiction)
    unnamed = certificate.kind == "affine" and not certificate.centre
    if len(certificate.centre) != len(instance.allocation) and not unnamed:
        return Check(False, "the centre does not have one number per learnable weight")
    if certificate.kind == "affine":
        if not instance.network.is_linear:
            return Check(False, f"{instance.network.title} is not linear: it has no residues")
        return _check_affine(instance, certificate)
    if certificate.kind == "copy":
        return _check_copy(instance, certificate)
    return _check_box(replace(certificate, instance=instance), max_bits)


def _check_box(certificate: Certificate, max_bits: int) -> Check:
    instance, free = certificate.instance, certificate.free
    centre = certificate.centre + certificate.beside
    size = len(centre)
    if list(free) != sorted(set(free)) or (free and not 0 <= free[0] <= free[-1] < size):
        return Check(False, "the free weights are not positions in increasing order")
    if not free or len(certificate.radius) != len(free):
        return Check(False, "the box must have a radius for every free weight")
    if any(mantissa <= 0 for mantissa, _ in certificate.radius):
        return Check(False, "every radius must be positive")
    if certificate.kind != "intertwined" and (
        len(free) != instance.equations or certificate.beside
    ):
        return Check(False, f"the box must have d m = {instance.equations} free weights")
    held = np.array([to_float(x) for x in centre])
    kept = np.setdiff1d(np.arange(size), free)
    for position in kept:
        if not np.isfinite(held[position]) or not _same(centre[position], float(held[position])):
            return Check(False, "a weight that is not free must be a float64 number")
    bits = max(certificate.bits, 64)
    while True:
        reason = _why_not(certificate, centre, held, bits)
        if reason is None:
            what = "solution" if certificate.kind != "intertwined" else "copy of the teacher"
            return Check(
                True,
                f"the Krawczyk test holds at {bits} bits: exactly one real {what} lies within "
                f"{certificate.largest_radius:.1e} of the centre",
            )
        if bits >= max_bits or not reason.startswith("the Krawczyk test"):
            return Check(False, reason)
        bits = min(2 * bits, max_bits)


def _why_not(
    certificate: Certificate, centre: tuple[Dyadic, ...], held: Array, bits: int
) -> str | None:
    instance, free, radius = certificate.instance, certificate.free, certificate.radius
    if certificate.kind == "intertwined":
        from sublearn.matchers.identities._intertwine import check_intertwined

        return check_intertwined(instance, centre, free, radius, bits)
    with precision(bits):
        if box_contracts(ChainEquations(instance, free, held), [centre[i] for i in free], radius):
            return None
    return f"the Krawczyk test does not hold, up to {bits} bits"


def box_contracts(chain: RootEquations, centre: Sequence[Dyadic], radius: Sequence[Dyadic]) -> bool:
    """Whether the Krawczyk test holds on a box, at the working precision."""
    middle, radii = [to_ball(x) for x in centre], [to_ball(rho) for rho in radius]
    residual, jacobian = chain.linearised(middle)
    inverse = ball_inverse(jacobian)
    if inverse is None:
        return False
    _, over_box = chain.linearised(box(middle, radii))
    return contracts(shift(inverse, residual), spread(inverse, over_box), radii)


def _same(value: Dyadic, number: float) -> bool:
    (mantissa, exponent), (numerator, denominator) = value, number.as_integer_ratio()
    return mantissa * denominator << max(exponent, 0) == numerator << max(-exponent, 0)


def _check_copy(instance: Instance, certificate: Certificate) -> Check:
    from sublearn.matchers.identities._copy import copied_values, rounded

    if instance.teacher is None:
        return Check(False, "there is no teacher to copy")
    values = copied_values(instance, certificate.units)
    if values is None:
        return Check(False, "the units named do not make the student a copy of the teacher")
    for value, stated in zip(map(rounded, values), certificate.centre, strict=True):
        if not np.isfinite(value) or not _same(stated, value):
            return Check(False, "the centre is not the copy of the teacher's weights")
    return Check(
        True,
        "unit by unit the student becomes the teacher, in rationals: they agree on every input",
    )


def _check_affine(instance: Instance, certificate: Certificate) -> Check:
    prime = certificate.prime
    from sublearn.matchers._affine import full_rank_modulo, ranks_modulo

    if not is_affine(instance.network, instance.allocation):
        return Check(False, "the outputs are not affine in the learnable weights")
    known = prime is not None and (2**22 < prime < 2**23 or 2**60 < prime < 2**61)
    if prime is None or not known or not is_prime(prime):
        return Check(False, "the certificate names no prime of 23 or 61 bits")
    if prime < 2**23:
        full = full_rank_modulo(instance, prime)
    else:
        full = ranks_modulo(instance, prime)[0].rank == instance.equations
    if not full:
        return Check(False, f"the coefficients do not have rank d m modulo {prime}")
    reached = (
        f"the outputs are affine and their coefficients have rank d m = {instance.equations} modulo "
        f"{prime}, hence over the rationals: every target is reached"
    )
    if not certificate.centre:
        return Check(True, f"{reached}; no weights are named, for float64 holds none")
    so_far = f"the equations to {BACKWARD_ERROR:.0e} of the terms they add up"
    if not solves(instance, certificate):
        return Check(False, f"the centre does not solve {so_far}")
    return Check(True, f"{reached}; the centre solves {so_far}")


def solves(instance: Instance, certificate: Certificate) -> bool:
    """Whether the residual at the centre is small beside what adds up to it, by proof."""
    values = certificate.values
    if not np.isfinite(values).all():
        return False
    weights = instance.with_values(values)
    with np.errstate(all="ignore"):
        terms = _terms(instance.network, weights, instance.inputs) + np.abs(instance.targets)
        room = BACKWARD_ERROR * terms
        if _rounding(instance, certificate, weights, terms) <= room.min(initial=np.inf):
            return True
    with precision(max(certificate.bits, 256)):
        residual = (
            ChainEquations(instance).residual([to_ball(x) for x in certificate.centre]).entries()
        )
        return all(
            bool(abs(ball) <= float(most))
            for ball, most in zip(residual, room.ravel(), strict=True)
        )


def _terms(network: Network, weights: Mapping[str, Array], inputs: Array) -> Array:
    """The sums of the sizes of all that adds up to each output."""
    sizes = {name: np.abs(value) for name, value in weights.items()}
    return network.forward(sizes, np.abs(inputs))


def _rounding(
    instance: Instance,
    certificate: Certificate,
    weights: Mapping[str, Array],
    terms: Array,
) -> float:
    """The largest that the residual can be, from float64 and all its roundings; infinite if unknown.

    K additions and products in a row lose at most K u / (1 - K u) of the sizes that they add up (Higham,
    "Accuracy and Stability of Numerical Algorithms", section 3.1); what is charged is four times that. The
    targets were computed in the same way, from the sizes in the teacher.
    """
    centre = certificate.values
    plain = all(_same(x, float(v)) for x, v in zip(certificate.centre, centre, strict=True))
    teacher = instance.teacher
    known = instance.asking is None or (teacher is not None and teacher.network.is_linear)
    if not plain or not known or instance.inputs_are_rounded or not terms.min(initial=1.0) > 1e-250:
        return np.inf
    sums, networks = terms, [instance.network]
    if teacher is not None:
        sums = sums + _terms(teacher.network, teacher.weights, instance.inputs)
        networks.append(teacher.network)
    length = sum(
        sum(network.shapes[step.weight]) + max(network.input_blocks) + 4
        for network in networks
        for step in network.steps
    )
    off = np.abs(instance.network.forward(weights, instance.inputs) - instance.targets)
    most = off + 4 * length * 2.0**-53 * sums
    return float(most.max()) if np.isfinite(most).all() else np.inf
