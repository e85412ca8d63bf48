"""Small models of every kind of layer, and their dense Jacobian by a second method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import nn


class Transformer(nn.Module):
    """Embeddings of tokens and positions, a class token, attention, a tied head."""

    def __init__(self, batch_first: bool = True, pooled: bool = True) -> None:
        super().__init__()
        self.batch_first, self.pooled = batch_first, pooled
        self.tokens = nn.Embedding(11, 8, padding_idx=0)
        self.places = nn.Embedding(5, 8)
        self.first = nn.Parameter(torch.randn(1, 1, 8))
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)
        self.second = nn.RMSNorm(8)
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.gain = nn.Parameter(torch.full((8,), 1.3))
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        if self.pooled:
            x = torch.cat([self.first.expand(len(ids), -1, -1), x], 1)
        h = self.norm(x)
        h = h if self.batch_first else h.transpose(0, 1)
        h = self.attention(h, h, h, need_weights=False)[0]
        x = x + (h if self.batch_first else h.transpose(0, 1))
        x = x + self.inner(self.second(x)) * self.gain
        return self.head(x.mean(1) if self.pooled else x)


class Attention(nn.Module):
    """scaled_dot_product_attention by hand, positions added as a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(6, 18)
        self.places = nn.Parameter(torch.randn(1, 4, 6))
        self.out = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x + self.places).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True)).mean(1)


class Recurrent(nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.cells = getattr(nn, kind)(3, 4, batch_first=True, **options)
        width = options.get("proj_size", 4) * (2 if options.get("bidirectional") else 1)
        self.out = nn.Linear(width, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.cells(x)[0][:, -1])


class Unrolled(nn.Module):
    """The same linear layer at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(4, 4)
        self.into = nn.Linear(3, 4, bias=False)
        self.out = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        h = x.new_zeros(len(x), 4)
        for t in range(x.shape[1]):
            h = torch.tanh(self.again(h) + self.into(x[:, t]))
        return self.out(h)


class Matrices(nn.Module):
    """Products written out: from both sides, of views, tied in part, a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.randn(4, 2))
        self.u = nn.Parameter(torch.randn(2, 2))
        self.left = nn.Parameter(torch.randn(3, 4))
        self.scale = nn.Parameter(torch.randn(()))
        self.bias = nn.Parameter(torch.randn(2))

    def forward(self, x: Any) -> Any:
        y = torch.tanh(x @ self.v) @ self.u.T[:, :1] * self.scale + x[:, :2] @ self.u
        z = self.left @ x.unsqueeze(-1)
        return torch.addmm(self.bias, y, self.u) + z.square().sum((1, 2)).unsqueeze(1)


class Einsum(nn.Module):
    """An operation that is not followed, between two that are."""

    def __init__(self) -> None:
        super().__init__()
        self.n = nn.Parameter(torch.randn(4))
        self.w = nn.Parameter(torch.randn(4, 3))
        self.out = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.out(torch.tanh(torch.einsum("bi,ij->bj", x * self.n, self.w)))


class Routed(nn.Module):
    """Samples that go to one of two experts: they lie in no fixed layout."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Linear(4, 3), nn.Linear(4, 3)
        self.out = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        up = x[:, 0] > 0
        y = x.new_zeros(len(x), 3)
        y[up] = self.high(x[up])
        y[~up] = self.low(x[~up])
        return self.out(torch.tanh(y))


def _images() -> Any:
    return torch.randn(5, 2, 6, 6, dtype=torch.float64)


def _series() -> Any:
    return torch.randn(6, 5, 3, dtype=torch.float64)


def _vectors() -> Any:
    return torch.randn(7, 4, dtype=torch.float64)


def _tokens() -> Any:
    return torch.randint(0, 11, (6, 5))


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), _vectors),
    "conv2d": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.GroupNorm(2, 4),
            nn.Conv2d(4, 4, 3, stride=2, groups=2, padding=1),
            nn.BatchNorm2d(4),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(36, 3),
        ),
        _images,
    ),
    "conv1d": (
        lambda: nn.Sequential(
            nn.Conv1d(5, 4, 2, dilation=2, padding="same"),
            nn.Tanh(),
            nn.Conv1d(4, 3, 2, groups=1),
            nn.Flatten(),
            nn.Linear(6, 2),
        ),
        _series,
    ),
    "depthwise": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, (3, 2), groups=2, padding="same"),
            nn.GELU(),
            nn.Conv2d(4, 2, 1),
            nn.Flatten(),
            nn.Linear(72, 2),
        ),
        _images,
    ),
    "transformer": (Transformer, _tokens),
    "transformer, samples second": (lambda: Transformer(batch_first=False), _tokens),
    "language": (lambda: Transformer(pooled=False), _tokens),
    "encoder": (
        lambda: nn.Sequential(
            nn.Linear(3, 8),
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True),
            nn.Flatten(),
            nn.Linear(40, 3),
        ),
        _series,
    ),
    "attention": (Attention, lambda: torch.randn(6, 4, 6, dtype=torch.float64)),
    "rnn": (lambda: Recurrent("RNN", num_layers=2), _series),
    "rnn relu": (lambda: Recurrent("RNN", nonlinearity="relu", bias=False), _series),
    "lstm": (lambda: Recurrent("LSTM", bidirectional=True), _series),
    "lstm projected": (lambda: Recurrent("LSTM", proj_size=3), _series),
    "gru": (lambda: Recurrent("GRU", num_layers=2), _series),
    "unrolled": (Unrolled, _series),
    "matrices": (Matrices, _vectors),
    "einsum": (Einsum, _vectors),
    "routed": (Routed, _vectors),
}
KINDS = list(MODELS)


def make(kind: str) -> tuple[Any, Any]:
    """A model in float64 and evaluation mode, and a batch for it."""
    torch.manual_seed(0)
    build, draw = MODELS[kind]
    return build().double().eval(), draw()


def dense_jacobian(model: Any, inputs: Any) -> dict[str, NDArray[np.float64]]:
    """By vmap(jacrev) where torch.func knows the operations, else one backward pass per output."""
    from torch.func import functional_call, jacrev, vmap

    own = dict(model.named_parameters())

    def outputs(params: Any, sample: Any) -> Any:
        return functional_call(model, params, (sample.unsqueeze(0),)).reshape(-1)

    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            found = vmap(jacrev(outputs), in_dims=(None, 0))(
                {n: p.detach() for n, p in own.items()}, inputs
            )
        return {n: g.reshape(g.shape[0] * g.shape[1], -1).numpy() for n, g in found.items()}
    except RuntimeError:
        rows = [
            torch.autograd.grad(o, list(own.values()), retain_graph=True, materialize_grads=True)
            for o in model(inputs).reshape(-1)
        ]
        return {
            name: torch.stack([row[i].reshape(-1) for row in rows]).numpy()
            for i, name in enumerate(own)
        }
