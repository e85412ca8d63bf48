"""--data own.npz: weights by name, inputs and targets of one's own, any of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sublearn._errors import BadInputError
from sublearn.cli._show import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from sublearn.allocations import Allocation
    from sublearn.ensembles import Problem
    from sublearn.networks import Network


_ROOM = 2**26  # bytes that arrays of another network may have, to be refused by their shapes


@dataclass(frozen=True)
class OwnData:
    """The arrays of a file; what it does not hold is drawn."""

    path: str
    weights: Mapping[str, np.ndarray]
    inputs: np.ndarray | None
    targets: np.ndarray | None

    def problem(
        self, network: Network, samples: int | None, input_rank: int | None, teacher: str | None
    ) -> Problem:
        """The problem that these arrays are one case of."""
        from sublearn.cli._options import read_problem
        from sublearn.ensembles import Problem

        if self.inputs is None:
            return read_problem(network.spec, samples, input_rank, teacher)
        given = self.inputs.shape[-1]
        if samples is not None and samples != given:
            raise BadInputError(f"--samples is {samples}, but {self.path} holds {given} samples.")
        if input_rank is not None:
            raise BadInputError(f"--input-rank goes without --data {self.path}: it holds inputs.")
        if teacher is not None and self.targets is not None:
            raise BadInputError(f"--teacher goes without --data {self.path}: it holds targets.")
        by_data = Problem.from_arrays(network, self.inputs, self.targets)
        if teacher is None:
            return by_data
        taught = read_problem(network.spec, given, None, teacher)
        return Problem(network, given, by_data.ensemble, taught.teacher)

    def given_in(self, problem: Problem) -> Problem:
        """The problem whose every draw has these arrays; what they lack is drawn by its laws."""
        from sublearn.ensembles import Given

        given = Given(self.weights, self.inputs, self.targets)
        return replace(problem, ensemble=replace(problem.ensemble, given=given))

    def tell_rank(
        self, problem: Problem, allocation: Allocation, error: float, seed: int, as_json: bool
    ) -> dict[str, Any]:
        """Print the rank at these weights and inputs, or return it for JSON."""
        from sublearn.verdicts import rank_at

        network = problem.network
        lacking = [name for name in network.shapes if name not in self.weights]
        lacking += ["inputs"] if self.inputs is None else []
        if lacking or self.inputs is None:
            words = f"No rank at given numbers: {self.path} lacks {', '.join(lacking)}."
            if not as_json:
                say(words)
            return {"rank_given": None, "lacking": lacking}
        rank = rank_at(network, allocation, self.weights, self.inputs, error=error, seed=seed)
        if not as_json:
            say(str(rank))
        return {"rank_given": rank.to_dict()}


def is_own(data: str | None) -> bool:
    """Whether --data names a file of arrays, and no labelled data set."""
    return data is not None and (Path(data).suffix == ".npz" or Path(data).is_file())


def read_own(path: str, network: Network, samples: int | None) -> OwnData:
    """The arrays of a .npz file: ``inputs``, ``targets`` (d, m), and weights by their names.

    They may have the bytes that ``samples`` of the network take, or, where their number is not said, a
    quarter of the memory: an answer keeps each number about four times.
    """
    from sublearn._arrays import finite_numbers
    from sublearn._limits import memory_limit
    from sublearn._reading import Unreadable, read_npz

    if not Path(path).is_file():
        named = path in ("mnist", "digits") or Path(path).is_dir()
        also = "; labelled digits are for estimate, decide and train" if named else ""
        raise BadInputError(
            f"--data must name a .npz file with inputs and targets: there is no file {path}{also}."
        )
    most = memory_limit() // 4
    if samples is not None:
        numbers = network.cells + samples * (sum(network.input_blocks) + network.output_size)
        most = min(most, max(_ROOM, 32 * numbers))
    try:
        arrays = read_npz(Path(path), most=most)
    except Unreadable as problem:
        raise BadInputError(f"--data: {path} cannot be read as a .npz file ({problem}).") from None
    known = ", ".join(network.shapes)
    for name, array in arrays.items():
        if name not in (*network.shapes, "inputs", "targets"):
            raise BadInputError(
                f"--data: {path} holds {name!r}; the arrays may be inputs, targets and the weights "
                f"{known} of {network.title}."
            )
        try:
            own = f"weight {name}" if name in network.shapes else name
            arrays[name] = finite_numbers(own, array)
            if name in network.shapes:
                network.check_weight(name, arrays[name])
        except BadInputError as problem:
            raise BadInputError(f"--data: {path}: {problem}") from None
    inputs, targets = arrays.pop("inputs", None), arrays.pop("targets", None)
    if targets is not None and inputs is None:
        raise BadInputError(f"--data: {path} holds targets, and no inputs that they belong to.")
    if not arrays and inputs is None:
        raise BadInputError(
            f"--data: {path} holds nothing to ask about: inputs, targets, or the weights {known}."
        )
    return OwnData(path, arrays, inputs, targets)
