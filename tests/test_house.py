"""The house is in order: one version, a documented public list, docs that are all there."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import sublearn
from sublearn._seeds import Tag

TEXT = {".css", ".csv", ".html", ".ipynb", ".js", ".json", ".md", ".py", ".toml", ".txt", ".yml"}
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples", "notebooks", ".ci", ".github")
# Data flows in this direction: a room may use the rooms before it, and no other.
ROOMS = (
    "plots",
    "exact",
    "networks",
    "allocations",
    "datasets",
    "ensembles",
    "verdicts",
    "designs",
    "patterns",
    "training",
    "matchers",
    "estimates",
    "noise",
    "models",
    "runs",
    "experiments",
    "reports",
    "cli",
)
ROOT = Path(__file__).parent.parent
PUBLIC: list[str] = list(getattr(sublearn, "__all__", ()))

# Written in pieces, so that this file passes its own test.
_PLACES = "|".join(("home", "root", "Users", "work", "mnt"))
FORBIDDEN = {
    "a path of one machine": re.compile(rf"(?<![\w.\-/:])/(?:{_PLACES})/\w"),
    "a shared folder": re.compile(r"\.\./" + "shared"),
    "a package registry": re.compile("py" + r"pi\.org|python" + r"hosted\.org"),
}


def _pyproject(root: Path) -> dict[str, object]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _text_files(root: Path) -> Iterator[Path]:
    candidates = [p for p in root.iterdir() if p.is_file()]
    for folder in FOLDERS:
        candidates += [p for p in (root / folder).rglob("*") if p.is_file()]
    for path in sorted(candidates):
        if path.suffix in TEXT or path.name in ("Makefile", "LICENSE", "run", ".gitignore"):
            yield path


def test_one_version(root: Path) -> None:
    assert "version" in _pyproject(root)["dynamic"], (
        "the version is that of src/sublearn/__init__.py"
    )
    assert importlib.metadata.version("sublearn") == sublearn.__version__


def test_the_citation_names_this_version(root: Path) -> None:
    text = (root / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", text, flags=re.MULTILINE) == [sublearn.__version__]


def test_changelog_starts_with_this_version(root: Path) -> None:
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", text, flags=re.MULTILINE)
    assert headings, "CHANGELOG.md has no version headings"
    assert headings[0] == sublearn.__version__
    assert len(set(headings)) == len(headings)


def test_public_list_is_flat() -> None:
    assert PUBLIC, "sublearn.__all__ is missing or empty"
    assert len(set(PUBLIC)) == len(PUBLIC)
    assert all(name.isidentifier() for name in PUBLIC)
    assert [name for name in PUBLIC if name.startswith("_") and name != "__version__"] == []


@pytest.mark.parametrize("name", [name for name in PUBLIC if not name.startswith("_")])
def test_public_names_import_and_are_documented(name: str) -> None:
    thing = getattr(sublearn, name)
    assert name in dir(sublearn)
    if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing):
        own = inspect.getdoc(thing)
        assert own and own.strip(), f"sublearn.{name} has no docstring"
        # A dataclass without a docstring gets its signature as one.
        assert not own.startswith(f"{name}("), f"sublearn.{name} has no docstring of its own"


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        sublearn.no_such_name  # noqa: B018


def test_importing_the_package_stays_light() -> None:
    heavy = ("numba", "flint", "scipy", "typer", "rich")
    code = f"import sys, sublearn; print([m for m in {heavy!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def _rooms_used(path: Path) -> set[str]:
    """Rooms that a module imports when it runs; imports for the type checker do not count."""

    def imports(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.ImportFrom) and child.module:
                yield child.module
            elif isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            yield from imports(child)

    modules = imports(ast.parse(path.read_text(encoding="utf-8")))
    parts = [module.split(".") for module in modules]
    return {part[1] for part in parts if part[0] == "sublearn" and len(part) > 1}


def test_no_room_reaches_back() -> None:
    package = Path(sublearn.__file__).parent
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    assert rooms <= set(ROOMS), "a new room takes its place in ROOMS, and in docs/architecture.md"
    for place, room in enumerate(ROOMS):
        for path in (package / room).rglob("*.py"):
            later = _rooms_used(path) & set(ROOMS[place + 1 :])
            assert not later, f"{room}/{path.name} uses {', '.join(sorted(later))}"


def _private_imports(source: str, room: str) -> list[str]:
    """Imports of another room's private names; the basement, directly below the package, is for all."""
    asked: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            asked += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            asked += [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            asked += [part.value for part in node.args if isinstance(part, ast.Constant)]
    found = []
    for name in asked:
        parts = str(name).split(".")
        other = parts[0] == "sublearn" and len(parts) > 2 and parts[1] in {*ROOMS} - {room}
        if other and any(re.match("_[^_]", part) for part in parts[2:]):
            found.append(name)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "from sublearn.exact._field import PrimeField",
        "from sublearn.exact import _field",
        "import sublearn.exact._field",
        "import sublearn.exact._field as field",
        "importlib.import_module('sublearn.exact._field')",
        "def f():\n    from importlib import import_module\n    import_module('sublearn.exact._field')",
    ],
)
def test_every_way_to_a_private_module_is_seen(line: str) -> None:
    assert len(_private_imports(line, "verdicts")) == 1
    assert _private_imports(line, "exact") == []
    assert _private_imports("from sublearn._errors import positive", "verdicts") == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_reads_the_private_modules_of_another(room: str) -> None:
    """What others may use stands in a room's ``__init__``."""
    package = Path(sublearn.__file__).parent
    found = {
        path.name: lines
        for path in (package / room).rglob("*.py")
        if (lines := _private_imports(path.read_text(encoding="utf-8"), room))
    }
    assert found == {}


