"""Copies of rate teachers, beside the formula of the rate network in fractions of its own."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn.exact import from_floats
from sublearn.matchers import Copy, Intertwine
from sublearn.matchers.identities._copy import copied_values
from sublearn.matchers.identities._spaces import spaces

Weights = dict[str, np.ndarray]
Row = list[Fraction]
ACTIVATIONS = ("linear", "relu", "tanh", "sigmoid")
EXACT = ("linear", "relu")


def _exact(matrix: np.ndarray) -> list[Row]:
    return [[Fraction(float(v)) for v in row] for row in matrix]


def _times(matrix: list[Row], vector: Row) -> Row:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


def _outputs(network: Any, weights: dict[str, list[Row]], sample: list[Row]) -> Row:
    """y of one sample, in fractions; linear and ReLU."""
    net = getattr(network, "base", network)
    leak, kept = Fraction(net.leak), Fraction(1.0 - net.leak)
    h = [row[0] for row in weights["h0"]] if net.start == "weights" else [Fraction(0)] * net.n
    out: Row = []
    for t, x in enumerate(sample):
        moved = _times(weights["W"], h) if t or net.start == "weights" else [Fraction(0)] * net.n
        z = [a + b for a, b in zip(moved, _times(weights["Win"], x), strict=True)]
        if net.bias:
            z = [a + b[0] for a, b in zip(z, weights["b"], strict=True)]
        if net.activation == "relu":
            z = [max(v, Fraction(0)) for v in z]
        keep = kept if t or net.start == "weights" else Fraction(0)
        h = [keep * a + leak * b for a, b in zip(h, z, strict=True)]
        if net.readout == "every" or t == net.T - 1:
            y = _times(weights["D"], h)
            out += [a + b[0] for a, b in zip(y, weights["c"], strict=True)] if net.bias else y
    return out


def _floats(network: Any, weights: Weights, sample: np.ndarray) -> np.ndarray:
    """The same in float64, of every activation."""
    net = getattr(network, "base", network)
    phi = {
        "linear": lambda z: z,
        "relu": lambda z: np.maximum(z, 0.0),
        "tanh": np.tanh,
        "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-z)),
    }[net.activation]
    h = weights.get("h0", np.zeros((net.n, 1)))
    out = []
    for t, x in enumerate(sample):
        z = weights["W"] @ h + weights["Win"] @ x[:, None] + weights.get("b", 0.0)
        h = (1 - net.leak) * h + net.leak * phi(z)
        if net.readout == "every" or t == net.T - 1:
            out.append(weights["D"] @ h + weights.get("c", 0.0))
    return np.concatenate(out)[:, 0]


def _network(rng: np.random.Generator, activation: str) -> sl.Network:
    start = str(rng.choice(["zero", "weights"]))
    net: sl.Network = sl.RateRNN(
        n=int(rng.integers(2, 4)),
        b=int(rng.integers(1, 3)),
        d=int(rng.integers(1, 3)),
        T=int(rng.integers(1 if start == "weights" else 2, 4)),
        activation=activation,
        leak=float(rng.choice([1.0, 0.5, 0.1])),
        bias=bool(rng.integers(2)),
        readout=str(rng.choice(["last", "every"])),
        start=start,
        autapses=bool(rng.integers(2)),
    )
    if rng.random() < 0.4:
        net = net.with_connections({"W": rng.random(net.shapes["W"]) < 0.6})
    return net


def _drawn(net: sl.Network, rng: np.random.Generator) -> Weights:
    return {k: rng.standard_normal(s) * net.existing(k) for k, s in net.shapes.items()}


def _disguised(activation: str, shown: Weights, rng: np.random.Generator) -> Weights:
    """The same units in another order, with factors that float64 multiplies exactly."""
    n = len(shown["W"])
    order, twos = rng.permutation(n), 2.0 ** rng.integers(-3, 4, n)
    signs = rng.choice([-1.0, 1.0], n)
    a = {"linear": signs * twos, "relu": twos, "tanh": signs, "sigmoid": np.ones(n)}[activation]
    out = {
        "W": a[:, None] * shown["W"][np.ix_(order, order)] / a,
        "Win": a[:, None] * shown["Win"][order],
        "D": shown["D"][:, order] / a,
    }
    out |= {k: a[:, None] * shown[k][order] for k in ("b", "h0") if k in shown}
    return out | ({"c": shown["c"].copy()} if "c" in shown else {})


def _asked(net: sl.Network, share: float, rng: np.random.Generator) -> sl.Allocation:
    """Some of the weights that exist, one of Win at least."""
    entries = {
        k: np.argwhere((rng.random(s) < share) & net.existing(k)) for k, s in net.shapes.items()
    }
    if not len(entries["Win"]):
        entries["Win"] = np.array([[0, 0]])
    places = {k: [(int(i), int(j)) for i, j in v] for k, v in entries.items() if len(v)}
    return sl.Allocation.from_entries(net, places)


def attack(seed: int) -> bool | None:
    """One student that is a copy, or is nearly one, and units named at random: a proof must be true.

    Whether the rung matched it; None where the instance could not be made.
    """
    rng = np.random.default_rng([11, seed])
    activation = ACTIVATIONS[int(rng.integers(4))]
    net = _network(rng, activation)
    shown = _drawn(net, rng)
    if rng.random() < 0.3:  # numbers that meet by chance
        shown = {k: np.sign(v) * np.round(np.abs(v)) for k, v in shown.items()}
    # Factors that the activation may not let pass.
    hidden = _disguised(str(rng.choice([activation, "linear", "tanh", "relu"])), shown, rng)
    base = replace(getattr(net, "base", net), autapses=True)
    theirs: sl.Network = net
    if rng.random() < 0.2:
        theirs = replace(getattr(net, "base", net), leak=float(rng.choice([1.0, 0.5, 0.25])))
        theirs = theirs.with_connections(net.connections) if net.connections else theirs
    masks = {k: (v != 0) | (rng.random(v.shape) < 0.3) for k, v in hidden.items()}
    if rng.random() < 0.3:
        masks["W"] &= rng.random(masks["W"].shape) < 0.8
    student = base.with_connections({k: m for k, m in masks.items() if m.any()})
    mine = {k: v * student.existing(k) for k, v in hidden.items()}
    if rng.random() < 0.4:
        name = str(rng.choice(list(mine)))
        mine[name] = mine[name] * rng.choice([-1.0, 1.0, 2.0], mine[name].shape)
    if not student.existing("Win").flat[0]:
        return None
    learn = _asked(student, float(rng.choice([0.1, 0.5, 1.0])), rng)
    shape = len(net.input_blocks), net.input_blocks[0]
    x = rng.standard_normal((*shape, 4))
    instance = sl.Instance.from_teacher(student, learn, mine, x, shown, theirs)
    found = _copy(instance)
    proofs = [found.certificate] if found.certificate is not None else []
    # Somebody else's certificate: any units, any factors.
    form = spaces(student, theirs)
    sizes = form.teacher if form is not None else (base.n,)
    for _ in range(3):
        units = tuple(
            tuple((int(u), Fraction(int(rng.choice([1, 1, 2, -1])), 1)) for u in rng.permutation(n))
            for n in sizes
        )
        exact = copied_values(instance, units)
        values = [float(v) for v in exact] if exact is not None else [0.0] * len(learn)
        centre = tuple(from_floats(np.array(values)))
        proofs.append(sl.Certificate(instance, "copy", 53, centre, units=units))
    for proof in proofs:
        if not proof.check():
            continue
        exact = copied_values(instance, proof.units)
        assert exact is not None
        weights = {k: _exact(v) for k, v in mine.items()}
        for (name, i, j), value in zip(learn.labels(), exact, strict=True):
            weights[name][i][j] = value
        for name, rows in weights.items():
            assert not np.array(rows)[~student.existing(name)].any()
        for _ in range(3):
            drawn = rng.standard_normal(shape)
            if activation in EXACT:
                sample = _exact(drawn)
                wanted = _outputs(theirs, {k: _exact(v) for k, v in shown.items()}, sample)
                assert _outputs(student, weights, sample) == wanted, (seed, proof.units)
            else:
                ours = {k: np.array(v, dtype=float) for k, v in weights.items()}
                np.testing.assert_allclose(
                    _floats(student, ours, drawn),
                    _floats(theirs, shown, drawn),
                    rtol=1e-8,
                    atol=1e-10,
                )
    return found.kind == "matched"


def test_no_proof_of_a_copy_is_wrong() -> None:
    answers = [attack(seed) for seed in range(200)]
    assert answers.count(True) > 20 and answers.count(False) > 20


def _copy(instance: sl.Instance) -> sl.Decision:
    return sl.decide(instance, ladder=[Copy()])


def _never_wrong(found: sl.Decision, instance: sl.Instance, rng: np.random.Generator) -> None:
    """What was matched gives the teacher's outputs, on inputs that nobody asked about too."""
    net, teacher = instance.network, instance.teacher
    assert found.certificate is not None and found.certificate.check() and teacher is not None
    assert found.weights is not None
    for name, value in found.weights.items():
        assert not value[~net.existing(name)].any(), "a weight that does not exist is 0"
    for _ in range(2):
        x = rng.standard_normal((len(net.input_blocks), net.input_blocks[0]))
        theirs = _floats(teacher.network, dict(teacher.weights), x)
        ours = _floats(net, dict(found.weights), x)
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_everything_learnable_is_a_copy() -> None:
    net = sl.RateRNN(n=2, b=1, d=1, T=3, activation="tanh", leak=0.5)
    everything = {name: sl.Anywhere(h * w) for name, (h, w) in net.shapes.items()}
    found = sl.estimate(sl.Problem(net, 20), everything, 10)
    assert (found.matched, found.undecided) == (10, 0)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_disguised_rate_teacher_is_recognised(activation: str, tmp_path: Path) -> None:
    """Renamed and rescaled, with a third of the weights to be found; one last place off is no copy."""
    rng = np.random.default_rng(ACTIVATIONS.index(activation))
    for trial in range(25):
        net = _network(rng, activation)
        shown = _drawn(net, rng)
        hidden = _disguised(activation, shown, rng)
        # The student has the connections that the teacher has, in another order.
        dense = replace(getattr(net, "base", net), autapses=True)
        masks = {k: v != 0 for k, v in hidden.items()}
        student = dense.with_connections(masks)
        learn = _asked(student, 0.3, rng)
        x = rng.standard_normal((len(net.input_blocks), net.input_blocks[0], 30))
        instance = sl.Instance.from_teacher(student, learn, hidden, x, shown, net)
        found = _copy(instance)
        assert found.kind == "matched", (trial, net)
        _never_wrong(found, instance, rng)
        if activation in EXACT:
            sample = [[Fraction(float(v)) for v in row] for row in rng.standard_normal(x.shape[:2])]
            ours, its = (
                _outputs(one, {k: _exact(v) for k, v in weights.items()}, sample)
                for one, weights in ((student, found.weights), (net, shown))
            )
            assert ours == its
        found.certificate.save(tmp_path / f"{trial}.json")
        assert sl.Certificate.load(tmp_path / f"{trial}.json").check()
        frozen = [
            (k, i, j)
            for k in ("W", "Win", "D", "b", "h0")
            if k in hidden
            for i, j in np.argwhere(masks[k] & ~learn.mask(k))
        ]
        if not frozen:
            continue
        wrong = {k: v.copy() for k, v in hidden.items()}
        name, i, j = frozen[int(rng.integers(len(frozen)))]
        wrong[name][i, j] = np.nextafter(wrong[name][i, j], 9.0)
        spoilt = sl.Instance.from_teacher(student, learn, wrong, x, shown, net)
        stolen = replace(found.certificate, instance=spoilt)
        assert not stolen.check()


