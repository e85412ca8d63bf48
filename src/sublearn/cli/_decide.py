"""decide, decide-within, check and doctor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sublearn.cli._asking import OneInstance
from sublearn.cli._options import JsonOption
from sublearn.cli._out import Out, ProofOut, tell_written
from sublearn.cli._progress import progress_bar, working
from sublearn.cli._show import ask_again, described, print_json, say, tell_next

if TYPE_CHECKING:
    from sublearn.matchers import Decision


class DecisionOut(ProofOut):
    name = "decision"


class WithinOut(Out):
    name, files = "decision", ProofOut.files


@dataclass(frozen=True)
class Decided(OneInstance):
    """The instance that is decided, and how much is said of it."""

    why: Annotated[bool, "Where it is undecided, what each way ran into."] = False
    as_json: JsonOption = False


def decide(context: typer.Context, one: Decided, place: DecisionOut) -> None:
    """Decide one instance, the trial that estimate would draw, and save its certificate.

    With --data FILE.npz it is the instance that your arrays are; what they lack is drawn.
    """
    from sublearn.matchers import decide as verb

    again = ("decide-within", "--eps", "0.001")
    _decide(verb, again, context, one, place)


def decide_within(
    context: typer.Context,
    eps: Annotated[float, "EPS", "How far an output may be from its target."],
    one: Decided,
    place: WithinOut,
) -> None:
    """Decide whether some weights bring every output of one instance within eps of its target.

    The question is whether max |output - target| can be at most EPS, over all values of the learnable
    weights. (estimate-within asks another one: what a learner reaches.)
    """
    from sublearn.matchers import decide_within as verb

    again = ("train", "--within", str(eps), "--starts", "10")
    _decide(verb, again, context, one, place, within=eps)


def _decide(
    verb: Callable[..., Decision],
    again: tuple[str, ...],
    context: typer.Context,
    one: Decided,
    place: Out,
    **within: float,
) -> None:
    """Ask the verb; write and print what it answers, or what to do ``again`` where it is undecided."""
    from sublearn.verdicts.counts import msolve_wanted

    problem, _ = one.read()
    rules = one.each_trial(problem)
    instance = one.draw(problem, rules)
    with working("decide"):
        decision = verb(instance, *within.values(), seed=one.seed)
    proof, mask = decision.certificate, instance.allocation
    more = {} if proof is None else {"certificate.json": proof.save}
    saved = place.write(decision, more if place.is_file else {**more, "mask.json": mask.save})
    if one.as_json:
        # The rules, if there are any, and in every case the entries that were decided about.
        question = {**described(problem, rules), **described(problem, mask)}
        question |= {"seed": one.seed, "trial": one.trial, **within}
        print_json({**question, **decision.to_dict(), "saved": saved})
        return
    if decision.kind == "undecided":
        short = "neither a match nor its absence is proved (--why: what was tried)."
        say(f"undecided: {decision.reason if one.why else short}")
        step, drawn = decision.next_step, ("--seed", str(one.seed), "--trial", str(one.trial))
        install = not within and msolve_wanted(problem.network)
        tell_next(step if install else ask_again(context, *again, *drawn))
    else:
        say(str(decision))
    tell_written(saved)
    if saved and proof is not None:
        say(f"check it with: sublearn check {place.file('certificate.json')}")
    elif saved == []:
        say(f"{place.out} not written: only a match that is proved has a certificate")


def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A saved certificate.")],
    as_json: JsonOption = False,
) -> None:
    """Verify a saved certificate again, from its numbers alone: of a match, or of a verdict."""
    from sublearn.matchers import Certificate
    from sublearn.verdicts import RankCertificate, is_rank_certificate

    details: dict[str, Any] = {}
    with working("check"):
        if is_rank_certificate(file):
            of_ranks = RankCertificate.load(file).check()
            valid, reason, lines = of_ranks.holds, of_ranks.reason, of_ranks.details
            parts = ("proved", "seen", "trusted")
            details = {name: list(getattr(of_ranks, name)) for name in parts}
        else:
            found = Certificate.load(file).check()
            valid, reason, lines = found.holds, found.reason, []
    if as_json:
        print_json({"valid": valid, "reason": reason, **details})
    else:
        say(f"{'valid' if valid else 'NOT valid'}: {reason}")
        for line in lines:
            say(f"  {line}")
    if not valid:
        raise typer.Exit(1)


def doctor(
    compile_all: Annotated[
        bool, typer.Option("--compile", help="Compile all machine code now, a minute or two, once.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what is installed: versions, optional parts, threads."""
    if compile_all:
        import os

        from sublearn.experiments import ALL, rehearse

        chosen = list(ALL.values())
        with progress_bar(2 * len(chosen) + 2, "compile, a minute or two") as advance:
            rehearse(chosen, advance, workers=min(2, os.cpu_count() or 1))
    parts = _examine()
    if as_json:
        print_json(parts)
        return
    for name, value in parts.items():
        missing = (
            f"not found: pip install 'sublearn[{_EXTRA[name]}]'" if name in _EXTRA else "not found"
        )
        typer.echo(f"{name:<14} {missing if value is None else value}")


_NEEDED = ("numpy", "scipy", "numba", "python-flint", "matplotlib", "pyarrow", "typer", "rich")
_EXTRA = {
    "mlxtend": "data",
    "scikit-learn": "data",
    "jax": "jax",
    "distributed": "dask",
    "pandas": "notebook",
}


def _examine() -> dict[str, Any]:
    import os

    from sublearn._threads import blas_threads
    from sublearn.runs import versions
    from sublearn.verdicts.counts import find_msolve, msolve_version

    out: dict[str, Any] = dict(versions(*_NEEDED, *_EXTRA))
    path = find_msolve()
    out["msolve"] = None if path is None else f"{msolve_version() or 'found'}"
    out["cores"] = os.cpu_count()
    out["blas threads"] = ", ".join(blas_threads())
    return out
