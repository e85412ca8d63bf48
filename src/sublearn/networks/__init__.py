"""Networks: shapes and a forward map, each a short description over one chain of steps."""

from sublearn.networks._activations import ACTIVATIONS as ACTIVATIONS
from sublearn.networks._check import ForwardCheck
from sublearn.networks._derivatives import Cotangents as Cotangents
from sublearn.networks._derivatives import Dual as Dual
from sublearn.networks._derivatives import Duals as Duals
from sublearn.networks._derivatives import Factored, factors
from sublearn.networks._derivatives import gradient_term as gradient_term
from sublearn.networks._derivatives import uses as uses
from sublearn.networks._forms import Layers as Layers
from sublearn.networks._forms import Recurrence as Recurrence
from sublearn.networks._forward import REALS, Arithmetic, Gates, Trace, evaluate, gates_at, run
from sublearn.networks._forward import Arrays as Arrays
from sublearn.networks._forward import Link as Link
from sublearn.networks._forward import Matrices as Matrices
from sublearn.networks._forward import links as links
from sublearn.networks._forward import walk as walk
from sublearn.networks._models import RNN, FeedForward, LinearEstimator, LinearRNN
from sublearn.networks._network import Bounds, Network, Step, Weights
from sublearn.networks._network import before_both as before_both
from sublearn.networks._rate import RateRNN
from sublearn.networks._sizes import Size as Size
from sublearn.networks._sizes import entry_size as entry_size
from sublearn.networks._sizes import leak_bits as leak_bits
from sublearn.networks._sizes import log2_terms as log2_terms
from sublearn.networks._text import known_kinds as known_kinds
from sublearn.networks._text import network_from_text, register
from sublearn.networks.packed import Packed as Packed
from sublearn.networks.packed import pack as pack

__all__ = [
    "REALS",
    "RNN",
    "Arithmetic",
    "Bounds",
    "Factored",
    "FeedForward",
    "ForwardCheck",
    "Gates",
    "LinearEstimator",
    "LinearRNN",
    "Network",
    "RateRNN",
    "Step",
    "Trace",
    "Weights",
    "evaluate",
    "factors",
    "gates_at",
    "network_from_text",
    "register",
    "run",
]