def _pair(
    student: dict[str, Any], teacher: dict[str, Any], change: Any = None, learn: str = "D"
) -> tuple[sl.Instance, sl.Decision]:
    """A student with the teacher's own numbers, changed: every shape that both have."""
    rng = np.random.default_rng(4)
    given = {"n": 2, "b": 1, "d": 1, "T": 3, "activation": "tanh", "leak": 0.5, "bias": True}
    ours, theirs = sl.RateRNN(**{**given, **student}), sl.RateRNN(**{**given, **teacher})
    shown = _drawn(theirs, rng)
    mine = {k: shown.get(k, np.zeros(s)).copy() for k, s in ours.shapes.items()}
    if change is not None:
        change(mine)
    asked = sl.Allocation.from_entries(ours, {learn: [(0, 0)]})
    x = rng.standard_normal((ours.T, 1, 12))
    instance = sl.Instance.from_teacher(ours, asked, mine, x, shown, theirs)
    return instance, _copy(instance)


def _flip(factor: float) -> Any:
    def change(weights: Weights) -> None:
        a = np.array([factor, 1.0])
        weights["W"] = a[:, None] * weights["W"] / a
        weights["D"] = weights["D"] / a
        for name in ("Win", "b", "h0"):
            if name in weights:
                weights[name] = a[:, None] * weights[name]

    return change


