"""Sparse connectivity as a fact of a network: weights that do not exist."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sublearn._arrays import Mask, unpacked
from sublearn._errors import BadInputError, one_of
from sublearn.networks._network import Bounds, Network

FIELD = ",connections="


def _of_base(name: str) -> Any:
    return property(lambda self: getattr(self.base, name))


@dataclass(frozen=True, repr=False)
class Connected(Network):
    """A network of which only some weights exist; :meth:`Network.with_connections` makes it.

    ``packed`` holds the bits of the masks by name, so that networks compare by what they are.
    """

    base: Network
    packed: tuple[tuple[str, bytes], ...]

    def __reduce__(self) -> tuple[object, ...]:
        # The masks are made again from the bits: as they are handed out, they can be neither sent nor copied.
        return Connected, (self.base, self.packed)

    @property
    def spec(self) -> str:
        words = (f"{name}:{_text(bits)}" for name, bits in self.packed)
        return f"{self.base.spec}{FIELD}{'+'.join(words)}"

    @property
    def title(self) -> str:
        return f"{self.base.title} ({self._counted()} exist)"

    def __repr__(self) -> str:
        return f"<{self.base!r}, of which {self._counted()} exist>"

    def _counted(self) -> str:
        masks = ((name, self.connections[name]) for name, _ in self.packed)
        return ", ".join(f"{name}: {mask.sum()} of {mask.size}" for name, mask in masks)

    @cached_property
    def connections(self) -> Mapping[str, Mask]:
        out = dict(self.base.connections)
        for name, bits in self.packed:
            mask = unpacked(bits, self.base.shapes[name]) & self.base.existing(name)
            mask.flags.writeable = False
            out[name] = mask
        return MappingProxyType(out)

    shapes = _of_base("shapes")
    steps = _of_base("steps")
    input_blocks = _of_base("input_blocks")
    output_size = _of_base("output_size")
    is_sequence = _of_base("is_sequence")
    hidden = _of_base("hidden")

    # At weights some of which are 0 a rank is at most what it is at generic ones.

    def degree_bounds(self, name: str, samples: int) -> Bounds:
        return self.base.degree_bounds(name, samples)

    def expressible(self, samples: int) -> int:
        return min(self.size, self.base.expressible(samples))

    def degeneracy(self, samples: int) -> str | None:
        return self.base.degeneracy(samples) or super().degeneracy(samples)

    def widened(self, widths: Sequence[int]) -> Network:
        return self.base.widened(widths)

    def before_output(self) -> Network:
        inner = self.base.before_output()
        return self if inner is self.base else Connected(inner, self.packed)


def connected(network: Network, masks: Mapping[str, ArrayLike]) -> Connected:
    """See :meth:`Network.with_connections`."""
    if not isinstance(masks, Mapping) or not masks:
        raise BadInputError('connections must map weight names to masks, such as {"W": mask}.')
    base, old = network, {}
    if isinstance(network, Connected):
        base, old = network.base, dict(network.connections)
    packed = {}
    for name, given in masks.items():
        shape, mask = network.shape(one_of("weight name", name, network.shapes)), np.asarray(given)
        if mask.shape != shape:
            raise BadInputError(f"connections of {name} must have shape {shape}, not {mask.shape}.")
        if mask.dtype.kind not in "biu" or not np.isin(mask, (0, 1)).all():
            raise BadInputError(
                f"connections of {name} must be true and false, or 0 and 1, not {mask.dtype}: say "
                f"{name} != 0 if those that are not 0 exist."
            )
        packed[name] = mask.astype(bool) & old.get(name, True)
    whole = {**{name: mask for name, mask in old.items() if name not in packed}, **packed}
    out = Connected(
        base, tuple((n, np.packbits(whole[n]).tobytes()) for n in network.shapes if n in whole)
    )
    if not out.size:
        raise BadInputError("connections must leave at least one weight.")
    return out


def connections_from_text(network: Network, text: str) -> Connected:
    """Read what stands behind ``connections=`` in a spec: ``W:<bits in base64>``, joined by ``+``."""
    masks = {}
    for part in text.split("+"):
        name, _, word = part.partition(":")
        rows, columns = network.shape(name)
        try:
            bits = base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))
        except (ValueError, binascii.Error):
            bits = b""
        if len(bits) != (rows * columns + 7) // 8 or _text(bits) != word:
            raise BadInputError(
                f"the connections of {name} cannot be read: the spec of a network writes them."
            )
        masks[name] = unpacked(bits, (rows, columns))
    return connected(network, masks)


def _text(bits: bytes) -> str:
    return base64.urlsafe_b64encode(bits).decode().rstrip("=")
