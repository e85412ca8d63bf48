"""decide_within against optima, searches and enclosures that it was not written from."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

import sublearn as sl
from matchers.tiny_instances import (
    chebyshev,
    distance,
    least_eps,
    outputs,
    relu_optimum,
    relu_within,
    search,
    some_allocation,
    tiny,
)
from sublearn.matchers._behind import behind_output, is_affine_before_output
from sublearn.matchers.proofs._balls import BALLS, precision
from sublearn.matchers.within._bands import Bands, bands
from sublearn.matchers.within._boxes import Boxes, Image, _start
from sublearn.matchers.within._freed import _relaxed, out_of_relaxation
from sublearn.matchers.within._reach import _regular_minor, _tail

RNG = np.random.default_rng
KINDS = list(
    product(
        ("linear", "relu", "tanh", "sigmoid"),
        ("linear", "tanh", "sigmoid", "relu"),
        (False, True),
        (1, 2, 3),
    )
)
ROUNDING = 1e-9
SMALL = sl.Budget(starts=40, nodes=20_000)


def agrees(instance: sl.Instance, eps: float, reached: float) -> str:
    """The decision, once it is seen not to contradict a distance that some weights reach."""
    found = sl.decide_within(instance, eps, budget=SMALL)
    if found.kind == "refuted":
        assert reached > eps, (instance, found)
        assert str(found.grade) == "proof"
    if found.kind == "matched":
        assert found.values is not None and str(found.grade) == "proof"
        assert distance(instance, found.values) <= eps * (1 + ROUNDING) + 1e-13, found
        assert found.weights is not None
        for name, value in instance.weights.items():
            held = ~instance.allocation.mask(name)
            assert (found.weights[name][held] == value[held]).all()
    return found.kind


def sweep(numbers: range, shares: tuple[float, ...]) -> tuple[int, int]:
    """Instances of every kind, each at several eps around what a search reaches: (decided, all)."""
    decided = asked = 0
    for number in numbers:
        rng = RNG([11, number])
        hidden, output, bias, depth = KINDS[number % len(KINDS)]
        instance = tiny(rng, hidden, output, bias=bias, depth=depth)
        reached = search(instance, rng)
        kinds = []
        for share in shares:
            eps = share * reached if reached > 1e-9 else 0.01 * share
            kinds.append(agrees(instance, eps, reached))
        # Larger eps can only help.
        if "matched" in kinds:
            assert "refuted" not in kinds[kinds.index("matched") :]
        if sl.decide(instance, budget=SMALL).kind == "matched":
            assert "refuted" not in kinds
        decided += sum(kind != "undecided" for kind in kinds)
        asked += len(kinds)
    return decided, asked


def test_no_contradiction_on_instances_of_every_kind() -> None:
    # 7 and the 96 kinds have no factor in common: every activation with every other.
    decided, asked = sweep(range(0, 7 * 32, 7), (0.5, 0.95, 1.1))
    assert decided > 0.85 * asked, "the comparison would say little"


@pytest.mark.slow
def test_no_contradiction_on_many_instances() -> None:
    decided, asked = sweep(range(1000, 1300), (0.3, 0.8, 0.97, 1.05, 2.0))
    assert decided > 0.9 * asked


def affine_cases(count: int, output: str, seed: int) -> list[sl.Instance]:
    out: list[sl.Instance] = []
    rng = RNG(seed)
    while len(out) < count:
        hidden = ("linear", "relu")[int(rng.integers(2))]
        bias = bool(rng.integers(2))
        depth = int(rng.integers(1, 4))
        instance = tiny(rng, hidden, output, bias=bias, depth=depth)
        if is_affine_before_output(instance) and len(instance.allocation) <= 4:
            out.append(instance)
    return out


def linear_parts(instance: sl.Instance) -> tuple[np.ndarray, np.ndarray]:
    """J and c of outputs that are affine in the learnable weights, by differences: exact on dyadics."""
    r = len(instance.allocation)
    constants = outputs(instance, np.zeros(r)).ravel()
    columns = [outputs(instance, row).ravel() - constants for row in np.eye(r)]
    return np.array(columns).T, constants


@pytest.mark.parametrize("seed", range(3))
def test_affine_systems_are_decided_on_both_sides_of_the_exact_optimum(seed: int) -> None:
    """The optimum is in fractions; outputs round, so both sides keep a little away from it."""
    definite = 0
    for instance in affine_cases(12, "linear", seed):
        jacobian, constants = linear_parts(instance)
        least = float(chebyshev(jacobian, constants - instance.targets.ravel()))
        above = max(least * (1 + 1e-6), 1e-9)
        assert sl.decide_within(instance, above).kind == "matched"
        if least > 1e-9:
            assert sl.decide_within(instance, least * (1 - 1e-6)).kind == "refuted"
            definite += 1
    assert definite >= 3


def test_dependent_columns_and_whole_numbers_are_refuted_exactly() -> None:
    """Two equal columns and rows of rank 1: y'J = 0 must hold exactly, and fractions see to that."""
    net = sl.FeedForward((2, 2, 1))
    weights = {"W1": np.array([[1.0, 2.0], [1.0, 2.0]]) / 3, "W2": np.array([[0.0, 0.0]])}
    inputs = np.array([[1.0, 2.0, 3.0], [0.5, 1.0, 1.5]])
    targets = np.array([[1.0, 2.2, 2.9]])
    given = sl.Instance(net, sl.Allocation.whole(net, ["W2"]), weights, inputs, targets)
    assert sl.decide_within(given, 0.161).kind == "matched"
    found = sl.decide_within(given, 0.159)
    assert (found.kind, found.rung) == ("refuted", "affine")


