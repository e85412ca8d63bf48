"""JAX models: a function of a tree of parameters and a batch, under the same verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublearn._arrays import Mask
from sublearn._errors import BadInputError
from sublearn._jax import enable_x64
from sublearn.models._files import DELTA_FORMAT, check_base, read_delta, write_entries
from sublearn.models._masks import mask_at, resolve_masks
from sublearn.models._places import (
    check_outputs,
    count_samples,
    kind_of,
    one_row_each,
    output_places,
    running,
)
from sublearn.models._spectrum import precision_of
from sublearn.models._structure import Structure

PIECE = 1 << 24  # numbers of a temporary


def needed(package: str, who: str, source: str) -> Any:
    """A package that is an extra; where it is not installed, one sentence says who needs it."""
    try:
        return import_module(package)
    except ImportError:
        raise BadInputError(f"{who}, which is not installed: pip install {source}.") from None


class _Late:
    """JAX, imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(needed("jax", "JAX models need JAX", "'sublearn[jax]'"), name)


jax: Any = _Late()


class JaxModel:
    """A function ``apply(params, inputs)`` with its tree of parameters; one row of outputs per sample.

    Parameters get names from their place in the tree, joined by dots. ``trainable`` marks what may
    change where nothing else is said: a tree of booleans like ``params``, as an Equinox filter spec
    or an optax mask is, or masks entry by entry.

    >>> import jax.numpy as jnp
    >>> model = JaxModel(lambda p, x: x @ p["w"] + p["b"], {"w": jnp.ones((2, 3)), "b": jnp.zeros(3)})
    >>> model.shapes
    {'b': (3,), 'w': (2, 3)}
    """

    def __init__(
        self, apply: Callable[[Any, Any], Any], params: Any, trainable: Any = None
    ) -> None:
        if not callable(apply):
            raise BadInputError("apply must be a function of parameters and inputs.")
        self.apply, self.params = apply, params
        self._leaves, self._tree = tree_names(params), jax.tree.structure(params)
        if not self._leaves:
            raise BadInputError("the model has no parameters: params holds no arrays.")
        if len(self._leaves) != self._tree.num_leaves:
            raise BadInputError("two parameters of the tree have the same name.")
        for name, array in self.arrays().items():
            if array.dtype.kind != "f" and str(array.dtype) != "bfloat16":
                raise BadInputError(
                    f"parameter {name} must hold floating-point numbers, not {array.dtype}: keep "
                    "other arrays out of params."
                )
        self.shapes = {name: tuple(np.shape(leaf)) for name, leaf in self._leaves.items()}
        self.masks = resolve_masks(
            list(self.shapes) if trainable is None else self._by_name(trainable), self.shapes
        )

    @classmethod
    def from_equinox(cls, module: Any, spec: Any = None, call: Any = None) -> JaxModel:
        """An Equinox module, with a filter spec for what may change (default: every array).

        Modules work on one sample, so the call is ``jax.vmap(module)(inputs)`` unless
        ``call(module, inputs)`` is given.
        """
        equinox = needed("equinox", "from_equinox needs Equinox", "equinox")
        params, rest = equinox.partition(module, equinox.is_inexact_array)
        run = call or (lambda m, x: jax.vmap(m)(x))

        def apply(p: Any, x: Any) -> Any:
            return run(equinox.combine(p, rest), x)

        if spec is None:
            return cls(apply, params)
        chosen = equinox.filter(params, spec)
        kept = set(tree_names(chosen))
        made = cls(apply, params)
        if not kept & set(made.shapes):
            raise BadInputError("the filter spec leaves no parameter that may change.")
        return cls(apply, params, {name: name in kept for name in made.shapes})

    def named(self, what: Any = None) -> dict[str, Mask]:
        """Masks by name, from names or from a tree like that of the parameters; only those with some."""
        given = self._by_name(what)
        return dict(self.masks) if what is None else resolve_masks(given, self.shapes)

    def _by_name(self, given: Any) -> Any:
        """A tree of masks as a mapping from names; anything else as it is."""
        if given is None or hasattr(given, "masks"):
            return given
        if isinstance(given, Mapping) and set(given) <= set(self.shapes):
            return given
        return tree_names(given) if jax.tree.structure(given) == self._tree else given

    def tree(self, values: Mapping[str, Any]) -> Any:
        """The tree whose leaves carry these names."""
        return jax.tree_util.tree_unflatten(self._tree, [values[name] for name in self.shapes])

    def at(self, values: Mapping[str, Any], inputs: Any) -> Any:
        """The outputs with parameters of these values, all of them by name."""
        return self.outputs(self.tree(values), inputs)

    def outputs(self, params: Any, inputs: Any) -> Any:
        """What apply returns, or its logits."""
        answer = self.apply(params, inputs)
        held = answer if isinstance(answer, Mapping) else getattr(answer, "__dict__", {})
        array = held.get("logits", answer)
        if not hasattr(array, "shape"):
            raise BadInputError(
                f"apply must return an array, alone or as logits, not {kind_of(answer)}: give one that does."
            )
        return array

    def mask_tree(self, what: Any = None) -> Any:
        """Masks as a tree of boolean arrays like ``params``, for :func:`masked` and the like."""
        masks = self.named(what)
        full = {n: masks.get(n, np.zeros(s, dtype=bool)) for n, s in self.shapes.items()}
        return self.tree(full)

    def arrays(self, params: Any = None) -> dict[str, NDArray[Any]]:
        """The parameters (or others of the same tree) as numpy arrays, by name."""
        if params is None:
            return {name: np.asarray(leaf) for name, leaf in self._leaves.items()}
        if jax.tree.structure(params) != self._tree:
            raise BadInputError("params must be a tree like that of the model.")
        return {name: np.asarray(leaf) for name, leaf in tree_names(params).items()}

    def prepared(
        self, inputs: Any, masks: Mapping[str, Mask], *, outputs: Any, perturb: float, seed: int
    ) -> tuple[JaxDerivatives, Structure, str]:
        """Derivatives beside the model's own point, for an audit: always in float64."""
        rng = np.random.default_rng(seed)
        values = {}
        for name, leaf in self.arrays().items():
            value = np.asarray(leaf, dtype=np.float64)
            if not np.isfinite(value).all():
                raise BadInputError(f"parameter {name} of the model holds NaN or infinity.")
            if name in masks and perturb:
                size = float(np.sqrt(np.mean(value**2))) or max(value.shape[-1:] or (1,)) ** -0.5
                value = value + perturb * size * rng.standard_normal(value.shape) * masks[name]
            values[name] = value
        ready = JaxDerivatives(self, inputs, list(masks), values, outputs=outputs, seed=seed)
        kinds = {name: "" for name in self.shapes}
        return ready, Structure(kinds), precision_of(ready.rounding)


