"""The manifest: what was asked, and with what it was computed."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Collection, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from sublearn._errors import BadInputError
from sublearn._reading import Unreachable, Unreadable, read_json
from sublearn.runs._experiment import BUDGETS, Experiment, Plan, Point, is_name
from sublearn.runs._files import write_json
from sublearn.runs._shards import POINT, TRIAL

FORMAT = 1
MANIFEST = "manifest.json"
_DECIDES = ("task", "version", "columns", "seed", "points")
_PACKAGES = ("numpy", "scipy", "numba", "python-flint", "matplotlib", "pyarrow", "distributed")


class Declared(NamedTuple):
    """An experiment as it is asked for: its plan, and the entry of the manifest that says so."""

    experiment: Experiment
    plan: Plan
    entry: dict[str, Any]


def declare(experiment: Experiment, budget: str, plan: Plan) -> Declared:
    """What is asked for: the words that go with the table, and what decides the rows, with its digest."""
    content = {
        "task": experiment.task.name,
        "version": experiment.task.version,
        "columns": {name: kind.__name__ for name, kind in experiment.task.columns.items()},
        "seed": plan.seed,
        "points": [
            {"params": dict(point.params), "trials": point.trials, "chunk": point.chunk}
            for point in plan.points
        ],
    }
    words = {
        "title": experiment.title,
        "source": experiment.source,
        "claim": experiment.claim,
        "budget": budget,
        "headings": experiment.headings,
    }
    return Declared(experiment, plan, {**words, "digest": digest_of(content), **content})


def digest_of(entry: Mapping[str, Any]) -> str:
    """The SHA-256 of what decides the rows."""
    content = {key: entry[key] for key in _DECIDES}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def label(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What every shard of an experiment says of itself."""
    return {"format": FORMAT, "experiment": name, "declaration": entry["digest"]}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run's folder, or one sentence that says why it cannot be used."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise BadInputError(f"there is no folder {folder}.")
    if not path.exists():
        raise BadInputError(f"{folder} is not the folder of a run: it has no {MANIFEST}.")
    try:
        content = read_json(path, links=False)
        if not isinstance(content, dict) or "format" not in content:
            raise Unreadable("it says no format")
        stated = content["format"]
        if type(stated) is int and stated == FORMAT:
            return _checked(content)
        if not isinstance(stated, (int, str)) or isinstance(stated, bool):
            raise Unreadable(f"format {stated!r} is none")
    except Unreachable as problem:
        raise BadInputError(f"{path} cannot be read ({problem}).") from None
    except Unreadable as problem:
        raise DamagedManifest(f"{path} cannot be read ({problem}).") from None
    versions = content.get("versions")
    writer = versions.get("sublearn") if isinstance(versions, dict) else None
    who = f"sublearn {writer if isinstance(writer, str) else 'of unknown version'}"
    age = "an older" if isinstance(stated, int) and stated < FORMAT else "another"
    raise BadInputError(
        f"{path} has {age} format ({stated!r}, written by {who}); this version reads format "
        f"{FORMAT}. Give another folder, or use the version that wrote it."
    )


_TEXTS = ("title", "source", "claim", "task")
KINDS: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    """A manifest whose every part has the form that is written here; a stranger may have made it."""
    _is(content, "experiments", dict)
    _is(content, "history", list)
    _is(content, "versions", dict)
    if not content["experiments"]:
        raise Unreadable("it names no experiment")
    for where in (content, *content["history"]):
        versions = where.get("versions") if isinstance(where, dict) else None
        if not isinstance(versions, dict) or not all(
            version is None or isinstance(version, str) for version in versions.values()
        ):
            raise Unreadable("its versions are no texts by name")
        tools = where.get("tools", {})
        if not isinstance(tools, dict) or any(type(there) is not bool for there in tools.values()):
            raise Unreadable("its tools are not there or missing, by name")
        for name in ("commit", "machine"):
            if not isinstance(where.get(name), (str, type(None))):
                raise Unreadable(f"its {name} is no text")
    for name, entry in content["experiments"].items():
        if not is_name(name):
            raise Unreadable(f"{name[:80]!r} is no name of an experiment")
        if not isinstance(entry, dict):
            raise Unreadable(f"{name} is no table")
        try:
            _check_entry(entry)
        except (Unreadable, BadInputError) as problem:
            raise Unreadable(f"{name}: {problem}") from None
    return content