@pytest.mark.parametrize("start", ["zero", "weights"])
def test_what_an_activation_does_not_let_pass_is_no_rate_copy(start: str) -> None:
    for activation, factor, passes in (
        ("tanh", -1.0, True),
        ("tanh", 2.0, False),
        ("relu", 2.0, True),
        ("relu", -1.0, False),
        ("sigmoid", -1.0, False),
        ("sigmoid", 2.0, False),
        ("linear", -2.0, True),
    ):
        same = {"activation": activation, "start": start}
        _, found = _pair(same, same, _flip(factor))
        assert (found.kind == "matched") is passes, (activation, factor)


def test_starts_leaks_lengths_and_readouts_that_differ_are_no_copy() -> None:
    started = {"start": "weights"}
    assert _pair(started, started, _flip(-1.0))[1].kind == "matched"

    # All but the start is flipped in one unit; learnable, the start is set right.
    def first_start_lost(weights: Weights) -> None:
        _flip(-1.0)(weights)
        weights["h0"][0] *= -1.0

    assert _pair(started, started, first_start_lost)[1].kind != "matched"
    assert _pair(started, started, first_start_lost, learn="h0")[1].kind == "matched"
    for ours, theirs in (
        ({"leak": 0.5}, {"leak": 0.25}),
        ({"leak": 0.5}, {"leak": 1.0}),
        ({"leak": 1.0}, {"leak": 0.5}),
        ({"start": "zero"}, {"start": "weights"}),
        ({"activation": "tanh"}, {"activation": "sigmoid"}),
    ):
        instance, found = _pair(ours, theirs)
        assert found.kind != "matched", (ours, theirs)
        assert "different forms" in (Copy().refusal(instance) or "")


