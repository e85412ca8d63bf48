"""To and from what others use: PEFT's masks, gradient flags, and the networks of this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from sublearn._arrays import Array, Mask
from sublearn._errors import BadInputError, one_of, whole_number
from sublearn.models._masks import as_masks
from sublearn.models._structure import layer_name
from sublearn.models._uses import Tensor
from sublearn.networks import RNN, FeedForward, LinearRNN, Network, links, walk

_MASK = "exists_"
_MODULES = {
    torch.nn.Identity: "linear",
    torch.nn.ReLU: "relu",
    torch.nn.Tanh: "tanh",
    torch.nn.Sigmoid: "sigmoid",
}


def set_flags(model: Any, what: Any) -> None:
    """Set ``requires_grad`` to say which parameters may change: whole ones only.

    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> set_flags(model, ["bias"])
    >>> model.weight.requires_grad, model.bias.requires_grad
    (False, True)
    """
    masks = as_masks(model, what)
    for name, mask in masks.items():
        if not mask.all():
            raise BadInputError(
                f"a flag frees all or nothing of a parameter, and {int(mask.sum())} of {mask.size} of "
                f"{name} may change: attach() trains single entries."
            )
    for name, p in model.named_parameters():
        if p.is_floating_point():
            p.requires_grad_(name in masks)


def shira_mask_fn(model: Any, what: Any) -> Callable[..., Tensor]:
    """A ``mask_fn`` for PEFT's SHiRA that hands every layer of ``model`` its mask.

    SHiRA trains exactly r (inputs + outputs) weights of each layer that it adapts, so a mask must hold
    as many there. Set ``config.mask_fn`` to it, and ``target_modules`` to :func:`shira_layers`.
    """
    masks = as_masks(model, what)
    known: dict[int, tuple[str, Mask]] = {
        id(p): (name, masks[name]) for name, p in model.named_parameters() if name in masks
    }

    def mask_fn(base_layer: Any, r: int, **_: Any) -> Tensor:
        weight = base_layer.weight
        if id(weight) not in known:
            raise BadInputError(
                f"SHiRA asks for a mask of a layer of shape {tuple(weight.shape)} in which nothing may "
                "change: set target_modules to the layers that the choice holds."
            )
        name, mask = known[id(weight)]
        wanted = r * (mask.shape[0] + mask.shape[1])
        if int(mask.sum()) != wanted:
            raise BadInputError(
                f"SHiRA with r = {r} trains {wanted} weights of {name}, and the mask holds "
                f"{int(mask.sum())}: choose as many."
            )
        return torch.from_numpy(mask).to(weight.device)

    return mask_fn


def shira_layers(model: Any, what: Any) -> list[str]:
    """Names of the linear layers with a weight that may change, for SHiRA's ``target_modules``."""
    masks = as_masks(model, what)
    kinds = dict(model.named_modules())
    layers = [name.rpartition(".")[0] for name in masks]
    for name, layer in zip(masks, layers, strict=True):
        if not isinstance(kinds.get(layer), torch.nn.Linear) or not name.endswith("weight"):
            raise BadInputError(f"SHiRA adapts weights of linear layers only, and {name} is none.")
    return layers


def masks_from_peft(model: Any, adapter: str = "default") -> dict[str, Mask]:
    """The entries that a SHiRA model trains, as masks by the names of the base model."""
    masks: dict[str, Mask] = {}
    for name, module in model.named_modules():
        indices = getattr(module, "shira_indices", None)
        if not isinstance(indices, Mapping) or adapter not in indices:
            continue
        mask = np.zeros(tuple(module.base_layer.weight.shape), dtype=bool)
        rows, columns = indices[adapter].cpu().numpy().astype(np.int64)
        mask[rows, columns] = True
        masks[f"{layer_name(name + '.base_layer').removeprefix('base_model.model.')}.weight"] = mask
    if not masks:
        raise BadInputError(f"the model has no SHiRA adapter {adapter!r}.")
    return masks


