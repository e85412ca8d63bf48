"""The two settings of the published pictures: a deep sigmoid network and an expanded linear one.

Both follow Raman, Rotondo and O'Leary (2019) and their published code. A repeat depends on
(seed, repeat) alone. Repeats of the same number share teacher, start, inputs and, over gamma3, the
task-irrelevant directions too, so that widths and noise levels are compared pair by pair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, whole_number
from sublearn.networks import FeedForward, LinearEstimator
from sublearn.noise._growth import semi_orthogonal
from sublearn.noise._loss import check_gamma
from sublearn.noise._simulate import Simulation, check_repeats, simulate
from sublearn.noise._simulate_data import FreshInputs
from sublearn.noise._steady import SteadyPrediction, predict_steady_state

DEEP_WIDTHS = (5, 8, 12, 17, 22, 32, 45)
DEEP_NOISE = (0.0, 0.05, 0.1)
LINEAR_SIZES = (
    (10, 5),
    (16, 8),
    (20, 10),
    (26, 13),
    (30, 15),
    (34, 17),
    (40, 20),
    (50, 25),
    (60, 30),
    (70, 35),
)
LINEAR_GAMMAS = ((0.07, 1.0, 0.03), (0.06, 1.0, 0.04), (0.05, 1.0, 0.05))
LINEAR_MIXINGS = (0.0, 0.1)
_DEEP, _LINEAR = 0xDEE9, 0x11EA


def deep_sigmoid(
    width: int,
    gamma3: float,
    *,
    cycles: int = 1500,
    repeats: int | range = 12,
    seed: int = 0,
    gamma1: float = 0.007,
    gamma2: float = 1.0,
    T: float = 1.0,
    norm: str = "layers",
    earlier_cycles: int = 1000,
    precision: str = "single",
    workers: int = 1,
) -> Simulation:
    """One cell of the deep picture: five hidden layers of ``width`` sigmoid units, noise gamma3.

    10 inputs, 10 sigmoid outputs, biases; weights uniform with standard deviation 4/sqrt(n_in). A
    network of width 5 first learns another teacher for ``earlier_cycles`` on 50 fixed samples; it is
    then padded with zeros to ``width`` and learns its teacher, of width 5, from 50 fresh inputs per
    cycle. n2 is mixed as 0.1 old + 0.9 new; lengths are sums of the layers' norms.

    >>> run = deep_sigmoid(8, 0.05, cycles=20, repeats=2, earlier_cycles=20)
    >>> again = deep_sigmoid(8, 0.05, cycles=20, repeats=range(1, 2), earlier_cycles=20)
    >>> run.errors.shape, bool((run.errors[1] == again.errors[0]).all())
    ((2, 20), True)
    """
    which = check_repeats(repeats)
    if whole_number("width", width, least=5) > 1000:
        raise BadInputError(f"width must be at most 1000, not {width}.")
    gamma = check_gamma((gamma1, gamma2, gamma3))
    small, wide = _deep_network(5), _deep_network(width)
    drawn = [_deep_draw(small, seed, number) for number in which]
    teacher, other, base, fixed = (
        {name: np.stack([part[name] for part in parts]) for name in parts[0]}
        for parts in zip(*drawn, strict=True)
    )
    inputs = fixed["x"]
    if earlier_cycles:
        earlier = simulate(
            small,
            base,
            inputs=inputs,
            targets=small.forward(other, inputs),
            gamma=gamma,
            T=T,
            cycles=earlier_cycles,
            repeats=which,
            # The streams of the run itself come from the seed; these must be others.
            seed=int(np.random.SeedSequence([_DEEP, seed]).generate_state(1)[0]),
            mixing=0.1,
            norm=norm,
            precision=precision,
            workers=workers,
        )
        base = earlier.weights
    padded = {}
    for name, shape in wide.shapes.items():
        padded[name] = np.zeros((len(which), *shape))
        padded[name][:, : base[name].shape[1], : base[name].shape[2]] = base[name]
    return simulate(
        wide,
        padded,
        inputs=FreshInputs(50, small, teacher),
        gamma=gamma,
        T=T,
        cycles=cycles,
        repeats=which,
        seed=seed,
        mixing=0.1,
        norm=norm,
        precision=precision,
        workers=workers,
    )


def _deep_network(width: int) -> FeedForward:
    return FeedForward((10, *[width] * 5, 10), activation="sigmoid", output="sigmoid", bias=True)


def _deep_draw(network: FeedForward, seed: int, number: int) -> tuple[dict[str, Array], ...]:
    """Teacher, another teacher, start, and the fixed samples of the earlier task."""
    rng = np.random.default_rng([_DEEP, seed, number])

    def draw() -> dict[str, Array]:
        out = {}
        for layer in range(1, network.layers + 1):
            rows, columns = network.shapes[f"W{layer}"]
            half = math.sqrt(3.0) * 4.0 / math.sqrt(columns)  # a uniform law of SD 4/sqrt(n_in)
            out[f"W{layer}"] = rng.uniform(-half, half, (rows, columns))
            out[f"b{layer}"] = rng.uniform(-half, half, (rows, 1))
        return out

    return draw(), draw(), draw(), {"x": rng.standard_normal((10, 50))}


def linear_steady_state(
    inputs: int,
    outputs: int,
    gamma: Sequence[float],
    *,
    mixing: float = 0.0,
    cycles: int = 1500,
    repeats: int | range = 12,
    seed: int = 0,
    T: float = 1.0,
    precision: str = "double",
    workers: int = 1,
) -> tuple[Simulation, SteadyPrediction]:
    """One cell of the linear picture, simulated and predicted: y = W x of size 5 x 10, expanded.

    1000 standard normal samples; teacher and start are standard normal and differ by repeat. The
    estimator is carried by W' = D W B' of shape (outputs, inputs), with random semi-orthogonal D, B,
    and the loss is taken on all outputs, 1/(2m) sum |D y* - W' B x|^2.

    >>> run, predicted = linear_steady_state(20, 10, (0.06, 1.0, 0.04), cycles=1000, repeats=4)
    >>> predicted.rank, bool(0.8 < run.final(400).mean() / predicted.value < 1.2)
    (100, True)
    """
    which = check_repeats(repeats)
    i, o, m = 10, 5, 1000
    wide = whole_number("inputs", inputs, least=i)
    tall = whole_number("outputs", outputs, least=o)
    shared = np.random.default_rng([_LINEAR, seed, wide, tall])
    X = shared.standard_normal((i, m))
    B, D = semi_orthogonal(wide, i, shared), semi_orthogonal(tall, o, shared)
    pairs = [
        np.random.default_rng([_LINEAR, seed, number]).standard_normal((2, o, i))
        for number in which
    ]
    start = np.stack([D @ pair[0] @ B.T for pair in pairs])
    targets = np.stack([D @ pair[1] @ X for pair in pairs])
    network = LinearEstimator(inputs=wide, outputs=tall)
    run = simulate(
        network,
        {"W": start},
        inputs=B @ X,
        targets=targets,
        gamma=gamma,
        T=T,
        cycles=cycles,
        repeats=which,
        seed=seed,
        mixing=mixing,
        precision=precision,
        workers=workers,
    )
    predicted = predict_steady_state(
        network,
        {"W": start[0]},
        inputs=B @ X,
        targets=targets[0],
        gamma=gamma,
        T=T,
        mixing=mixing,
    )
    return run, predicted