def no_forward(forward: Any) -> None:
    """Refuse what a torch model may need."""
    if forward is not None:
        raise BadInputError(
            "forward is for torch models: the apply of a JaxModel is such a function."
        )


class JaxDerivatives:
    """The three sums over the Jacobian of a JAX model, one sample and output at a time, in float64."""

    def __init__(
        self,
        model: JaxModel,
        inputs: Any,
        names: list[str] | None = None,
        values: Mapping[str, NDArray[Any]] | None = None,
        *,
        outputs: Any = None,
        seed: int = 0,
    ) -> None:
        self._double = enable_x64()
        self.model = model
        self._values = {
            n: np.asarray(v, dtype=np.float64) for n, v in (values or model.arrays()).items()
        }
        self._names = (
            list(model.shapes) if names is None else [n for n in model.shapes if n in names]
        )
        self.shapes = {name: model.shapes[name] for name in self._names}

        def widen(leaf: Any) -> Any:
            array = np.asarray(leaf)
            floating = jax.numpy.issubdtype(array.dtype, jax.numpy.floating)
            return array.astype(np.float64) if floating else array

        self._inputs = jax.tree.map(widen, inputs)
        leaves = jax.tree.leaves(self._inputs)
        self.samples = count_samples(leaves)
        with self._double(True):
            with running(leaves):
                raw = np.asarray(model.at(self._values, self._inputs), dtype=np.float64)
            one_row_each(raw.shape, self.samples)
            flat = raw.reshape(self.samples, -1)
            self.output_shape = raw.shape[1:]
            places = output_places(outputs, self.output_shape, self.samples, seed)
            every = np.tile(np.arange(flat.shape[1]), (self.samples, 1))
            self._places = every if places is None else places
            one = jax.tree.map(lambda leaf: leaf[:1], self._inputs)
            alone = np.asarray(model.at(self._values, one), dtype=np.float64).reshape(1, -1)
            self.rounding = coarsest(jax.make_jaxpr(model.at)(self._values, one))
        check_outputs(flat, alone, self.rounding**0.5)
        self.outputs = np.take_along_axis(flat, self._places, axis=1)

    def _row(self, own: Any, sample: Any, place: Any) -> Any:
        """The derivative of one output of one sample by the parameters ``own``."""

        def value(given: Any) -> Any:
            one = jax.tree.map(lambda leaf: leaf[None], sample)
            return self.model.at({**self._values, **given}, one).reshape(-1)[place]

        return jax.grad(value)(own)

    def scores(self, cotangents: Any) -> dict[str, NDArray[Any]]:
        """J' R for every entry."""
        R = np.asarray(cotangents, dtype=np.float64)
        if R.shape != self.outputs.shape:
            raise BadInputError(
                f"the cotangents must be of shape {self.outputs.shape}, not {R.shape}."
            )
        with self._double(True):
            own = {name: self._values[name] for name in self._names}

            def all_outputs(given: Any) -> Any:
                raw = self.model.at({**self._values, **given}, self._inputs)
                flat = raw.reshape(self.samples, -1).astype(np.float64)
                return jax.numpy.take_along_axis(flat, self._places, axis=1)

            pulled = jax.vjp(all_outputs, own)[1](jax.numpy.asarray(R))[0]
            return {name: np.array(pulled[name]) for name in self._names}

    def squared_norms(self) -> dict[str, NDArray[Any]]:
        """The sum of squares of every column of J."""
        with self._double(True):
            own = {name: jax.numpy.asarray(self._values[name]) for name in self._names}

            @jax.jit
            def total(inputs: Any, places: Any) -> Any:
                def add(sums: Any, given: Any) -> Any:
                    sample, at = given

                    def one(inner: Any, place: Any) -> Any:
                        g = self._row(own, sample, place)
                        return jax.tree.map(lambda s, v: s + v * v, inner, g), None

                    return jax.lax.scan(one, sums, at)[0], None

                zeros = jax.tree.map(jax.numpy.zeros_like, own)
                return jax.lax.scan(add, zeros, (inputs, places))[0]

            squares = total(self._inputs, self._places)
            return {name: np.array(squares[name]) for name in self._names}

    def gather(self, masks: Mapping[str, Mask]) -> NDArray[Any]:
        """The columns of J for the entries that the masks hold, name by name in the order of shapes."""
        chosen = {n: np.flatnonzero(masks[n]) for n in self._names if n in masks}
        with self._double(True):
            own = {name: jax.numpy.asarray(self._values[name]) for name in chosen}
            size = self.outputs.shape[1]
            together = max(1, min(size, PIECE // max(1, sum(v.size for v in own.values()))))

            @jax.jit
            def columns(inputs: Any, places: Any) -> Any:
                def sample_rows(given: Any) -> Any:
                    sample, at = given

                    def row(place: Any) -> Any:
                        g = self._row(own, sample, place)
                        return jax.numpy.concatenate([g[n].reshape(-1)[chosen[n]] for n in chosen])

                    return jax.lax.map(row, at, batch_size=together)

                return jax.lax.map(sample_rows, (inputs, places))

            table = np.asarray(columns(self._inputs, self._places))
        return table.reshape(self.samples * size, -1)


def coarsest(program: Any) -> float:
    """The unit of rounding of the coarsest numbers that what comes in as float64 is turned into."""
    reached = {np.dtype(np.float64)}

    def unit(kind: Any) -> float:
        return float(jax.numpy.finfo(kind).eps)

    def follow(part: Any) -> None:
        for step in part.eqns:
            given = [k for v in step.invars if (k := getattr(v.aval, "dtype", None)) in reached]
            for made in (v.aval.dtype for v in step.outvars if given):
                if jax.numpy.issubdtype(made, jax.numpy.floating) and unit(made) > min(
                    map(unit, given)
                ):
                    reached.add(made)
            inner = jax.tree.leaves(step.params, is_leaf=lambda value: hasattr(value, "eqns"))
            for value in inner:
                if hasattr(value, "eqns"):
                    follow(value)

    follow(program)
    return max(map(unit, reached))


def masked(optimizer: Any, masks: Any) -> Any:
    """An optax optimizer that leaves frozen entries alone, entry by entry, to the last bit.

    ``masks`` is a tree of booleans or boolean arrays like the parameters'. Frozen entries get no
    gradient, so that momenta and norms do not see them, and their updates are set to -0.0, which adds
    to any number without changing it. (``optax.masked`` passes the gradient of what it leaves out
    through as the update, and takes whole leaves only.)

    >>> import optax, jax.numpy as jnp  # doctest: +SKIP
    >>> rule = masked(optax.adamw(0.1), {"w": np.array([True, False])})  # doctest: +SKIP
    >>> updates, state = rule.update(gradients, rule.init(params), params)  # doctest: +SKIP
    """
    optax = needed("optax", "masked needs optax", "optax")

    def only(tree: Any, value: float) -> Any:
        return jax.tree.map(lambda m, leaf: jax.numpy.where(m, leaf, value), masks, tree)

    def init(params: Any) -> Any:
        try:
            shapes = jax.tree.map(
                lambda m, leaf: np.shape(m) in ((), np.shape(leaf)), masks, params
            )
            fits = all(jax.tree.leaves(shapes))
        except ValueError:
            fits = False
        if not fits:
            raise BadInputError("masks must be a tree of booleans of the parameters' shapes.")
        return optimizer.init(params)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        found, state = optimizer.update(only(updates, 0.0), state, params, **extra)
        return only(found, -0.0), state

    return optax.GradientTransformationExtraArgs(init, update)


def tree_names(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by name, as :class:`JaxModel` names them: keys and places with dots between."""

    def part(step: Any) -> str:
        words = (getattr(step, a) for a in ("key", "name", "idx") if hasattr(step, a))
        return str(next(words, step))

    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {".".join(map(part, path)): leaf for path, leaf in leaves}


def wide(leaf: Any) -> Any:
    """As an array of JAX; half precision becomes float32."""
    array = jax.numpy.asarray(leaf)
    return array.astype(jax.numpy.promote_types(array.dtype, np.float32))


class JaxAttached:
    """A JAX model as a function of r numbers and inputs: ``values`` to start from, zeros, and a call.

    Any optimizer trains ``values`` and keeps state for them alone; ``merge(values)`` gives parameters,
    and ``save(path, values)`` writes what :func:`sublearn.models.load_delta` reads.

    >>> import jax.numpy as jnp
    >>> model = JaxModel(lambda p, x: x @ p["w"], {"w": jnp.ones((2, 1))})
    >>> tuned = JaxAttached(model, {"w": np.array([[True], [False]])})
    >>> tuned({"w": jnp.array([2.0])}, jnp.eye(2)).tolist()
    [[3.0], [1.0]]
    """

    def __init__(self, model: JaxModel, masks: Mapping[str, Mask]) -> None:
        self.model = model
        self.places = {name: np.flatnonzero(mask) for name, mask in masks.items()}
        self.values = {
            name: jax.numpy.zeros(len(index), dtype=wide(model._leaves[name]).dtype)
            for name, index in self.places.items()
        }

    @property
    def count(self) -> int:
        """The number r of trainable numbers."""
        return sum(len(index) for index in self.places.values())

    def merge(self, values: Any) -> Any:
        """The parameters with the values added: round(base + value) at the places, the base elsewhere."""
        leaves = dict(self.model._leaves)
        for name, index in self.places.items():
            base = jax.numpy.asarray(leaves[name])
            flat = base.reshape(-1)
            new = (flat[index].astype(values[name].dtype) + values[name]).astype(base.dtype)
            leaves[name] = flat.at[index].set(new).reshape(base.shape)
        return self.model.tree(leaves)

    def __call__(self, values: Any, inputs: Any) -> Any:
        return self.model.apply(self.merge(values), inputs)

    def save(self, path: str | Path, values: Any) -> None:
        """Write a .npz of places and ``values`` alone, with the base's entries there to know it by."""
        if set(values) != set(self.places) or any(
            np.shape(values[name]) != index.shape for name, index in self.places.items()
        ):
            raise BadInputError("values must be of the names and shapes of those attached here.")
        masks = {n: mask_at(self.model.shapes[n], index) for n, index in self.places.items()}
        stored = {
            name: {"delta": np.asarray(values[name]), "base": self._base(name)} for name in masks
        }
        write_entries(path, DELTA_FORMAT, masks, values=stored)

    @classmethod
    def load(cls, model: JaxModel, path: str | Path) -> JaxAttached:
        """What :meth:`save` wrote, for a model with the same base: ``values`` are those of the file."""
        stored = read_delta(path)
        masks = {name: mask_at(saved["shape"], saved["entries"]) for name, saved in stored.items()}
        made = cls(model, model.named(masks))
        for name in made.places:
            check_base(path, name, made._base(name), stored[name])
            made.values[name] = jax.numpy.asarray(
                stored[name]["delta"], dtype=made.values[name].dtype
            )
        return made

    def _base(self, name: str) -> NDArray[Any]:
        return np.asarray(wide(self.model._leaves[name]).reshape(-1)[self.places[name]])