@pytest.mark.parametrize("output", ["tanh", "sigmoid", "relu"])
def test_affine_systems_behind_an_output_activation(output: str) -> None:
    """Bisection over eps with linear programs in the pre-activations, each in float64."""
    both = 0
    for instance in affine_cases(12, output, 5):
        jacobian, constants = linear_parts(behind_output(instance))

        def feasible(low: np.ndarray, high: np.ndarray, J=jacobian, c=constants) -> bool:  # type: ignore[no-untyped-def]
            up, down, r = np.isfinite(high), np.isfinite(low), J.shape[1]
            table = np.vstack([J[up], -J[down]])
            if not len(table):
                return True
            right = np.r_[(high - c)[up], (c - low)[down]]
            found = linprog(np.zeros(r), A_ub=table, b_ub=right, bounds=[(None, None)] * r)
            return bool(found.status == 0)

        least = least_eps(instance, feasible)
        assert least < 8
        kinds = [sl.decide_within(instance, max(least * s, 1e-6)).kind for s in (0.999, 1.001)]
        assert kinds[1] == "matched", (instance, least)
        assert kinds[0] == "refuted" or least < 1e-5, (instance, least)
        both += kinds[0] == "refuted"
    assert both >= 3


def relu_cases(count: int, seed: int, output: str = "linear", most: int = 6) -> list[sl.Instance]:
    out: list[sl.Instance] = []
    rng = RNG(seed)
    while len(out) < count:
        names = ("W1", "b1") if rng.random() < 0.3 else ("W1",)
        instance = tiny(rng, "relu", output, bias=bool(rng.integers(2)), depth=2, names=names)
        rows = {i for _, i, _ in instance.allocation.labels()}
        if len(rows) * instance.samples <= most:
            out.append(instance)
    return out


def check_relu(instances: list[sl.Instance]) -> None:
    refuted = 0
    for instance in instances:
        least = relu_optimum(instance)
        assert sl.decide_within(instance, max(least * (1 + 1e-5), 1e-6)).kind == "matched"
        if least > 1e-6:
            assert sl.decide_within(instance, least * (1 - 1e-5)).kind == "refuted"
            refuted += 1
    assert refuted > len(instances) / 4


def test_shallow_relu_is_decided_on_both_sides_of_the_optimum_over_all_patterns() -> None:
    check_relu(relu_cases(12, 3))


@pytest.mark.slow
def test_shallow_relu_on_both_sides_for_many_instances() -> None:
    check_relu(relu_cases(120, 4))


