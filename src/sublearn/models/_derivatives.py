"""The Jacobian of a torch model's outputs on a batch, entry by entry, without forming it.

J has one row per output number (sample, output) and one column per weight. Three things are asked
of it: J' R for a cotangent R (one backward pass), the squared lengths of its columns, and a few of
its columns. For layers that :mod:`sublearn.models._uses` knows, the gradient of every sample is a
product of a captured activation and a cotangent, so d backward passes over the whole batch are
enough; for anything else the model is differentiated one sample and one output at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn.models._inputs import (
    array_of,
    as_inputs,
    as_outputs,
    call_model,
    leaves,
    parameters_of,
    refuse_random_layers,
    samples_of,
    take,
)
from sublearn.models._passes import Pass, tolerance
from sublearn.models._places import check_apart, check_outputs, output_places, running
from sublearn.models._recorder import Recorder
from sublearn.models._squares import widened
from sublearn.models._uses import Layout, Tensor

Forward = Callable[[Any, Any], Any]

ACTIVATIONS = 1 << 27
"""Bytes of activations that a forward pass may keep, unless ``samples_at_once`` says otherwise."""
LARGE = 1 << 26
"""Bytes of parameters from which freed memory is handed back between passes: fetching it again takes time."""
CHECKED = 7
"""Samples on which the recorded uses are compared with autograd: a prime, which few layers are wide."""

try:
    _C_LIBRARY: Any = ctypes.CDLL(None)
except (OSError, TypeError):  # not on every system
    _C_LIBRARY = None


class Derivatives:
    """The outputs f of a model on a batch, and their derivatives with respect to its parameters.

    ``names`` are the parameters of interest (default: all). ``outputs`` chooses output numbers: None
    takes all of every sample; a whole number draws so many per sample, the same number for each;
    an array (m, k) holds their places in the flattened output of each sample, an array (m, k, n)
    their n indices (position and class, say). ``forward(model, inputs)`` replaces the call of the
    model where inputs or outputs are of a kind of their own. Rows of J go by sample, then output.

    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> found = Derivatives(model, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> found.outputs.shape, found.squared_norms()["weight"].tolist()
    ((2, 1), [[10.0, 20.0]])
    >>> found.gather({"weight": [[False, True]], "bias": [True]}).tolist()
    [[2.0, 1.0], [4.0, 1.0]]
    """

    def __init__(
        self,
        model: Any,
        inputs: Any,
        *,
        names: Sequence[str] | None = None,
        outputs: Any = None,
        forward: Forward | None = None,
        samples_at_once: int | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.inputs = as_inputs(model, inputs)
        self.samples = samples_of(self.inputs)
        self._forward = forward or call_model
        self.parameters = parameters_of(model, names)
        refuse_random_layers(model)
        first = next(iter(self.parameters.values()))
        self.dtype, self.device = first.dtype, first.device
        size = sum(p.numel() * p.element_size() for p in self.parameters.values())
        self._trims = size >= LARGE
        self._generator = torch.Generator().manual_seed(seed)
        self._kept: Pass | None = None
        self._written: list[int] = []  # versions of the weights at that pass
        self._norms: dict[str, NDArray[Any]] | None = None
        self._layouts: list[Layout | None] = []  # of the uses, in their order
        self._single: list[str] = []  # what no recorded use explains: one sample at a time
        self._values = self._look(outputs, samples_at_once, seed)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every parameter, by name."""
        return {name: tuple(p.shape) for name, p in self.parameters.items()}

    @property
    def outputs(self) -> Array:
        """f, (samples, outputs)."""
        return self._values.double().cpu().numpy()

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of all that the model gives for one sample."""
        return self._shape

    @property
    def size(self) -> int:
        """The number d of outputs per sample that are looked at."""
        return int(self._values.shape[1])

    @property
    def followed(self) -> dict[str, str]:
        """How each parameter is differentiated: "batch" (all samples at once) or "sample" (one by one)."""
        return {name: "sample" if name in self._single else "batch" for name in self.parameters}

    # The three questions.

    def scores(self, cotangents: Any) -> dict[str, NDArray[Any]]:
        """J_e . R for every entry e, by parameter; R is (samples, outputs)."""
        given = torch.as_tensor(cotangents, device=self.device)
        # In half precision cotangents of about 1, so that what comes of them does not overflow.
        scale = float(given.abs().max()) or 1.0 if self.dtype.itemsize < 4 else 1.0
        wanted = (given if scale == 1.0 else given / scale).to(self.dtype)
        if wanted.shape != self._values.shape:
            raise BadInputError(
                f"the cotangents must be of shape {tuple(self._values.shape)}, samples by outputs, "
                f"not {tuple(wanted.shape)}."
            )
        total = self._zeros()
        for low, high in self._passes():
            self._run(low, high).add_scores(total, wanted[low:high], self._single)
            self._trim()
        return _scaled(total.items(), scale)

    def squared_norms(self) -> dict[str, NDArray[Any]]:
        """|J_e|^2 for every entry e, by parameter; computed once."""
        if self._norms is not None:
            return self._norms
        total = self._zeros()
        known = [name for name, way in self.followed.items() if way == "batch"]
        if known:
            for low, high in self._passes():
                self._run(low, high).add_squares(total, known)
                self._trim()
        for _, _, gradients in self._one_by_one(self._single):
            for name, values in gradients.items():
                total[name] += widened(values).square()
        self._norms = {name: array_of(values) for name, values in total.items()}
        return self._norms

    def gather(self, masks: Mapping[str, Any]) -> NDArray[Any]:
        """The columns of J at the entries that ``masks`` hold, (samples x outputs, r).

        Columns go by parameter, in the order of the model's, then by entry, row by row.
        """
        chosen: dict[str, Tensor] = {}
        place: dict[str, slice] = {}
        start = 0
        for name in masks:
            if name not in self.parameters:
                raise BadInputError(f"masks name {name!r}, which is not among the parameters here.")
        for name, shape in self.shapes.items():
            mask = np.asarray(masks.get(name, False))
            if name in masks and mask.shape != shape:
                raise BadInputError(
                    f"the mask of {name} must be of shape {shape}, not {mask.shape}."
                )
            index = np.flatnonzero(mask)
            if index.size:
                chosen[name] = torch.from_numpy(index).to(self.device)
                place[name] = slice(start, start + index.size)
                start += index.size
        shape = (self.samples, self.size, start)
        columns = torch.zeros(shape, dtype=self.dtype, device=self.device)
        known = {n: i for n, i in chosen.items() if n not in self._single}
        if known:
            for low, high in self._passes():
                self._run(low, high).add_columns(columns[low:high], known, place)
        for i, k, gradients in self._one_by_one([n for n in chosen if n in self._single]):
            for name, whole in gradients.items():
                columns[i, k, place[name]] = whole.flatten()[chosen[name]]
        return array_of(columns.flatten(0, 1))

    def _trim(self) -> None:
        """Hand freed memory back to the system, where the C library keeps it (glibc).

        Passes over a large model free many blocks of middling size, which would stay with the process
        and come on top of what the next pass needs.
        """
        trim = getattr(_C_LIBRARY, "malloc_trim", None)
        if trim is not None and self._trims:
            trim(0)

    def _zeros(self) -> dict[str, Tensor]:
        """One contiguous tensor of zeros per parameter."""
        return {
            name: widened(torch.zeros(p.shape, dtype=p.dtype, device=p.device))
            for name, p in self.parameters.items()
        }

    # Forward passes.

    def _look(self, outputs: Any, samples_at_once: int | None, seed: int) -> Tensor:
        """Run once: choose outputs and the size of a pass, find how samples lie, refuse the rest."""
        with torch.no_grad():
            one, kept = self._measure()
        self._shape = tuple(one.shape[1:])
        places = output_places(outputs, self._shape, self.samples, seed)
        self._places = None if places is None else torch.from_numpy(places).to(self.device)
        if samples_at_once is None:
            samples_at_once = max(1, min(self.samples, ACTIVATIONS // max(kept, 1)))
        self._at_once = min(self.samples, whole_number("samples_at_once", samples_at_once, least=1))
        parts: list[Tensor] = []
        order: list[str] = []
        allowed: list[set[Layout]] = []
        same = True
        for low, high in self._passes():
            run = self._run(low, high)
            parts.append(run.outputs.detach())
            names = [use.name for use in run.uses]
            candidates = [set(use.candidates(high - low)) for use in run.uses]
            if not low:
                order, allowed = names, candidates
            elif names == order:
                allowed = [a & b for a, b in zip(allowed, candidates, strict=True)]
            else:  # another path through the model: places in the list mean nothing then
                same = False
            self._trim()
        values = torch.cat(parts)
        alone = self._select(one, slice(0, 1))
        check_outputs(array_of(values), array_of(alone), tolerance(self.dtype))
        with torch.no_grad():
            few = array_of(values[: min(CHECKED, self._at_once)])
            given = lambda ids: array_of(self._part(torch.from_numpy(ids), len(ids)))  # noqa: E731
            check_apart(few, given, tolerance(self.dtype))
        self._check(order if same else None, allowed)
        return values

    def _select(self, raw: Tensor, ids: Any) -> Tensor:
        """The outputs that are looked at, (samples, outputs)."""
        if tuple(raw.shape[1:]) != self._shape:
            raise BadInputError(
                "the model's outputs must be of one shape for every batch, not "
                f"{self._shape} and {tuple(raw.shape[1:])}."
            )
        flat = raw.reshape(len(raw), -1)
        return flat if self._places is None else flat.gather(1, self._places[ids])

    def _measure(self) -> tuple[Tensor, int]:
        """The outputs of the first sample, and the bytes of what its operations return.

        Notes the coarsest floating-point type on the way: some models compute parts in float32
        whatever their own type is.
        """
        kept = 0
        coarsest = self.dtype

        class Tally(TorchFunctionMode):
            def __torch_function__(
                self, func: Any, _: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                nonlocal kept, coarsest
                result = func(*args, **(kwargs or {}))
                if isinstance(result, torch.Tensor) and not result._is_view():
                    kept += result.numel() * result.element_size()
                    given = [a.dtype for a in args if isinstance(a, torch.Tensor)]
                    if result.is_floating_point() and coarsest in given:
                        coarsest = max(coarsest, result.dtype, key=lambda d: torch.finfo(d).eps)
                return result

        with running(leaves(self.inputs)), Tally():
            outputs = self._outputs(slice(0, 1), 1)
        self.coarsest = coarsest
        return outputs, kept

    def _outputs(self, ids: Any, count: int) -> Tensor:
        return as_outputs(self._forward(self.model, take(self.inputs, ids)), count)

    def _part(self, ids: Any, count: int) -> Tensor:
        return self._select(self._outputs(ids, count), ids)

    def _passes(self) -> list[tuple[int, int]]:
        step = self._at_once
        return [(low, min(low + step, self.samples)) for low in range(0, self.samples, step)]

    def _run(self, low: int, high: int) -> Pass:
        """A forward pass with its graph, kept if it covers all samples and no weight is written to.

        Autograd refuses a graph whose weights were written to, be it with the same numbers.
        """
        everything = dict(self.model.named_parameters())
        written = [p._version for p in everything.values()]
        if self._kept is not None and (low, high, written) == (0, self.samples, self._written):
            return self._kept
        flags = {name: p.requires_grad for name, p in everything.items()}
        recorder = Recorder(self.parameters)
        try:
            for name, p in everything.items():
                p.requires_grad_(name in self.parameters)
            # The places of the parameters in the graph, which outlast the flags set back below.
            edges = {name: get_gradient_edge(p) for name, p in self.parameters.items()}
            with torch.enable_grad(), recorder:
                values = self._part(slice(low, high), high - low)
        finally:
            for name, p in everything.items():
                p.requires_grad_(flags[name])
        recorder.finish()
        made = Pass(low, high, values, recorder.uses, recorder.unknown, self.parameters, edges)
        self._lay_out(made)
        if high - low == self.samples:
            self._kept, self._written = made, written
        return made

    def close(self) -> None:
        """Let go of the activations that are kept between questions."""
        self._kept = None

    def _lay_out(self, run: Pass) -> None:
        """Tell every use where its samples lie, as far as that is known."""
        for i, use in enumerate(run.uses):
            use.samples = run.samples
            use.layout = self._layouts[i] if run.samples > 1 and i < len(self._layouts) else None

    # Which parameters the recorded uses explain.

    def _check(self, order: list[str] | None, allowed: list[set[Layout]]) -> None:
        """Find the layout of every use, and compare J'R from the uses with autograd's.

        R is random on half of some samples, then on the other half: the cotangents of the samples
        without any must vanish, which tells how the samples lie. An operation that was missed shows as
        a difference, and its parameter is then differentiated without the uses. ``order`` holds the
        names of the uses where all passes have the same, ``allowed`` the layouts that fit all of them.
        """
        count = min(CHECKED, self._at_once)
        run = self._run(0, count)
        first = torch.zeros(count, dtype=torch.bool)
        first[torch.randperm(count, generator=self._generator)[: (count + 1) // 2]] = True
        R = torch.randn(tuple(run.outputs.shape), generator=self._generator, dtype=torch.float64)
        R = R.to(run.outputs)
        mine = first.unsqueeze(1).to(R)
        cotangents, gradients = run.cotangents(R * mine, list(self.parameters))
        # Places within a parameter are counted as it lies in memory.
        single = run.unknown | {n for n, p in self.parameters.items() if not p.is_contiguous()}
        if self._at_once > 1:
            others, _ = run.cotangents(R * (1 - mine))
            names = [use.name for use in run.uses]
            within, without = first.nonzero()[:, 0], (~first).nonzero()[:, 0]
            if names == order:
                for i, use in enumerate(run.uses):
                    tests = [(cotangents[i], without), (others[i], within)]
                    layouts = [
                        layout
                        for layout in use.candidates(count)
                        if layout in allowed[i]
                        and not any(
                            G is not None
                            and bool(
                                use.front(use.canonical(G), layout).index_select(0, zero).any()
                            )
                            for G, zero in tests
                        )
                    ]
                    self._layouts.append(layouts[0] if layouts else None)
                    if not layouts:
                        single.add(use.name)
            else:
                single = set(self.parameters)
        single |= run.unexplained(cotangents, gradients, skip=single)
        self._single = [n for n in self.parameters if n in single]
        if self._kept is not None:
            self._lay_out(self._kept)

    def _one_by_one(self, names: Sequence[str]) -> Iterator[tuple[int, int, dict[str, Tensor]]]:
        """(sample, output, gradients by name) of every output: one backward pass for each."""
        for i in range(self.samples) if names else ():
            run = self._run(i, i + 1)
            for k in range(self.size):
                by_name = run.of_output(k, names, only=set())[1]
                yield i, k, {name: g for name, g in by_name.items() if g is not None}


def _scaled(values: Iterable[tuple[str, Tensor]], scale: float) -> dict[str, NDArray[Any]]:
    """As arrays, times ``scale``; where that is 1, in the memory that they have."""
    arrays = {name: array_of(value) for name, value in values}
    return arrays if scale == 1.0 else {name: value * scale for name, value in arrays.items()}
