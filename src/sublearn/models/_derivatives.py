"""The Jacobian of a torch model's outputs on a batch, entry by entry, without forming it.

J has one row per output number (sample, output) and one column per weight. Three things are asked
of it: J' R for a cotangent R (one backward pass), the squared lengths of its columns, and a few of
its columns. For layers that :mod:`sublearn.models._uses` knows, the gradient of every sample is a
product of a captured activation and a cotangent, so d backward passes over the whole batch are
enough; for anything else the model is differentiated sample by sample.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn.models._uses import Direct, Layout, Matrix, Recorder, Rows, Tensor, Use, View

Forward = Callable[[Any, Any], Any]

MOST_OUTPUTS = 4096
"""Outputs per sample above which some must be chosen: every one costs a backward pass."""
BLOCK = 1 << 18
"""Numbers that are squared at once: a block that stays in the processor's cache."""
PIECE = 1 << 24
"""Numbers of a temporary that no cache need hold."""
KEPT_COTANGENTS = 1 << 28
"""Bytes of cotangents that are kept for columns asked for later, which saves their backward passes."""
ACTIVATIONS = 1 << 27
"""Bytes of activations that a forward pass may keep, unless ``samples_at_once`` says otherwise."""


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
        self.samples = count_samples(self.inputs)
        self._forward = forward or call_model
        self.parameters = _parameters(model, names)
        refuse_random_layers(model)
        first = next(iter(self.parameters.values()))
        self.dtype, self.device = first.dtype, first.device
        self._generator = torch.Generator().manual_seed(seed)
        self._kept: _Pass | None = None
        self._layouts: dict[int, Layout | None] = {}
        self._single: list[str] = []  # followed, but samples lie in no known layout
        self._unknown: list[str] = []  # used by operations that are not followed
        self._values = self._look(outputs, samples_at_once)
        self._check()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every parameter, by name."""
        return {name: tuple(p.shape) for name, p in self.parameters.items()}

    @property
    def outputs(self) -> Array:
        """f, (samples, outputs)."""
        return self._values.double().cpu().numpy()

    @property
    def size(self) -> int:
        """The number d of outputs per sample that are looked at."""
        return int(self._values.shape[1])

    @property
    def followed(self) -> dict[str, str]:
        """How each parameter is differentiated: "batch", "sample" (one by one) or "jacrev"."""
        ways = dict.fromkeys(self.parameters, "batch")
        ways.update(dict.fromkeys(self._single, "sample"))
        ways.update(dict.fromkeys(self._unknown, "jacrev"))
        return ways

    # The three questions.

    def scores(self, cotangents: Any) -> dict[str, NDArray[Any]]:
        """J_e . R for every entry e, by parameter; R is (samples, outputs)."""
        return {name: _array(found) for name, found in self.each_score(cotangents)}

    def each_score(self, cotangents: Any) -> Iterator[tuple[str, Tensor]]:
        """The same as tensors, parameter by parameter, so that not all need be held at once."""
        wanted = torch.as_tensor(cotangents, dtype=self.dtype, device=self.device)
        if wanted.shape != self._values.shape:
            raise BadInputError(
                f"the cotangents must be of shape {tuple(self._values.shape)}, samples by outputs, "
                f"not {tuple(wanted.shape)}."
            )
        others = [*self._single, *self._unknown]
        passes = self._passes()
        if len(passes) == 1:
            yield from self._run(*passes[0]).scores(wanted, others)
            return
        total = self._zeros()
        for low, high in passes:
            for name, found in self._run(low, high).scores(wanted[low:high], others):
                total[name] += found
            _trim()
        yield from total.items()

    def squared_norms(self) -> dict[str, NDArray[Any]]:
        """|J_e|^2 for every entry e, by parameter."""
        total = self._zeros()
        known = [n for n in self.parameters if n not in {*self._single, *self._unknown}]
        if known:
            for low, high in self._passes():
                self._run(low, high).add_squares(total, known, self._layouts)
                _trim()
        for i in range(self.samples) if self._single else ():
            self._run(i, i + 1).add_squares(total, self._single, None)
        for _, _, block in self._dense():
            for name, found in block.items():
                total[name] += found.square().flatten(0, 1).sum(0)
        return {name: _array(found) for name, found in total.items()}

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
        known = {n: i for n, i in chosen.items() if n not in {*self._single, *self._unknown}}
        if known:
            for low, high in self._passes():
                self._run(low, high).add_columns(columns[low:high], known, place, self._layouts)
        single = {n: i for n, i in chosen.items() if n in self._single}
        for i in range(self.samples) if single else ():
            self._run(i, i + 1).add_columns(columns[i : i + 1], single, place, None)
        for low, part, block in self._dense([n for n in chosen if n in self._unknown]):
            for name, found in block.items():
                rows = found.flatten(2)[..., chosen[name]]
                columns[low : low + len(rows), part, place[name]] = rows
        return _array(columns.flatten(0, 1))

    def _zeros(self) -> dict[str, Tensor]:
        """One contiguous tensor of zeros per parameter."""
        return {
            name: torch.zeros(p.shape, dtype=p.dtype, device=p.device)
            for name, p in self.parameters.items()
        }

    # Forward passes.

    def _select(self, raw: Tensor, low: int, high: int) -> Tensor:
        flat = raw.reshape(high - low, -1)
        return flat if self._places is None else flat.gather(1, self._places[low:high])

    def _look(self, outputs: Any, samples_at_once: int | None) -> Tensor:
        """Run once without derivatives: choose outputs, the size of a pass, and refuse the rest."""
        with torch.no_grad():
            one, kept = self._measure()
        shape = tuple(one.shape[1:])
        self._places = output_places(outputs, shape, self.samples, self._generator, self.device)
        if samples_at_once is None:
            samples_at_once = max(1, min(self.samples, ACTIVATIONS // max(kept, 1)))
        self._at_once = min(self.samples, whole_number("samples_at_once", samples_at_once, least=1))
        with torch.no_grad():
            parts = []
            for low, high in self._passes():
                raw = self._outputs(low, high)
                if tuple(raw.shape[1:]) != shape:
                    raise BadInputError(
                        "the model's outputs must be of one shape for every batch, not "
                        f"{shape} and {tuple(raw.shape[1:])}."
                    )
                parts.append(self._select(raw, low, high))
            found = torch.cat(parts)
            alone = self._select(one, 0, 1)
        if not bool(torch.isfinite(found).all()):
            raise BadInputError(
                "the model's outputs on these inputs hold NaN or infinity: check its weights and "
                "the inputs."
            )
        scale = float(found.abs().max())
        if float((alone - found[:1]).abs().max()) > _tolerance(self.dtype) * max(scale, 1e-30):
            raise BadInputError(
                "the model's output for a sample changes with the other samples of the batch, so "
                "no sample has a derivative of its own: call model.eval() before."
            )
        return found

    def _measure(self) -> tuple[Tensor, int]:
        """The outputs of the first sample, and the bytes of what its operations return.

        Notes the coarsest floating-point type on the way: some models compute parts in float32
        whatever their own type is.
        """
        kept = 0
        coarsest = self.dtype

        class Count(TorchFunctionMode):
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

        try:
            with Count():
                found = self._outputs(0, 1)
        except BadInputError:
            raise
        except Exception as problem:
            shapes = [tuple(t.shape) for t in _leaves(self.inputs) if isinstance(t, torch.Tensor)]
            first = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise BadInputError(
                f"the model could not be run on inputs of shape {', '.join(map(str, shapes))}: {first}"
            ) from problem
        self.coarsest = coarsest
        return found, kept

    def _outputs(self, low: int, high: int) -> Tensor:
        return as_outputs(
            self._forward(self.model, take(self.inputs, low, high, self.samples)), high - low
        )

    def _passes(self) -> list[tuple[int, int]]:
        step = self._at_once
        return [(low, min(low + step, self.samples)) for low in range(0, self.samples, step)]

    def _run(self, low: int, high: int) -> _Pass:
        """A forward pass with its graph, kept if it covers all samples."""
        if self._kept is not None and (self._kept.low, self._kept.high) == (low, high):
            return self._kept
        flags = {name: p.requires_grad for name, p in self.model.named_parameters()}
        recorder = Recorder(self.parameters)
        try:
            for name, p in self.model.named_parameters():
                p.requires_grad_(name in self.parameters)
            # The places of the parameters in the graph, which outlast the flags set back below.
            leaves = {name: get_gradient_edge(p) for name, p in self.parameters.items()}
            with torch.enable_grad(), recorder:
                raw = self._outputs(low, high)
                found = self._select(raw, low, high)
        finally:
            for name, p in self.model.named_parameters():
                p.requires_grad_(flags[name])
        recorder.finish()
        made = _Pass(low, high, found, recorder.uses, recorder.unknown, self.parameters, leaves)
        if high - low == self.samples:
            self._kept = made
        return made

    def close(self) -> None:
        """Let go of the activations that are kept between questions."""
        self._kept = None

    # Which parameters the recorded uses explain.

    def _check(self) -> None:
        """Find the layout of every use, and compare J'R from the uses with autograd's.

        R is random on a random half of the samples and zero on the others: the cotangents of the
        others must vanish, which tells how the samples lie; an operation that was missed shows as a
        difference, and its parameter is then differentiated without the uses.
        """
        order: list[str] | None = None
        unknown: set[str] = set()
        single: set[str] = set()
        for low, high in self._passes():
            names = self._check_pass(low, high, order, unknown, single)
            _trim()
            if order is not None and names != order:
                # Another path through the model: places in the list mean nothing then.
                single |= set(self.parameters)
                break
            order = names
        self._unknown = [n for n in self.parameters if n in unknown]
        self._single = [n for n in self.parameters if n in single - unknown]
        self._check_single()

    def _check_pass(
        self,
        low: int,
        high: int,
        order: list[str] | None,
        unknown: set[str],
        single: set[str],
    ) -> list[str]:
        """The comparison on one pass; adds to ``unknown`` and ``single``, returns the uses' names."""
        run = self._run(low, high)
        samples = high - low
        half = torch.zeros(samples, dtype=torch.bool)
        half[torch.randperm(samples, generator=self._generator)[: (samples + 1) // 2]] = True
        R = self._random(run) * half.unsqueeze(1).to(self._values)
        names = [use.name for use in run.uses]
        if order is not None and names != order:
            return names
        cotangents, gradients = run.cotangents(R, list(self.parameters))
        # Places within a parameter are counted as it lies in memory.
        unknown |= run.unknown | {n for n, p in self.parameters.items() if not p.is_contiguous()}
        for i, use in enumerate(run.uses):
            allowed: list[Layout | None] = [None]
            if self._at_once > 1:
                allowed = [*use.candidates(samples)]
            if order is not None:
                allowed = [layout for layout in allowed if layout == self._layouts[i]]
            for layout in allowed:
                G = cotangents[i]
                if G is None or not bool(use.by_sample(G, layout, samples)[~half].any()):
                    self._layouts[i] = layout
                    break
            else:
                self._layouts[i] = None
                single.add(use.name)
        unknown |= run.unexplained(cotangents, gradients, skip=unknown | single)
        return names

    def _random(self, run: _Pass) -> Tensor:
        R = torch.randn(tuple(run.outputs.shape), generator=self._generator, dtype=torch.float64)
        return R.to(self._values)

    def _check_single(self) -> None:
        """The same comparison for what is differentiated one sample at a time."""
        if not self._single:
            return
        run = self._run(0, 1)
        cotangents, gradients = run.cotangents(self._random(run), self._single)
        others = set(self.parameters) - set(self._single)
        wrong = run.unknown | run.unexplained(cotangents, gradients, skip=others)
        moved = [name for name in self._single if name in wrong]
        self._single = [name for name in self._single if name not in wrong]
        self._unknown += moved

    # What no use explains: the derivative of one sample at a time.

    def _dense(
        self, names: Sequence[str] | None = None
    ) -> Iterator[tuple[int, slice, dict[str, Tensor]]]:
        """Blocks (first sample, outputs, gradients (samples, outputs, *shape)) by torch.func.jacrev."""
        names = self._unknown if names is None else names
        if not names:
            return
        from torch.func import functional_call, jacrev, vmap

        chosen = {name: self.parameters[name].detach() for name in names}
        numbers = sum(p.numel() for p in chosen.values())
        outputs = max(1, min(self.size, PIECE // numbers))
        together = max(1, min(self.samples, PIECE // (numbers * outputs)))

        def values(given: Any, sample: Any, places: Any) -> Tensor:
            inputs = lift(sample)
            raw = as_outputs(
                self._forward(_Substituted(self.model, given, functional_call), inputs), 1
            )
            flat = raw.reshape(-1)
            return flat.gather(0, places)

        every = torch.arange(self.size, device=self.device).expand(self.samples, self.size)
        places = every if self._places is None else self._places
        for low in range(0, self.samples, together):
            high = min(low + together, self.samples)
            for first in range(0, self.size, outputs):
                part = slice(first, min(first + outputs, self.size))
                where = places[low:high, part]
                batch = take(self.inputs, low, high, self.samples)
                try:
                    dims = batch_dims(batch, high - low)
                    found = vmap(jacrev(values), in_dims=(None, dims, 0))(chosen, batch, where)
                except RuntimeError:
                    found = self._one_by_one(names, low, high, where)
                yield low, part, {name: g.detach() for name, g in found.items()}

    def _one_by_one(
        self, names: Sequence[str], low: int, high: int, places: Tensor
    ) -> dict[str, Tensor]:
        """Plain backward passes, for operations that torch.func does not know."""
        found: dict[str, list[Tensor]] = {name: [] for name in names}
        for i in range(low, high):
            run = self._run(i, i + 1)
            raw = run.outputs
            every = torch.arange(self.size, device=self.device)
            own = every if self._places is None else self._places[i]
            for place in places[i - low]:
                k = int((own == place).nonzero()[0, 0])
                grads = torch.autograd.grad(
                    raw[0, k],
                    [run.leaves[name] for name in names],
                    retain_graph=True,
                    allow_unused=True,
                )
                for name, g in zip(names, grads, strict=True):
                    found[name].append(torch.zeros_like(self.parameters[name]) if g is None else g)
        shape = (high - low, places.shape[1])
        return {name: torch.stack(g).unflatten(0, shape) for name, g in found.items()}


class _Substituted:
    """The model with some parameters replaced, called like the model."""

    def __init__(self, model: Any, given: Mapping[str, Tensor], call: Any) -> None:
        self._model, self._given, self._call = model, given, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self._model, self._given, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


@dataclass
class _Pass:
    """One forward pass over samples low..high, its recorded uses and its graph."""

    low: int
    high: int
    outputs: Tensor
    uses: list[Use]
    unknown: set[str]
    parameters: dict[str, Tensor]
    leaves: dict[str, Any]
    kept: tuple[set[str], list[list[Tensor | None]]] | None = None

    @property
    def samples(self) -> int:
        return self.high - self.low

    def cotangents(
        self, R: Tensor, names: Sequence[str] = (), only: set[str] | None = None
    ) -> tuple[list[Tensor | None], dict[str, Tensor | None]]:
        """Cotangents of every use for the outputs' cotangent R, and gradients of ``names``."""
        edges: dict[Any, int] = {}
        asked: list[Any] = []
        where: list[int | None] = []
        for use in self.uses:
            if only is not None and use.name not in only:
                where.append(None)
                continue
            key = (use.edge.node, use.edge.output_nr)
            if key not in edges:
                edges[key] = len(asked)
                asked.append(use.edge)
            where.append(edges[key])
        if not self.outputs.requires_grad or not (asked or names):
            return [None] * len(self.uses), dict.fromkeys(names)
        found = torch.autograd.grad(
            self.outputs,
            [*asked, *(self.leaves[name] for name in names)],
            grad_outputs=R,
            retain_graph=True,
            allow_unused=True,
        )
        return [None if i is None else found[i] for i in where], dict(
            zip(names, found[len(asked) :], strict=True)
        )

    def by_name(self) -> dict[str, list[int]]:
        """The uses of every parameter."""
        uses: dict[str, list[int]] = {name: [] for name in self.parameters}
        for i, use in enumerate(self.uses):
            uses[use.name].append(i)
        return uses

    def unexplained(
        self,
        cotangents: list[Tensor | None],
        gradients: Mapping[str, Tensor | None],
        skip: set[str],
    ) -> set[str]:
        """Parameters whose gradient by autograd is not what the recorded uses give."""
        wrong = set()
        for name, total in self.sums(cotangents, skip=skip):
            true = gradients[name]
            true = torch.zeros_like(total) if true is None else true
            scale = max(float(true.abs().max()), float(total.abs().max()))
            if float(total.sub_(true).abs_().max()) > _tolerance(self.outputs.dtype) * scale:
                wrong.add(name)
        return wrong

    def scores(self, R: Tensor, others: Sequence[str]) -> Iterator[tuple[str, Tensor]]:
        cotangents, gradients = self.cotangents(R, others, only=set(self.parameters) - set(others))
        yield from self.sums(cotangents, skip=set(others))
        for name, g in gradients.items():
            yield name, torch.zeros_like(self.parameters[name]) if g is None else g

    def sums(self, cotangents: list[Tensor | None], skip: set[str]) -> Iterator[tuple[str, Tensor]]:
        """Sums of the gradients over samples, parameter by parameter."""
        for name, uses in self.by_name().items():
            if name in skip:
                continue
            total = torch.zeros(
                self.parameters[name].shape, dtype=self.outputs.dtype, device=self.outputs.device
            )
            for i in uses:
                use, G = self.uses[i], cotangents[i]
                if G is None:
                    continue
                part = use.view.of(total)
                if isinstance(use, Matrix):
                    left = use.canonical(G).flatten(0, -3)
                    right = use.factor().flatten(0, -3)
                    if use.groups == 1:
                        _add_product(part, left[:, 0], right[:, 0])
                    else:
                        part += torch.einsum("tgo,tgi->goi", left, right).flatten(0, 1)
                elif isinstance(use, Rows):
                    rows = use.canonical(G)
                    # index_add_ on a strided part would need it to be contiguous in rows: it is.
                    part.index_add_(0, use.index.reshape(-1), rows.reshape(-1, rows.shape[-1]))
                elif isinstance(use, Direct):
                    part += use.gradient(G, None, 1)[0]
            yield name, total

    def each_output(
        self, names: set[str], keep: bool = False
    ) -> Iterator[tuple[int, list[Tensor | None]]]:
        """For output k of every sample: the cotangents of all uses. One backward pass each.

        With ``keep`` they are held for the next time, if they are few.
        """
        if self.kept is not None and names <= self.kept[0]:
            yield from enumerate(self.kept[1])
            return
        outputs = int(self.outputs.shape[1])
        edges = {
            (use.edge.node, use.edge.output_nr): math.prod(use.shape)
            for use in self.uses
            if use.name in names
        }
        size = sum(edges.values()) * outputs * self.outputs.element_size()
        held: list[list[Tensor | None]] | None = [] if keep and size <= KEPT_COTANGENTS else None
        for k in range(outputs):
            # A new one each time: where nothing lies between, the cotangent of a use is R itself.
            R = torch.zeros_like(self.outputs)
            R[:, k] = 1
            found = self.cotangents(R, only=names)[0]
            if held is not None:
                held.append(found)
            yield k, found
        if held is not None:
            self.kept = (names, held)

    # Columns.

    def add_columns(
        self,
        columns: Tensor,
        chosen: Mapping[str, Tensor],
        place: Mapping[str, slice],
        layouts: Mapping[int, Layout | None] | None,
    ) -> None:
        """Fill (samples, outputs, r) with the chosen entries' derivatives."""
        plans = []
        for i, use in enumerate(self.uses):
            if use.name not in chosen:
                continue
            inside, where = use.view.positions(chosen[use.name])
            if bool(inside.any()):
                target = place[use.name].start + inside.nonzero()[:, 0]
                layout = None if layouts is None else layouts[i]
                plans.append((i, _Columns(use, layout, self.samples, where, target)))
        for k, cotangents in self.each_output(set(chosen)):
            for i, plan in plans:
                if (G := cotangents[i]) is not None:
                    columns[:, k].index_add_(1, plan.target, plan.entries(G))

    # Squared lengths.

    def add_squares(
        self,
        total: dict[str, Tensor],
        names: Sequence[str],
        layouts: Mapping[int, Layout | None] | None,
    ) -> None:
        """Add the squares of the samples' gradients, for every output."""
        wanted = set(names)
        plans: list[_Plan] = []
        for name, uses in self.by_name().items():
            if name in wanted and uses:
                plans += _plans(self, name, uses, layouts)
        for _, cotangents in self.each_output(wanted, keep=True):
            for plan in plans:
                plan.add(cotangents, total[plan.name])
        for plan in plans:
            plan.finish(total[plan.name])


def _add_product(part: Tensor, left: Tensor, right: Tensor) -> None:
    """part += left' right, written the way that ``part`` lies in memory."""
    if part.stride(0) < part.stride(1):
        part.T.addmm_(right.T, left)
    else:
        part.addmm_(left.T, right)


def use_sample(use: Use, G: Tensor, layout: Layout | None, samples: int) -> Tensor:
    """The cotangent by sample; of a direct use, the gradient itself."""
    if isinstance(use, Direct):
        return use.gradient(G, layout, samples)
    return use.by_sample(G, layout, samples)


class _Columns:
    """Chosen entries of one use: places ``where`` in its view, ``target`` among the columns."""

    def __init__(
        self, use: Use, layout: Layout | None, samples: int, where: list[Tensor], target: Tensor
    ) -> None:
        self.use, self.layout, self.samples = use, layout, samples
        self.where, self.target = where, target
        self._factor: Tensor | None = None  # the entries' other factor, the same for every output

    def entries(self, cotangent: Tensor) -> Tensor:
        """These entries of every sample's gradient, (samples, r)."""
        G = use_sample(self.use, cotangent, self.layout, self.samples)
        if isinstance(self.use, Direct):
            return G[(slice(None), *self.where)] if self.where else G.reshape(self.samples, 1)
        if isinstance(self.use, Rows):
            return self._of_rows(self.use, G)
        assert isinstance(self.use, Matrix)
        return self._of_matrix(self.use, G)

    def _of_rows(self, use: Rows, G: Tensor) -> Tensor:
        rows, columns = self.where
        index = use.rows(self.layout, self.samples)
        found = G.new_zeros(self.samples, len(rows))
        step = max(1, PIECE // max(1, index.numel()))
        for low in range(0, len(rows), step):
            part = slice(low, low + step)
            hit = index.unsqueeze(-1) == rows[part]
            found[:, part] = (G[..., columns[part]] * hit).sum(1)
        return found

    def _of_matrix(self, use: Matrix, G: Tensor) -> Tensor:
        rows, columns = self.where
        right = use.right(self.layout, self.samples)
        positions, groups, per = G.shape[1], G.shape[2], G.shape[3]
        wide = right.shape[-1]
        size = groups * per * wide
        found = G.new_empty(self.samples, len(rows))
        if len(rows) * 16 > size and positions > 1:
            step = max(1, PIECE // size)
            for low in range(0, self.samples, step):
                part = slice(low, low + step)
                dense = torch.einsum("btgo,btgi->bgoi", G[part], right[part])
                found[part] = dense.flatten(1)[:, rows * wide + columns]
            return found
        left, right = G.flatten(2), right.flatten(2)
        across = torch.div(rows, per, rounding_mode="floor") * wide + columns
        step = max(1, PIECE // max(1, self.samples * positions))
        if len(rows) <= step:
            if self._factor is None:
                self._factor = right.index_select(2, across)
            return left.index_select(2, rows).mul_(self._factor).sum(1)
        for low in range(0, len(rows), step):
            part = slice(low, low + step)
            product = left.index_select(2, rows[part]).mul_(right.index_select(2, across[part]))
            found[:, part] = product.sum(1)
        return found


class _Plan:
    """How the squared gradients of one group of uses of a parameter are added up."""

    def __init__(
        self,
        run: _Pass,
        name: str,
        uses: list[int],
        layouts: Mapping[int, Layout | None] | None,
    ) -> None:
        self.name = name
        self.samples = run.samples
        self.uses = [(i, run.uses[i], None if layouts is None else layouts[i]) for i in uses]
        self.view = run.uses[uses[0]].view

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        raise NotImplementedError

    def finish(self, total: Tensor) -> None:
        """Called once, after all outputs."""

    def given(self, cotangents: list[Tensor | None]) -> list[tuple[Use, Layout | None, Tensor]]:
        return [
            (use, layout, use_sample(use, G, layout, self.samples))
            for i, use, layout in self.uses
            if (G := cotangents[i]) is not None
        ]


class _DirectPlan(_Plan):
    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        found = self.given(cotangents)
        if found:
            whole = sum((G for _, _, G in found[1:]), found[0][2])
            self.view.of(total).add_(whole.square().sum(0))


class _OncePlan(_Plan):
    """One position per sample: the square of a product is the product of the squares."""

    squares: Tensor | None = None

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        for _, _, G in self.given(cotangents):
            new = G[:, 0].square()
            self.squares = new if self.squares is None else self.squares.add_(new)

    def finish(self, total: Tensor) -> None:
        if self.squares is None:
            return
        _, use, layout = self.uses[0]
        assert isinstance(use, Matrix)
        right = use.right(layout, self.samples)[:, 0].square()
        part = use.view.of(total)
        if use.groups == 1:
            _add_product(part, self.squares[:, 0], right[:, 0])
        else:
            part.add_(torch.einsum("bgo,bgi->goi", self.squares, right).flatten(0, 1))
        self.squares = None


class _MatrixPlan(_Plan):
    """Several positions, or several uses: the gradient of each sample, squared in blocks."""

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        found = self.given(cotangents)
        if not found:
            return
        rights = [u.right(layout, self.samples) for u, layout, _ in found if isinstance(u, Matrix)]
        right = rights[0] if len(rights) == 1 else torch.cat(rights, 1)
        left = found[0][2] if len(found) == 1 else torch.cat([G for _, _, G in found], 1)
        view = self.view
        if left.shape[2] == 1 and view.stride[0] < view.stride[1]:
            # Stored the other way round: so is the product, to write along the memory.
            left, right, view = right, left, view.transposed
        part = view.of(total)
        groups, rows, columns = left.shape[2], left.shape[3], right.shape[3]
        if groups > 1 or rows * columns <= BLOCK:
            step = max(1, BLOCK * 4 // (groups * rows * columns))
            for low in range(0, self.samples, step):
                some = slice(low, low + step)
                made = torch.einsum("btgo,btgi->bgoi", left[some], right[some])
                part.add_(made.square_().sum(0).flatten(0, 1))
            return
        step = max(1, BLOCK // columns)
        for b in range(self.samples):
            X, G = right[b, :, 0], left[b, :, 0].T
            active = G.any(1)
            count = int(active.sum())
            if count * 4 < rows:
                index = active.nonzero()[:, 0]
                for low in range(0, count, step):
                    some = index[low : low + step]
                    part[some] += (G[some] @ X).square_()
                continue
            G = G.contiguous()
            for low in range(0, rows, step):
                made = G[low : low + step] @ X
                block = part[low : low + step]
                block.addcmul_(made, made)


class _RowsPlan(_Plan):
    """Rows of a table, and a matrix whose rows are the same (a tied head): few rows per sample."""

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        found = self.given(cotangents)
        part = self.view.of(total)
        for b in range(self.samples):
            pieces: list[tuple[Tensor, Tensor]] = []
            for use, layout, G in found:
                if isinstance(use, Rows):
                    pieces.append((use.rows(layout, self.samples)[b], G[b]))
                else:
                    assert isinstance(use, Matrix)
                    left, X = G[b, :, 0].T, use.right(layout, self.samples)[b, :, 0]
                    index = left.any(1).nonzero()[:, 0]
                    pieces.append((index, left[index] @ X))
            if not pieces:
                continue
            rows, where = torch.unique(torch.cat([i for i, _ in pieces]), return_inverse=True)
            made = part.new_zeros(len(rows), part.shape[1])
            made.index_add_(0, where, torch.cat([v for _, v in pieces]))
            part[rows] += made.square_()


class _MixedPlan(_Plan):
    """Uses that see different parts of a parameter, and overlap: a whole gradient per sample."""

    def add(self, cotangents: list[Tensor | None], total: Tensor) -> None:
        found = self.given(cotangents)
        for b in range(self.samples) if found else ():
            whole = torch.zeros_like(total)
            for use, layout, G in found:
                part = use.view.of(whole)
                if isinstance(use, Direct):
                    part += G[b]
                elif isinstance(use, Rows):
                    part.index_add_(0, use.rows(layout, self.samples)[b], G[b])
                elif isinstance(use, Matrix):
                    X = use.right(layout, self.samples)[b]
                    part += torch.einsum("tgo,tgi->goi", G[b], X).flatten(0, 1)
            total += whole.square_()


def _plans(
    run: _Pass, name: str, uses: list[int], layouts: Mapping[int, Layout | None] | None
) -> list[_Plan]:
    """Group the uses by the part they see; parts that do not overlap are added up on their own."""
    parts: dict[View, list[int]] = {}
    for i in uses:
        parts.setdefault(run.uses[i].view, []).append(i)
    if len(parts) > 1:
        seen = torch.zeros(run.parameters[name].shape, dtype=torch.int8)
        for view in parts:
            view.of(seen).add_(1)
        if int(seen.max()) > 1:
            return [_MixedPlan(run, name, uses, layouts)]
    return [_plan(run, name, group, layouts) for group in parts.values()]


def _plan(
    run: _Pass, name: str, uses: list[int], layouts: Mapping[int, Layout | None] | None
) -> _Plan:
    members = [run.uses[i] for i in uses]
    if all(isinstance(use, Direct) for use in members):
        return _DirectPlan(run, name, uses, layouts)
    if all(isinstance(use, Matrix) for use in members):
        if len({use.groups for use in members if isinstance(use, Matrix)}) > 1:
            return _MixedPlan(run, name, uses, layouts)
        only = members[0]
        if len(members) == 1 and isinstance(only, Matrix):
            positions = math.prod(only.leads) // run.samples
            if positions == 1:
                return _OncePlan(run, name, uses, layouts)
        return _MatrixPlan(run, name, uses, layouts)
    if any(isinstance(use, Direct) for use in members):
        return _MixedPlan(run, name, uses, layouts)
    return _RowsPlan(run, name, uses, layouts)


# What a person gives.


def call_model(model: Any, inputs: Any) -> Any:
    """The model's answer: keywords for a dict, places for a tuple or list, else one argument."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, (tuple, list)):
        return model(*inputs)
    return model(inputs)


def as_outputs(answer: Any, samples: int) -> Tensor:
    """The tensor of outputs in a model's answer: itself, ``.logits``, or the first of a tuple."""
    found = answer
    if isinstance(answer, Mapping):
        found = answer.get("logits", next(iter(answer.values()), None))
    elif not isinstance(answer, torch.Tensor) and hasattr(answer, "logits"):
        found = answer.logits
    elif isinstance(answer, (tuple, list)) and answer:
        found = answer[0]
    if not isinstance(found, torch.Tensor) or not found.is_floating_point():
        raise BadInputError(
            f"the model must return a floating-point tensor, not {type(answer).__name__}; give "
            "forward=, a function of (model, inputs) that returns one."
        )
    if found.dim() == 0 or found.shape[0] != samples:
        raise BadInputError(
            f"the model must return one row per sample, {samples} here, not outputs of shape "
            f"{tuple(found.shape)}."
        )
    return found.unsqueeze(1) if found.dim() == 1 else found


def as_inputs(model: Any, inputs: Any) -> Any:
    """Tensors on the model's device; arrays of numbers take the model's type."""
    if not isinstance(model, torch.nn.Module):
        raise BadInputError(f"model must be a torch.nn.Module, not {type(model).__name__}.")
    first = next((p for p in model.parameters() if p.is_floating_point()), None)

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(np.ascontiguousarray(value))
        if not isinstance(value, torch.Tensor):
            return value
        if first is not None:
            value = value.to(first.device)
            if value.is_floating_point():
                value = value.to(first.dtype)
        return value

    if isinstance(inputs, Mapping):
        return {name: convert(value) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return tuple(convert(value) for value in inputs)
    return convert(inputs)


def _leaves(inputs: Any) -> list[Any]:
    if isinstance(inputs, Mapping):
        return list(inputs.values())
    return list(inputs) if isinstance(inputs, tuple) else [inputs]


def count_samples(inputs: Any) -> int:
    """The number m of samples: the first dimension, which all tensors share."""
    sizes = [int(t.shape[0]) for t in _leaves(inputs) if isinstance(t, torch.Tensor) and t.dim()]
    if not sizes:
        raise BadInputError(
            f"inputs must be a tensor with one row per sample, or a tuple or dict of them, not "
            f"{type(inputs).__name__}."
        )
    if sizes[0] == 0:
        raise BadInputError("inputs hold no sample.")
    if len(set(sizes)) > 1:
        raise BadInputError(
            f"inputs must have the same number of samples, not {', '.join(map(str, sizes))}."
        )
    return sizes[0]


def _each(inputs: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(inputs, Mapping):
        return {name: change(value) for name, value in inputs.items()}
    return tuple(map(change, inputs)) if isinstance(inputs, tuple) else change(inputs)


def take(inputs: Any, low: int, high: int, samples: int) -> Any:
    """Samples low..high of the inputs."""

    def cut(value: Any) -> Any:
        whole = not isinstance(value, torch.Tensor) or not value.dim()
        return value if whole else value[low:high]

    return inputs if (low, high) == (0, samples) else _each(inputs, cut)


def lift(sample: Any) -> Any:
    """One sample as a batch of one."""
    return _each(sample, lambda v: v.unsqueeze(0) if isinstance(v, torch.Tensor) else v)


def batch_dims(inputs: Any, samples: int) -> Any:
    """Which dimension of each input holds the samples, for torch.func.vmap."""
    return _each(inputs, lambda v: 0 if isinstance(v, torch.Tensor) and v.dim() else None)


def output_places(
    outputs: Any, shape: tuple[int, ...], samples: int, generator: Any, device: Any
) -> Tensor | None:
    """Places of the wanted outputs in each sample's flattened output; None: all of them."""
    size = math.prod(shape)
    if outputs is None:
        if size > MOST_OUTPUTS:
            raise BadInputError(
                f"the model has {size} outputs per sample, of shape {shape}: give outputs=16, say, "
                "to look at 16 drawn at random, or the (position, class) of those that matter."
            )
        return None
    if isinstance(outputs, (int, np.integer)) and not isinstance(outputs, bool):
        count = whole_number("outputs", outputs, least=1)
        if count >= size:
            return None
        drawn = [torch.randperm(size, generator=generator)[:count] for _ in range(samples)]
        return torch.stack(drawn).to(device)
    places = torch.as_tensor(np.asarray(outputs))
    if places.is_floating_point() or places.dtype == torch.bool or places.dim() not in (2, 3):
        raise BadInputError(
            "outputs must be a whole number, or an array of places (samples, k) or of indices "
            f"(samples, k, {len(shape)}), not one of shape {tuple(places.shape)}."
        )
    if places.shape[0] != samples:
        raise BadInputError(f"outputs must have one row per sample, {samples}, not {len(places)}.")
    limits = torch.tensor(shape if places.dim() == 3 else (size,))
    if places.dim() == 3 and places.shape[2] != len(shape):
        raise BadInputError(
            f"outputs must hold {len(shape)} indices each, as the model's outputs are {shape} per "
            f"sample, not {places.shape[2]}."
        )
    spread = places if places.dim() == 3 else places.unsqueeze(-1)
    if bool((spread < 0).any()) or bool((spread >= limits).any()):
        raise BadInputError(f"outputs must lie within the model's outputs of shape {shape}.")
    if places.dim() == 3:
        steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        places = (places * torch.tensor(steps)).sum(-1)
    return places.to(device=device, dtype=torch.int64)


def _parameters(model: Any, names: Sequence[str] | None) -> dict[str, Tensor]:
    every = {name: p for name, p in model.named_parameters() if p.is_floating_point()}
    if not every:
        raise BadInputError("the model has no parameters.")
    if names is None:
        return every
    for name in names:
        if name not in every:
            from sublearn._errors import one_of

            one_of("a name of a parameter", name, every)
    chosen = set(names)
    if not chosen:
        raise BadInputError("no parameter is chosen.")
    return {name: p for name, p in every.items() if name in chosen}


def refuse_random_layers(model: Any) -> None:
    """Batch norm and dropout in training mode: the output is then no function of one sample."""
    for name, module in model.named_modules():
        if not module.training:
            continue
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            raise BadInputError(
                f"batch normalisation {name!r} is in training mode, where every output depends on "
                "all samples of the batch: call model.eval() before."
            )
        drops = (
            module.p
            if isinstance(module, torch.nn.modules.dropout._DropoutNd)
            else module.dropout
            if isinstance(module, (torch.nn.RNNBase, torch.nn.MultiheadAttention))
            else 0
        )
        if drops > 0:
            raise BadInputError(
                f"dropout {name!r} is in training mode, so the outputs are random: call "
                "model.eval() before."
            )


def _tolerance(dtype: Any) -> float:
    """How far two ways to the same number may lie apart, relative to the largest."""
    return {torch.float64: 1e-8, torch.float32: 1e-3}.get(dtype, 5e-2)


def _trim() -> None:
    """Hand freed memory back to the system, where the C library keeps it (glibc).

    Passes over a large model free many blocks of middling size, which would stay with the process
    and come on top of what the next pass needs.
    """
    trim = getattr(_C_LIBRARY, "malloc_trim", None)
    if trim is not None:
        trim(0)


def _array(tensor: Tensor) -> NDArray[Any]:
    """As a numpy array; types that numpy does not know become float32."""
    tensor = tensor.detach().cpu()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return np.asarray(tensor.numpy())