def test_a_weight_that_does_not_exist_is_no_room_for_a_copy() -> None:
    net = sl.RateRNN(n=2, b=1, d=1, T=3, leak=0.5)
    thin = net.with_connections({"W": [[1, 0], [1, 1]]})
    rng = np.random.default_rng(0)
    shown, x = _drawn(net, rng), rng.standard_normal((3, 1, 20))
    whole = sl.Allocation.whole(thin)
    blank = {k: np.zeros(s) for k, s in net.shapes.items()}
    assert _copy(sl.Instance.from_teacher(thin, whole, blank, x, shown, net)).kind != "matched"
    # The teacher's missing weight may be anywhere else: units change places.
    shown["W"][1, 0] = 0.0
    found = _copy(sl.Instance.from_teacher(thin, whole, blank, x, shown, net))
    assert found.kind == "matched"


def test_linear_rate_networks_are_their_teacher_in_other_coordinates() -> None:
    """Two of Win's and some of W's weights: a change of coordinates, and roots on any inputs."""
    net = sl.RateRNN(n=2, b=2, d=3, T=3, activation="linear", leak=0.5, bias=True, start="weights")
    matched, rng = 0, np.random.default_rng(1)
    for trial in range(8):
        rules = {"W": sl.Anywhere(3), "Win": sl.Anywhere(3), "D": sl.Anywhere(6)}
        rules |= {"b": sl.Anywhere(2), "c": sl.Anywhere(3), "h0": sl.Anywhere(2)}
        instance = sl.draw(sl.Problem(net, 9), rules, trial=trial)
        found = sl.decide(instance, ladder=[Intertwine()])
        if found.kind == "matched":
            matched += 1
            _never_wrong(found, instance, rng)
    assert matched