@pytest.mark.parametrize(
    "program", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem
)
def test_benchmarks_ask_for_what_there_is(program: Path) -> None:
    """Every name that a benchmark imports from the package or from a neighbour, and every ``sl.`` it says."""
    missing = []
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("sublearn"):
                    importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and (module := _module(node.module or "", program)):
            missing += [f"{node.module}.{a.name}" for a in node.names if not _has(module, a.name)]
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("sl."):
            thing: object = sublearn
            for name in ast.unparse(node).split(".")[1:]:
                if not name.isidentifier() or not inspect.ismodule(thing):
                    break
                if not _has(thing, name):
                    missing.append(ast.unparse(node))
                    break
                thing = getattr(thing, name, None)
    assert missing == []


def _module(name: str, program: Path) -> object:
    """A module of the package, or what a file beside the program or of the tests defines; else None."""
    if name.split(".")[0] == "sublearn":
        return importlib.import_module(name)
    relative = Path(*name.split(".")).with_suffix(".py")
    for folder in (program.parent, ROOT / "tests"):
        if (folder / relative).is_file():
            tree = ast.parse((folder / relative).read_text(encoding="utf-8"))
            named = [getattr(node, "name", "") for node in tree.body]
            named += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
            return SimpleNamespace(**dict.fromkeys(named))
    return None


def _has(thing: object, name: str) -> bool:
    try:
        return hasattr(thing, name) or (
            inspect.ismodule(thing) and bool(importlib.util.find_spec(f"{thing.__name__}.{name}"))
        )
    except sublearn.BadInputError:  # a name that is there and needs torch, which is not
        return True
    except ModuleNotFoundError:
        return False


def test_the_architecture_page_draws_the_rooms_as_they_are(root: Path) -> None:
    """The table of rooms lists what each leans on, in the order of the house."""
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z]+)` \| .* \| ([a-z, ]*)\|$", text, flags=re.MULTILINE)
    written = {
        room: {name for name in used.replace(" ", "").split(",") if name} for room, used in rows
    }
    package = Path(sublearn.__file__).parent
    drawn = {}
    for room in ROOMS:
        used = set().union(*(_rooms_used(path) for path in (package / room).rglob("*.py")))
        drawn[room] = (used & set(ROOMS)) - {room}
    assert list(written) == list(ROOMS)
    assert written == drawn
    (basement,) = re.findall(r"^Below the rooms .*?\n\n", text, flags=re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(_[a-z]+)`", basement)) == {
        path.stem for path in package.glob("_[a-z]*.py")
    }
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert [
        name for name in named if not (package / name).is_file() and not (root / name).is_file()
    ] == []


