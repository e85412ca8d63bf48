"""How a model uses its parameters: which operation, on what input, in which layout.

While :class:`Recorder` is active every torch operation passes through it. Where a parameter takes
part, it keeps what the derivative needs: the other factor, and the edge of the graph at which the
cotangent of the operation's result will arrive. With both, the gradient of every sample follows
without running the model once per sample.

Uses come in three sorts, by the gradient g of one sample, with positions t:

- ``Matrix``: g = sum_t G_t X_t' (linear layers, convolutions, products with a matrix);
- ``Rows``: row i of g is the sum of the G_t whose index is i (embeddings);
- ``Direct``: g = sum_t F_t * G_t entry by entry (biases, gains of normalisations).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F  # noqa: N812
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode

Tensor = Any
"""A torch tensor; ``Any``, so that types do not depend on whether torch is installed."""


@dataclass(frozen=True)
class View:
    """The part of a parameter that a use sees: shape, strides and offset within its storage."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def of(self, whole: Tensor) -> Tensor:
        """The same part of ``whole``, a contiguous tensor of the parameter's shape."""
        return whole.as_strided(self.shape, self.stride, self.offset)

    @property
    def matrix(self) -> View:
        """The same part with its trailing dimensions made one, as a matrix (rows, the rest)."""
        if len(self.shape) == 2:
            return self
        columns = math.prod(self.shape[1:])
        return View((self.shape[0], columns), (self.stride[0], 1), self.offset)

    @property
    def transposed(self) -> View:
        """The transposed matrix."""
        return View(self.shape[::-1], self.stride[::-1], self.offset)

    def positions(self, flat: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Which of the entries ``flat`` of the parameter lie in this part, and where in it."""
        rest = flat - self.offset
        inside = rest >= 0
        where = [torch.zeros_like(flat)] * len(self.shape)
        order = sorted(range(len(self.shape)), key=lambda i: -self.stride[i])
        for i in order:
            if self.shape[i] == 1:
                continue
            where[i] = torch.div(rest, self.stride[i], rounding_mode="floor")
            inside &= where[i] < self.shape[i]
            rest = rest - where[i] * self.stride[i]
        inside &= rest == 0
        return inside, [place[inside] for place in where]


@dataclass(frozen=True)
class Layout:
    """Where the samples lie among the leading dimensions: dimension ``dim``, first or last in it."""

    dim: int
    outer: bool


@dataclass
class Use:
    """One use of one parameter in one forward pass; ``edge`` is where its cotangent arrives."""

    name: str
    view: View
    edge: Any
    shape: tuple[int, ...]  # of the result
    source: Tensor | None  # the other factor's tensor, whose version tells if it was overwritten
    version: int

    def candidates(self, samples: int) -> list[Layout]:
        """Layouts that the shapes allow."""
        dims = self.leading()
        return [
            Layout(dim, outer)
            for dim, size in dims
            if size and size % samples == 0
            for outer in ((True, False) if samples < size else (True,))
        ]

    def leading(self) -> list[tuple[int, int]]:
        """Dimensions of the canonical cotangent that may hold the samples, with their sizes."""
        raise NotImplementedError

    def canonical(self, cotangent: Tensor) -> Tensor:
        """The cotangent with leading dimensions first."""
        raise NotImplementedError

    def by_sample(self, cotangent: Tensor, layout: Layout | None, samples: int) -> Tensor:
        """The canonical cotangent with the samples first (layout None: one sample, all of it)."""
        return front(self.canonical(cotangent), layout, samples)


def front(tensor: Tensor, layout: Layout | None, samples: int) -> Tensor:
    """Move the samples to a first dimension of their own."""
    if layout is None:
        return tensor.unsqueeze(0)
    rest = tensor.shape[layout.dim] // samples
    if layout.outer:
        return tensor.unflatten(layout.dim, (samples, rest)).movedim(layout.dim, 0)
    return tensor.unflatten(layout.dim, (rest, samples)).movedim(layout.dim + 1, 0)


@dataclass
class Matrix(Use):
    """g = sum_t G_t X_t', in ``groups`` blocks of rows."""

    factor: Callable[[], Tensor]  # X: (leading..., groups, columns)
    left: Callable[[Tensor], Tensor]  # G: (leading..., groups, rows / groups)
    leads: tuple[int, ...]
    groups: int = 1

    def leading(self) -> list[tuple[int, int]]:
        return list(enumerate(self.leads))

    def canonical(self, cotangent: Tensor) -> Tensor:
        return self.left(cotangent)

    def right(self, layout: Layout | None, samples: int) -> Tensor:
        """X as (samples, positions, groups, columns)."""
        return front(self.factor(), layout, samples).flatten(1, -3)

    def by_sample(self, cotangent: Tensor, layout: Layout | None, samples: int) -> Tensor:
        return super().by_sample(cotangent, layout, samples).flatten(1, -3)


@dataclass
class Rows(Use):
    """Row i of g is the sum of the cotangents whose index is i."""

    index: Tensor  # (leading...)
    padding: int | None

    def leading(self) -> list[tuple[int, int]]:
        return list(enumerate(self.index.shape))

    def canonical(self, cotangent: Tensor) -> Tensor:
        if self.padding is None:
            return cotangent
        return cotangent * (self.index != self.padding).unsqueeze(-1)

    def by_sample(self, cotangent: Tensor, layout: Layout | None, samples: int) -> Tensor:
        found = super().by_sample(cotangent, layout, samples)
        return found.reshape(samples, -1, found.shape[-1])

    def rows(self, layout: Layout | None, samples: int) -> Tensor:
        """The indices as (samples, positions)."""
        return front(self.index, layout, samples).reshape(samples, -1)


@dataclass
class Direct(Use):
    """g = sum_t F_t * G_t: ``padded`` is the view's shape, aligned with the result's."""

    padded: tuple[int, ...]
    factor: Callable[[], Tensor] | None = None

    def leading(self) -> list[tuple[int, int]]:
        return [(i, n) for i, n in enumerate(self.shape) if self.padded[i] == 1]

    def canonical(self, cotangent: Tensor) -> Tensor:
        return cotangent if self.factor is None else cotangent * self.factor()

    def gradient(self, cotangent: Tensor, layout: Layout | None, samples: int) -> Tensor:
        """The gradient of every sample, (samples, *shape of the view)."""
        found = self.by_sample(cotangent, layout, samples)
        summed = [i + 1 for i, n in enumerate(self.padded) if n == 1 and found.shape[i + 1] != 1]
        if summed:
            found = found.sum(summed, keepdim=True)
        return found.reshape(samples, *self.view.shape)


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, *names: str) -> Any:
    if len(args) > place:
        return args[place]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


