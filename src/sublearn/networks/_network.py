"""The one shape all networks share: a chain of steps.

A step takes the state h to ``phi(W (h + injected) + bias)``, where the injected input is nothing, a
block of the sample, or an encoder times a block of the sample. This is the paper's form, the *plain*
one; a step may also add a matrix times a block outside of W, leak, or read the state out and let it pass.
The readout is a last step with no activation. Everything else (forward, derivative factors, Hessian
products, exact evaluation) is written once over this chain, in ``_forward.py`` and ``_derivatives.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from sublearn._arrays import Array, Indices, Mask, check_real
from sublearn._errors import BadInputError, by_name, one_of, shown, whole_number
from sublearn._limits import MOST_STEPS
from sublearn.networks._activations import ACTIVATIONS
from sublearn.networks._forms import Layers, Recurrence, layers_of, recurrence_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sublearn.allocations import Allocation
    from sublearn.networks._check import ForwardCheck

Weights = Mapping[str, Array]
Shape = tuple[int, int]


@dataclass(frozen=True)
class Step:
    """One step of a chain: ``state <- activation(weight (state + injected) + bias)``.

    ``block`` is the index of the input block that is injected (None: nothing), ``encoder`` the
    matrix that is applied to it first (None: the block itself). With a ``drive``, the block is not
    injected: the matrix ``drive`` times the block is added beside the bias. With a ``leak`` below 1 the
    state becomes ``(1 - leak) state + leak activation(...)``, where 1 - leak is what float64 makes of it.
    What a step ``aside`` computes is part of the outputs, and the state passes by. The state before the
    first step is 0; a first step without a block is applied to the number 1.
    """

    weight: str
    activation: str = "linear"
    block: int | None = None
    encoder: str | None = None
    bias: str | None = None
    drive: str | None = None
    leak: float = 1.0
    aside: bool = False

    def __post_init__(self) -> None:
        one_of("activation", self.activation, ACTIVATIONS)
        if self.drive is not None and (self.block is None or self.encoder is not None):
            raise BadInputError(
                "a step with a drive needs a block, and takes no encoder beside it."
            )
        if self.aside and self.activation != "linear":
            raise BadInputError(f"a step aside must be linear, not {self.activation}.")

    @property
    def kept(self) -> float:
        """What is left of the state that entered: 1 - leak."""
        return 1.0 - self.leak

    @property
    def names(self) -> tuple[str, ...]:
        """The weights that the step uses, once for each use."""
        used = (self.weight, self.encoder, self.bias, self.drive)
        return tuple(name for name in used if name is not None)

    @property
    def is_plain(self) -> bool:
        """Whether it is of the form activation(weight (state + injected) + bias)."""
        return self.drive is None and self.leak == 1.0 and not self.aside


@dataclass(frozen=True)
class Bounds:
    """The most independent learnable weights that one row, and one column, can carry."""

    row: int
    column: int | None  # None: no bound holds


def _how_to_turn(shape: tuple[int, ...], sizes: tuple[int, ...]) -> str:
    """Which transpose puts samples last and makes the other axes fit, in words; recordings often need one."""
    for order in permutations(range(len(shape))):
        if len(shape) == len(sizes) + 1 and tuple(shape[axis] for axis in order[:-1]) == sizes:
            return f" Samples come last: inputs.transpose{order} would fit."
    return ""


class Network(ABC):
    """Shapes and a forward map y = M_W(x), described as a chain of steps.

    A concrete network is an immutable value that states its ``shapes``, ``steps``, ``input_blocks`` and
    ``output_size``, under a name that :func:`register` gives it; see the page "Adding a network".
    """

    @property
    def spec(self) -> str:
        """The text that the command line and files read, for example ``lrnn:n=8,b=1,d=4,T=4``.

        It names the kind and all fields, and enters digests: different networks have different ones.
        """
        from sublearn.networks._text import text_of

        return text_of(self)

    @property
    def title(self) -> str:
        """The network in a few words: its ``spec``, with a count of connections in place of their bits.

        >>> import numpy as np, sublearn as sl
        >>> sl.FeedForward((3, 3)).with_connections({"W1": np.eye(3, dtype=bool)}).title
        'ffn:3-3 (W1: 3 of 9 exist)'
        """
        return self.spec

    @property
    @abstractmethod
    def shapes(self) -> dict[str, Shape]:
        """(rows, columns) of every weight, by name, in a fixed order."""

    @property
    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The chain."""

    @property
    @abstractmethod
    def input_blocks(self) -> tuple[int, ...]:
        """Sizes of the input blocks: (q,) for one input vector, (b,) * T for a sequence."""

    @property
    @abstractmethod
    def output_size(self) -> int:
        """The output size d."""

    # Four facts that a network may know better than every chain does.

    def degree_bounds(self, name: str, samples: int) -> Bounds:
        """Proved bounds on the independent weights in one row and one column of ``name``.

        Of every chain: the columns of row i are linear images of what enters the uses of the weight,
        at most m numbers each. In a linear chain those of column j are linear images of d numbers
        for each use, and of d m altogether.
        """
        rows, columns = self.shape(name)
        uses = sum(step.names.count(name) for step in self.steps)
        column = min(rows, self.output_size * min(uses, samples)) if self.is_linear else None
        return Bounds(min(columns, uses * samples), column)

    def expressible(self, samples: int) -> int:
        """A proved upper bound on the dimension of the outputs that a teacher of this shape reaches.

        At most p and d m; less where a layer is a bottleneck, or by Theorem B.1. The exact dimension
        is the generic rank of the full Jacobian, called *needed*.
        """
        return min(self.size, self.output_size * samples)

    def degeneracy(self, samples: int) -> str | None:
        """Why a teacher of this shape cannot express every map of its inputs, where a count shows it.

        Theorem B.1, a narrow layer, dependent samples, too few weights. Few samples may be matched all
        the same: *needed*, not this sentence, says how many of the d m dimensions are reached.
        """
        wanted = self.output_size * samples
        if self.size < wanted:
            return f"the network has {self.size} weights, fewer than the d m = {wanted} outputs."
        return None

    def before_output(self) -> Network:
        """The same network without the activation of its last step, where the class can say which it is.

        Else the network itself.
        """
        return self

    @property
    def hidden(self) -> tuple[int, ...]:
        """The widths that :meth:`widened` changes: of hidden layers, or of the state; empty if of none."""
        return ()

    def widened(self, widths: Sequence[int]) -> Network:
        """The same network with :attr:`hidden` of these widths, all of whose weights exist."""
        raise BadInputError(
            f"{self.title} has no hidden or recurrent units that are known to widen."
        )

    # What follows holds for every chain.

    @property
    def recurrence(self) -> Recurrence | None:
        """The linear recurrence (3.3) that the chain is, or None.

        >>> import sublearn as sl
        >>> sl.LinearRNN(n=8, b=1, d=4, T=4).recurrence.weight
        'W'
        """
        return recurrence_of(self)

    @property
    def layered(self) -> Layers | None:
        """The layers y = phi(W_L ... phi(W_1 x)) that the chain is, or None.

        >>> import sublearn as sl
        >>> sl.FeedForward((6, 8, 4), activation="relu").layered.is_shallow_relu
        True
        """
        return layers_of(self)

    @property
    def connections(self) -> Mapping[str, Mask]:
        """Masks of the weights that exist, by name; a weight that is not named exists throughout."""
        return {}

    def existing(self, name: str) -> Mask:
        """The mask of the weights of one name that exist."""
        given = self.connections.get(name)
        return np.ones(self.shape(name), dtype=bool) if given is None else given

    def in_degrees(self, name: str) -> Indices:
        """How many weights exist in each row of one weight: 1 at least, so that it can divide."""
        return np.asarray(np.maximum(self.existing(name).sum(axis=1), 1), dtype=np.int64)

    def with_connections(self, masks: Mapping[str, ArrayLike]) -> Network:
        """The same network, of which only the weights where a mask is true exist.

        The others are 0, and neither learnable, random, noisy nor counted; a teacher of the same
        architecture has the same connections. The variance of random weights goes by the number of
        weights that exist in a row.

        >>> import numpy as np, sublearn as sl
        >>> net = sl.FeedForward((3, 3)).with_connections({"W1": np.tri(3, dtype=bool)})
        >>> net.size, len(sl.Allocation.whole(net))
        (6, 6)
        """
        from sublearn.networks._connected import connected

        return connected(self, masks)

    @property
    def is_sequence(self) -> bool:
        """Whether inputs are sequences, of shape (T, b, m) instead of (q, m)."""
        return len(self.input_blocks) > 1 or self.steps[0].encoder is not None

    @property
    def is_plain(self) -> bool:
        """Whether every step is of the paper's form: no drive, no leak, no readout but the last.

        What knows that form alone asks this first; the rest goes by the one pass over the chain.
        """
        return self.steps[0].block is not None and all(step.is_plain for step in self.steps)

    @property
    def is_biased(self) -> bool:
        """Whether something enters that is the same for all samples: a bias, or a state to begin with."""
        return self.steps[0].block is None or any(step.bias is not None for step in self.steps)

    @property
    def is_linear(self) -> bool:
        """Whether every activation is linear, so that outputs are polynomials in the weights."""
        return all(step.activation == "linear" for step in self.steps)

    @property
    def is_piecewise_linear(self) -> bool:
        """Whether every activation is linear or ReLU, so that fixed gates make it linear."""
        return all(step.activation in ("linear", "relu") for step in self.steps)

    @property
    def has_gates(self) -> bool:
        """Whether some step is a ReLU, so that the rank depends on which units are on.

        All other activations are analytic: what holds at one point holds at almost all.
        """
        return any(step.activation == "relu" for step in self.steps)

    @property
    def size(self) -> int:
        """The number p of weights that exist."""
        missing = sum(int((~mask).sum()) for mask in self.connections.values())
        return self.cells - missing

    @property
    def cells(self) -> int:
        """The number of entries of all matrices, whether the weights exist or not."""
        return sum(rows * columns for rows, columns in self.shapes.values())

    @property
    def degree(self) -> int:
        """Degree of an output as a polynomial in weights and inputs together, gates fixed.

        >>> import sublearn as sl
        >>> sl.LinearRNN(n=8, b=1, d=4, T=4).degree   # D W^4 B x
        7
        """
        from sublearn.networks._sizes import output_size

        return output_size(self).degree

    def shape(self, name: str) -> Shape:
        """(rows, columns) of one weight; an unknown name is an error that lists the known ones."""
        return self.shapes[one_of("weight name", name, self.shapes)]

    def input_shape(self, samples: int) -> tuple[int, ...]:
        """Shape of the inputs: (q, m), or (T, b, m) for sequences."""
        blocks = self.input_blocks
        return (len(blocks), blocks[0], samples) if self.is_sequence else (blocks[0], samples)

    def split_inputs(self, inputs: Array) -> list[Array]:
        """The input blocks, each (..., size, m)."""
        rank = 3 if self.is_sequence else 2
        x = np.asarray(inputs)
        wanted = self.input_shape(x.shape[-1] if x.ndim else 0)
        if x.ndim < rank or x.shape[-rank:] != wanted:
            letters = "(T, b, m)" if self.is_sequence else "(q, m)"
            sizes = ", ".join(str(v) for v in wanted[:-1])
            raise BadInputError(
                f"inputs must have shape {letters} = ({sizes}, m), not {x.shape}."
                + _how_to_turn(x.shape, wanted[:-1])
            )
        return [x[..., t, :, :] for t in range(wanted[0])] if self.is_sequence else [x]

    def check_weights(self, weights: Weights) -> None:
        """Refuse weights whose names or shapes are not this network's."""
        by_name(weights)
        missing = [name for name in self.shapes if name not in weights]
        extra = [name for name in weights if name not in self.shapes]
        if missing or extra:
            # Of a recurrent network of one's own, which has one bias and not the other.
            zeros = all(self.shapes[name][1] == 1 for name in missing)
            raise BadInputError(
                f"weights must be given for exactly {', '.join(self.shapes)}"
                + (f"; missing: {', '.join(missing)}" if missing else "")
                + (" (zeros, where there is none)" if missing and zeros else "")
                + (f"; unknown: {', '.join(extra)}" if extra else "")
                + "."
            )
        for name in self.shapes:
            self.check_weight(name, np.asarray(weights[name]))

    def check_weight(self, name: str, value: Array) -> None:
        """Refuse one weight whose shape is not this network's, or that holds what does not exist."""
        shape = self.shapes[name]
        if value.shape[-2:] != shape:
            turned = " Is it transposed?" * (value.shape[-2:] == shape[::-1])
            column = f" It is a column: give {name}[:, None]." * ((*value.shape, 1) == shape)
            raise BadInputError(
                f"weight {name} must have shape {shape}, not {value.shape}.{turned}{column}"
            )
        check_real(f"weight {name}", value)
        mask = self.connections.get(name)
        if mask is not None and value[..., ~mask].any():
            place = tuple(np.argwhere((value != 0) & ~mask)[0])
            i, j = (int(v) for v in place[-2:])
            turned = " Is it transposed?" * (
                mask.shape == mask.T.shape and not value[..., ~mask.T].any()
            )
            raise BadInputError(
                f"{name}({i}, {j}) does not exist, so its weight must be 0, not {value[place]}.{turned}"
            )

    def check_outputs(self, name: str, shape: tuple[int, ...], samples: int) -> None:
        """Refuse outputs, or targets, of another shape than (d, m)."""
        wanted = (self.output_size, samples)
        if shape != wanted:
            turned = " Samples are columns here: give the transposed array." * (
                shape == wanted[::-1]
            )
            raise BadInputError(f"{name} must have shape (d, m) = {wanted}, not {shape}.{turned}")

    def check_allocation(self, allocation: Allocation) -> None:
        """Refuse an allocation of another network's shapes, or of weights that do not exist."""
        if dict(allocation.shapes) != self.shapes:
            raise BadInputError(
                f"the allocation belongs to weights {dict(allocation.shapes)}, but the network has "
                f"{self.shapes}."
            )
        for name, mask in self.connections.items():
            lost = allocation.flat(name)[~mask.ravel()[allocation.flat(name)]]
            if lost.size:
                i, j = divmod(int(lost[0]), self.shapes[name][1])
                raise BadInputError(f"{name}({i}, {j}) does not exist, so it cannot be learnable.")

    def forward(self, weights: Weights, inputs: Array) -> Array:
        """Outputs Y = M_W(X), of shape (d, m); leading batch axes are carried along.

        >>> import numpy as np, sublearn as sl
        >>> net = sl.LinearEstimator(inputs=2, outputs=1)
        >>> net.forward({"W": np.array([[1.0, 2.0]])}, np.array([[1.0, 0.0], [0.0, 1.0]]))
        array([[1., 2.]])
        """
        from sublearn.networks._forward import forward

        self.check_weights(weights)
        check_real("inputs", np.asarray(inputs))
        return forward(self, weights, inputs)

    def check(
        self, weights: Weights, inputs: ArrayLike, outputs: ArrayLike, tolerance: float = 1e-9
    ) -> ForwardCheck:
        """Whether this network reproduces outputs that were computed elsewhere, and where it first differs.

        ``outputs`` are (d, m), samples in columns; ``tolerance`` is relative to the largest output. Ask
        this first with weights, inputs and outputs of your own: what is answered about another model
        than the one you mean is of no use.

        >>> import numpy as np, sublearn as sl
        >>> net = sl.RNN(n=2, b=1, d=1, T=2)
        >>> weights = {"W": 0.5 * np.eye(2), "B": np.ones((2, 1)), "D": np.ones((1, 2))}
        >>> x = np.ones((2, 1, 1))
        >>> h = np.tanh(weights["B"])                          # h <- tanh(W h + B x), another formula
        >>> h = np.tanh(weights["W"] @ h + weights["B"])
        >>> bool(net.check(weights, x, weights["D"] @ h))
        False
        """
        from sublearn.networks._check import check_forward

        return check_forward(self, weights, inputs, outputs, tolerance)

    def jacobian(
        self, weights: Weights, inputs: Array, allocation: Allocation | None = None
    ) -> Array:
        """d vec(Y) / d (learnable weights), (d m, r): rows (output, sample), columns as in the allocation.

        With no allocation, all entries of all weights: names in order, each row by row.
        """
        from sublearn.networks._derivatives import jacobian

        self.check_weights(weights)
        if allocation is not None:
            self.check_allocation(allocation)
        return jacobian(self, weights, inputs, allocation)

    def jvp(self, weights: Weights, inputs: Array, tangent: Weights) -> Array:
        """Directional derivative of the outputs, (d, m), along ``tangent``."""
        from sublearn.networks._derivatives import jvp

        self.check_weights(weights)
        self.check_weights(tangent)
        return jvp(self, weights, inputs, tangent)

    def vjp(self, weights: Weights, inputs: Array, cotangent: Array) -> dict[str, Array]:
        """Gradient with respect to each weight of sum(cotangent * outputs)."""
        from sublearn.networks._derivatives import vjp

        self.check_weights(weights)
        self._check_cotangent(inputs, cotangent)
        return vjp(self, weights, inputs, cotangent)

    def hvp(
        self, weights: Weights, inputs: Array, cotangent: Array, tangent: Weights
    ) -> dict[str, Array]:
        """Hessian of sum(cotangent * outputs) times ``tangent``, by weight name."""
        from sublearn.networks._derivatives import hvp

        self.check_weights(weights)
        self.check_weights(tangent)
        self._check_cotangent(inputs, cotangent)
        return hvp(self, weights, inputs, cotangent, tangent)

    def _check_cotangent(self, inputs: Array, cotangent: Array) -> None:
        samples, given = self.split_inputs(inputs)[0].shape[-1], np.shape(cotangent)
        wanted = (self.output_size, samples)
        if given[-2:] != wanted:
            raise BadInputError(f"the cotangent must have shape (d, m) = {wanted}, not {given}.")


def before_both(student: Network, teacher: Network) -> tuple[Network, Network] | None:
    """Both without the tanh or sigmoid that they both end with, or None where they do not.

    Outputs agree exactly if what stands before the activation does.
    """
    last = student.steps[-1].activation
    if last not in ("tanh", "sigmoid") or last != teacher.steps[-1].activation:
        return None
    inner, shown = student.before_output(), teacher.before_output()
    return None if inner is student or shown is teacher else (inner, shown)


def check_steps(name: str, count: int) -> None:
    """Refuse chains so long that listing their steps takes longer than anyone waits."""
    if count > MOST_STEPS:
        raise BadInputError(f"{name} must be at most {MOST_STEPS}, not {shown(count)}.")


def check_sizes(sizes: Sequence[int]) -> None:
    """At least an input and an output size, each a positive whole number."""
    if not isinstance(sizes, Sequence | np.ndarray) or len(sizes) < 2:
        raise BadInputError(f"sizes must name at least an input and an output, not {sizes!r}.")
    check_steps("the number of layers", len(sizes) - 1)
    for value in sizes:
        whole_number("sizes", value, least=1)