@pytest.mark.parametrize("output", ["tanh", "sigmoid", "relu"])
def test_shallow_relu_behind_output_activations(output: str) -> None:
    """On both sides of the least eps of all patterns, found by bisection."""
    rungs = []
    for instance in relu_cases(6, 1, output, most=4):
        inner = behind_output(instance)
        least = least_eps(instance, lambda low, high, given=inner: relu_within(given, low, high))
        assert sl.decide_within(instance, max(least * 1.001, 1e-6)).kind == "matched"
        if least > 1e-5:
            found = sl.decide_within(instance, least * 0.999)
            assert found.kind == "refuted", (instance, least)
            rungs.append(found.rung)
    assert rungs


def test_figure_3b_instances_are_decided() -> None:
    """The paper's size, 48 pairs of unit and sample: every eps is decided, and none against a smaller one."""
    problem = sl.Problem(sl.FeedForward((6, 8, 4), activation="relu"), samples=6)
    for trial in range(2):
        instance = sl.draw(problem, {"W1": sl.FirstRows(8)}, trial=trial)
        kinds = [sl.decide_within(instance, eps).kind for eps in (0.02, 0.3, 2.0)]
        assert kinds == sorted(kinds, reverse=True) and kinds[-1] == "matched"


# Limits at infinity.


def one_output(hidden: str, output: str, target: float, second: float = 2.0) -> sl.Instance:
    """y = second phi(w x) at x = 1."""
    net = sl.FeedForward((1, 1, 1), hidden, output)
    held = sl.Allocation.from_entries(net, {"W1": [(0, 0)]})
    weights = {"W1": [[0.0]], "W2": [[second]]}
    return sl.Instance(net, held, weights, [[1.0]], [[target]])


def test_an_infimum_that_is_not_reached_is_neither_matched_nor_refuted() -> None:
    """2 tanh(w) tends to 2 and never is: the infimum of the distance to 2.5 is 0.5."""
    given = one_output("tanh", "linear", 2.5)
    assert sl.decide_within(given, 0.499).kind == "refuted"
    assert sl.decide_within(given, 0.501).kind == "matched"
    assert sl.decide_within(given, 0.5).kind == "undecided"
    net = sl.FeedForward((1, 1), output="sigmoid")
    edge = sl.Instance(net, sl.Allocation.whole(net), {"W1": [[0.0]]}, [[1.0]], [[1.5]])
    kinds = [sl.decide_within(edge, eps).kind for eps in (0.499, 0.5, 0.501)]
    assert kinds == ["refuted", "undecided", "matched"]


def test_a_saturated_target_is_approached() -> None:
    """tanh(w) = 1 has no solution and its infimum is 0: within every eps, never exactly."""
    given = one_output("tanh", "linear", 2.0)
    assert sl.decide(given).kind != "matched"
    for eps in (1e-1, 1e-6, 1e-12):
        assert sl.decide_within(given, eps).kind == "matched"


def test_a_linear_limit_of_tanh_is_never_refuted() -> None:
    """w2 tanh(w1 x) tends to x as w1 -> 0 and w1 w2 = 1: exact nowhere, within every eps."""
    net = sl.FeedForward((1, 1, 1), "tanh")
    inputs = np.array([[0.5, 1.0, 1.5, 2.0]])
    weights = {"W1": [[0.0]], "W2": [[0.0]]}
    given = sl.Instance(net, sl.Allocation.whole(net), weights, inputs, inputs)
    assert sl.decide_within(given, 1e-2).kind == "matched"
    for eps in (1e-4, 1e-8):
        assert sl.decide_within(given, eps).kind != "refuted"


# Narrow layers, equal samples, relaxations.


