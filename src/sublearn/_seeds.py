"""Seeded streams of random numbers, one for each purpose, so that no two of them are ever the same.

Trial i of a problem draws from streams that (seed, digest of the problem, i, purpose) alone determine.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class Purpose(IntEnum):
    """What the numbers of a trial are for."""

    WEIGHTS = 0  # weights, teacher and inputs
    ALLOCATION = 1
    TRAINING = 2  # starting points and mini-batches
    FRESH = 3  # samples after the match


class Tag(IntEnum):
    """What keeps the streams of one seed apart where no trial of a problem is drawn."""

    SHUFFLED = 0  # labels in a random order
    NOISE_DATA = 1
    RATE_BASE = 11
    RATE_SUBSET = 12
    SECOND_TASK = 0x2ED
    STUDENT = 0x516
    DIRECTION = 0xD1E
    LINEAR_PICTURE = 0x11EA
    SIMULATION = 0x51A7
    SIZES_BASE = 0x51BE
    CYCLES = 0x5A7E  # over which a rate is measured
    PROBES = 0x7ACE  # of a trace
    REPEATS = 0x91AC  # instances on which placements are compared
    DEEP_PICTURE = 0xDEE9


class Turn(IntEnum):
    """What decides within eps, each with random numbers of its own."""

    FIRST_STARTS = 0
    PATTERNS = 1
    MORE_STARTS = 2


def words(digest: str | bytes) -> list[int]:
    """A digest, in hexadecimal or in bytes, as the whole numbers that seed a stream."""
    import numpy as np

    raw = bytes.fromhex(digest) if isinstance(digest, str) else digest
    return [int(word) for word in np.frombuffer(raw, dtype="<u4")]


def trial_key(digest: str, trial: int, *purpose: Purpose) -> tuple[int, ...]:
    """What seeds a stream of a trial, besides the seed."""
    return (*words(digest), trial, *map(int, purpose))


def trial_stream(seed: int, digest: str, trial: int, *purpose: Purpose) -> np.random.Generator:
    """The random numbers of one trial for one purpose; for none, where no instance is drawn."""
    import numpy as np

    return np.random.default_rng([seed, *trial_key(digest, trial, *purpose)])


def named_stream(seed: int, *parts: str) -> np.random.Generator:
    """Random numbers that depend on the seed and on what is asked, and on nothing else."""
    import numpy as np

    return np.random.default_rng([seed, *words(hashlib.sha256("\n".join(parts).encode()).digest())])
