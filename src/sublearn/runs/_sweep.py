"""Sweeps: experiments that a user declares in a TOML file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import product
from math import prod
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

from sublearn._errors import BadInputError, one_of, whole_number
from sublearn._interrupts import safe_point
from sublearn._reading import MOST_DIGITS, Unreadable, brackets, depth, read_regular, reading
from sublearn._tables import Row
from sublearn.plots import curve, figure, legend, name_axes, whole_ticks
from sublearn.runs._experiment import Experiment, Plan, Point, check_names, check_size, is_name
from sublearn.runs._tables import Table
from sublearn.runs._task import Json, Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KEYS = ("name", "title", "task", "trials", "chunk", "seed", "axes", "params", "skip", "plot")
_PLOT = ("x", "y", "low", "high", "lines")
_MOST = 100_000
_MOST_BYTES = 4 * 1024**2  # 100,000 points of 40 signs
_DEEPEST = 4  # axes, the list of one, a table in it, its value


def sweep_from_file(path: str | Path, tasks: Mapping[str, Task]) -> Experiment:
    """Read a sweep: every combination of its axes is a point.

    ``tasks`` are those that its key ``task`` may name. Text in ``params`` may hold axes in braces.
    """
    file = Path(path)
    with reading(file, "TOML"):
        content = _parsed(read_regular(file, _MOST_BYTES))
    try:
        return sweep_from_dict(content, tasks, name=file.stem)
    except BadInputError as problem:
        raise BadInputError(f"{file}: {problem}") from None


def _parsed(content: bytes) -> dict[str, Any]:
    too_deep = Unreadable(f"it is nested deeper than {_DEEPEST} levels")
    if not _looks_flat(content):
        raise too_deep
    try:
        parsed = tomllib.loads(content.decode("utf-8").replace("\r\n", "\n"))
    except UnicodeDecodeError as problem:
        raise Unreadable(f"it is not text in UTF-8: byte {problem.start}") from None
    except tomllib.TOMLDecodeError as problem:
        raise Unreadable(str(problem)) from None
    except ValueError:  # of all the others only numbers and dates are left
        raise Unreadable(
            f"a date in it is none, or a number has more than {MOST_DIGITS} digits"
        ) from None
    if not depth(parsed, _DEEPEST):
        raise too_deep
    return parsed


# Comments, and texts of the four kinds; one that does not end goes to the end, so that none is read twice.
_TEXTS = re.compile(
    rb"#[^\n]*"
    rb'|"""(?:[^"\\]|\\.|"(?!""))*(?:""")?'
    rb"|'''.*?(?:'''|\Z)"
    rb'|"(?:[^"\\\n]|\\.)*"?'
    rb"|'[^'\n]*'?",
    flags=re.DOTALL,
)


def _looks_flat(content: bytes) -> bool:
    """Whether no key has more dots, and no list or table more brackets around it, than levels are allowed.

    Looked at before parsing, which takes the square of the dots in a key.
    """
    bare = _TEXTS.sub(b"", content)
    dots = max(part.count(b".") for part in re.split(rb"[\n=,\[\]{}]", bare))
    return dots < _DEEPEST and brackets(bare) <= _DEEPEST


def sweep_from_dict(
    content: Mapping[str, Any], tasks: Mapping[str, Task], name: str = "sweep"
) -> Experiment:
    """The same from the values that the file holds.

    >>> from sublearn.experiments.tasks import TASKS
    >>> declared = {"task": "estimate", "trials": 8, "axes": {"k": [1, 2]}}
    >>> params = {"network": "lrnn:n=2,b=1,d=1,T=2", "samples": 2, "learn": "W:first-rows={k}"}
    >>> sweep = sweep_from_dict({**declared, "params": params}, TASKS)
    >>> [point.params["learn"] for point in sweep.full.points]
    ['W:first-rows=1', 'W:first-rows=2']
    """
    for key in content:
        one_of("a key", key, _KEYS)
    for key in ("task", "trials", "axes"):
        if key not in content:
            raise BadInputError(f"the key {key} is missing.")
    task = tasks[one_of("task", content["task"], tasks)]
    trials = whole_number("trials", content["trials"], least=1)
    chunk = whole_number("chunk", content.get("chunk", 8), least=1)
    name = _text(content, "name", name)
    if not is_name(name):
        raise BadInputError(
            f"name must be at most 100 lower-case letters, digits and hyphens, not {name!r}: give the "
            "sweep another with the key name."
        )
    grid = _grid(_table(content, "axes"), content.get("skip", []))
    check_size(name, task, trials * len(grid), -(-trials // chunk) * len(grid))
    used = _used(content)
    points = []
    for values in grid:
        safe_point()
        params = task.settled(_fill(_table(content, "params"), values))
        point = Point(params, trials, chunk)
        check_names(task, params)
        read = _Watched(point.params)
        try:
            task.check(read)
        except BadInputError as problem:
            raise BadInputError(f"at {_words(values)}: {problem}") from None
        # A name that nobody reads is a slip of the pen; a task that checks nothing shows nothing.
        unread = [name for name in params if name not in read.seen | used]
        if read.seen and unread:
            raise BadInputError(
                f"{unread[0]} is not read by task {task.name}, which reads "
                f"{', '.join(sorted(read.seen))}; nor does any text hold {{{unread[0]}}}."
            )
        points.append(point)
    if not points:
        raise BadInputError("skip leaves no point.")
    plan = Plan(tuple(points), whole_number("seed", content.get("seed", 0), least=0))
    plot = _table(content, "plot")
    columns = (*dict.fromkeys(name for point in points for name in point.params), *task.headings)
    for key, column in plot.items():
        one_of("a key of plot", key, _PLOT)
        if task.headings:
            one_of(f"plot.{key}", column, columns)
    if plot and not {"x", "y"} <= plot.keys():
        raise BadInputError("plot must say x and y, the columns to draw.")
    return Experiment(
        name=name,
        title=_text(content, "title", name),
        source="a sweep of your own",
        claim="",
        task=task,
        quick=plan,
        full=plan,
        hours=0.0,
        draw=lambda table: _draw(table, plot, name) if plot else {},
    )


class _Watched(Mapping[str, Json]):
    """The params of a point, and which of them were asked for."""

    def __init__(self, params: Mapping[str, Json]):
        self._params = params
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Json:
        self.seen.add(name)
        return self._params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)


def _used(content: Mapping[str, Any]) -> set[str]:
    """The axes that stand in braces somewhere."""
    texts = [text for text in _table(content, "params").values() if isinstance(text, str)]
    names: set[str] = set()
    for text in texts:
        with suppress(ValueError):  # said when it is filled
            names |= {name for _, name, _, _ in Formatter().parse(text) if name}
    return names


def _table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = content.get(key, {})
    if not isinstance(table, Mapping):
        raise BadInputError(f"{key} must be a table, [{key}], not {table!r}.")
    return table


def _text(content: Mapping[str, Any], key: str, default: str) -> str:
    text = content.get(key, default)
    if not isinstance(text, str):
        raise BadInputError(f"{key} must be text, not {text!r}.")
    return text


def _grid(axes: Mapping[str, Any], skip: Any) -> list[Row]:
    """All combinations; an entry of an axis that is a table sets several names together."""
    sides: list[list[Row]] = []
    names: set[str] = set()
    for axis, entries in axes.items():
        if not isinstance(entries, list) or not entries:
            raise BadInputError(f"axes.{axis} must be a list of values, not {entries!r}.")
        side = [dict(e) if isinstance(e, Mapping) else {axis: e} for e in entries]
        own = set(side[0])
        if any(set(entry) != own for entry in side):
            raise BadInputError(f"the entries of axes.{axis} must all set the same names.")
        if both := sorted(own & names):
            raise BadInputError(f"axes.{axis} sets {both[0]}, which another axis sets too.")
        names |= own
        sides.append(side)
    if not isinstance(skip, list) or not all(isinstance(entry, Mapping) for entry in skip):
        raise BadInputError(f"skip must be a list of tables such as {{n = 6}}, not {skip!r}.")
    for entry in skip:
        for key in entry:
            one_of("a name in skip", key, sorted(names))
    count = prod(map(len, sides))
    if count > _MOST:
        raise BadInputError(f"axes make {count} points; at most {_MOST} are allowed.")
    grid = [{k: v for part in parts for k, v in part.items()} for parts in product(*sides)]
    return [p for p in grid if not any(all(p[k] == e[k] for k in e) for e in skip)]


def _fill(params: Mapping[str, Any], values: Row) -> dict[str, Json]:
    """The params of a point: the axes, then what is said once for all, its braces filled."""
    out: dict[str, Json] = dict(values)
    for key, value in params.items():
        if key in out:
            raise BadInputError(f"{key} stands among the axes and in params; it can be only one.")
        out[key] = _filled(key, value, values) if isinstance(value, str) else value
    return out


def _filled(key: str, text: str, values: Row) -> Json:
    try:
        parts = list(Formatter().parse(text))
    except ValueError as problem:
        raise BadInputError(f"params.{key} = {text!r} cannot be read ({problem}).") from None
    for _, name, form, conversion in parts:
        if name is None:
            continue
        if form or conversion or name not in values:
            known = ", ".join(values) or "none"
            raise BadInputError(
                f"params.{key} = {text!r} may hold the names of axes in braces (here: {known}), "
                f"not {{{name}}}."
            )
    if len(parts) == 1 and parts[0][0] == "" and parts[0][1]:
        alone: Json = values[parts[0][1]]  # a number stays a number
        return alone
    return "".join(
        before + ("" if name is None else str(values[name])) for before, name, _, _ in parts
    )


def _words(values: Row) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "the only point"


def _draw(table: Table, plot: Mapping[str, Any], name: str) -> dict[str, Figure]:
    for key, column in plot.items():
        one_of(f"plot.{key}", column, table[0])
    fig, ax = figure()
    lines = plot.get("lines")
    for colour, value in enumerate(dict.fromkeys(row[lines] if lines else "" for row in table)):
        rows = [row for row in table if not lines or row[lines] == value]
        data: dict[str, list[Any]] = {k: [r[plot[k]] for r in rows] for k in _PLOT if k in plot}
        label = f"{lines} = {value}" if lines else str(plot["y"])
        curve(
            ax, data["x"], data["y"], data.get("low"), data.get("high"), label=label, colour=colour
        )
    name_axes(ax, str(plot["x"]), str(plot["y"]))
    for axis in ("x", "y"):
        if all(type(row[plot[axis]]) is int for row in table):
            whole_ticks(ax, axis)
    if lines:
        legend(ax)
    return {name: fig}