def _check_entry(entry: dict[str, Any]) -> None:
    for key in _TEXTS:
        _is(entry, key, str)
    for key, kind in (("headings", dict), ("columns", dict), ("points", list)):
        _is(entry, key, kind)
    for key in ("version", "seed"):
        _is(entry, key, int)
    commits = entry.get("commits", [])  # a folder from before they were noted has none
    if type(commits) is not list or not all(isinstance(commit, str) for commit in commits):
        raise Unreadable("its commits are no texts")
    if entry.get("budget") not in BUDGETS:
        raise Unreadable(f"budget {entry.get('budget')!r} is none")
    if not all(isinstance(heading, str) for heading in entry["headings"].values()):
        raise Unreadable("a heading is no text")
    if not all(isinstance(kind, str) and kind in KINDS for kind in entry["columns"].values()):
        raise Unreadable("a column holds none of the types of a task")
    for name in (POINT, TRIAL):
        if name in entry["columns"]:
            raise Unreadable(f"a column of its task is called {name}")
    points = []
    for point in entry["points"]:
        if not isinstance(point, dict) or not isinstance(point.get("params"), dict):
            raise Unreadable("a point has no params")
        points.append(Point(point["params"], point.get("trials", 0), point.get("chunk", 0)))
    if Plan(tuple(points), entry["seed"]).trials >= 2**63:
        raise Unreadable("its trials are more than 64 bits count")
    if entry.get("digest") != digest_of(entry):
        raise Unreadable("its digest is not that of what it declares")


def _is(content: Mapping[str, Any], key: str, kind: type) -> None:
    if type(content.get(key)) is not kind:
        raise Unreadable(f"{key} is missing or of another kind")


class DamagedManifest(BadInputError):  # noqa: N818 - says what it is
    """A manifest that is no JSON of ours; a run sets it aside and writes it anew."""


def write_manifest(
    folder: Path, declared: Collection[Declared], earlier: Mapping[str, Any], left: Collection[str]
) -> None:
    """Add experiments to the manifest; if the versions differ from before, they are added as well.

    Experiments that have trials ``left`` note the commit at which these are computed.
    """
    before_now = earlier.get("experiments", {})
    entries: dict[str, Any] = {}
    for each in declared:
        name = each.experiment.name
        commits = list(before_now.get(name, {}).get("commits", ()))
        if name in left and _commit() is not None and _commit() not in commits:
            commits.append(_commit())
        entries[name] = {**each.entry, "commits": commits}
    now: dict[str, Any] = {
        "versions": versions(*_PACKAGES),
        "commit": _commit(),
        "machine": f"{platform.system()} {platform.machine()}",
        "tools": dict(earlier.get("tools", {})),
    }
    for each in declared:
        now["tools"] |= each.experiment.task.tools
    history = list(earlier.get("history", ()))
    before = {name: earlier[name] for name in now if name in earlier}
    if before and before != now:
        history.append(before)
    content = {
        "format": FORMAT,
        **now,
        "history": history,
        "experiments": {**before_now, **entries},
    }
    if content != earlier:
        write_json(folder / MANIFEST, content)


def check_same(folder: Path, earlier: Mapping[str, Any], declared: Mapping[str, Declared]) -> None:
    """Refuse to mix two declarations of one experiment."""
    for name, (_, _, entry) in declared.items():
        old = earlier.get("experiments", {}).get(name)
        if old is None or old["digest"] == entry["digest"]:
            continue
        for what in ("budget", "seed"):
            if old[what] != entry[what]:
                raise BadInputError(
                    f"{folder} holds {name} with {what} {old[what]}, not {entry[what]}; "
                    "give another folder."
                )
        raise BadInputError(
            f"{folder} holds an earlier declaration of {name}, with other points or another task; "
            "give another folder."
        )


@cache
def versions(*packages: str) -> dict[str, str | None]:
    """Of sublearn, Python and these packages; None of what is not installed."""
    from sublearn import __version__

    out: dict[str, str | None] = {"sublearn": __version__, "python": platform.python_version()}
    for package in packages:
        try:
            out[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            out[package] = None
    return out


@cache
def _commit() -> str | None:
    """The commit of the checkout this package runs from; None if it was installed."""
    package = Path(__file__).resolve().parents[1]
    root = package.parents[1]
    # A repository around an installed copy is somebody else's.
    if package.parent.name != "src" or not (root / ".git").exists():
        return None

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
