"""Certificates: they survive a file exactly, and no changed number survives a check."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sublearn as sl
from sublearn.ensembles import Instance, draw
from sublearn.matchers._affine import Affine
from sublearn.matchers._construct import Construct
from sublearn.matchers._matcher import Budget
from sublearn.matchers.proofs._certificate import Certificate
from sublearn.matchers.proofs._prove import prove


def _krawczyk() -> Certificate:
    network = sl.LinearRNN(n=6, b=1, d=2, T=3)
    drawn = draw(sl.Problem(network, samples=3), {"W": sl.FirstRows(4)}, seed=1)
    x = np.random.default_rng(1).normal(size=len(drawn.allocation))
    targets = network.forward(drawn.with_values(x), drawn.inputs)
    made = Instance(network, drawn.allocation, drawn.weights, drawn.inputs, targets)
    found = prove(made, x)
    assert found is not None
    return found


def _surplus() -> Certificate:
    network = sl.FeedForward((3, 4, 2), bias=True)
    allocation = sl.Allocation.from_entries(
        network, {"W1": [(0, 0), (3, 2)], "W2": [(1, 1), (0, 2)], "b1": [(2, 0)], "b2": [(1, 0)]}
    )
    drawn = draw(sl.Problem(network, samples=2), allocation, seed=1)
    x = np.random.default_rng(1).normal(size=len(allocation))
    targets = network.forward(drawn.with_values(x), drawn.inputs)
    made = Instance(network, drawn.allocation, drawn.weights, drawn.inputs, targets)
    found = prove(made, x)
    assert found is not None and len(found.free) == 4
    return found


def _construction() -> Certificate:
    network = sl.LinearRNN(n=8, b=1, d=4, T=4)
    drawn = draw(sl.Problem(network, samples=4), {"W": sl.FirstRows(4)}, seed=0)
    decision = Construct().attempt(drawn, Budget(), np.random.default_rng(0))
    assert decision.certificate is not None
    return decision.certificate


def _affine() -> Certificate:
    network = sl.LinearRNN(n=4, b=1, d=2, T=3)
    drawn = draw(sl.Problem(network, samples=3), sl.Allocation.whole(network, ["D"]), seed=0)
    decision = Affine().attempt(drawn, Budget(), np.random.default_rng(0))
    assert decision.certificate is not None
    return decision.certificate


MAKERS: dict[str, Callable[[], Certificate]] = {
    "krawczyk": _krawczyk,
    "surplus": _surplus,
    "construction": _construction,
    "affine": _affine,
}


@pytest.fixture(params=list(MAKERS))
def certificate(request: pytest.FixtureRequest) -> Certificate:
    return MAKERS[request.param]()


def test_a_file_keeps_every_number(certificate: Certificate, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    certificate.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["proof.json"]
    again = Certificate.load(path)
    assert certificate.check()
    assert again.check()
    for name in ("kind", "bits", "centre", "free", "radius", "prime"):
        assert getattr(again, name) == getattr(certificate, name)
    one, two = certificate.instance, again.instance
    assert one.network == two.network and one.allocation == two.allocation
    for name in one.network.shapes:
        assert one.weights[name].tobytes() == two.weights[name].tobytes()
    assert one.inputs.tobytes() == two.inputs.tobytes()
    assert one.targets.tobytes() == two.targets.tobytes()
    again.save(tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()


def test_values_are_the_rounded_centre(certificate: Certificate) -> None:
    for value, (mantissa, exponent) in zip(certificate.values, certificate.centre, strict=True):
        assert value == mantissa * 2.0**exponent


def test_a_failed_save_leaves_the_old_file(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "proof.json"
    certificate.save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        certificate.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["proof.json"]


def test_half_a_file_is_refused(certificate: Certificate, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    certificate.save(path)
    data = path.read_bytes()
    for length in range(0, len(data) - 2, max(1, len(data) // 60)):
        path.write_bytes(data[:length])
        with pytest.raises(sl.BadInputError, match="not a whole JSON file"):
            Certificate.load(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "no format line"),
        ('{"a": 1}', "no format line"),
        ('{"format": "sublearn allocation 1"}', "is not known"),
        ('{"format": "sublearn certificate 3"}', "is not known"),
        ('{"format": "sublearn certificate 2"}', "damaged certificate"),
        ('{"format": "sublearn certificate 1"}', "earlier version"),
        ("\x00\xff", "not a whole JSON file"),
        ("[" * 100_000, "not a whole JSON file"),
    ],
)
def test_foreign_files_are_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(sl.BadInputError, match=words):
        Certificate.load(path)


def test_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sl.BadInputError, match="there is no file"):
        Certificate.load(tmp_path / "nothing.json")
    with pytest.raises(sl.BadInputError, match="there is no file"):
        Certificate.load(tmp_path)
    (tmp_path / "b.json").write_bytes(bytes(range(256)))
    with pytest.raises(sl.BadInputError, match="not a whole JSON file"):
        Certificate.load(tmp_path / "b.json")


BAD: dict[str, list[Any]] = {
    "kind": ["guess", 3, None],
    "network": ["lrnn:n=0,b=1,d=4,T=4", "perceptron", 7, None],
    "samples": [0, -1, 2.5, True, "3", 10**9],
    "learnable": [{}, [], {"Q": [0]}, {"W": [0, 0]}, {"W": [10**6]}, {"W": ["0"]}, None],
    "weights": [{}, [], None, {"W": []}],
    "inputs": [[], ["0x1p0"], None, "0x1p0", 5],
    "targets": [["nan"], [], [1.0], None],
    "bits": [1.5, "106", None],
    "centre": [None, 5, [["0x1"]], [[1, 2]], [["0x1", "9999999999"]], [["x", "0"]]],
    "free": [None, ["0"], [0.5], 3],
    "radius": [None, [["0x1"]], ["0x1p0"], 3],
    "prime": ["7", 1.5, [7]],
}


@pytest.mark.parametrize("key", list(BAD))
def test_damaged_entries_are_refused(key: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    _krawczyk().save(path)
    good = json.loads(path.read_text(encoding="utf-8"))
    for value in [*BAD[key], "missing"]:
        content = dict(good)
        content[key] = value
        if value == "missing":
            del content[key]
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(sl.BadInputError, match=r"proof\.json"):
            Certificate.load(path)


def test_not_a_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    _krawczyk().save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    for bad in ("nan", "inf", "-inf", "0x1p5000"):
        content["inputs"][0] = bad
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(sl.BadInputError):
            Certificate.load(path)


def _changed(certificate: Certificate, **changes: Any) -> Certificate:
    fields = ("instance", "kind", "bits", "centre", "free", "radius", "prime")
    return Certificate(**{name: changes.get(name, getattr(certificate, name)) for name in fields})


@pytest.mark.parametrize("maker", ["krawczyk", "surplus", "construction"])
def test_a_box_that_holds_no_root_fails(maker: str) -> None:
    certificate = MAKERS[maker]()
    for place, position in enumerate(certificate.free):
        mantissa, exponent = certificate.centre[position]
        _, scale = certificate.radius[place]
        # Move one coordinate by many radii: a root near x + 2^k rho would be another root.
        step = 64 * certificate.radius[place][0]
        least = min(exponent, scale)
        moved = (mantissa << (exponent - least)) + (step << (scale - least))
        centre = list(certificate.centre)
        centre[position] = (moved, least)
        assert not _changed(certificate, centre=tuple(centre)).check(max_bits=512)


@pytest.mark.parametrize("maker", ["krawczyk", "surplus", "construction"])
def test_statements_that_do_not_fit_fail_in_words(maker: str) -> None:
    good = MAKERS[maker]()
    nothing = tuple((0, 0) for _ in good.radius)
    negative = tuple((-m, e) for m, e in good.radius)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"centre": good.centre[:-1]}, "one number per learnable weight"),
        ({"radius": good.radius[:-1]}, "radius for every free weight"),
        ({"free": good.free[:-1], "radius": good.radius[:-1]}, "free weights"),
        ({"free": good.free[::-1]}, "increasing order"),
        ({"free": (*good.free[:-1], 999)}, "increasing order"),
        ({"free": (-1, *good.free[1:])}, "increasing order"),
        ({"radius": nothing}, "positive"),
        ({"radius": negative}, "positive"),
        ({"kind": "affine"}, "affine"),
    ]
    for changes, words in wrong:
        result = _changed(good, **changes).check(max_bits=256)
        assert not result and words in result.reason


def test_a_held_weight_must_be_a_float() -> None:
    good = _surplus()
    held = next(i for i in range(6) if i not in good.free)
    centre = list(good.centre)
    centre[held] = ((1 << 80) + 1, -80)
    result = _changed(good, centre=tuple(centre)).check()
    assert not result and "float64" in result.reason


def test_huge_boxes_fail() -> None:
    good = _krawczyk()
    wide = tuple((1, 10) for _ in good.radius)
    assert not _changed(good, radius=wide).check(max_bits=256)


@pytest.mark.parametrize("number", [None, 0, 7, 8388608, 8388607, 8388617, 2**61 - 2, -8388593])
def test_an_affine_statement_needs_a_prime(number: int | None) -> None:
    result = _changed(_affine(), prime=number).check()
    assert not result and "prime" in result.reason


def test_an_affine_statement_of_lower_rank_fails() -> None:
    good = _affine()
    instance = good.instance
    weights = {name: np.zeros_like(value) for name, value in instance.weights.items()}
    other = Instance(
        instance.network, instance.allocation, weights, instance.inputs, instance.targets
    )
    result = _changed(good, instance=other).check()
    assert not result and "rank" in result.reason


def test_every_changed_byte_is_refused_or_decided(tmp_path: Path) -> None:
    """A random byte changed: an error in words, or a certificate whose check says yes or no."""
    path = tmp_path / "proof.json"
    MAKERS["surplus"]().save(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        changed = bytearray(data)
        changed[int(rng.integers(len(data)))] = int(rng.integers(32, 127))
        path.write_bytes(bytes(changed))
        try:
            found = Certificate.load(path)
        except sl.BadInputError:
            continue
        assert found.check(max_bits=256).holds in (True, False)