class TorchNetwork(torch.nn.Module):
    """A network of this package as a torch module; parameters carry the names of its weights.

    Inputs are (samples, q), or (samples, T, b) for sequences; outputs (samples, d). Entries of weights that
    do not exist take no part: whatever stands there, outputs do not see it, and its gradient is 0.
    """

    def __init__(self, network: Network, weights: Mapping[str, Any]) -> None:
        super().__init__()
        network.check_weights({n: np.asarray(w, dtype=np.float64) for n, w in weights.items()})
        self.network = network
        for name in network.shapes:
            value = torch.as_tensor(np.array(weights[name], dtype=np.float64))
            self.register_parameter(name, torch.nn.Parameter(value))
        for name, mask in network.connections.items():
            self.register_buffer(_MASK + name, torch.as_tensor(mask.copy()), persistent=False)

    def _weight(self, name: str) -> Any:
        """A weight, 0 where it does not exist."""
        value = getattr(self, name)
        if name not in self.network.connections:
            return value
        return value * getattr(self, _MASK + name)

    def forward(self, inputs: Any) -> Any:
        # Samples are columns in the walk along the chain.
        steps = inputs.unbind(1) if self.network.is_sequence else [inputs]
        ones = torch.ones((1, len(inputs)), dtype=inputs.dtype, device=inputs.device)
        chain = links(self.network, [step.T for step in steps], ones)
        weights = {name: self._weight(name) for name in self.network.shapes}
        return walk(chain, weights, _Tensors()).outputs.T


class _Tensors:
    """The arithmetic of torch tensors, whose slopes are torch's own affair."""

    matmul, add = map(staticmethod, (torch.matmul, torch.add))

    def bend(self, position: int, activation: str, before: Tensor) -> tuple[Tensor, None]:
        return getattr(torch, activation)(before), None

    def times(self, number: float, a: Tensor) -> Tensor:
        return number * a

    def stack(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts))


def as_torch(network: Network, weights: Mapping[str, Any] | None = None, *, seed: int = 0) -> Any:
    """A torch module that computes what ``network`` does, in float64.

    Without ``weights`` they are drawn at random, with variance one over the number of weights in a row.
    Those that do not exist are 0, and stay so in training. Masks and an :class:`Allocation` of the network
    mean the same entries.

    >>> import sublearn as sl
    >>> [name for name, _ in as_torch(sl.FeedForward((2, 3, 1))).named_parameters()]
    ['W1', 'W2']
    """
    if not isinstance(network, Network):
        raise BadInputError(f"network must be a network, not {type(network).__name__}.")
    if weights is None:
        rng = np.random.default_rng(seed)
        weights = {
            name: network.existing(name)
            * rng.standard_normal(shape)
            / np.sqrt(network.in_degrees(name)[:, None])
            for name, shape in network.shapes.items()
        }
    return TorchNetwork(network, weights)


def from_torch(
    model: Any, *, activation: str | None = None, steps: int | None = None
) -> tuple[Network, dict[str, Array]]:
    """The network of this package that a plain torch model is, with its weights.

    Plain are chains of linear layers (a Sequential, or any state dict of two-dimensional weights in
    order, with ``activation`` said), and one torch.nn.RNN layer without bias followed by a linear
    readout without bias, for sequences of ``steps``. The recurrent networks here feed inputs through
    W as well, h = phi(W (h + B x)), so B = W^-1 W_ih: outputs agree, entries of B and W_ih do not.

    >>> import torch
    >>> from torch.nn import Linear, ReLU, Sequential
    >>> net, weights = from_torch(Sequential(Linear(2, 3), ReLU(), Linear(3, 1)))
    >>> net.spec
    'ffn:2-3-1,activation=relu,bias=yes'
    """
    state = model if isinstance(model, Mapping) else model.state_dict()
    given = {name: np.asarray(v.detach().cpu().double().numpy()) for name, v in state.items()}
    if activation is None and isinstance(model, torch.nn.Module):
        activation = _activation_of(model)
    recurrent = [name for name in given if "weight_hh" in name]
    if recurrent:
        return _from_rnn(given, activation or "tanh", steps)
    return _from_mlp(given, one_of("activation", activation or "linear", _MODULES.values()))