def test_models_lean_on_little() -> None:
    """Other people's models need our allocations and pictures, and none of our science."""
    room = Path(sublearn.__file__).parent / "models"
    used = set().union(*(_rooms_used(path) for path in room.glob("*.py")))
    assert used & set(ROOMS) <= {"models", "allocations", "networks", "plots"}


def test_runs_know_no_science() -> None:
    """Whatever a task computes, it is kept, resumed and summed up the same way."""
    room = Path(sublearn.__file__).parent / "runs"
    used = set().union(*(_rooms_used(path) for path in room.glob("*.py")))
    assert used & set(ROOMS) <= {"runs", "plots"}


def test_streams_have_their_tags_from_one_list() -> None:
    """A number of one's own in a seed could be that of another stream; ``_seeds`` holds them all."""
    package, found = Path(sublearn.__file__).parent, []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                ("default_rng", "SeedSequence", "stream")
            ):
                entropy = [
                    part
                    for argument in node.args
                    for part in (argument.elts if isinstance(argument, ast.List) else [argument])
                ]
                if len(entropy) > 1 and any(isinstance(p, ast.Constant) for p in entropy):
                    found.append(f"{path.relative_to(package)}: {ast.unparse(node)}")
    assert [line for line in found if "named_stream" not in line] == []
    assert len(set(Tag)) == len(Tag.__members__), "two purposes have one number"


def test_typed_marker_is_shipped() -> None:
    assert (Path(sublearn.__file__).parent / "py.typed").is_file()


def test_no_machine_leaks_into_the_files(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}:{number}: {what}"
        for path in _text_files(root)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]
    assert found == []


def test_ci_runs_the_same_as_a_person(root: Path) -> None:
    script = root / ".ci" / "run"
    assert script.stat().st_mode & 0o111, ".ci/run is not executable"
    assert "make test" in script.read_text(encoding="utf-8")


def test_every_make_target_of_the_readme_exists(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`make ([a-z-]+)", readme)):
        found = re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
        assert found, f"the README names make {target}, which is not in the Makefile"


def test_the_front_is_narrow() -> None:
    """What most people need is flat; the rest stands in its room, and the reference lists both."""
    rooms = [name for name in PUBLIC if inspect.ismodule(getattr(sublearn, name))]
    assert len(PUBLIC) - len(rooms) <= 50
    assert set(rooms) <= set(ROOMS)


def test_the_workflow_names_every_supported_python_on_both_systems(root: Path) -> None:
    text = (root / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    (pythons,) = re.findall(r"^ +python: \[(.+)\]$", text, flags=re.MULTILINE)
    assert re.findall(r'"(.+?)"', pythons) == ["3.11", "3.12", "3.13", "3.14"]
    assert "os: [ubuntu-latest, macos-latest]" in text
    classified = [str(line).rpartition(" ")[2] for line in _classifiers(root)]
    assert [name for name in classified if "." in name] == re.findall(r'"(.+?)"', pythons)


def _classifiers(root: Path) -> list[str]:
    held = _pyproject(root)["classifiers"]
    assert isinstance(held, list)
    return [line for line in held if line.startswith("Programming Language :: Python")]


def test_pre_commit_runs_what_make_does(root: Path) -> None:
    """The hooks are the lines of lint and types, which pass quietly where make says what it did."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    hooks = (root / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    lines = []
    for target in ("lint", "types"):
        (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
        lines += re.findall(r"\$\(BIN\)/(.+)", recipe)
    bare = [line.replace(" -q", "").removesuffix(" .") for line in lines]
    assert re.findall(r"entry: \.venv/bin/(.+)", hooks) == bare
    assert "pre-commit" in (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
