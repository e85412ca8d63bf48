"""Copies of a teacher and changes of coordinates: matches that hold on every input."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import sublearn as sl
from sublearn.matchers import Copy, Intertwine
from sublearn.matchers.identities._spaces import spaces

RNG = np.random.default_rng(0)


def _random(network: sl.Network, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape) for name, shape in network.shapes.items()}


def _alone(matcher: sl.matchers.Matcher, instance: sl.Instance) -> sl.Decision:
    return sl.decide(instance, ladder=[matcher])


def _disguised(
    network: sl.FeedForward, teacher: dict[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """The teacher with its hidden units shuffled, and rescaled as their activation allows."""
    rng = np.random.default_rng(seed)
    out = {name: np.array(value) for name, value in teacher.items()}
    for layer, width in enumerate(network.sizes[1:-1], 1):
        order = rng.permutation(width)
        scale = {
            "tanh": rng.choice([-1.0, 1.0], width),
            "relu": 2.0 ** rng.integers(-3, 4, width),  # exact in float64
            "linear": rng.choice([-1.0, 1.0], width) * 2.0 ** rng.integers(-3, 4, width),
            "sigmoid": np.ones(width),
        }[network.activation]
        out[f"W{layer}"] = scale[:, None] * out[f"W{layer}"][order]
        if network.bias:
            out[f"b{layer}"] = scale[:, None] * out[f"b{layer}"][order]
        out[f"W{layer + 1}"] = out[f"W{layer + 1}"][:, order] / scale
    return out


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu", "linear"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sizes", [(2, 3, 1), (2, 3, 2, 2)])
def test_a_disguised_teacher_is_recognised(
    sizes: tuple[int, ...], bias: bool, activation: str, tmp_path: Path
) -> None:
    network = sl.FeedForward(sizes, activation, bias=bias)
    teacher = _random(network, 1)
    x = np.random.default_rng(2).standard_normal((2, 40))
    for seed in range(4):
        weights = _disguised(network, teacher, seed)
        outputs = network.forward(weights, x)
        np.testing.assert_allclose(outputs, network.forward(teacher, x), atol=1e-12)
        places = [divmod(int(p), 2) for p in np.random.default_rng(seed).permutation(6)[:3]]
        learn = sl.Allocation.from_entries(network, {"W1": places})
        instance = sl.Instance.from_teacher(network, learn, weights, x, teacher)
        found = _alone(Copy(), instance)
        assert (found.kind, str(found.grade)) == ("matched", "proof")
        assert found.certificate is not None and found.certificate.check()
        assert found.values is not None
        np.testing.assert_array_equal(found.values, instance.values(weights))
        found.certificate.save(tmp_path / "copy.json")
        again = sl.Certificate.load(tmp_path / "copy.json")
        assert again.check() and again.units == found.certificate.units
        # A frozen number that is off by the last place is no copy.
        name = f"W{len(sizes) - 1}"
        wrong = {k: np.array(v) for k, v in weights.items()}
        wrong[name][0, 0] = np.nextafter(wrong[name][0, 0], 9.0)
        other = sl.Instance.from_teacher(network, learn, wrong, x, teacher)
        assert _alone(Copy(), other).kind == "undecided"
        stolen = sl.Certificate(
            other, "copy", 53, found.certificate.centre, units=found.certificate.units
        )
        assert not stolen.check()


def test_what_an_activation_does_not_let_pass_is_no_copy() -> None:
    """-1 passes tanh and not sigmoid or ReLU; 2 passes ReLU and not tanh."""
    x = np.random.default_rng(2).standard_normal((2, 9))
    for activation, factor, passes in (
        ("tanh", -1.0, True),
        ("tanh", 2.0, False),
        ("relu", 2.0, True),
        ("relu", -1.0, False),
        ("sigmoid", -1.0, False),
        ("linear", -2.0, True),
    ):
        network = sl.FeedForward((2, 2, 1), activation)
        teacher = _random(network, 3)
        weights = {"W1": factor * teacher["W1"], "W2": teacher["W2"] / factor}
        learn = sl.Allocation.from_entries(network, {"W1": [(0, 0)]})
        instance = sl.Instance.from_teacher(network, learn, weights, x, teacher)
        assert (_alone(Copy(), instance).kind == "matched") is passes


def test_recurrent_units_are_renamed_together() -> None:
    network = sl.RNN(n=3, b=1, d=2, T=4)
    teacher = _random(network, 5)
    order, sign = [2, 0, 1], np.array([1.0, -1.0, -1.0])
    weights = {
        "W": sign[:, None] * teacher["W"][order][:, order] * sign,
        "B": sign[:, None] * teacher["B"][order],
        "D": teacher["D"][:, order] * sign,
    }
    x = np.random.default_rng(2).standard_normal((4, 1, 20))
    learn = sl.Allocation.whole(network, ["W"])
    instance = sl.Instance.from_teacher(network, learn, weights, x, teacher)
    found = _alone(Copy(), instance)
    assert found.kind == "matched" and found.values is not None
    np.testing.assert_array_equal(found.values, weights["W"].ravel())


def test_a_wider_student_leaves_units_unused() -> None:
    student, teacher = sl.FeedForward((2, 4, 1), "tanh"), sl.FeedForward((2, 2, 1), "tanh")
    x = np.random.default_rng(2).standard_normal((2, 30))
    everything = sl.Allocation.whole(student)
    shown = _random(teacher, 7)
    instance = sl.Instance.from_teacher(student, everything, _random(student, 6), x, shown, teacher)
    found = _alone(Copy(), instance)
    assert found.kind == "matched" and found.weights is not None
    np.testing.assert_allclose(
        student.forward(found.weights, x), teacher.forward(shown, x), atol=1e-12
    )
    # A frozen weight that listens to an unused unit spoils it; a narrow student has no room.
    rest = everything - sl.Allocation.from_rows(student, "W2", [0])
    spoilt = sl.Instance.from_teacher(student, rest, _random(student, 6), x, shown, teacher)
    assert _alone(Copy(), spoilt).kind == "undecided"
    back = sl.Instance.from_teacher(
        teacher, sl.Allocation.whole(teacher), shown, x, _random(student, 6), student
    )
    assert _alone(Copy(), back).kind == "undecided"


def test_chains_of_other_forms_are_refused() -> None:
    deep, flat = sl.FeedForward((2, 3, 3, 1), "tanh"), sl.FeedForward((2, 3, 1), "tanh")
    assert spaces(deep, flat) is None
    assert spaces(flat, sl.FeedForward((2, 3, 1), "sigmoid")) is None
    # A student with biases may set them to 0; a teacher's cannot be left out.
    biased = sl.FeedForward((2, 3, 1), "tanh", bias=True)
    assert spaces(biased, flat) is not None and spaces(flat, biased) is None
    given = sl.draw(sl.Problem(flat, 2, teacher=sl.Targets()), {"W1": sl.Anywhere(2)})
    assert Copy().refusal(given) == "there is no teacher to copy"


LONG = "9" * 5000
FACTORS = ["1e1000000000", "1e400", "1.5", "-1/0", " 1", "1_0", "\u0663", LONG, f"1/{LONG}", "", 3]


@pytest.mark.parametrize("factor", FACTORS, ids=lambda factor: repr(factor)[:12])
def test_a_factor_that_no_copy_writes_is_refused(factor: object, tmp_path: Path) -> None:
    path = tmp_path / "copy.json"
    _rescaled().save(path)
    content = json.loads(path.read_text())
    content["units"][0][0][1] = factor
    path.write_text(json.dumps(content))
    with pytest.raises(sl.BadInputError, match="is a damaged certificate") as refused:
        sl.Certificate.load(path)
    assert len(str(refused.value)) < 300 + len(str(path))


@pytest.mark.parametrize("power", [10**400, Fraction(1, 10**400)], ids=["huge", "tiny"])
def test_a_factor_beyond_floats_makes_no_copy(power: Fraction | int) -> None:
    held = _rescaled()
    units = tuple(tuple((unit, factor * power) for unit, factor in space) for space in held.units)
    assert not replace(held, units=units).check()


def test_a_copy_beyond_floats_is_undecided() -> None:
    network = sl.FeedForward((1, 1, 1), "relu")
    teacher = {"W1": np.array([[1.0]]), "W2": np.array([[1e300]])}
    given = {"W1": np.array([[1.0]]), "W2": np.array([[1e-300]])}
    learn = sl.Allocation.from_entries(network, {"W1": [(0, 0)]})
    instance = sl.Instance.from_teacher(network, learn, given, np.array([[1.0, 2.0]]), teacher)
    found = _alone(Copy(), instance)
    assert found.kind == "undecided" and "beyond the range of float64" in found.reason


def _rescaled() -> sl.Certificate:
    """A copy with one unit and a learnable weight before it, whatever its factor."""
    network = sl.FeedForward((1, 1, 1), "relu")
    teacher = {"W1": np.array([[3.0]]), "W2": np.array([[4.0]])}
    given = {"W1": np.array([[1.0]]), "W2": np.array([[8.0]])}
    learn = sl.Allocation.whole(network, ["W1", "W2"])
    instance = sl.Instance.from_teacher(network, learn, given, np.array([[1.0, 2.0]]), teacher)
    found = _alone(Copy(), instance).certificate
    assert found is not None and found.check()
    return found


def test_intertwined_matches_are_roots(tmp_path: Path) -> None:
    """Bottlenecks: the proved weights give the teacher's outputs on inputs that nobody asked about."""
    network = sl.FeedForward((4, 2, 4))
    problem = sl.Problem(network, samples=4)
    matched = 0
    for trial in range(12):
        rules = {"W1": sl.Anywhere(6), "W2": sl.Anywhere(6)}
        instance = sl.draw(problem, rules, seed=1, trial=trial)
        found = _alone(Intertwine(), instance)
        if found.kind != "matched":
            continue
        matched += 1
        assert found.weights is not None and found.certificate is not None
        assert instance.teacher is not None and found.certificate.check()
        x = np.random.default_rng(trial).standard_normal((4, 50))
        wanted = instance.teacher.outputs(x)
        np.testing.assert_allclose(network.forward(found.weights, x), wanted, rtol=0, atol=1e-6)
        path = tmp_path / "intertwined.json"
        found.certificate.save(path)
        again = sl.Certificate.load(path)
        assert again.check()
        moved = (*again.beside[:-1], (again.beside[-1][0] * 3 + 1, again.beside[-1][1]))
        assert not sl.Certificate(
            again.instance, again.kind, again.bits, again.centre, again.free, again.radius,
            beside=moved,
        ).check(max_bits=512)  # fmt: skip
    assert matched >= 6


def test_intertwining_is_left_to_where_it_is_needed() -> None:
    problem = sl.Problem(sl.LinearRNN(n=8, b=1, d=4, T=4), samples=4)
    instance = sl.draw(problem, {"W": sl.FirstRows(5)})
    assert "may reach all d m dimensions" in (Intertwine().refusal(instance) or "")
    tanh = sl.draw(sl.Problem(sl.RNN(n=3, b=1, d=1, T=2), 2), {"W": sl.Anywhere(2)})
    assert Intertwine().refusal(tanh) is not None