def test_narrow_layers_are_refuted_by_rank() -> None:
    """[[1, 1], [1, -1]] has singular values sqrt(2): farther than eps < 1 / sqrt(2) from rank 1."""
    net = sl.FeedForward((2, 1, 2))
    weights = {"W1": np.zeros((1, 2)), "W2": np.zeros((2, 1))}
    targets = np.array([[1.0, 1.0], [1.0, -1.0]])
    given = sl.Instance(net, sl.Allocation.whole(net), weights, np.eye(2), targets)
    assert sl.decide_within(given, 0.7).kind == "refuted"
    # Its largest distance to 0, a matrix of rank 0, is 1; none of rank 1 is nearer than 1.
    assert sl.decide_within(given, 1.01).kind == "matched"
    assert sl.decide_within(given, 0.9).kind != "matched"


def test_the_distance_to_low_rank_agrees_with_singular_values() -> None:
    rng = RNG(0)
    hits = 0
    for _ in range(40):
        d, m = int(rng.integers(2, 6)), int(rng.integers(2, 6))
        rank = int(rng.integers(0, min(d, m)))
        matrix = rng.standard_normal((d, m))
        tail = float((np.linalg.svd(matrix)[1][rank:] ** 2).sum())
        for share in (0.99, 1.01):
            half = np.sqrt(share * tail / matrix.size)
            with precision(128):
                room = BALLS.exact(np.full((d, m), half)).entries()
                assert _tail(BALLS.exact(matrix), rank, room) == (share < 1)
                if _regular_minor(BALLS.exact(matrix), room, rank):
                    hits += 1
                    for _ in range(20):  # no corner of the bands has that rank
                        near = matrix + half * rng.choice([-1.0, 1.0], (d, m))
                        assert np.linalg.svd(near)[1][rank] > 0
    assert hits


def test_equal_samples_with_different_targets() -> None:
    for net in (sl.FeedForward((2, 3, 1), "tanh", bias=True), sl.FeedForward((2, 2, 1))):
        weights = {name: np.ones(shape) for name, shape in net.shapes.items()}
        inputs = np.array([[1.0, 0.0, 1.0], [-0.0, 2.0, 0.0]])
        targets = np.array([[1.0, 0.3, 1.5]])
        given = sl.Instance(net, sl.Allocation.whole(net), weights, inputs, targets)
        assert sl.decide_within(given, 0.24).kind == "refuted"
        assert sl.decide_within(given, 0.26).kind == "matched"


def test_the_relaxation_holds_every_output_of_a_linear_network() -> None:
    rng = RNG(2)
    networks: list[sl.Network] = [
        sl.FeedForward((2, 3, 2, 3), bias=True),
        sl.FeedForward((3, 2, 4)),
        sl.LinearRNN(n=3, b=2, d=3, T=3),
    ]
    narrower = 0
    for _ in range(30):
        network = networks[int(rng.integers(3))]
        names = list(network.shapes)
        chosen = [n for n in names if rng.random() < 0.5] or names[:1]
        entries = {
            n: [(int(rng.integers(a)), int(rng.integers(b)))]
            for n, (a, b) in network.shapes.items()
            if n in chosen
        }
        held = sl.Allocation.from_entries(network, entries)
        weights = {n: rng.standard_normal(s) for n, s in network.shapes.items()}
        inputs = rng.standard_normal(network.input_shape(4))
        given = sl.Instance(network, held, weights, inputs, np.zeros((network.output_size, 4)))
        with precision(128):
            relaxed = _relaxed(given)
            assert relaxed is not None
            jacobian = np.array([[float(e.mid()) for e in row] for row in relaxed[0].tolist()])
            constants = np.array([float(e.mid()) for e in relaxed[1]])
        narrower += np.linalg.matrix_rank(jacobian) < len(constants)
        for _ in range(3):
            values = rng.standard_normal(len(held))
            wanted = given.residual(values).ravel() - constants
            found = np.linalg.lstsq(jacobian, wanted, rcond=None)[0]
            assert np.abs(jacobian @ found - wanted).max() < 1e-8
        assert out_of_relaxation(given, 1e-3) is None or given.residual(values).any()
    assert narrower > 5


