"""Which attacks are made, on which cells, and why some cells have no pair of definite answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from adversary import budgets, verbs
from adversary.cells import ALL_CELLS, DENSE, Cell, ImpossibleError
from adversary.known import Seen, look
from adversary.steady import steady
from adversary.verbs import LINEAR, Outcome
from adversary.within import within

ATTACKS: dict[str, Callable[[Cell, int], Outcome]] = {
    "decide": verbs.decide,
    "certify": verbs.certify,
    "verdict": verbs.verdict,
    "design": verbs.design,
    "repair": verbs.repair,
    "certificate": verbs.certificate,
    "rate": verbs.rate,
    "within": within,
    "budget": budgets.budget,
    "gated": budgets.gated,
    "steady": steady,
}

# Cases of every cell in the whole attack. Cells of "decide" without a definite pair get up to MOST.
CASES = {
    "decide": 3,
    "certify": 4,
    "verdict": 1,
    "design": 3,
    "repair": 3,
    "certificate": 1,
    "rate": 2,
    "within": 1,
    "budget": 4,
    "gated": 20,
    "steady": 2,
}
MOST = 12
TRIALS = 1000  # of every problem with a known match probability


def cases_of(attack: str, cell: Cell) -> int:
    """How many cases a cell gets at first; those of sparse networks are many, and get fewer."""
    few = attack in ("decide", "certify", "rate") and cell.network.startswith("sparse-")
    return CASES[attack] // 2 if few else CASES[attack]


def cells_of(attack: str) -> tuple[Cell, ...]:
    """The cells that an attack goes through."""

    def goes(cell: Cell) -> bool:
        linear, drawn = cell.network in LINEAR, cell.teacher != "planted"
        if attack == "within":
            many = cell.teacher == "planted" and cell.learnable == "above"
            return cell.law == "normal" and cell.teacher != "other" and not many
        if attack == "budget":
            return linear and cell.teacher == "same" and cell.law == "normal"
        if attack == "gated":
            own = ("shallow relu", "same", "normal", "at")
            return (cell.network, cell.teacher, cell.law, cell.learnable) == own
        if attack == "steady":
            held = cell.network.endswith(("linear", "tanh")) and ">" not in cell.network
            own = ("targets", "normal", "at")
            return held and (cell.teacher, cell.law, cell.learnable) == own
        if attack == "certify":
            return linear and drawn and cell.law in DENSE
        if attack == "verdict":
            return not linear and drawn and cell.law in DENSE
        if attack in ("design", "repair"):
            return linear and cell.teacher == "same" and cell.law in DENSE
        if attack == "certificate":
            few = cell.network.startswith("sparse-") and cell.teacher != "same"
            return cell.law in ("normal", "lowrank") and not few
        if attack == "rate":
            return cell.law == "normal" and cell.teacher in ("same", "targets")
        return True

    return tuple(cell for cell in ALL_CELLS if goes(cell))


class Job(NamedTuple):
    """One case of one attack."""

    attack: str
    cell: Cell
    index: int

    @property
    def key(self) -> str:
        """The same text for the same case."""
        return f"{self.attack} | {self.cell} | {self.index}"


class Record(NamedTuple):
    """What is kept of a case. ``state``: definite, open or impossible."""

    key: str
    state: str
    note: str | None
    ours: str
    theirs: str


def run(job: Job) -> Record:
    """Make one case and compare; a crash on either side counts as a contradiction."""
    try:
        found = ATTACKS[job.attack](job.cell, job.index)
    except ImpossibleError as error:
        return Record(job.key, "impossible", None, str(error), "")
    except Exception as error:  # whatever it is, it is no answer
        return Record(job.key, "definite", f"crash: {error!r}", "", "")
    state = "definite" if found.definite else "open"
    return Record(job.key, state, found.note, found.ours, found.theirs)


def work(job: Job | str) -> Record | Seen:
    """One case, or one problem with a known match probability by its name."""
    return look(job, TRIALS) if isinstance(job, str) else run(job)


def spread(attack: str, count: int) -> Iterator[Job]:
    """``count`` cases of an attack, spread evenly over its cells, with every index."""
    cells = cells_of(attack)
    for k in range(count):
        # A step that shares no factor with the number of cells goes through all of them.
        yield Job(attack, cells[(k * 1_000_003) % len(cells)], k % 6)
