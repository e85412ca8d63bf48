"""The wheel and the source archive hold what a user needs, and work where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    out = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "build", "--outdir", str(out), str(root)]
    subprocess.run(words, check=True, capture_output=True)
    return out


def test_the_wheel_answers_from_elsewhere(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"sublearn/py.typed", "sublearn/__init__.pyi"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]
    place = tmp_path / "site"
    words = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(place)]
    subprocess.run([*words, str(wheel)], check=True)
    code = (
        "import sublearn, sys; from sublearn.__main__ import main; print(sublearn.__file__, flush=True)\n"
        "sys.argv = 'sublearn certify --network ffn:2-2-1 --samples 2 --learn W1:columns=0'.split()\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[0].startswith(str(place))
    assert "rank 1 of 2" in done.stdout


def test_the_source_archive_is_whole(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "Makefile"}
    assert wanted <= names
    assert {"src/sublearn/__init__.pyi", "tests/test_package.py", "mkdocs.yml"} <= names