def test_products_of_linear_layers_are_refuted_by_the_relaxation() -> None:
    """W2 W1 X with every weight learnable is a linear map of X: three samples of one number."""
    net = sl.FeedForward((1, 2, 1))
    weights = {name: np.zeros(shape) for name, shape in net.shapes.items()}
    targets = np.array([[1.0, 2.2, 2.9]])
    given = sl.Instance(net, sl.Allocation.whole(net), weights, [[1.0, 2.0, 3.0]], targets)
    found = sl.decide_within(given, 0.159)
    assert (found.kind, found.rung) == ("refuted", "relaxed")
    assert sl.decide_within(given, 0.161).kind == "matched"


# Boxes.


def test_images_of_boxes_hold_the_images_of_their_points() -> None:
    """Points of every chart, near and far, and their derivatives in the bounded ones."""
    rng = RNG(4)
    for number in range(60):
        hidden, output, bias, depth = KINDS[(7 * number) % len(KINDS)]
        instance = behind_output(tiny(rng, hidden, output, bias=bias, depth=depth))
        nothing = np.full(instance.equations, np.inf)
        image = Image(instance, np.array([-nothing, nothing]))
        boxes = _start(image)
        chart = int(rng.integers(len(boxes)))
        one = boxes.select(slice(chart, chart + 1))
        (left, right), (near, far) = one.coefficients, one.lengths
        cut = np.sort(rng.uniform(left, right, (2, *left.shape)), axis=0)
        cut = np.where(left == right, left, cut)
        far = np.where(np.isinf(far) & (rng.random(far.shape) < 0.5), 9.0, far)
        box = Boxes(cut, np.array([near, far]), one.depth)
        with np.errstate(all="ignore"):
            low, high = image.intervals(box)
        for _ in range(20):
            t = np.where(np.isinf(far), 2.0 + rng.exponential(50.0, far.shape), far)
            t = np.where(near < t, rng.uniform(near, t), t)
            x = (t[:, image.row_of] * rng.uniform(cut[0], cut[1]))[0]
            z = outputs(instance, x)
            assert (low[0] <= z + 1e-12).all() and (z <= high[0] + 1e-12).all()
        if np.isfinite(far).all():
            ends = np.sort(np.stack([far[:, image.row_of] * c for c in cut]), axis=0)
            with np.errstate(all="ignore"):
                below, above = image.tangents(image._plain(ends))
            x = rng.uniform(ends[0], ends[1])[0]
            exact = instance.network.jacobian(
                instance.with_values(x), instance.inputs, instance.allocation
            )
            exact = exact.T.reshape(below[0].shape)
            assert (below[0] <= exact + 1e-9).all() and (exact <= above[0] + 1e-9).all()


def test_recurrent_networks() -> None:
    """Weights that recur, encoders: images of boxes hold their points, and no decision is contradicted."""
    decided = 0
    for number in range(16):
        rng = RNG([5, number])
        n, b, d, T, m = (int(rng.integers(1, most)) for most in (4, 3, 3, 4, 5))
        activation = ("linear", "tanh", "relu", "sigmoid")[number % 4]
        net: sl.Network = sl.LinearRNN(n=n, b=b, d=d, T=T)
        if activation != "linear":
            net = sl.RNN(n=n, b=b, d=d, T=T, activation=activation)
        held = some_allocation(net, min(3, net.size), rng)
        weights = {name: rng.standard_normal(shape) for name, shape in net.shapes.items()}
        inputs = rng.standard_normal(net.input_shape(m))
        noise = rng.choice([0.1, 0.5]) * rng.standard_normal((d, m))
        targets = net.forward(weights, inputs) + noise
        given = sl.Instance(net, held, weights, inputs, targets)
        nothing = np.full(given.equations, np.inf)
        image = Image(given, np.array([-nothing, nothing]))
        ends = np.sort(rng.standard_normal((2, 1, len(held))), axis=0)
        box = image._plain(ends)
        (low, high), (below, above) = image.intervals(box), image.tangents(box)
        reached = np.inf
        for _ in range(200):
            x = rng.uniform(ends[0], ends[1])[0]
            z = net.forward(given.with_values(x), inputs)
            assert (low[0] <= z + 1e-12).all() and (z <= high[0] + 1e-12).all()
            reached = min(reached, float(np.abs(z - targets).max()))
        slope = net.jacobian(given.with_values(x), inputs, held).T.reshape(below[0].shape)
        assert (below[0] <= slope + 1e-9).all() and (slope <= above[0] + 1e-9).all()
        planted = float(np.abs(noise).max())
        reached = min(reached, planted)
        for share in (0.3, 1.01):
            found = sl.decide_within(given, share * reached, budget=SMALL)
            assert share < 1 or found.kind == "matched"
            decided += found.kind != "undecided"
    assert decided > 24


