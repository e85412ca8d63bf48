"""Where results are to be written: looked at before any work is done, not after it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from sublearn._errors import BadInputError, one_of
from sublearn._files import check_out, check_path
from sublearn.cli._show import say

if TYPE_CHECKING:
    from sublearn.plots import Shown


_ROOM = 250  # bytes for the names of what is written there
# Endings of what is never meant as a folder.
_FILES = (".json", ".csv", ".npz", ".npy", ".png", ".svg", ".pdf", ".html")


@dataclass(frozen=True)
class Out:
    """Where a command writes: a folder for all that there is to write, or one file that is named.

    In a folder: the picture (``name.png`` and ``name.svg``), the table (``name.csv``) and the ``files`` of
    the command's own, names or patterns of names. ``endings`` are those of a file that may be named
    instead of a folder. Nothing that is there already is written over unless that was asked for.
    """

    out: Annotated[
        str | None, "DIR", "A folder for picture and table, and for the mask if there is one."
    ] = None
    overwrite: Annotated[bool, "Let --out replace files that are there already."] = False

    name: ClassVar[str] = ""
    files: ClassVar[tuple[str, ...]] = ()

    @property
    def endings(self) -> tuple[str, ...]:
        return ()

    def __post_init__(self) -> None:
        """Look at it before any work is done."""
        self.check()

    def check(self) -> None:
        """An error if it cannot be written, or would be written over what is there."""
        if self.out is None:
            return
        if self.is_file:
            check_file(self.out, self.endings)
        else:
            check_folder(self.out)
        if not self.overwrite:
            self.refuse_to_replace()

    @property
    def is_file(self) -> bool:
        """Whether a file was named, and no folder."""
        path = Path(self.out or "")
        # A folder that is there may have a dot in its name; one called like a file of ours is refused.
        folder = path.suffix not in self.endings and os.path.isdir(path)
        return bool(self.endings) and bool(path.suffix) and not folder

    def file(self, name: str) -> Path:
        """The file that was named, or the one of this name in the folder."""
        path = Path(self.out or "")
        return path if self.is_file else path / name

    def refuse_to_replace(self) -> None:
        """An error if anything is there that would be written over."""
        path = Path(self.out or "")
        there = [path] if self.is_file and os.path.lexists(path) else []
        if not self.is_file:
            own = (f"{self.name}{ending}" for ending in (".png", ".svg", ".csv"))
            there = [found for name in (*own, *self.files) for found in sorted(path.glob(name))]
        if there:
            raise BadInputError(
                f"--out: {there[0]} is there already: give another name, or --overwrite to replace it."
            )

    def write(
        self, result: Shown, more: Mapping[str, Callable[[Path], object]] | None = None
    ) -> list[str] | None:
        """Write the picture, the table and ``more``, or to a file that was named the first of these.

        Returns the paths of what was written; None where nothing was asked for.
        """
        others = dict(more or {})
        if self.out is None:
            return None
        if not self.is_file:
            return [str(path) for path in result.write_files(self.out, self.name, others)]
        for write in list(others.values())[:1]:
            write(Path(self.out))
            return [self.out]
        return []


@dataclass(frozen=True)
class ProofOut(Out):
    """The same for a result with a certificate."""

    out: Annotated[
        str | None,
        "DIR|FILE",
        "A folder for picture, table, mask and certificate; or a .json for the certificate, "
        "which 'check' reads.",
    ] = None

    files = ("mask.json", "certificate.json")

    @property
    def endings(self) -> tuple[str, ...]:
        return (".json",)


def tell_written(written: list[str] | None) -> None:
    """Say where files were written."""
    if written:
        folder = Path(written[0]).parent
        names = ", ".join(Path(path).name for path in written)
        alone = len(written) == 1
        say(f"written to {written[0]}" if alone else f"written to {folder}: {names}")


def check_folder(out: str | None, option: str = "--out") -> Path | None:
    """The folder that ``option`` names, if it is there and can be written, or can be made."""
    if out is None:
        return None
    folder = check_out(out, option, room=_ROOM)
    if folder.suffix in _FILES and not folder.exists():
        raise BadInputError(f"{option} must name a folder here, not a file such as {out}.")
    try:
        if folder.exists() and not folder.is_dir():
            raise BadInputError(f"{option} must name a folder, and {out} is a file.")
        _try(next(place for place in (folder, *folder.absolute().parents) if place.exists()))
    except OSError as problem:
        raise BadInputError(
            f"{option} must name a folder that can be written, not {out}: {_why(problem)}."
        ) from None
    return folder


def check_file(
    out: str | None, endings: Collection[str] = (), option: str = "--out"
) -> Path | None:
    """The file that ``option`` names, if its folder is there and can be written."""
    if out is None:
        return None
    file = check_path(out, option)
    check_out(file.parent if file.name else out, f"{option}: the folder of the file", room=_ROOM)
    if endings:
        one_of(f"{option}: the file's ending", file.suffix, endings)
    try:
        if file.is_dir():
            raise BadInputError(f"{option} must name a file, and {out} is a folder.")
        if not file.parent.is_dir():
            raise BadInputError(
                f"{option}: there is no folder {file.parent} to write {file.name} in."
            )
        # A file is renamed into its place: a device or a pipe there would be gone.
        if file.exists() and not file.is_file():
            raise BadInputError(f"{option} must name a file, and {out} is a device or a pipe.")
        _try(file.parent)
    except OSError as problem:
        raise BadInputError(
            f"{option} must name a file that can be written, not {out}: {_why(problem)}."
        ) from None
    return file


def _try(folder: Path) -> None:
    """Write there and take it away: rights and kinds of disks have too many rules to guess from."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def _why(problem: OSError) -> str:
    words = problem.strerror or str(problem)
    return f"{words[:1].lower()}{words[1:]}"
