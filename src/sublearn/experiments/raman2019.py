"""The settings of one source: Raman, Rotondo and O'Leary (2019), its published code, and slides on it.

Two pictures against size, a deep sigmoid network and an expanded linear one, of which a cell is
simulated at a time; the students of the pictures on slope, curvature and difficulty; and formulas as
the slides print them or the code has them, kept so that they can be shown to be wrong.

A repeat depends on (seed, repeat) alone. Repeats of the same number share teacher, start, inputs and,
over gamma3, the task-irrelevant directions too, so that widths and noise levels are compared pair by
pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, positive, whole_number
from sublearn._seeds import Tag
from sublearn._threads import single_thread
from sublearn.allocations import Allocation
from sublearn.ensembles import Instance
from sublearn.networks import FeedForward, LinearEstimator
from sublearn.noise import (
    Best,
    Geometry,
    Noise,
    Simulation,
    SizeFormula,
    error_signal,
    flatten,
    hessian_product,
    loss_at,
    plastic_positions,
    semi_orthogonal,
    simulate,
    zero_pad,
)

DEEP_WIDTHS = (5, 8, 12, 17, 22, 32, 45)
DEEP_NOISE = (0.0, 0.05, 0.1)
LINEAR_SIZES = tuple((2 * o, o) for o in (5, 8, 10, 13, 15, 17, 20, 25, 30, 35))
LINEAR_GAMMAS = ((0.07, 1.0, 0.03), (0.06, 1.0, 0.04), (0.05, 1.0, 0.05))
LINEAR_MIXINGS = (0.0, 0.1)


def deep_noise(gamma3: float, gamma1: float = 0.007, gamma2: float = 1.0) -> Noise:
    """The noise of the deep picture: n2 mixed as 0.1 old + 0.9 new, lengths summed over the layers."""
    return Noise((gamma1, gamma2, gamma3), mixing=0.1, norm="layers")


def deep_sigmoid(
    width: int,
    noise: Noise,
    *,
    cycles: int = 1500,
    repeats: int | range = 12,
    seed: int = 0,
    earlier_cycles: int = 1000,
    precision: str = "single",
    workers: int = 1,
) -> Simulation:
    """One cell of the deep picture: five hidden layers of ``width`` sigmoid units.

    10 inputs, 10 sigmoid outputs, biases; weights uniform with standard deviation 4/sqrt(n_in). A
    network of width 5 first learns another teacher for ``earlier_cycles`` on 50 fixed samples; it is
    then padded with zeros to ``width`` and learns its teacher, of width 5, from 50 fresh inputs per
    cycle.

    >>> run = deep_sigmoid(8, deep_noise(0.05), cycles=20, repeats=2, earlier_cycles=20)
    >>> again = deep_sigmoid(8, deep_noise(0.05), cycles=20, repeats=range(1, 2), earlier_cycles=20)
    >>> run.errors.shape, bool((run.errors[1] == again.errors[0]).all())
    ((2, 20), True)
    """
    whole_number("width", width, least=5, most=1000)
    small, wide = _deep_network(5), _deep_network(width)
    every, all_wide = Allocation.whole(small), Allocation.whole(wide)
    which = repeats if isinstance(repeats, range) else range(repeats)
    drawn = [_deep_draw(small, seed, number) for number in which]
    starts = [start for _, _, start, _ in drawn]
    learn = partial(simulate, noise=noise, repeats=which, precision=precision, workers=workers)
    if earlier_cycles:
        others = [
            Instance(small, every, start, x, small.forward(other, x))
            for _, other, start, x in drawn
        ]
        # The streams of the run itself come from the seed; these must be others.
        own = int(np.random.SeedSequence([Tag.DEEP_PICTURE, seed]).generate_state(1)[0])
        earlier = learn(others, cycles=earlier_cycles, seed=own)
        starts = [{n: w[row] for n, w in earlier.weights.items()} for row in range(len(which))]
    # The samples only say how many there are: every cycle has its own.
    lessons = [
        Instance.from_teacher(wide, all_wide, _padded(wide, start), x, teacher, small)
        for (teacher, _, _, x), start in zip(drawn, starts, strict=True)
    ]
    return learn(lessons, cycles=cycles, seed=seed, fresh=True)


def _deep_network(width: int, layers: int = 5) -> FeedForward:
    sizes = (10, *[width] * layers, 10)
    return FeedForward(sizes, activation="sigmoid", output="sigmoid", bias=True)


def _deep_draw(
    network: FeedForward, seed: int, number: int
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array], Array]:
    """Teacher, another teacher, start, and the fixed samples of the earlier task."""
    rng = np.random.default_rng([Tag.DEEP_PICTURE, seed, number])

    def draw() -> dict[str, Array]:
        out = {}
        for layer in range(1, network.layers + 1):
            rows, columns = network.shapes[f"W{layer}"]
            half = math.sqrt(3.0) * 4.0 / math.sqrt(columns)  # a uniform law of SD 4/sqrt(n_in)
            out[f"W{layer}"] = rng.uniform(-half, half, (rows, columns))
            out[f"b{layer}"] = rng.uniform(-half, half, (rows, 1))
        return out

    return draw(), draw(), draw(), rng.standard_normal((10, 50))


def _padded(network: FeedForward, weights: dict[str, Array]) -> dict[str, Array]:
    out = {name: np.zeros(shape) for name, shape in network.shapes.items()}
    for name, old in weights.items():
        out[name][: old.shape[0], : old.shape[1]] = old
    return out


def linear_base(rng: np.random.Generator) -> Instance:
    """y = W x of size 5 x 10 on 40 samples, all standard normal, every weight plastic."""
    network = LinearEstimator(inputs=10, outputs=5)
    x = rng.standard_normal((10, 40))
    targets = rng.standard_normal((5, 10)) @ x
    weights = {"W": rng.standard_normal((5, 10))}
    return Instance(network, Allocation.whole(network), weights, x, targets)


def linear_lessons(
    inputs: int, outputs: int, repeats: range, *, task: int = 0, samples: int = 1000, seed: int = 0
) -> list[Instance]:
    """The lessons of the linear picture, one for each repeat: y = W x of size 5 x 10, expanded.

    Standard normal samples; teacher and start are standard normal and differ by repeat. The
    estimator is carried by W' = D W B' of shape (outputs, inputs), with random semi-orthogonal D, B,
    and the loss is taken on all outputs, 1/(2m) sum |D y* - W' B x|^2. A ``task`` above 0 has other
    teachers, the rest is the same.

    >>> first, second = (linear_lessons(20, 10, range(1), task=task)[0] for task in (0, 1))
    >>> bool((first.start["W"] == second.start["W"]).all()), first.targets.shape
    (True, (10, 1000))
    """
    i, o = 10, 5
    wide = whole_number("inputs", inputs, least=i)
    tall = whole_number("outputs", outputs, least=o)
    shared = np.random.default_rng([Tag.LINEAR_PICTURE, seed, wide, tall])
    X = shared.standard_normal((i, samples))
    B, D = semi_orthogonal(wide, i, shared), semi_orthogonal(tall, o, shared)
    network = LinearEstimator(inputs=wide, outputs=tall)
    instances = []
    for number in repeats:
        drawn = np.random.default_rng([Tag.LINEAR_PICTURE, seed, number]).standard_normal(
            (2 + task, o, i)
        )
        weights, targets = {"W": D @ drawn[0] @ B.T}, D @ drawn[-1] @ X
        instances.append(Instance(network, Allocation.whole(network), weights, B @ X, targets))
    return instances


def sigmoid_path(
    widths: Sequence[int] = DEEP_WIDTHS,
    *,
    layers: int = 5,
    samples: int = 50,
    trained: int = 1000,
    approached: int = 0,
    seed: int = 0,
) -> list[Instance]:
    """The sigmoid student of the pictures on difficulty, zero-padded to each of the ``widths``.

    10 inputs, ``layers`` hidden layers, 10 outputs, sigmoids throughout, biases; weights of student and
    teachers uniform with standard deviation 4 / sqrt(n_in), the bias counted among the n_in. The student
    of the first width takes ``trained`` gradient steps of length 0.05 towards another teacher, on fresh
    inputs each, then ``approached`` such steps towards its own: the later in learning, the smaller the
    gradient beside the curvature.
    """
    whole_number("layers", layers, least=1)
    whole_number("samples", samples, least=1)
    whole_number("trained", trained, least=0)
    whole_number("approached", approached, least=0)
    network = _deep_network(widths[0], layers)
    rng = np.random.default_rng([seed, Tag.STUDENT])

    def draw() -> dict[str, Array]:
        out = {}
        for name, shape in network.shapes.items():
            half = 4.0 * math.sqrt(3.0 / (network.shapes["W" + name[1:]][1] + 1))
            out[name] = rng.uniform(-half, half, size=shape)
        return out

    student, other, teacher = draw(), draw(), draw()
    with single_thread():
        for goal in [other] * trained + [teacher] * approached:
            x = rng.standard_normal((10, samples))
            signal = error_signal(network.forward(student, x), network.forward(goal, x))
            slope = network.vjp(student, x, signal)
            norm = math.sqrt(sum(float(np.sum(part**2)) for part in slope.values()))
            for name, part in slope.items():
                student[name] = student[name] - 0.05 / norm * part
    x = rng.standard_normal((10, samples))
    first = Instance(network, Allocation.whole(network), student, x, network.forward(teacher, x))
    return [zero_pad(first, width) for width in widths]


def slope_against_curvature(
    instance: Instance, *, length: float | None = None, angles: int = 37, seed: int = 0
) -> list[dict[str, float | str]]:
    """How the direction of a step trades slope for curvature.

    Steps of one ``length`` s along u = -cos(t) ghat + sin(t) v, for angles t from 0 to 90 degrees: v
    is either the direction at right angles to ghat in which the curvature falls fastest ("flatter"),
    or a random one ("random"). Without a length s is the gradient step's best one, |g|/q (1 where
    q <= 0). ``slope`` = -s g'u is what the gradient promises, ``curvature`` =
    s^2 u'Hu / 2 what bending takes back, ``predicted`` the fall slope - curvature, ``measured``
    the fall of F itself.
    """
    whole_number("angles", angles, least=2)
    if length is not None:
        positive("length", length)
    network, weights = instance.network, instance.start
    inside = np.zeros(network.size)
    inside[plastic_positions(instance)] = 1.0
    with single_thread():
        signal = error_signal(network.forward(weights, instance.inputs), instance.targets)
        gradient = inside * flatten(network, network.vjp(weights, instance.inputs, signal))
        norm = float(np.linalg.norm(gradient))
        if not norm or inside.sum() < 2:
            raise BadInputError("a direction to turn to needs a gradient and two plastic weights.")
        ghat = gradient / norm
        bent = inside * hessian_product(instance, ghat)
        if length is None:
            length = norm / float(bent @ ghat) if bent @ ghat > 0 else 1.0
        wild = inside * np.random.default_rng([seed, Tag.DIRECTION]).standard_normal(network.size)
        here = flatten(network, weights)
        turn = np.linspace(0.0, math.pi / 2, angles)
        cos, sin = np.cos(turn), np.sin(turn)
        rows: list[dict[str, float | str]] = []
        # u'Hu has the mixed term -2 cos sin ghat'Hv: turning towards +H ghat flattens fastest.
        for name, towards in (("flatter", bent), ("random", wild)):
            v = towards - (towards @ ghat) * ghat
            if np.linalg.norm(v) <= 1e-12 * np.linalg.norm(towards):
                continue  # ghat is an eigenvector: to first order no direction is flatter
            v /= np.linalg.norm(v)
            across = float(v @ hessian_product(instance, v))
            bend = cos**2 * (bent @ ghat) - 2 * cos * sin * (bent @ v) + sin**2 * across
            steps = length * (sin[:, None] * v - cos[:, None] * ghat)
            slope, cost = length * norm * cos, 0.5 * length**2 * bend
            columns = {
                "angle": np.degrees(turn),
                "slope": slope,
                "curvature": cost,
                "predicted": slope - cost,
                "measured": loss_at(instance, here) - loss_at(instance, here + steps),
            }
            each = zip(*(column.tolist() for column in columns.values()), strict=True)
            rows += [{"towards": name, **dict(zip(columns, row, strict=True))} for row in each]
    return rows


def slides_rate(geometry: Geometry, noise: Noise) -> float:
    """The mean rate as the slides print it; it does not hold.

        <k> = -(|g|/F) { -gamma1 + T gamma1^2 q + T Tr H / (2 |g|^2) [gamma2^2/N + gamma3^2/T] }

    The gamma1^2 term lacks 1/(2|g|), the trace term has |g|^2 for |g|.
    """
    return slides_expanded_rate(geometry, 1.0, 1.0, noise)


def slides_expanded_rate(base: Geometry, c1: float, c2: float, noise: Noise) -> float:
    """The slides' mean rate of the network expanded by (c1, c2), from the base network's geometry.

    c2 multiplies both curvature terms there. It multiplies the trace, but q stays as it is.
    """
    (g1, g2, g3), T, g = noise.gamma, noise.T, base.gradient_norm
    if not g:
        raise BadInputError("the slides' formula divides by the gradient, which is 0 here.")
    part = g2**2 / (c1 * c2 * base.plastic) + g3**2 / T
    inside = -g1 + T * c2 * g1**2 * base.q + T * c2 * base.noise_trace / (2 * g**2) * part
    return -g / base.loss * inside


def slides_size(noise: Noise, base: int) -> Best:
    """T (gamma2^2 - gamma1^2) / gamma3^2, as the slides print it for linear networks; it does not hold.

    The base size plays no part.

    >>> round(slides_size(Noise((0.8, 1.0, 0.05)), 50).value)
    144
    """
    (g1, g2, g3), T = noise.gamma, noise.T
    if not g3:
        return Best(None, "gamma3 = 0: the slides' formula divides by it.")
    value = T * (g2**2 - g1**2) / g3**2
    why = "It holds nowhere: gamma1 plays no part in the best size of linear networks"
    return Best(value, f"{why}{', and no size is negative' if value < 0 else ''}.")


def slides_nonlinear_size(noise: Noise, base: int) -> Best:
    """gamma1 sqrt(T N) / gamma3, as the slides print it for nonlinear networks of base size N.

    That is the root of N* = (T gamma2^2/gamma3^2) [gamma1^2 N / (gamma2^2 N*)].
    """
    (g1, _, g3), T = noise.gamma, noise.T
    if not g3:
        return Best(None, "gamma3 = 0: the slides' formula divides by it.")
    return Best(
        g1 * math.sqrt(T * base) / g3,
        "The slides print it without derivation, and it differs from the published code's.",
    )


def implicit_size(noise: Noise, base: int) -> Best:
    """The root N* of N* = (T/gamma3^2) sqrt[(gamma1^2 + gamma2^2)(gamma2^2 + gamma1^2 N/N*)].

    The equation of the published code for nonlinear networks padded from N weights.
    """
    (g1, g2, g3), T = noise.gamma, noise.T
    if not g3:
        return Best(None, "gamma3 = 0: the equation divides by it.")
    if not (g1 or g2):
        return Best(0.0, "nothing but noise moves the weights.")

    def excess(log_size: float) -> float:
        size = math.exp(log_size)
        return (
            log_size
            - math.log(T / g3**2)
            - 0.5 * math.log((g1**2 + g2**2) * (g2**2 + g1**2 * base / size))
        )

    # The left side rises and the right side falls with the size: one root, found by halving.
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return Best(
        math.exp(0.5 * (low + high)),
        "From the published code, without a derivation: compare the maximum of <k>.",
    )


SIZES: Mapping[str, SizeFormula] = {
    "slides, linear": slides_size,
    "slides, nonlinear": slides_nonlinear_size,
    "implicit": implicit_size,
}
"""Best sizes as the slides and the published code have them, to stand ``beside`` those of a path."""