def test_smooth_hidden_layers_are_refuted_by_boxes() -> None:
    """Against a fine grid over one or two weights, compactified, and so over the limits too."""
    refuted = 0
    for number in range(10):
        rng = RNG([6, number])
        net = sl.FeedForward((2, 2, 2), ("tanh", "sigmoid")[number % 2])
        entries = [(0, 0)] if number < 5 else [(0, 0), (0, 1)]
        held = sl.Allocation.from_entries(net, {"W1": entries})
        weights = {n: rng.standard_normal(s) for n, s in net.shapes.items()}
        inputs = rng.standard_normal((2, 3))
        targets = net.forward(weights, inputs) + 0.3 * rng.standard_normal((2, 3))
        given = sl.Instance(net, held, weights, inputs, targets)
        u = np.linspace(-1, 1, 401)[1:-1]
        line = u / (1 - np.abs(u))
        grid = np.array(list(product(line, repeat=len(entries)))) if number < 5 else None
        if grid is None:
            coarse = line[::8]
            grid = np.array(list(product(coarse, repeat=2)))
        reached = min(distance(given, x) for x in grid)
        reached = min(reached, search(given, rng))
        kinds = [agrees(given, share * reached, reached) for share in (0.7, 0.9, 1.01)]
        assert kinds[2] == "matched"
        refuted += kinds[:2].count("refuted")
    assert refuted >= 15


# Bands, bad input, reproducibility.


def test_bands_are_the_pre_activations_within_eps() -> None:
    rng = RNG(9)
    for output in ("linear", "tanh", "sigmoid", "relu"):
        net = sl.FeedForward((1, 1), output=output)
        for _ in range(50):
            target, eps = float(rng.normal()), float(rng.uniform(0.01, 1.5))
            given = sl.Instance(net, sl.Allocation.whole(net), {"W1": [[0.0]]}, [[1.0]], [[target]])
            z = rng.standard_normal(200) * 4
            within = np.array([abs(outputs(given, np.array([v]))[0, 0] - target) for v in z]) <= eps
            with precision(128):
                found = bands(given, eps)
                if isinstance(found, str):
                    assert not within.any()
                    continue
                assert isinstance(found, Bands)
                low = -np.inf if found.no_low[0] else float(found.low[0].mid())
                high = np.inf if found.no_high[0] else float(found.high[0].mid())
            assert ((low <= z) & (z <= high) == within).all()


@pytest.mark.parametrize("eps", [0, -1.0, float("nan"), float("inf"), "0.1", None, True])
def test_eps_must_be_positive_and_finite(eps: object) -> None:
    given = one_output("tanh", "linear", 1.0)
    with pytest.raises(sl.BadInputError, match="eps must be positive and finite"):
        sl.decide_within(given, eps)  # type: ignore[arg-type]


def test_other_things_than_instances_are_refused() -> None:
    with pytest.raises(sl.BadInputError, match="instance must be an Instance"):
        sl.decide_within("ffn:2-2", 0.1)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_point() -> None:
    problem = sl.Problem(sl.FeedForward((3, 4, 2), "tanh"), 3)
    given = sl.draw(problem, {"W1": sl.FirstRows(4)}, trial=3)
    one, two = (sl.decide_within(given, 0.05, seed=4) for _ in range(2))
    assert one.kind == two.kind and str(one) == str(two)
    if one.values is not None and two.values is not None:
        assert (one.values == two.values).all()