def once(make: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """``make``, called when first needed and kept."""
    kept: list[Tensor] = []

    def get() -> Tensor:
        if not kept:
            with torch.no_grad():
                kept.append(make())
        return kept[0]

    return get


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
        found = self.names.get(id(tensor))
        if found is None and tensor._is_view():
            found = self.names.get(id(tensor._base))
        return found

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
        results = [t for t in _tensors((result,)) if t.requires_grad]
        if not results:
            return result
        handler = _HANDLERS.get(name)
        handled: set[int] = set()
        if handler is not None:
            made = handler(_Call(self, args, kwargs, result, versions, handled))
            result = result if made is None else made
        for key, tensor in used.items():
            name = self.name_of(tensor) or ""
            if key not in handled and not all(self.name_of(t) == name for t in results):
                self.unknown.add(name)
        return result


@dataclass
class _Call:
    recorder: Recorder
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Tensor
    versions: dict[int, int]
    handled: set[int]

    def argument(self, place: int, *names: str) -> Any:
        return _argument(self.args, self.kwargs, place, *names)

    def tracked(self, tensor: Any) -> bool:
        return self.recorder.name_of(tensor) is not None

    def _common(self, tensor: Tensor, source: Tensor | None, view: View) -> dict[str, Any]:
        self.handled.add(id(tensor))
        return {
            "name": self.recorder.name_of(tensor),
            "view": view,
            "edge": get_gradient_edge(self.result),
            "shape": tuple(self.result.shape),
            "source": source,
            "version": 0 if source is None else self.versions.get(id(source), source._version),
        }

    def matrix(
        self,
        weight: Tensor,
        source: Tensor,
        view: View,
        factor: Callable[[], Tensor],
        left: Callable[[Tensor], Tensor],
        leads: tuple[int, ...],
        groups: int = 1,
    ) -> None:
        self.recorder.uses.append(
            Matrix(
                **self._common(weight, source, view),
                factor=once(factor),
                left=left,
                leads=leads,
                groups=groups,
            )
        )

    def direct(
        self,
        tensor: Tensor,
        padded: tuple[int, ...],
        source: Tensor | None = None,
        factor: Callable[[], Tensor] | None = None,
    ) -> None:
        view = self.recorder.view_of(tensor)
        self.recorder.uses.append(
            Direct(
                **self._common(tensor, source, view),
                padded=padded,
                factor=None if factor is None else once(factor),
            )
        )

    def aligned(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of ``tensor`` under broadcasting to the result."""
        return (1,) * (self.result.dim() - tensor.dim()) + tuple(tensor.shape)

    def channels(self) -> tuple[int, ...]:
        """A vector along the second dimension of the result."""
        return (1, self.result.shape[1]) + (1,) * (self.result.dim() - 2)


def _times_matrix(call: _Call, x: Tensor, weight: Tensor, view: View) -> None:
    """result = x W' with W as ``view`` says (rows are outputs)."""
    kept = x.detach()
    call.matrix(
        weight,
        x,
        view,
        lambda: kept.unsqueeze(-2),
        lambda g: g.unsqueeze(-2),
        tuple(x.shape[:-1]),
    )


def _linear(call: _Call) -> None:
    x, weight, bias = (call.argument(i, n) for i, n in enumerate(("input", "weight", "bias")))
    if call.tracked(x) or x.dim() < 1:
        return
    if call.tracked(weight):
        _times_matrix(call, x, weight, call.recorder.view_of(weight))
    if call.tracked(bias):
        call.direct(bias, call.aligned(bias))


def _addmm(call: _Call) -> None:
    bias, x, weight = (call.argument(i, n) for i, n in enumerate(("input", "mat1", "mat2")))
    if call.kwargs.get("beta", 1) != 1 or call.kwargs.get("alpha", 1) != 1 or call.tracked(x):
        return
    if call.tracked(weight):
        _times_matrix(call, x, weight, call.recorder.view_of(weight).transposed)
    if call.tracked(bias):
        call.direct(bias, call.aligned(bias))


def _matmul(call: _Call) -> None:
    left, right = call.argument(0, "input", "self"), call.argument(1, "other", "mat2")
    if call.tracked(left) == call.tracked(right):
        return
    if call.tracked(right):
        if right.dim() == 2 and left.dim() >= 2:
            _times_matrix(call, left, right, call.recorder.view_of(right).transposed)
    elif left.dim() == 2 and right.dim() >= 2:
        kept = right.detach().transpose(-1, -2)
        call.matrix(
            left,
            right,
            call.recorder.view_of(left),
            lambda: kept.unsqueeze(-2),
            lambda g: g.transpose(-1, -2).unsqueeze(-2),
            tuple(kept.shape[:-1]),
        )


def _pair(value: Any, dims: int) -> tuple[int, ...]:
    return (int(value),) * dims if isinstance(value, int) else tuple(int(v) for v in value)


def _convolution(call: _Call) -> None:
    x, weight, bias = (call.argument(i, n) for i, n in enumerate(("input", "weight", "bias")))
    dims = weight.dim() - 2
    if call.tracked(x) or x.dim() != dims + 2:
        return
    if call.tracked(bias):
        call.direct(bias, call.channels())
    if not call.tracked(weight) or not weight.is_contiguous():
        return
    stride, dilation = (
        _pair(1 if given is None or given == () else given, dims)
        for given in (call.argument(3, "stride"), call.argument(5, "dilation"))
    )
    padding, groups = call.argument(4, "padding"), call.argument(6, "groups") or 1
    if len(stride) != dims or len(dilation) != dims:
        stride, dilation = (v * dims if len(v) == 1 else v for v in (stride, dilation))
    kernel = tuple(weight.shape[2:])
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        sides = [side for t in reversed(total) for side in (t // 2, t - t // 2)]
        padding = (0,) * dims
    else:
        sides = []
        padding = (0,) * dims if padding in (None, "valid", ()) else _pair(padding, dims)
        padding = padding * dims if len(padding) == 1 else padding
    kept = x.detach()
    samples, positions = x.shape[0], math.prod(call.result.shape[2:])

    def factor() -> Tensor:
        given = F.pad(kept, sides) if sides else kept
        k, d, p, s = kernel, dilation, padding, stride
        if dims == 1:
            given, k, d, p, s = given.unsqueeze(2), (1, *k), (1, *d), (0, *p), (1, *s)
        patches = F.unfold(given, k, dilation=d, padding=p, stride=s)
        return patches.transpose(1, 2).unflatten(-1, (groups, -1))

    call.matrix(
        weight,
        x,
        call.recorder.view_of(weight).matrix,
        factor,
        lambda g: g.flatten(2).transpose(1, 2).unflatten(-1, (groups, -1)),
        (samples, positions),
        groups,
    )


def _layer_norm(call: _Call) -> None:
    x, shape, weight, bias = (
        call.argument(i, n) for i, n in enumerate(("input", "normalized_shape", "weight", "bias"))
    )
    eps = call.argument(4, "eps")
    if call.tracked(x):
        return
    kept = x.detach()
    if call.tracked(weight):
        call.direct(
            weight,
            call.aligned(weight),
            x,
            lambda: F.layer_norm(kept, shape, None, None, 1e-5 if eps is None else eps),
        )
    if call.tracked(bias):
        call.direct(bias, call.aligned(bias))


def _rms_norm(call: _Call) -> None:
    x, shape, weight, eps = (
        call.argument(i, n) for i, n in enumerate(("input", "normalized_shape", "weight", "eps"))
    )
    if call.tracked(weight) and not call.tracked(x):
        kept = x.detach()
        call.direct(weight, call.aligned(weight), x, lambda: F.rms_norm(kept, shape, None, eps))


def _group_norm(call: _Call) -> None:
    x, groups, weight, bias, eps = (
        call.argument(i, n) for i, n in enumerate(("input", "num_groups", "weight", "bias", "eps"))
    )
    if call.tracked(x):
        return
    kept = x.detach()
    if call.tracked(weight):
        call.direct(
            weight,
            call.channels(),
            x,
            lambda: F.group_norm(kept, groups, None, None, 1e-5 if eps is None else eps),
        )
    if call.tracked(bias):
        call.direct(bias, call.channels())


def _batch_norm(call: _Call) -> None:
    x, mean, var, weight, bias, training = (
        call.argument(i, n)
        for i, n in enumerate(
            ("input", "running_mean", "running_var", "weight", "bias", "training")
        )
    )
    eps = call.argument(7, "eps")
    if training or call.tracked(x):
        return
    kept = x.detach()
    if call.tracked(weight):
        call.direct(
            weight,
            call.channels(),
            x,
            lambda: F.batch_norm(kept, mean, var, eps=1e-5 if eps is None else eps),
        )
    if call.tracked(bias):
        call.direct(bias, call.channels())


def _embedding(call: _Call) -> None:
    index, weight = call.argument(0, "input"), call.argument(1, "weight")
    padding, max_norm = call.argument(2, "padding_idx"), call.argument(3, "max_norm")
    scaled = call.argument(5, "scale_grad_by_freq")
    if not call.tracked(weight) or max_norm is not None or scaled:
        return
    if padding is not None and padding < 0:
        padding += weight.shape[0]
    view = call.recorder.view_of(weight)
    use = Rows(**call._common(weight, index, view), index=index, padding=padding)
    call.recorder.uses.append(use)
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
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
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


def _tanh_step(gates: Tensor, hidden: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (torch.tanh(gates + hidden),)


def _relu_step(gates: Tensor, hidden: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (torch.relu(gates + hidden),)


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
    step: Callable[[Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]],
    x: Tensor,
    initial: Any,
    weights: list[Tensor],
    bias: bool,
    layers: int,
    _dropout: float,
    _training: bool,
    both_ways: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """A recurrent layer of torch, step by step, so that every use of its weights is seen.

    The gates are those of the documentation of torch.nn.RNN, LSTM and GRU.
    """
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
            found = []
            for one in reversed(gates) if way else gates:
                hidden = F.linear(state[0], again, rest[1] if bias else None)
                state = step(one, hidden, state)
                if projected:
                    state = (F.linear(state[0], own[-1]), *state[1:])
                found.append(state[0])
            sides.append(torch.stack(found[::-1] if way else found, steps))
            for kept, s in zip(last, state, strict=True):
                kept.append(s)
        x = sides[0] if ways == 1 else torch.cat(sides, -1)
    return (x, *(torch.stack(kept) for kept in last))


_RECURRENT = {
    "rnn_tanh": _tanh_step,
    "rnn_relu": _relu_step,
    "lstm": _lstm_step,
    "gru": _gru_step,
}
