"""Certificates of verdicts: they check, they say how far, and what is tampered with fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import sublearn as sl
from sublearn.ensembles import Ensemble, LowRank
from sublearn.verdicts import RankCertificate
from sublearn.verdicts._bounds import binding_lines, rank_bound

LRNN = sl.LinearRNN(n=6, b=1, d=3, T=4)
FFN = sl.FeedForward((3, 3, 2))
TANH = sl.RNN(n=6, b=1, d=2, T=3)
RELU = sl.FeedForward((3, 5, 2), "relu")
SPARSE = sl.RateRNN(n=5, b=2, d=2, T=3, autapses=False)
CROSS = {"W1": [(2, 0), (2, 1), (0, 2), (1, 2)]}


def case(
    net: sl.Network, samples: int, learn: Any, **more: Any
) -> tuple[sl.Problem, sl.Allocation]:
    problem = sl.Problem(net, samples, **more)
    if isinstance(learn, dict):
        return problem, sl.Allocation.from_entries(net, learn)
    return problem, sl.ensembles.learn_from_text(net, learn.split()).draw(problem)


CASES: dict[str, tuple[tuple[sl.Problem, sl.Allocation], str]] = {
    "cross": (case(FFN, 2, CROSS), "minimal"),
    "too few": (case(LRNN, 3, "W:rows=0"), "minimal"),
    "too full a row": (case(LRNN, 3, "W:rows=0-1"), "minimal"),
    "saturated block": (case(LRNN, 4, "W:block=0-2x0-3"), "maximal"),
    "readout": (case(LRNN, 3, "D:spread=9"), "maximal"),
    "saturated rows": (case(LRNN, 4, "W:first-rows=3,seed=0"), "maximal"),
    "every weight": (case(FFN, 2, "W1:all W2:all"), "maximal"),
    "affine part": (case(FFN, 2, "W1:spread=2 W2:all"), "maximal"),
    "between": (case(TANH, 3, "W:spread=6"), "between"),
    "surplus": (case(TANH, 2, "W:all"), "between"),
    "low rank": (case(LRNN, 4, "W:spread=9", ensemble=Ensemble(inputs=LowRank(rank=2))), "between"),
    "no teacher": (case(TANH, 3, "D:all", teacher=sl.Targets()), "maximal"),
    "other teacher": (case(FFN, 2, "W1:spread=4", teacher=sl.FeedForward((3, 4, 2))), "maximal"),
    "another": (case(TANH, 2, "W:spread=4", teacher=sl.RNN(n=4, b=1, d=2, T=3)), "between"),
    "relu few": (case(RELU, 6, "W1:spread=4"), "minimal"),
    "relu between": (case(RELU, 4, "W1:spread=8"), "between"),
    "relu row": (case(RELU, 3, "W1:rows=0-1"), "between"),
    # At the first point that is looked at the unit is off, and nothing is independent.
    "relu unit off": (case(sl.FeedForward((3, 4, 2), "relu"), 2, "W1:rows=0"), "minimal"),
    "sparse": (case(SPARSE, 3, "W:spread=6"), "between"),
    "sparse few": (case(SPARSE, 3, "W:entries=0.1/0.2"), "minimal"),
    "output": (case(sl.FeedForward((3, 3, 2), "tanh", "tanh"), 2, "W2:spread=4"), "maximal"),
}


@pytest.fixture(params=CASES, ids=str)
def named(request: pytest.FixtureRequest) -> tuple[sl.Verdict, str]:
    (problem, allocation), _ = CASES[request.param]
    return sl.certify(problem, allocation), request.param


def test_every_kind_of_verdict_checks_again(named: tuple[sl.Verdict, str], tmp_path: Path) -> None:
    verdict, name = named
    assert verdict.kind in ("maximal", "minimal", "between")
    verdict.save(tmp_path / "c.json")
    read = RankCertificate.load(tmp_path / "c.json")
    found = read.check()
    assert found, (name, found.reason)
    assert found.reason.startswith(verdict.kind) and found.proved
    assert read.kind == verdict.kind and read.allocation == verdict.allocation
    least = read.rank_at_least
    if verdict.gates is None:
        assert least is not None and len(least) == verdict.rank == read.rank_at_most.rank
        assert read.needed_at_most.rank == verdict.needed
    # What counting proves is no matter of chance.
    if verdict.kind == "minimal" and str(verdict.grade) == "proof" and name != "cross":
        assert read.rank_at_most.by != "points"


def test_kinds_are_those_that_the_cases_are_for() -> None:
    found = {name: sl.certify(*asked).kind for name, (asked, _) in CASES.items()}
    assert {name: str(kind) for name, kind in found.items()} == {
        n: k for n, (_, k) in CASES.items()
    }


def _spoilt(content: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Lies that a file could tell."""
    out: list[tuple[str, dict[str, Any]]] = []

    def lie(name: str, change: Callable[[dict[str, Any]], None]) -> None:
        other = json.loads(json.dumps(content))
        change(other)
        if other != content:
            out.append((name, other))

    for key in ("rank_at_least", "needed_at_least"):
        if content[key] is not None and len(content[key]["rows"]) > 1:
            lie(
                f"{key}: a row twice", lambda c, k=key: c[k]["rows"].__setitem__(0, c[k]["rows"][1])
            )
            lie(f"{key}: no prime", lambda c, k=key: c[k].update(prime=c[k]["prime"] + 1))
            lie(f"{key}: a column that is none", lambda c, k=key: c[k]["columns"].append(10**6))
            lie(f"{key}: fewer rows", lambda c, k=key: c[k]["rows"].pop())
            lie(f"{key}: a row outside", lambda c, k=key: c[k]["rows"].__setitem__(0, 10**6))
    lie("a smaller bound", lambda c: c["rank_at_most"].update(rank=c["rank_at_most"]["rank"] - 1))
    lie("another reason", lambda c: c["rank_at_most"].update(by="weights"))
    if content["circuit"]:
        lie("no circuit", lambda c: c["circuit"].pop())
    if content["kind"] == "minimal":
        lie("kind", lambda c: c.update(kind="between"))
        lie("kind", lambda c: c.update(kind="maximal"))
        lie("fewer needed", lambda c: c.update(needed_at_least=None))
    elif content["kind"] == "between":
        lie("kind", lambda c: c.update(kind="minimal"))
        lie("kind", lambda c: c.update(kind="maximal"))
    else:
        lie("no ground", lambda c: c.update(ground=None))
        lie("kind", lambda c: c.update(kind="minimal"))
    return out