def _activation_of(model: Any) -> str | None:
    for module in model.modules():
        if isinstance(module, torch.nn.RNN):
            return str(module.nonlinearity)
        if isinstance(module, (torch.nn.LSTM, torch.nn.GRU)):
            raise BadInputError(
                f"{type(module).__name__} has gates, which no network here has: only torch.nn.RNN is "
                "plain."
            )
    kinds = []
    for module in model.modules():
        if len(list(module.children())) or isinstance(module, (torch.nn.Linear, torch.nn.Flatten)):
            continue
        if type(module) not in _MODULES:
            raise BadInputError(
                f"a plain chain holds linear layers and one of relu, tanh and sigmoid, not "
                f"{type(module).__name__}."
            )
        kinds.append(_MODULES[type(module)])
    if len(set(kinds)) > 1:
        raise BadInputError(
            f"all hidden layers must have one activation, not {sorted(set(kinds))}."
        )
    return kinds[0] if kinds else None


def _from_mlp(given: Mapping[str, Array], activation: str) -> tuple[Network, dict[str, Array]]:
    matrices = [name for name, v in given.items() if v.ndim == 2]
    biases = [name for name, v in given.items() if v.ndim == 1]
    if not matrices or len(matrices) + len(biases) != len(given):
        raise BadInputError("a plain chain has matrices and biases only.")
    if biases and len(biases) != len(matrices):
        raise BadInputError("either all layers of a plain chain have a bias, or none.")
    sizes = [given[matrices[0]].shape[1], *(given[name].shape[0] for name in matrices)]
    for name, size in zip(matrices, sizes, strict=False):
        if given[name].shape[1] != size:
            raise BadInputError(
                f"{name} takes {given[name].shape[1]} numbers and the layer before gives {size}: this "
                "is no plain chain."
            )
    network = FeedForward(sizes, activation=activation, bias=bool(biases))
    weights = {f"W{i}": given[name] for i, name in enumerate(matrices, 1)}
    weights |= {f"b{i}": given[name][:, None] for i, name in enumerate(biases, 1)}
    return network, weights


def _from_rnn(
    given: Mapping[str, Array], activation: str, steps: int | None
) -> tuple[Network, dict[str, Array]]:
    inner = [v for n, v in given.items() if n.endswith("weight_hh_l0")]
    into = [v for n, v in given.items() if n.endswith("weight_ih_l0")]
    outer = [v for n, v in given.items() if v.ndim == 2 and "_hh_" not in n and "_ih_" not in n]
    biases = [n for n, v in given.items() if v.ndim == 1 and v.any()]
    if biases or (len(inner), len(into), len(outer)) != (1, 1, 1) or any("_l1" in n for n in given):
        raise BadInputError(
            "a plain recurrent model has one torch.nn.RNN layer and one linear readout, both without "
            "bias."
        )
    length = whole_number("steps", steps, least=1)
    W, D = inner[0], outer[0]
    if np.linalg.cond(W) > 1e12:
        raise BadInputError(
            "the recurrent weights are singular, so inputs cannot be fed through them: no network here "
            "computes the same."
        )
    weights = {"W": W, "B": np.asarray(np.linalg.solve(W, into[0]), dtype=np.float64), "D": D}
    sizes = {"n": W.shape[0], "b": into[0].shape[1], "d": D.shape[0], "T": length}
    network = LinearRNN(**sizes) if activation == "linear" else RNN(**sizes, activation=activation)
    return network, weights
