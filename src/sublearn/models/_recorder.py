"""Records how a model uses its parameters: which operation, on what input.

While :class:`Recorder` is active every torch operation passes through it. Where a parameter takes
part, it keeps what the derivative needs: the other factor, and the edge of the graph at which the
cotangent of the operation's result will arrive. With both, the gradient of every sample follows
without running the model once per sample (:mod:`sublearn.models._uses`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F  # noqa: N812
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode

from sublearn.models._inputs import leaves
from sublearn.models._uses import Direct, Matrix, Rows, Tensor, Use, View


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor)]


def once(make: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """``make``, called when first needed and kept."""
    return cache(torch.no_grad()(make))


class Recorder(TorchFunctionMode):
    """Records the uses of ``parameters`` (by name); ``unknown`` names those it could not follow."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.names = {id(tensor): name for name, tensor in parameters.items()}
        self.parameters = dict(parameters)
        self.uses: list[Use] = []
        self._looked_up: dict[int, tuple[Tensor, Rows]] = {}
        self.unknown: set[str] = set()

    def finish(self) -> None:
        """Drop what was overwritten after its use."""
        for use in self.uses:
            if use.source is not None and use.source._version != use.version:
                self.unknown.add(use.name)
            use.source = None

    def name_of(self, tensor: Tensor) -> str | None:
        """The parameter that this tensor is, or is a view of."""
        if not isinstance(tensor, torch.Tensor):
            return None
        name = self.names.get(id(tensor))
        if name is None and tensor._is_view():
            name = self.names.get(id(tensor._base))
        return name

    def view_of(self, tensor: Tensor) -> View:
        """Its place in the parameter."""
        whole = self.parameters[self.name_of(tensor)]  # type: ignore[index]
        offset = tensor.storage_offset() - whole.storage_offset()
        return View(tuple(tensor.shape), tuple(tensor.stride()), offset)

    def _spread(self, args: tuple[Any, ...], result: Tensor) -> None:
        """Rows that were looked up once for all samples, and are now added to each of them.

        Position embeddings are: at the sum the samples are apart, at the table they are not.
        """
        for tensor in args[:2]:
            if not isinstance(tensor, torch.Tensor):
                continue
            key = id(tensor._base) if tensor._is_view() else id(tensor)
            if key not in self._looked_up:
                continue
            use = self._looked_up[key][1]
            leads = result.shape[:-1]
            if tensor.shape[:-1].numel() != use.index.numel() or tensor.shape[:-1] == leads:
                continue
            use.index = use.index.reshape(tensor.shape[:-1]).expand(leads)
            use.shape, use.edge = tuple(result.shape), get_gradient_edge(result)
            del self._looked_up[key]

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            # It asks first whether a mode is active and would come back here; its parts are what
            # we want to see.
            with patch.object(F, "has_torch_function", lambda *_: False), self:
                return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        # Packed sequences come with one argument more, and are left to the slow way.
        if name in _RECURRENT and len(args) == 9 and isinstance(args[3], bool):
            with self:
                return _unrolled(_RECURRENT[name], *args)
        used = {
            id(t): t for t in _tensors((*args, *kwargs.values())) if self.name_of(t) is not None
        }
        versions = {id(t): t._version for t in _tensors(args)} if used else {}
        result = func(*args, **kwargs)
        if not torch.is_grad_enabled():
            return result
        if self._looked_up and _HANDLERS.get(name) is _add:
            self._spread(args, result)
        if not used:
            return result
        results = [t for t in _tensors(result) if t.requires_grad]
        if not results:
            return result
        handler = _HANDLERS.get(name)
        handled: set[int] = set()
        if handler is not None:
            made = handler(_Call(self, name, args, kwargs, result, versions, handled))
            result = result if made is None else made
        for key, tensor in used.items():
            name = self.name_of(tensor) or ""
            if key not in handled and not all(self.name_of(t) == name for t in results):
                self.unknown.add(name)
        return result