def test_what_is_tampered_with_fails(named: tuple[sl.Verdict, str], tmp_path: Path) -> None:
    verdict, name = named
    verdict.save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text())
    lies = _spoilt(content)
    assert len(lies) >= 3
    for what, other in lies:
        if name == "every weight" and what == "another reason":
            continue  # there are no more weights than that: it is true as well
        (tmp_path / "lie.json").write_text(json.dumps(other))
        try:
            found = RankCertificate.load(tmp_path / "lie.json").check()
        except sl.BadInputError as refused:
            assert str(refused).count("\n") == 0
            continue
        by_weights = other["rank_at_most"]["rank"] == len(verdict.allocation)
        if what == "another reason" and by_weights:
            continue
        assert not found, (what, found)


def test_a_dependency_that_is_none_is_seen() -> None:
    """All columns are independent, and a file says that four of them are not."""
    problem, allocation = case(FFN, 2, "W1:entries=0.0/0.1/1.0/1.1")
    good = sl.certify(problem, allocation).certificate()
    assert good.rank_at_least is not None and len(good.rank_at_least) == 4
    most = replace(good.rank_at_most, rank=3, by="points", among=(0, 1, 2, 3))
    lie = replace(
        good, kind=sl.certify(*CASES["cross"][0]).kind, rank_at_least=None, rank_at_most=most
    )
    found = lie.check()
    assert not found and "a point shows 1 more" in found.reason


