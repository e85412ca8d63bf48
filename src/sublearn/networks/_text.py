"""Networks from text, as the command line and saved files write them."""

from __future__ import annotations

from sublearn._errors import BadInputError, one_of
from sublearn._limits import check_memory
from sublearn.networks._models import RNN, FeedForward, LinearEstimator, LinearRNN
from sublearn.networks._network import Network

_RECURRENT = ("n", "b", "d", "T")
LARGEST = 10**9  # beyond it sizes of arrays overflow before memory is asked for
FORMS = {
    "lrnn": "lrnn:n=8,b=1,d=4,T=4",
    "rnn": "rnn:n=8,b=1,d=4,T=4,activation=tanh",
    "ffn": "ffn:4-8-8-6,activation=relu,output=linear,bias=no",
    "linear": "linear:inputs=6,outputs=3",
}


def network_from_text(text: str) -> Network:
    """Read a network from its ``spec``.

    >>> network_from_text("ffn:6-8-4,activation=relu")
    FeedForward(sizes=(6, 8, 4), activation='relu', output='linear', bias=False)
    >>> network_from_text("lrnn:n=8,b=1,d=4,T=4").spec
    'lrnn:n=8,b=1,d=4,T=4'
    """
    network = _read(text)
    check_memory(
        f"network {text!r}, with {network.size} weights,", 8 * network.size, "a smaller network"
    )
    return network


def _read(text: str) -> Network:
    kind, _, rest = text.partition(":")
    one_of("the kind of network (before the colon)", kind, FORMS)
    parts = [part.strip() for part in rest.split(",") if part.strip()]
    if kind == "ffn":
        if not parts:
            raise _unreadable(text, kind)
        sizes = [_integer(text, kind, value) for value in parts[0].split("-")]
        given = _pairs(text, kind, parts[1:], ("activation", "output", "bias"))
        bias = one_of("bias", given.pop("bias", "no"), ("yes", "no")) == "yes"
        return FeedForward(sizes, bias=bias, **given)
    allowed = ("inputs", "outputs") if kind == "linear" else _RECURRENT
    words = _pairs(text, kind, parts, (*allowed, "activation") if kind == "rnn" else allowed)
    missing = [name for name in allowed if name not in words]
    if missing:
        raise BadInputError(f"network {text!r} lacks {', '.join(missing)}: write {FORMS[kind]!r}.")
    numbers = {name: _integer(text, kind, words[name]) for name in allowed}
    if kind == "linear":
        return LinearEstimator(**numbers)
    if kind == "lrnn":
        return LinearRNN(**numbers)
    return RNN(**numbers, activation=words.get("activation", "tanh"))


def _pairs(text: str, kind: str, parts: list[str], allowed: tuple[str, ...]) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or name not in allowed or name in out:
            raise _unreadable(text, kind)
        out[name] = value
    return out


def _integer(text: str, kind: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        raise _unreadable(text, kind) from None
    if number > LARGEST:
        raise BadInputError(f"numbers in network {text!r} must be at most {LARGEST}, not {number}.")
    return number


def _unreadable(text: str, kind: str) -> BadInputError:
    return BadInputError(f"network {text!r} cannot be read: write it like {FORMS[kind]!r}.")
