"""Shards: the rows of finished chunks as Parquet files that check themselves."""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sublearn._errors import BadInputError, first_line
from sublearn._limits import memory_limit
from sublearn._reading import Unreachable, Unreadable, parse_json, read_regular
from sublearn.runs._chunks import Columns
from sublearn.runs._files import KEPT, make_folder, set_aside, write_file

POINT, TRIAL = "point", "trial"
ENDING = ".parquet"
_LABEL = b"sublearn"
_DIGITS = 32
_NAME = re.compile(f"[0-9a-f]{{{_DIGITS}}}{re.escape(ENDING)}")
# When there are more files than MANY, the FEW smallest become one: their number stays bounded, and a
# row is rewritten a logarithmic number of times.
_MANY, _FEW = 64, 32
_PATIENCE = 20  # times that a reader lists the files again


@dataclass(frozen=True)
class Piece:
    """The rows of one chunk."""

    point: int
    trials: range
    columns: Columns


class Shards:
    """The rows of one experiment.

    A shard is a Parquet file with the columns ``point`` and ``trial`` followed by the task's, sorted
    by these two. Its name is the SHA-256 of its bytes, cut to 32 digits, so a file that is damaged or
    was never finished does not bear its own name and is set aside as ``*.damaged``; files whose names
    are no such digits are not ours, and left alone. The same rows may
    stand in two shards (when a run was killed while it joined them); they count once.

    ``trials`` says how many trials each point has. A file with rows that no run could have written
    (other columns, a missing value, a trial that was not asked for) is damaged too, whatever its name.
    """

    def __init__(
        self,
        folder: Path,
        columns: Mapping[str, type],
        label: Mapping[str, Any],
        trials: Sequence[int],
    ):
        self.folder = folder
        self.columns = dict(columns)
        self.label = dict(label)
        self.trials = np.array(trials, dtype=np.int64)
        self.set_aside: list[Path] = []
        self.damage: dict[Path, str] = {}
        self._rows: dict[Path, int] = {}

    def load(self, *, repair: bool = True) -> dict[int, np.ndarray]:
        """The trials that are there, by point; damaged files are set aside, unless only looked at."""
        by_path = self._read_all([POINT, TRIAL], repair)
        self._rows = {path: table.num_rows for path, table in by_path.items()}
        tables = list(by_path.values())
        if not tables:
            return {}
        point = np.concatenate([t.column(POINT).to_numpy() for t in tables])
        trial = np.concatenate([t.column(TRIAL).to_numpy() for t in tables])
        order = _order(point, trial)
        point, trial = point[order], trial[order]
        ids, starts = np.unique(point, return_index=True)
        pieces = np.split(trial, starts[1:])
        return {int(i): piece for i, piece in zip(ids, pieces, strict=True)}

    def append(self, parts: Iterable[Piece]) -> None:
        """Keep the rows of some chunks, as one file."""
        import pyarrow as pa

        ordered = sorted(parts, key=lambda part: (part.point, part.trials.start))
        schema = self._schema()
        counts = [len(part.trials) for part in ordered]
        columns: dict[str, Any] = {
            POINT: np.repeat([part.point for part in ordered], counts).astype(np.int32),
            TRIAL: np.concatenate([np.arange(p.trials.start, p.trials.stop) for p in ordered]),
        }
        for name in self.columns:
            columns[name] = [value for part in ordered for value in part.columns[name]]
        self._write(pa.table(columns, schema=schema))
        if len(self._rows) > _MANY:
            smallest = sorted(self._rows, key=lambda path: (self._rows[path], path.name))
            self._join(smallest[:_FEW])

    def compact(self) -> None:
        """Join everything into one file, whose bytes depend on the rows alone."""
        if len(self._rows) > 1:
            self._join(list(self._rows))

    def rows(self, *, repair: bool = True) -> dict[str, np.ndarray]:
        """All columns of all rows, sorted by point and trial, each row once."""
        # Words stay coded as numbers until the end: a million of them are sorted in no time.
        table = _joined(list(self._read_all(None, repair, coded=True).values()))
        return {} if table is None else {n: _array(table.column(n)) for n in table.column_names}

    def _read_all(
        self, names: list[str] | None, repair: bool, coded: bool = False, patience: int = _PATIENCE
    ) -> dict[Path, Any]:
        """Every shard that is whole."""
        paths = sorted(p for p in self.folder.glob(f"*{ENDING}") if _NAME.fullmatch(p.name))
        try:
            by_path = {path: self._read(path, names, repair, coded) for path in paths}
        except FileNotFoundError:
            # A run that is under way has just joined some: the list is out of date.
            if not patience:
                raise
            return self._read_all(names, repair, coded, patience - 1)
        return {path: table for path, table in by_path.items() if table is not None}

    def _join(self, paths: list[Path]) -> None:
        read = [self._read(path, None, True) for path in paths]
        table = _joined([found for found in read if found is not None])
        kept = None if table is None else self._write(table)
        for path in paths:
            if path != kept:
                self._rows.pop(path, None)
                path.unlink(missing_ok=True)

    def _write(self, table: Any) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        label = {_LABEL: json.dumps(self.label, sort_keys=True).encode()}
        pq.write_table(table.replace_schema_metadata(label), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        path = self.folder / f"{_digest(content)}{ENDING}"
        for folder in (self.folder.parent, self.folder):
            make_folder(folder)
        write_file(path, content)
        self._rows[path] = table.num_rows
        return path

    def _read(self, path: Path, names: list[str] | None, repair: bool, coded: bool = False) -> Any:
        """One shard as a table, or None when it is damaged."""
        try:
            content = read_regular(path, memory_limit(), links=False)
            if _digest(content) != path.name.removesuffix(ENDING):
                raise Unreadable("its content is not what its name says")
            table = self._table(content, names, coded)
        except (
            Unreachable
        ) as problem:  # a disk that fails now may not fail later: nothing is set aside
            raise OSError(errno.EIO, f"cannot be read ({problem}); {KEPT}", str(path)) from None
        except Unreadable as problem:
            self.damage[path] = str(problem)
            if repair:
                self.set_aside.append(set_aside(path))
            return None
        if table is None:
            raise BadInputError(
                f"{path} belongs to another declaration of {self.label.get('experiment')}; "
                "give another folder."
            )
        return table

    def _table(self, content: bytes, names: list[str] | None, coded: bool) -> Any:
        """The table in a file's content; None if it belongs to another declaration.

        Head, names and types are looked at first, then what is read: nobody but us wrote the file, or
        somebody took pains to make it look so.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        # All columns, whatever is asked for: a value that is missing is damage, and must not show late.
        words = [name for name, kind in self.columns.items() if (coded or names) and kind is str]
        try:
            # Not pq.read_table, whose scanner starts threads: the files are small, and a thread that
            # is still there when the interpreter ends may abort it.
            plain = pq.ParquetFile(pa.BufferReader(content), pre_buffer=False)
            schema, rows = plain.schema_arrow, plain.metadata.num_rows
            label = _label(schema)
            if label is None:
                raise Unreadable("it does not say what it belongs to")
            if label != self.label:
                return None
            if not schema.remove_metadata().equals(self._schema()):
                raise Unreadable("its columns are not those of the task")
            if not 0 < rows <= self.trials.sum():
                raise Unreadable(f"it has {rows} rows, and {self.trials.sum()} were asked for")
            source = pa.BufferReader(content)
            file = pq.ParquetFile(source, read_dictionary=words, pre_buffer=False)
            table = file.read(use_threads=False)
            table.validate(full=True)  # texts are UTF-8, codes of words are codes
        except Unreadable:
            raise
        except Exception as problem:  # a crafted file fails in a dozen ways inside the reader
            raise Unreadable(f"it is no Parquet file ({first_line(problem)})") from None
        if table.num_rows != rows or any(column.null_count for column in table.columns):
            raise Unreadable("values are missing in it")
        point, trial = (table.column(name).to_numpy() for name in (POINT, TRIAL))
        known = (point >= 0) & (point < len(self.trials))
        if not known.all() or not ((trial >= 0) & (trial < self.trials[point])).all():
            raise Unreadable("it holds trials that were not asked for")
        return table if names is None else table.select(names)

    def _schema(self) -> Any:
        import pyarrow as pa

        kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
        fields = [(POINT, pa.int32()), (TRIAL, pa.int64())]
        return pa.schema(fields + [(name, kinds[kind]) for name, kind in self.columns.items()])


def _joined(tables: list[Any]) -> Any:
    """One table, sorted by point and trial, each row once; None if there is none."""
    import pyarrow as pa

    if not tables:
        return None
    tables.sort(key=lambda t: (t.column(POINT)[0].as_py(), t.column(TRIAL)[0].as_py()))
    joined = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    order = _order(joined.column(POINT).to_numpy(), joined.column(TRIAL).to_numpy())
    in_order = len(order) == joined.num_rows and bool((order[1:] > order[:-1]).all())
    return joined if in_order else joined.take(order)


def label_in(path: Path) -> dict[str, Any] | None:
    """What a whole shard says that it belongs to; None if it is none of ours."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = read_regular(path, memory_limit(), links=False)
        if _digest(content) != path.name.partition(".")[0]:
            return None
        return _label(pq.read_schema(pa.BufferReader(content)))
    except Exception:  # whatever it is, it is no shard of ours
        return None


def _label(schema: Any) -> dict[str, Any] | None:
    label = parse_json((schema.metadata or {}).get(_LABEL, b"null"))
    wanted = {"format": int, "experiment": str, "declaration": str}
    if not isinstance(label, dict) or label.keys() - {"format"} != wanted.keys() - {"format"}:
        return None
    return label if all(type(label[name]) is wanted[name] for name in label) else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def _order(point: np.ndarray, trial: np.ndarray) -> np.ndarray:
    """Indices that sort by (point, trial) and leave repetitions out."""
    key = point.astype(np.int64) << 40 | trial
    if (key[1:] > key[:-1]).all():
        return np.arange(len(key))
    order = np.argsort(key, kind="stable")  # quick where long stretches are sorted already
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = np.diff(key[order]) > 0
    out: np.ndarray = order[fresh]
    return out


def _array(column: Any) -> np.ndarray:
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        out: np.ndarray = column.to_numpy()
        return out
    coded = column.combine_chunks()
    words = np.array(coded.dictionary.to_pylist(), dtype=object)
    taken: np.ndarray = words[coded.indices.to_numpy()]
    return taken