def test_what_binds_adds_up_to_the_bound() -> None:
    """A least cut against the flow, which are equal, over random masks."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        net = sl.LinearRNN(n=5, b=1, d=1, T=2)
        problem = sl.Problem(net, samples=4)
        mask = rng.random((5, 5)) < rng.random()
        mask[0, 0] = True
        a = sl.Allocation.from_masks(net, {"W": mask})
        bounds = net.degree_bounds("W", problem.effective_samples)
        rows, columns = binding_lines(problem, a)["W"]
        outside = mask.copy()
        outside[list(rows)] = False
        outside[:, list(columns)] = False
        assert bounds.column is not None
        cut = len(rows) * bounds.row + len(columns) * bounds.column + int(outside.sum())
        assert min(cut, net.expressible(problem.effective_samples)) == rank_bound(problem, a)


def test_what_has_no_certificate_says_so(tmp_path: Path) -> None:
    rademacher = Ensemble(weights=sl.ensembles.Rademacher())
    unknown = sl.certify(*case(FFN, 2, "W2:all", ensemble=rademacher))
    with pytest.raises(sl.BadInputError, match="unknown"):
        unknown.certificate()
    with pytest.raises(sl.BadInputError, match="there is no file"):
        RankCertificate.load(tmp_path / "none.json")
    (tmp_path / "x.json").write_text('{"format": "something"}')
    with pytest.raises(sl.BadInputError, match="no rank certificate"):
        RankCertificate.load(tmp_path / "x.json")


def test_a_check_that_would_not_end_is_refused() -> None:
    good = sl.certify(*CASES["between"][0]).certificate()
    with pytest.raises(sl.BadInputError, match="most_work"):
        good.check(most_work=10)


def test_inputs_that_fill_the_memory_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    sl.certify(*CASES["low rank"][0]).save(file)
    text = file.read_text()
    assert '"input_rank": 2' in text
    file.write_text(text.replace('"input_rank": 2', '"input_rank": 100000000000'))
    with pytest.raises(sl.BadInputError, match="of memory"):
        RankCertificate.load(file).check()


def test_the_commands_save_and_check(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from sublearn.cli import app

    file = tmp_path / "verdict.json"
    asked = ["certify", "--network", FFN.spec, "--samples", "2", "--learn", "W1:spread=3"]
    said = CliRunner().invoke(app, [*asked, "--out", str(file)])
    assert said.exit_code == 0 and f"sublearn check {file}" in " ".join(said.output.split())
    again = [*asked, "--json", "--out", str(file), "--overwrite"]
    assert json.loads(CliRunner().invoke(app, again).output)["saved"] == [str(file)]
    found = CliRunner().invoke(app, ["check", str(file)])
    assert found.exit_code == 0 and found.output.startswith("valid: minimal")
    plain = json.loads(CliRunner().invoke(app, ["check", str(file), "--json"]).output)
    assert plain["valid"] and plain["proved"] and plain["trusted"]
    file.write_text(file.read_text().replace('"minimal"', '"between"'))
    found = CliRunner().invoke(app, ["check", str(file)])
    assert found.exit_code == 1 and found.output.startswith("NOT valid")
    refused = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "verdict.png")])
    assert isinstance(refused.exception, sl.BadInputError)
    sparse = ["certify", "--network", "ffn:3-3-2", "--samples", "2", "--learn", "W1:all"]
    folder = tmp_path / "all"
    with patch(
        "sublearn.verdicts._verdict.Verdict.certificate", side_effect=sl.BadInputError("none")
    ):
        said = CliRunner().invoke(app, [*sparse, "--out", str(folder)])
        assert said.exit_code == 0 and "no certificate: none" in said.output
        assert (folder / "mask.json").is_file() and not (folder / "certificate.json").exists()
        refused = CliRunner().invoke(app, [*sparse, "--out", str(tmp_path / "one.json")])
    assert isinstance(refused.exception, sl.BadInputError)
