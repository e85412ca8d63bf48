"""A network that somebody else defines goes through everything, and what is saved of it is read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sublearn as sl
from sublearn._errors import BadInputError
from sublearn.cli import app
from sublearn.networks import Layers, Recurrence, Step, known_kinds, network_from_text, register
from sublearn.networks._text import _KINDS


@dataclass(frozen=True)
class Squeezed(sl.Network):
    """y = R phi(U V x): a layer of k units between inputs and n units."""

    q: int
    k: int
    n: int
    d: int
    bend: str = "linear"

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        return {"V": (self.k, self.q), "U": (self.n, self.k), "R": (self.d, self.n)}

    @property
    def steps(self) -> tuple[Step, ...]:
        return (Step("V", block=0), Step("U", self.bend), Step("R"))

    @property
    def input_blocks(self) -> tuple[int, ...]:
        return (self.q,)

    @property
    def output_size(self) -> int:
        return self.d


SPEC = "squeezed:q=4,k=3,n=5,d=2,bend=linear"


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(_KINDS)
    register(SPEC)(Squeezed)
    yield
    _KINDS.clear()
    _KINDS.update(before)


def test_a_new_network_goes_all_the_way(tmp_path: Path) -> None:
    network = Squeezed(4, 3, 5, 2)
    assert network.spec == SPEC
    problem = sl.Problem(network, samples=3)
    verdict = sl.certify(problem, sl.Allocation.spread(network, {"R": 6}))
    assert (verdict.kind, verdict.rank, verdict.needed) == ("maximal", 6, 6)
    chosen = sl.design(problem, learn=["U", "V"], want="best score")
    assert len(chosen) == 6
    decision = sl.decide(sl.draw(problem, sl.Allocation.spread(network, {"R": 6}), trial=1))
    assert decision.kind == "matched" and decision.certificate is not None
    found = sl.estimate(problem, {"U": sl.FirstRows(5)}, trials=6)
    assert found.matched + found.refuted + found.undecided == 6
    chosen.save(tmp_path / "mask.json")
    assert sl.Allocation.load(tmp_path / "mask.json", network) == chosen
    found.save(tmp_path / "trials.json")
    assert sl.Estimate.load(tmp_path / "trials.json", problem, {"U": sl.FirstRows(5)}) == found
    decision.certificate.save(tmp_path / "match.json")
    again = sl.Certificate.load(tmp_path / "match.json")
    assert again.instance.network == network
    assert again.check().holds
    verdict.save(tmp_path / "verdict.json")
    assert sl.verdicts.RankCertificate.load(tmp_path / "verdict.json").problem == problem


def test_the_command_line_knows_a_new_network(tmp_path: Path) -> None:
    """As from a script that registers it and then runs the command."""
    files = [str(tmp_path / name) for name in ("mask.json", "verdict.json", "match.json")]
    about = ["--network", SPEC, "--samples", "3"]
    for words in (
        ["design", *about, "--learn", "U", "--want", "best score", "--out", files[0]],
        ["certify", *about, "--learn", "R:spread=6", "--out", files[1]],
        ["decide", *about, "--learn", "R:spread=6", "--out", files[2]],
        ["estimate", *about, "--allocation", files[0], "--trials", "5", "--always"],
        ["check", files[1]],
        ["check", files[2]],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert words[0] != "check" or done.output.startswith("valid")


def test_it_agrees_with_the_same_network_under_another_name() -> None:
    """The chain says what theorems apply, not the class."""
    ours, theirs = Squeezed(4, 3, 5, 2), sl.FeedForward((4, 3, 5, 2))
    assert ours.layered == Layers((4, 3, 5, 2), ("V", "U", "R"), (), ("linear",) * 3)
    for name, other in (("V", "W1"), ("U", "W2"), ("R", "W3")):
        here = sl.Allocation.spread(ours, {name: 6})
        there = sl.Allocation.spread(theirs, {other: 6})
        mine = sl.certify(sl.Problem(ours, 3), here)
        known = sl.certify(sl.Problem(theirs, 3), there)
        for fact in ("kind", "rank", "needed", "theorems", "counts"):
            assert getattr(mine, fact) == getattr(known, fact), (name, fact)
    assert ours.recurrence is None and sl.RNN(2, 1, 1, 2).recurrence is None
    assert sl.LinearRNN(4, 1, 2, 3).recurrence == Recurrence("W", "B", "D", 4, 1, 2, 3)
    assert sl.LinearRNN(4, 1, 2, 3).layered is None


def test_a_file_causes_no_import(tmp_path: Path) -> None:
    problem = sl.Problem(Squeezed(4, 3, 5, 2), samples=3)
    decision = sl.decide(sl.draw(problem, sl.Allocation.spread(problem.network, {"R": 6})))
    assert decision.certificate is not None
    path = tmp_path / "match.json"
    decision.certificate.save(path)
    del _KINDS["squeezed"]
    with pytest.raises(BadInputError, match=r"must be one of linear, lrnn, rnn, ffn.*'squeezed'"):
        sl.Certificate.load(path)
    content = json.loads(path.read_text())
    for kind in ("os.path", "sublearn.networks.FeedForward", "test_register.Squeezed"):
        path.write_text(json.dumps({**content, "network": f"{kind}:q=1"}))
        with pytest.raises(BadInputError, match="must be one of"):
            sl.Certificate.load(path)


def test_a_cell_that_is_run_again_brings_its_class_again() -> None:
    again = dataclass(frozen=True)(type("Squeezed", (Squeezed,), {"__qualname__": "Squeezed"}))
    register(SPEC)(again)
    assert type(network_from_text(SPEC)) is again
    assert known_kinds()["squeezed"] == SPEC


def test_what_cannot_be_registered() -> None:
    for example in ("squeezed", "", ":q=4", "two words:q=4"):
        with pytest.raises(BadInputError, match="is registered with a spec such as"):
            register(example)
    with pytest.raises(BadInputError, match="the kind 'lrnn' is taken by LinearRNN"):
        register("lrnn:q=4,k=3,n=5,d=2")(Squeezed)
    with pytest.raises(BadInputError, match="lacks d"):
        register("narrow:q=4,k=3,n=5")(Squeezed)
    assert "narrow" not in known_kinds()
    with pytest.raises(BadInputError, match="must be a dataclass"):
        register("plain:q=4")(type("Plain", (sl.Network,), {}))

    @dataclass(frozen=True)
    class Odd(Squeezed):
        scale: complex = 1.0

    with pytest.raises(BadInputError, match=r"the field scale of .*Odd must be an int"):
        register("odd:q=4,k=3,n=5,d=2")(Odd)
    with pytest.raises(BadInputError, match="Odd has no name: put @register"):
        _ = Odd(1, 1, 1, 1).spec