@dataclass
class _Call:
    recorder: Recorder
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Tensor
    versions: dict[int, int]
    handled: set[int]

    def argument(self, place: int, *names: str) -> Any:
        """The argument at a place, or under one of its names; None where it was left out."""
        if len(self.args) > place:
            return self.args[place]
        return next((self.kwargs[name] for name in names if name in self.kwargs), None)

    def arguments(self, first: int, *names: str) -> list[Any]:
        """Those at successive places, by one name each."""
        return [self.argument(place, name) for place, name in enumerate(names, first)]

    def tracked(self, tensor: Any) -> bool:
        return self.recorder.name_of(tensor) is not None

    def use(
        self,
        kind: Callable[..., Use],
        tensor: Tensor,
        source: Tensor | None,
        view: View,
        **own: Any,
    ) -> Use:
        """Record a use of ``tensor``, whose derivative needs ``source`` as it is now."""
        self.handled.add(id(tensor))
        made = kind(
            name=self.recorder.name_of(tensor),
            view=view,
            edge=get_gradient_edge(self.result),
            shape=tuple(self.result.shape),
            source=source,
            version=0 if source is None else self.versions.get(id(source), source._version),
            **own,
        )
        self.recorder.uses.append(made)
        return made

    def direct(
        self,
        tensor: Tensor,
        padded: tuple[int, ...],
        source: Tensor | None = None,
        factor: Callable[[], Tensor] | None = None,
    ) -> None:
        """Record a direct use, aligned with the result as ``padded`` says."""
        view, factor = self.recorder.view_of(tensor), factor and once(factor)
        self.use(Direct, tensor, source, view, padded=padded, factor=factor)

    def aligned(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of ``tensor`` under broadcasting to the result."""
        return (1,) * (self.result.dim() - tensor.dim()) + tuple(tensor.shape)

    def channels(self, _: Tensor) -> tuple[int, ...]:
        """The shape of a vector along the second dimension of the result."""
        return (1, self.result.shape[1]) + (1,) * (self.result.dim() - 2)


def _times_matrix(call: _Call, x: Tensor, weight: Tensor, view: View, turned: bool = False) -> None:
    """result = x W' with W as ``view`` says (rows are outputs); or both turned, result = W x."""

    def upright(tensor: Tensor) -> Tensor:
        return tensor.transpose(-1, -2) if turned else tensor

    kept = upright(x.detach())
    call.use(
        Matrix,
        weight,
        x,
        view,
        factor=once(lambda: kept.unsqueeze(-2)),
        left=lambda g: upright(g).unsqueeze(-2),
        leads=tuple(kept.shape[:-1]),
    )


def _affine(call: _Call, x: Tensor, weight: Any, bias: Any, transposed: bool) -> None:
    """result = x W' + bias, or x W + bias where the weight is given transposed."""
    if call.tracked(x):
        return
    if call.tracked(weight):
        view = call.recorder.view_of(weight)
        _times_matrix(call, x, weight, view.transposed if transposed else view)
    if call.tracked(bias):
        call.direct(bias, call.aligned(bias))


def _linear(call: _Call) -> None:
    x, weight, bias = call.arguments(0, "input", "weight", "bias")
    _affine(call, x, weight, bias, transposed=False)


def _addmm(call: _Call) -> None:
    bias, x, weight = call.arguments(0, "input", "mat1", "mat2")
    if call.kwargs.get("beta", 1) == 1 and call.kwargs.get("alpha", 1) == 1:
        _affine(call, x, weight, bias, transposed=True)


def _matmul(call: _Call) -> None:
    left, right = call.argument(0, "input", "self"), call.argument(1, "other", "mat2")
    if call.tracked(left) == call.tracked(right):
        return
    if call.tracked(right):
        if right.dim() == 2 and left.dim() >= 2:
            _times_matrix(call, left, right, call.recorder.view_of(right).transposed)
    elif left.dim() == 2 and right.dim() >= 2:
        _times_matrix(call, right, left, call.recorder.view_of(left), turned=True)


def _spread(value: Any, dims: int) -> tuple[int, ...]:
    """One number for every dimension, from one for all or one for each."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return tuple(int(v) for v in (given * dims if len(given) == 1 else given))


def _convolution(call: _Call) -> None:
    x, weight, bias = call.arguments(0, "input", "weight", "bias")
    dims = weight.dim() - 2
    if call.tracked(x) or x.dim() != dims + 2:
        return
    if call.tracked(bias):
        call.direct(bias, call.channels(bias))
    if not call.tracked(weight) or not weight.is_contiguous():
        return
    stride, dilation = (
        _spread(call.argument(place, name) or 1, dims)
        for place, name in ((3, "stride"), (5, "dilation"))
    )
    padding, groups = call.argument(4, "padding") or 0, call.argument(6, "groups") or 1
    kernel, sides = tuple(weight.shape[2:]), []
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        sides = [side for t in reversed(total) for side in (t // 2, t - t // 2)]
    padding = _spread(0 if isinstance(padding, str) else padding, dims)
    kept = x.detach()
    samples, positions = x.shape[0], math.prod(call.result.shape[2:])

    def factor() -> Tensor:
        given = F.pad(kept, sides) if sides else kept
        k, d, p, s = kernel, dilation, padding, stride
        if dims == 1:
            given, k, d, p, s = given.unsqueeze(2), (1, *k), (1, *d), (0, *p), (1, *s)
        patches = F.unfold(given, k, dilation=d, padding=p, stride=s)
        return patches.transpose(1, 2).unflatten(-1, (groups, -1))

    call.use(
        Matrix,
        weight,
        x,
        call.recorder.view_of(weight).matrix,
        factor=once(factor),
        left=lambda g: g.flatten(2).transpose(1, 2).unflatten(-1, (groups, -1)),
        leads=(samples, positions),
        groups=groups,
    )


def _normalisation(call: _Call) -> None:
    """gain * plain(x) + shift, where plain is the same function without the two."""
    plain = getattr(F, call.name)
    takes = signature(plain)
    # torch's own functions of these names take one argument more, at the end.
    named = {name: v for name, v in call.kwargs.items() if name in takes.parameters}
    rest = takes.bind(*call.args[: len(takes.parameters)], **named).arguments
    x, gain, shift = (rest.pop(name, None) for name in ("input", "weight", "bias"))
    if call.tracked(x) or rest.get("training"):
        return
    align = call.aligned if "normalized_shape" in rest else call.channels
    kept = x.detach()
    if call.tracked(gain):
        call.direct(gain, align(gain), x, lambda: plain(kept, **rest))
    if call.tracked(shift):
        call.direct(shift, align(shift))


def _embedding(call: _Call) -> None:
    index, weight, padding, max_norm = call.arguments(
        0, "input", "weight", "padding_idx", "max_norm"
    )
    scaled = call.argument(5, "scale_grad_by_freq")
    if not call.tracked(weight) or max_norm is not None or scaled:
        return
    if padding is not None and padding < 0:
        padding += weight.shape[0]
    view = call.recorder.view_of(weight)
    use = call.use(Rows, weight, index, view, index=index, padding=padding)
    assert isinstance(use, Rows)
    call.recorder._looked_up[id(call.result)] = (call.result, use)


def _add(call: _Call) -> None:
    if call.kwargs.get("alpha", 1) != 1:
        return
    for tensor in (call.argument(0, "input", "self"), call.argument(1, "other")):
        if call.tracked(tensor):
            call.direct(tensor, call.aligned(tensor))


def _mul(call: _Call) -> None:
    one, other = call.argument(0, "input", "self"), call.argument(1, "other")
    if call.tracked(one) == call.tracked(other) or not isinstance(other, torch.Tensor):
        return
    weight, x = (one, other) if call.tracked(one) else (other, one)
    if not isinstance(x, torch.Tensor):
        return
    kept = x.detach()
    shape = call.result.shape
    call.direct(weight, call.aligned(weight), x, lambda: kept.expand(shape))


def _expand(call: _Call) -> Tensor:
    tensor = call.argument(0, "input", "self")
    # A copy, so that views of it are not taken for views of the parameter.
    call.result = call.result.clone()
    call.direct(tensor, call.aligned(tensor))
    return call.result


def _repeat(call: _Call) -> None:
    tensor = call.argument(0, "input", "self")
    padded = call.aligned(tensor)
    if all(a == b or a == 1 for a, b in zip(padded, call.result.shape, strict=True)):
        call.direct(tensor, padded)


_HANDLERS: dict[str, Callable[[_Call], Tensor | None]] = {
    "linear": _linear,
    "addmm": _addmm,
    "matmul": _matmul,
    "mm": _matmul,
    "__matmul__": _matmul,
    "__rmatmul__": lambda call: None,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "layer_norm": _normalisation,
    "rms_norm": _normalisation,
    "group_norm": _normalisation,
    "batch_norm": _normalisation,
    "embedding": _embedding,
    "add": _add,
    "__add__": _add,
    "__radd__": _add,
    "add_": _add,
    "__iadd__": _add,
    "mul": _mul,
    "__mul__": _mul,
    "__rmul__": _mul,
    "expand": _expand,
    "expand_as": _expand,
    "broadcast_to": _expand,
    "repeat": _repeat,
}


_Step = Callable[[Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _plain_step(bend: Callable[[Tensor], Tensor]) -> _Step:
    return lambda gates, hidden, _: (bend(gates + hidden),)


def _lstm_step(gates: Tensor, hidden: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    i, f, g, o = (gates + hidden).chunk(4, -1)
    cell = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _gru_step(gates: Tensor, hidden: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    r, z, n = gates.chunk(3, -1)
    hr, hz, hn = hidden.chunk(3, -1)
    update = torch.sigmoid(z + hz)
    new = torch.tanh(n + torch.sigmoid(r + hr) * hn)
    return ((1 - update) * new + update * state[0],)


def _unrolled(
    step: _Step,
    x: Tensor,
    initial: Any,
    weights: list[Tensor],
    *how: Any,
) -> tuple[Tensor, ...]:
    """A recurrent layer of torch, step by step, so that every use of its weights is seen.

    The gates are those of the documentation of torch.nn.RNN, LSTM and GRU. ``how``: what torch hands
    over after the weights.
    """
    bias, layers, _dropout, _training, both_ways, batch_first = how
    states = initial if isinstance(initial, (tuple, list)) else (initial,)
    ways = 2 if both_ways else 1
    per = len(weights) // (layers * ways)
    projected = per == (5 if bias else 3)
    last: list[list[Tensor]] = [[] for _ in states]
    steps = 1 if batch_first else 0
    for layer in range(layers):
        sides = []
        for way in range(ways):
            at = layer * ways + way
            own = weights[at * per : (at + 1) * per]
            into, again, *rest = own
            gates = F.linear(x, into, rest[0] if bias else None).unbind(steps)
            state = tuple(s[at] for s in states)
            ends = []
            for one in reversed(gates) if way else gates:
                hidden = F.linear(state[0], again, rest[1] if bias else None)
                state = step(one, hidden, state)
                if projected:
                    state = (F.linear(state[0], own[-1]), *state[1:])
                ends.append(state[0])
            sides.append(torch.stack(ends[::-1] if way else ends, steps))
            for kept, s in zip(last, state, strict=True):
                kept.append(s)
        x = sides[0] if ways == 1 else torch.cat(sides, -1)
    return (x, *(torch.stack(kept) for kept in last))


_RECURRENT = {
    "rnn_tanh": _plain_step(torch.tanh),
    "rnn_relu": _plain_step(torch.relu),
    "lstm": _lstm_step,
    "gru": _gru_step,
}
