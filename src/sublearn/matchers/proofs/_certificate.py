"""Certificates: proofs that a real solution exists, kept as numbers that anyone can check again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError
from sublearn._files import save_json
from sublearn._reading import MOST_DIGITS, as_text, as_whole, load_json
from sublearn.allocations import flat_entries, from_flat_entries
from sublearn.ensembles import Instance
from sublearn.matchers.proofs._dyadic import Dyadic, to_float
from sublearn.networks import Network, network_from_text

Kind = Literal["krawczyk", "construction", "affine", "copy", "intertwined"]
KINDS: tuple[Kind, ...] = ("krawczyk", "construction", "affine", "copy", "intertwined")
LARGEST_EXPONENT = 10**6  # far beyond any precision; a damaged file must not fill the memory
MOST_BITS = 2**16  # 16 times what proofs are given
# As it is written: Fraction itself reads "1e1000000000" too, and fills the memory with it.
_FRACTION = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}(/[0-9]{{1,{MOST_DIGITS}}})?")
FORMAT = "sublearn certificate 2"
ROUNDED = "sublearn certificate 1"  # knew a teacher's targets only as float64 numbers


@dataclass(frozen=True)
class Check:
    """What a check found: true or false, with the reason in words."""

    holds: bool
    reason: str

    def __bool__(self) -> bool:
        return self.holds


@dataclass(frozen=True, eq=False)
class Certificate:
    """A box of learnable weights that holds exactly one real solution of an instance.

    ``centre`` has one number per learnable weight, in the order of the labels. The weights at the
    positions ``free`` may move by less than ``radius``; the others keep their centre exactly. Kinds
    ``krawczyk`` and ``construction`` (found by linear solves) state that the Krawczyk test holds on
    this box. Kind ``affine`` has no box: it states that the outputs are affine in the learnable
    weights and that their coefficients have rank d m modulo the prime ``prime``, hence over the
    rationals, so that every target is reached; the centre solves the equations to rounding. Kind ``copy``
    names for every unit of the teacher the ``units`` of the student, with their factors, that make the
    student the teacher. Kind ``intertwined`` has a box for the learnable weights and, ``beside`` them,
    the changes of coordinates that take the teacher to the student.

    A certificate holds what its instance was made from, its teacher and the factors of its inputs where
    it has them, so a file is enough to check it.
    """

    instance: Instance
    kind: Kind
    bits: int
    centre: tuple[Dyadic, ...]
    free: tuple[int, ...] = ()
    radius: tuple[Dyadic, ...] = ()
    prime: int | None = None
    units: tuple[tuple[tuple[int, Fraction], ...], ...] = ()
    beside: tuple[Dyadic, ...] = ()

    @property
    def values(self) -> Array:
        """The centre, rounded to float64."""
        return np.array([to_float(x) for x in self.centre])

    @property
    def largest_radius(self) -> float:
        """The largest radius of the box, rounded to float64; 0 where there is no box."""
        return max((to_float(x) for x in self.radius), default=0.0)

    def check(self, max_bits: int = 8192) -> Check:
        """Prove the statement again from the stored numbers alone.

        The approximate inverse is computed anew; if the test fails at the stored precision, it is
        tried at twice the bits, up to ``max_bits``.
        """
        from sublearn.matchers.proofs._checks import check

        return check(self, max_bits)

    def save(self, path: str | Path) -> None:
        """Write JSON, beside and renamed, so that a reader never sees half a file."""
        save_json(path, to_dict(self), "a certificate")

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read what :meth:`save` wrote; anything else is an error that says what is wrong."""
        return load_json(path, "certificate", from_dict)


def to_dict(certificate: Certificate) -> dict[str, Any]:
    """Plain values for JSON: floats as hexadecimal text, whole numbers as text where they are long."""
    instance = certificate.instance
    return {
        "format": FORMAT,
        "kind": certificate.kind,
        "network": instance.network.spec,
        "samples": instance.samples,
        "learnable": flat_entries(instance.allocation),
        "weights": _hex_by_name(instance.weights),
        **_made_from(instance),
        "bits": certificate.bits,
        "centre": [_dyadic_out(x) for x in certificate.centre],
        "free": list(certificate.free),
        "radius": [_dyadic_out(x) for x in certificate.radius],
        "prime": certificate.prime,
        "units": [[[unit, str(a)] for unit, a in space] for space in certificate.units],
        "beside": [_dyadic_out(x) for x in certificate.beside],
    }


