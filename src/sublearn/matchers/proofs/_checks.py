"""Checking certificates from their numbers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sublearn.matchers.proofs._balls import precision
from sublearn.matchers.proofs._certificate import Certificate, Check
from sublearn.matchers.proofs._curved import system
from sublearn.matchers.proofs._dyadic import to_ball
from sublearn.matchers.proofs._krawczyk import ball_inverse, box, contracts, shift, spread

if TYPE_CHECKING:
    from sublearn.ensembles import Instance


def check(certificate: Certificate, max_bits: int) -> Check:
    """See :meth:`Certificate.check`."""
    instance = certificate.instance
    if len(certificate.centre) != len(instance.allocation):
        return Check(False, "the centre does not have one number per learnable weight")
    if certificate.kind == "affine":
        if not instance.network.is_linear:
            return Check(False, f"{instance.network.spec} is not linear: it has no residues")
        return _check_affine(instance, certificate.prime)
    return _check_box(certificate, max_bits)


def _check_box(certificate: Certificate, max_bits: int) -> Check:
    instance, free = certificate.instance, certificate.free
    size = len(instance.allocation)
    if list(free) != sorted(set(free)) or (free and not 0 <= free[0] <= free[-1] < size):
        return Check(False, "the free weights are not positions in increasing order")
    if len(free) != instance.equations or len(certificate.radius) != len(free):
        return Check(False, f"the box must have d m = {instance.equations} free weights")
    if any(mantissa <= 0 for mantissa, _ in certificate.radius):
        return Check(False, "every radius must be positive")
    held = certificate.values
    kept = np.setdiff1d(np.arange(size), free)
    exact = [float(held[i]).as_integer_ratio() for i in kept]
    for position, (numerator, denominator) in zip(kept, exact, strict=True):
        mantissa, exponent = certificate.centre[position]
        if mantissa * denominator << max(exponent, 0) != numerator << max(-exponent, 0):
            return Check(False, "a weight that is not free must be a float64 number")
    bits = max(certificate.bits, 64)
    while True:
        with precision(bits):
            chain = system(instance, free, held)
            centre = [to_ball(certificate.centre[i]) for i in free]
            radius = [to_ball(rho) for rho in certificate.radius]
            residual, jacobian = chain.linearised(centre)
            inverse = ball_inverse(jacobian)
            if inverse is not None:
                _, over_box = chain.linearised(box(centre, radius))
                if contracts(shift(inverse, residual), spread(inverse, over_box), radius):
                    return Check(
                        True,
                        f"the Krawczyk test holds at {bits} bits: exactly one real solution lies "
                        f"within {certificate.largest_radius:.1e} of the centre",
                    )
        if bits >= max_bits:
            return Check(False, f"the Krawczyk test does not hold, up to {bits} bits")
        bits = min(2 * bits, max_bits)


def _check_affine(instance: Instance, prime: int | None) -> Check:
    from sublearn.matchers._affine import full_rank_modulo, ranks_modulo
    from sublearn.verdicts._affine import is_affine

    if not is_affine(instance.network, instance.allocation):
        return Check(False, "the outputs are not affine in the learnable weights")
    if prime is None or not _is_prime(prime):
        return Check(False, "the certificate names no prime of 23 or 61 bits")
    if prime < 2**23:
        full = full_rank_modulo(instance, prime)
    else:
        full = ranks_modulo(instance, prime)[0].rank == instance.equations
    if not full:
        return Check(False, f"the coefficients do not have rank d m modulo {prime}")
    return Check(
        True,
        f"the outputs are affine and their coefficients have rank d m = {instance.equations} modulo "
        f"{prime}, hence over the rationals: every target is reached",
    )


def _is_prime(number: int) -> bool:
    from flint import fmpz

    in_range = 2**22 < number < 2**23 or 2**60 < number < 2**61
    return in_range and bool(fmpz(number).is_prime())
