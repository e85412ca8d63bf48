"""Options that several commands share, and what they are read into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import BadInputError, one_of

if TYPE_CHECKING:
    from sublearn.allocations import Allocation
    from sublearn.ensembles import Problem
    from sublearn.networks import Network

NetworkOption = Annotated[
    str,
    "SPEC",
    "rate:n=50,b=3,d=2,T=10,leak=0.1 | lrnn:n=8,b=1,d=4,T=4 | rnn:n=8,b=1,d=4,T=4 | ffn:4-8-8-6 | "
    "linear:inputs=6,outputs=3. Behind rate, rnn and ffn: ,activation=relu (tanh, sigmoid); behind rate "
    "and ffn: ,bias=yes; behind ffn: ,output=tanh; last: ,connections=FILE.npz (masks of the weights "
    "that exist)",
]
SamplesOption = Annotated[int, "The number m of samples to match."]
InputRankOption = Annotated[int | None, "Inputs of this rank: dependent samples."]
TeacherOption = Annotated[str | None, "SPEC", "Another teacher network, or 'none'."]
LEARNER_NAMES = "adam, adahessian, sgd, gradient-descent, levenberg-marquardt"
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
ForbiddenOption = Annotated[
    list[str] | None,
    "NAME:WHAT|FILE",
    "Entries that must stay frozen: as in --learn, or a .json or .npz file, NAME:FILE.csv or NAME:FILE.npy.",
]
AutapsesOption = Annotated[bool, "No unit is connected to itself."]
SeedOption = Annotated[int, typer.Option(min=0, help="Of the random points and primes.")]


def read_network(text: str) -> Network:
    """The network of a spec, whose connections may stand in a file: ``rnn:...,connections=FILE``.

    Only the command line reads a file there: no file of ours leads to another.
    """
    from sublearn._reading import Unreadable, read_npz
    from sublearn.allocations import SUFFIXES, Allocation
    from sublearn.networks import network_from_text

    plain, named, path = text.partition(",connections=")
    if not named or Path(path).suffix not in SUFFIXES:
        return network_from_text(text)
    network = network_from_text(plain)
    if Path(path).suffix not in (".npz", ".json"):
        raise BadInputError(f"connections must be a .npz or .json file of masks, not {path}.")
    if not Path(path).is_file():
        raise BadInputError(f"connections: there is no file {path}.")
    try:
        if path.endswith(".json"):
            held = Allocation.load(path, network)
            return network.with_connections({name: held.mask(name) for name in held.names})
        masks = read_npz(Path(path), most=max(2**26, 32 * network.cells))
    except Unreadable as problem:
        raise BadInputError(f"{path} cannot be read as connections ({problem}).") from None
    try:
        return network.with_connections(masks)
    except BadInputError as problem:
        raise BadInputError(f"{path}: {problem}") from None


def read_problem(
    network: str,
    samples: int | None,
    input_rank: int | None = None,
    teacher: str | None = None,
    data: str | None = None,
) -> Problem:
    """The problem that these options name; ``data`` are labelled ones, not arrays of one's own."""
    if samples is None:
        raise BadInputError(
            "give --samples M, or --data FILE.npz with inputs, which says how many."
        )
    if data is not None:
        return _labelled(network, samples, input_rank, teacher, data)
    from sublearn.ensembles import Ensemble, LowRank, Normal, Problem, Targets

    inputs = Normal() if input_rank is None else LowRank(rank=input_rank)
    other: Network | Targets | None = None
    if teacher is not None:
        other = Targets() if teacher == "none" else read_network(teacher)
    return Problem(read_network(network), samples, Ensemble(inputs=inputs), other)


def _labelled(
    network: str, samples: int, input_rank: int | None, teacher: str | None, data: str
) -> Problem:
    from sublearn.datasets import dataset_from_text
    from sublearn.ensembles import Labels, Problem

    if teacher is not None or input_rank is not None:
        raise BadInputError(
            "--data brings its own inputs and targets: no --teacher, no --input-rank."
        )
    labels = Labels(dataset_from_text(data, "--data"))
    return Problem(read_network(network), samples, teacher=labels)


def read_entries(problem: Problem, texts: list[str] | None) -> Allocation:
    """Entries that are forbidden or required, from texts NAME:WHAT and files, joined."""
    from sublearn.allocations import SUFFIXES, Allocation
    from sublearn.ensembles import learn_from_text

    network = problem.network
    files = [text for text in texts or [] if Path(text).suffix in SUFFIXES]
    rest = [text for text in texts or [] if text not in files]
    entries = learn_from_text(network, rest).draw(problem)
    for text in files:
        name, colon, path = text.partition(":")
        of_weight = bool(colon) and name in network.shapes and text.endswith((".csv", ".npy"))
        entries |= (
            Allocation.load(path, network, name) if of_weight else Allocation.load(text, network)
        )
    return entries


def read_scores(
    shapes: dict[str, tuple[int, int]], texts: list[str] | None
) -> dict[str, Any] | None:
    """Scores by weight name, from texts NAME:FILE."""
    if not texts:
        return None
    out = {}
    for text in texts:
        name, colon, path = text.partition(":")
        if not colon or Path(path).suffix not in (".csv", ".npy"):
            raise BadInputError(
                f"--scores must read NAME:FILE with a .csv or .npy file, like 'W:scores.npy', not {text!r}."
            )
        one_of("weight name", name, shapes)
        out[name] = read_matrix("scores", path)
    return out


def read_numbers(name: str, text: str, kind: Any = float) -> list[Any]:
    """Numbers separated by commas."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        which = "whole numbers" if kind is int else "numbers"
        raise BadInputError(f"{name} must be {which} separated by commas, not {text!r}.") from None


def read_matrix(what: str, path: str) -> Any:
    """A matrix of numbers from a .csv or .npy file."""
    from sublearn._reading import read_csv, read_npy, reading

    if Path(path).suffix not in (".csv", ".npy"):
        raise BadInputError(f"{what} must be a .csv or .npy file, not {path!r}.")
    with reading(Path(path), what):
        return read_csv(Path(path)) if path.endswith(".csv") else read_npy(Path(path))