def _made_from(instance: Instance) -> dict[str, Any]:
    """Inputs, or their factors; targets, or the teacher whose outputs they are."""
    out: dict[str, Any] = {}
    if instance.input_factors is None:
        out["inputs"] = _hex(instance.inputs)
    else:
        left, right = instance.input_factors
        out["factors"] = {"rank": left.shape[1], "left": _hex(left), "right": _hex(right)}
    if instance.teacher is None:
        out["targets"] = _hex(instance.targets)
    else:
        network = instance.teacher.network.spec
        out["teacher"] = {"network": network, "weights": _hex_by_name(instance.teacher.weights)}
    return out


def from_dict(content: object) -> Certificate:
    """The certificate that :func:`to_dict` describes."""
    if not isinstance(content, Mapping) or not isinstance(content.get("format"), str):
        raise BadInputError("this is not a certificate: it has no format line.")
    if content["format"] == ROUNDED:
        raise BadInputError(
            "this certificate was written by an earlier version, which knew the outputs of a teacher "
            "only as rounded numbers; decide the instance again, with --out, for a new one."
        )
    if content["format"] != FORMAT:
        raise BadInputError(
            f"format {content['format']!r} is not known; this version reads {FORMAT!r}."
        )
    kind, bits = content["kind"], content["bits"]
    # With more of them checking would not end, or not fit into memory.
    if type(bits) is int and not 0 <= bits <= MOST_BITS:
        raise BadInputError(f"bits must be at most {MOST_BITS} and not negative, not {bits}.")
    if kind not in KINDS:
        raise BadInputError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    network = network_from_text(as_text(content["network"]))
    samples = as_whole(content["samples"])
    allocation = from_flat_entries(network, content["learnable"])
    weights = _unhex_by_name(content["weights"], network)
    factors = None
    if "factors" in content:
        rank, features = as_whole(content["factors"]["rank"]), sum(network.input_blocks)
        left = _unhex(content["factors"]["left"], (features, rank))
        factors = left, _unhex(content["factors"]["right"], (rank, samples))
    inputs = _unhex(content["inputs"], network.input_shape(samples)) if factors is None else factors
    if "teacher" in content:
        shown = network_from_text(as_text(content["teacher"]["network"]))
        taught = _unhex_by_name(content["teacher"]["weights"], shown)
        instance = Instance.from_teacher(network, allocation, weights, inputs, taught, shown)
    else:
        targets = _unhex(content["targets"], (network.output_size, samples))
        instance = Instance.given(network, allocation, weights, inputs, targets)
    prime = content["prime"]
    return Certificate(
        instance,
        kind,
        as_whole(bits),
        tuple(_dyadic_in(x) for x in content["centre"]),
        tuple(as_whole(x) for x in content["free"]),
        tuple(_dyadic_in(x) for x in content["radius"]),
        None if prime is None else as_whole(prime),
        tuple(
            tuple((as_whole(unit), _fraction(factor)) for unit, factor in space)
            for space in content["units"]
        ),
        tuple(_dyadic_in(x) for x in content["beside"]),
    )


def _hex(values: Array) -> list[str]:
    return [float(v).hex() for v in np.asarray(values).ravel()]


def _hex_by_name(weights: Mapping[str, Array]) -> dict[str, list[str]]:
    return {name: _hex(value) for name, value in weights.items()}


def _unhex_by_name(texts: Mapping[str, object], network: Network) -> dict[str, Array]:
    return {name: _unhex(texts[name], shape) for name, shape in network.shapes.items()}


def _unhex(texts: object, shape: tuple[int, ...]) -> Array:
    if not isinstance(texts, list) or len(texts) != int(np.prod(shape)):
        raise ValueError(f"{int(np.prod(shape))} numbers are wanted")
    return np.array([float.fromhex(as_text(text)) for text in texts]).reshape(shape)


def _dyadic_out(value: Dyadic) -> list[str]:
    return [hex(value[0]), str(value[1])]


def _dyadic_in(pair: object) -> Dyadic:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError("a number must be a pair [mantissa, exponent]")
    mantissa, exponent = int(as_text(pair[0]), 16), int(as_text(pair[1]))
    if abs(exponent) > LARGEST_EXPONENT:
        raise ValueError(f"the exponent {exponent} is out of range")
    return mantissa, exponent


def _fraction(text: object) -> Fraction:
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"a factor must be a fraction such as '-2/3', not {text!r:.80}")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError(f"{text:.80} is no number") from None
