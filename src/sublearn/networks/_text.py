"""Networks by name: what a text or a saved file says, and which class that is.

A class takes part once it is registered. Files are read with the names that are known by then: they
never cause an import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from numpy.typing import ArrayLike

from sublearn._errors import BadInputError, one_of
from sublearn._limits import check_memory
from sublearn.networks._connected import FIELD, connections_from_text
from sublearn.networks._network import Network

LARGEST = 10**9  # beyond it sizes of arrays overflow before memory is asked for
SIZES = tuple[int, ...]
Class = TypeVar("Class", bound=type[Network])


@dataclass(frozen=True)
class _Kind:
    """A registered class, an example that shows how it is written, and its fields with their types."""

    cls: type[Network]
    example: str
    types: dict[str, Any]
    required: tuple[str, ...]


_KINDS: dict[str, _Kind] = {}


def register(example: str) -> Callable[[Class], Class]:
    """Give a network class its name in texts and files, by an example of its ``spec``.

    The name is the word before the colon. Behind it stand the fields of the dataclass, ``name=value``,
    where a value is a number, a word, or yes or no; a first field of type ``tuple[int, ...]``
    stands alone, as in ``4-8-6``. A class may write its ``spec`` otherwise, as long as it is read so.

    >>> from dataclasses import dataclass
    >>> import sublearn as sl
    >>> @sl.networks.register("gain:width=3")
    ... @dataclass(frozen=True)
    ... class Gain(sl.Network):
    ...     width: int
    ...     shapes = property(lambda self: {"G": (self.width, self.width)})
    ...     steps = property(lambda self: (sl.networks.Step("G", block=0),))
    ...     input_blocks = property(lambda self: (self.width,))
    ...     output_size = property(lambda self: self.width)
    >>> sl.networks.network_from_text("gain:width=2") == Gain(2), Gain(5).spec
    (True, 'gain:width=5')
    """
    name = example.partition(":")[0]
    if not name.replace("-", "").isalnum() or not name.isascii() or name == example:
        raise BadInputError(
            f"a network is registered with a spec such as 'lrnn:n=8', not {example!r}."
        )

    def add(cls: Class) -> Class:
        known = _KINDS.get(name)
        # A cell of a notebook that is run again brings the same class again.
        if known is not None and known.cls.__qualname__ != cls.__qualname__:
            raise BadInputError(f"the kind {name!r} is taken by {known.cls.__qualname__}.")
        _KINDS[name] = kind = _kind(cls, example)
        try:
            made = _read(kind, example)
            if made.spec.partition(":")[0] != name or _read(kind, made.spec) != made:
                raise BadInputError(
                    f"{example!r} is written {made.spec!r}, and not read as the same."
                )
        except BadInputError:
            del _KINDS[name]
            raise
        return cls

    return add


def _kind(cls: type[Network], example: str) -> _Kind:
    if not is_dataclass(cls):
        raise BadInputError(f"{cls.__qualname__} must be a dataclass: its fields are its spec.")
    hints, own = get_type_hints(cls), [field for field in fields(cls) if field.init]
    types = {field.name: hints[field.name] for field in own}
    for place, (name, of) in enumerate(types.items()):
        if of not in (int, float, str, bool) and (place or of != SIZES):
            raise BadInputError(
                f"the field {name} of {cls.__qualname__} must be an int, a float, a str or a bool, or the "
                "first and a tuple[int, ...]."
            )
    required = (f.name for f in own if f.default is MISSING and f.default_factory is MISSING)
    return _Kind(cls, example, types, tuple(required))


def known_kinds() -> dict[str, str]:
    """An example of every kind of network that is registered, by its name."""
    return {name: kind.example for name, kind in _KINDS.items()}


def text_of(network: Network) -> str:
    """The ``spec`` of a network of a registered class: its kind and all its fields."""
    for name, kind in _KINDS.items():
        if kind.cls is type(network):
            words = {field: _word(getattr(network, field), of) for field, of in kind.types.items()}
            parts = [w if kind.types[f] == SIZES else f"{f}={w}" for f, w in words.items()]
            return f"{name}:{','.join(parts)}"
    raise BadInputError(
        f"{type(network).__qualname__} has no name: put @register('name:field=value') above its class."
    )


def _word(value: Any, of: Any) -> str:
    return (
        "-".join(map(str, value))
        if of == SIZES
        else ("no", "yes")[value]
        if of is bool
        else str(value)
    )


def network_from_text(text: str, connections: Mapping[str, ArrayLike] | None = None) -> Network:
    """Read a network from its ``spec``; its class must be registered.

    ``connections`` are masks by weight name, as in :meth:`Network.with_connections`: only these exist.

    >>> network_from_text("ffn:6-8-4,activation=relu")
    FeedForward(sizes=(6, 8, 4), activation='relu', output='linear', bias=False)
    >>> network_from_text("lrnn:n=8,b=1,d=4,T=4").spec
    'lrnn:n=8,b=1,d=4,T=4'
    """
    name = one_of("the kind of network (before the colon)", text.partition(":")[0], _KINDS)
    plain, sparse, words = text.partition(FIELD)
    network = _read(_KINDS[name], plain)
    if sparse:
        network = connections_from_text(network, words)
    check_memory(
        f"network {text!r}, with {network.size} weights,", 8 * network.cells, "a smaller network"
    )
    return network if connections is None else network.with_connections(connections)


def _read(kind: _Kind, text: str) -> Network:
    unreadable = BadInputError(f"network {text!r} cannot be read: write it like {kind.example!r}.")
    parts = [part.strip() for part in text.partition(":")[2].split(",") if part.strip()]
    given: dict[str, str] = {}
    first = next(iter(kind.types), "")
    if kind.types.get(first) == SIZES:
        if not parts or "=" in parts[0]:
            raise unreadable
        given[first] = parts.pop(0)
    for part in parts:
        field, equals, word = part.partition("=")
        if not equals:
            raise unreadable
        known = [name for name, of in kind.types.items() if of != SIZES]
        one_of(f"network {text!r} cannot be read: what it sets", field, known)
        if field in given:
            raise BadInputError(f"network {text!r} cannot be read: it sets {field} twice.")
        given[field] = word
    missing = [field for field in kind.required if field not in given]
    if missing:
        raise BadInputError(f"network {text!r} lacks {', '.join(missing)}: write {kind.example!r}.")
    values: dict[str, Any] = {}
    for field, word in given.items():
        of = kind.types[field]
        if of is str or of is bool:
            values[field] = word if of is str else one_of(field, word, ("yes", "no")) == "yes"
            continue
        try:
            if of is float:
                values[field] = float(word)
                continue
            numbers = [int(number) for number in word.split("-" if of == SIZES else None)]
        except ValueError:
            raise unreadable from None
        if max(numbers, default=0) > LARGEST:
            raise BadInputError(
                f"numbers in network {text!r} must be at most {LARGEST}, not {max(numbers)}."
            )
        if of is int and len(numbers) != 1:
            raise unreadable
        values[field] = tuple(numbers) if of == SIZES else numbers[0]
    return kind.cls(**values)