def test_an_exact_match_that_descent_misses_is_within_every_eps() -> None:
    """Roots of the linear RNN lie far away; an exact match settles every eps."""
    problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    given = sl.draw(problem, {"W": sl.FirstRows(5)}, seed=0, trial=17)
    assert sl.decide(given).kind == "matched"
    for eps in (1.0, 1e-3, 1e-9):
        found = sl.decide_within(given, eps)
        assert found.kind == "matched" and found.values is not None
        near = float(np.abs(given.residual(found.values)).max()) <= eps * (1 + ROUNDING)
        if not near:  # float64 cannot hold the weights closely enough, and the decision says so
            assert "rounded to float64" in found.reason
            assert found.certificate is not None and found.certificate.check()


@pytest.mark.parametrize("number", range(0, 96, 5))
def test_numbers_of_any_size_are_decided_soundly_or_not_at_all(number: int) -> None:
    """float64 from one end to the other: an answer, no exception, and none that a point contradicts."""
    hidden, output, bias, depth = KINDS[number]
    rng = RNG([3, number])
    plain = tiny(rng, hidden, output, bias=bias, depth=depth)
    budget = sl.Budget(starts=8, nodes=500)
    for size, scale, eps in (
        (1e150, 1.0, 1.0),
        (1e-150, 1.0, 1e-160),
        (1.0, 1e200, 1e190),
        (1.0, 0.0, 1e-300),
        (0.0, 1.0, 1e300),
        (1e-300, 1e-300, 5e-324),
        (1e300, 1e300, 1e308),
    ):
        given = sl.Instance(
            plain.network,
            plain.allocation,
            plain.weights,
            size * plain.inputs,
            scale * plain.targets,
        )
        found = sl.decide_within(given, eps, budget=budget)
        with np.errstate(all="ignore"):
            at_zero = distance(given, np.zeros(len(given.allocation)))
        rounding = 1e-14 * max(1.0, scale)
        assert found.kind != "refuted" or at_zero + rounding > eps
        if found.kind == "matched" and found.values is not None and at_zero > eps:
            assert np.isfinite(found.values).all()


@pytest.mark.parametrize(
    ("network", "samples", "law", "rules"),
    [
        (sl.FeedForward((3, 2)), 5, sl.ensembles.LowRank(rank=2), {"W1": sl.Anywhere(6)}),
        (
            sl.FeedForward((3, 2), bias=True),
            4,
            sl.ensembles.LowRank(rank=1),
            {"W1": sl.Anywhere(5)},
        ),
        (
            sl.FeedForward((2, 2, 1), "relu"),
            6,
            sl.ensembles.LowRank(rank=1),
            {"W1": sl.Anywhere(4)},
        ),
        (
            sl.FeedForward((2, 2, 1), "tanh"),
            7,
            sl.ensembles.Normal(),
            {"W1": sl.Anywhere(4), "W2": sl.Anywhere(2)},
        ),
        (
            sl.FeedForward((2, 1), output="tanh"),
            4,
            sl.ensembles.Normal(5.0),
            {"W1": sl.Anywhere(2)},
        ),
    ],
)
def test_exact_targets_and_product_inputs(
    network: sl.FeedForward,
    samples: int,
    law: sl.ensembles.Normal | sl.ensembles.LowRank,
    rules: dict[str, sl.Anywhere],
) -> None:
    """What matches a teacher's outputs exactly is within every eps of them, rounded or not."""
    problem = sl.Problem(network, samples, sl.Ensemble(inputs=law))
    matched = 0
    for trial in range(8):
        drawn = sl.draw(problem, rules, trial=trial)
        exact = sl.decide(drawn, budget=sl.Budget(starts=50))
        tight = sl.decide_within(drawn, 1e-13, budget=sl.Budget(starts=50, nodes=2000))
        assert {exact.kind, tight.kind} != {"matched", "refuted"} or exact.kind == "refuted"
        wide = sl.decide_within(drawn, 1e-6, budget=sl.Budget(starts=50, nodes=2000))
        if exact.kind == "matched":
            matched += 1
            assert wide.kind == "matched"
        if wide.kind == "refuted":
            assert exact.kind != "matched"
    assert matched or network.bias
