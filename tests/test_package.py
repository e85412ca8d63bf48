"""The wheel and the source archive hold what a user needs, and work where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
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
    # What the tests in it look at.
    assert {".ci/run", ".github/workflows/test.yml", ".pre-commit-config.yaml"} <= names


def _as_another(words: list[str], place: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run as somebody who can write neither the package nor a home."""
    found = os.environ | {
        "PYTHONPATH": str(place),
        "HOME": str(folder / "none"),
        "TMPDIR": str(folder),
    }
    kept = {n: v for n, v in found.items() if n not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.run(words, cwd=folder, env=kept, capture_output=True, text=True, check=False)


def test_a_read_only_installation_without_a_home_answers(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    words: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and setpriv is not here")
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        place = folder / "site"
        zipfile.ZipFile(wheel).extractall(place)
        for path in [*place.rglob("*"), place, folder]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            can = _as_another([*words, sys.executable, "-c", "import numba, flint"], place, folder)
            if can.returncode:
                pytest.skip("somebody else cannot run this Python")
            asked = "decide --network lrnn:n=2,b=1,d=1,T=2 --samples 2 --learn W:diagonal"
            done = _as_another(
                [*words, sys.executable, "-m", "sublearn", *asked.split()], place, folder
            )
            assert done.returncode == 0, done.stderr
            assert "matched" in done.stdout or "refuted" in done.stdout
            assert "each time: no folder can keep it" in done.stderr
            assert not [path for path in place.rglob("*") if path.suffix in (".nbi", ".nbc")]
        finally:
            for path in [folder, place, *place.rglob("*")]:
                path.chmod(0o755)
