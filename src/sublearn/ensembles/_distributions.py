"""Distributions of weights and inputs, and whether each has a density.

Every distribution is drawn with mean 0 and variance 1 (where it has one) and then scaled: a weight
matrix with rows of length n by g / sqrt(n) (appendix E.3), inputs by g.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from sublearn._arrays import Array
from sublearn._errors import BadInputError, as_float, positive, shown, whole_number


@dataclass(frozen=True)
class Distribution(ABC):
    """Independent entries of one law, of scale ``g``.

    ``has_density``: the law has a density, positive around 0; only then do generic facts hold.
    ``has_full_support``: every open set has positive probability. ``of_inputs``: it is not a law of weights
    or targets. Whoever says nothing has none of these.
    """

    has_density: ClassVar[bool] = False
    has_full_support: ClassVar[bool] = False
    of_inputs: ClassVar[bool] = False

    g: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "g", positive("the scale g", self.g))

    @abstractmethod
    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Independent draws before scaling."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Independent draws of scale g."""
        return self.g * self.standard(rng, shape)

    def factors(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> tuple[Array, Array] | None:
        """The two factors of one draw, where it is a product of two."""
        return None

    def check(self, features: int) -> None:  # noqa: B027 - most laws are of any number
        """Refuse inputs of so many numbers that this is no law of."""

    @property
    def inner(self) -> int | None:
        """How many columns the first of two factors has whose product inputs are; None without factors."""
        return None

    def rank_of(self, features: int) -> int:
        """The rank of more than enough samples of so many features."""
        return features if self.inner is None else min(features, self.inner)

    def describe(self) -> dict[str, Any]:
        """Name and parameters, for digests and messages."""
        return {"law": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class Normal(Distribution):
    """Gaussian: the paper's choice."""

    has_density = has_full_support = True

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.standard_normal(shape)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform on [-sqrt 3, sqrt 3] before scaling."""

    has_density = True

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), shape)


@dataclass(frozen=True)
class StudentT(Distribution):
    """Student's t with ``df`` degrees of freedom, scaled to variance 1 where it has one (df > 2)."""

    has_density = has_full_support = True

    df: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "df", positive("df", self.df))

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        spread = np.sqrt(self.df / (self.df - 2.0)) if self.df > 2 else 1.0
        return np.asarray(rng.standard_t(self.df, shape) / spread, dtype=np.float64)


@dataclass(frozen=True)
class Rademacher(Distribution):
    """+1 or -1 with equal probability: no density."""

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(2.0 * rng.integers(0, 2, shape) - 1.0)


@dataclass(frozen=True)
class Sparse(Distribution):
    """Gaussian with probability ``density``, else exactly 0: no density as a law."""

    density: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "density", positive("density", self.density))
        if self.density >= 1:
            raise BadInputError(f"density must lie strictly between 0 and 1, not {self.density!r}.")

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        kept = rng.random(shape) < self.density
        return np.asarray(kept * rng.standard_normal(shape) / np.sqrt(self.density))


@dataclass(frozen=True)
class LowRank(Distribution):
    """Inputs of rank ``rank``: a random (features x rank) times a random (rank x samples) matrix.

    The samples are linearly dependent when ``rank`` is below their number (appendix F.1). The
    factors have densities, so generic facts hold for them.
    """

    has_density = of_inputs = True

    rank: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rank", whole_number("rank", self.rank, least=1))

    @property
    def inner(self) -> int:
        return self.rank

    def factors(self, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """The two factors of one draw, the scale in the first: their product is exact, not its rounding."""
        features, samples = int(np.prod(shape[:-1])), shape[-1]
        left = rng.standard_normal((features, self.rank))
        right = rng.standard_normal((self.rank, samples))
        return np.asarray(left * (self.g / np.sqrt(self.rank))), right

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        left, right = self.factors(rng, shape)
        return np.asarray(left @ right).reshape(shape)

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return self.draw(rng, shape) / self.g


@dataclass(frozen=True)
class Correlated(Distribution):
    """Gaussian inputs whose samples have a given covariance between their features.

    ``covariance`` is a symmetric positive definite matrix, one row per number of a sample: q for
    feed-forward networks, T b for recurrent ones (time step by time step). A singular one has no
    density; inputs of low rank are :class:`LowRank`.
    """

    has_density = has_full_support = of_inputs = True

    covariance: tuple[tuple[float, ...], ...] = ((1.0,),)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            matrix = np.array(self.covariance, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise BadInputError("covariance must be a square matrix of numbers.")
        if not np.isfinite(matrix).all() or not np.array_equal(matrix, matrix.T):
            raise BadInputError("covariance must be finite and symmetric.")
        if np.linalg.eigvalsh(matrix)[0] <= 1e-12 * np.abs(matrix).max():
            raise BadInputError("covariance must be positive definite; for low rank use LowRank().")
        rows = tuple(tuple(float(v) for v in row) for row in matrix)
        object.__setattr__(self, "covariance", rows)

    @classmethod
    def equally(cls, features: int, correlation: float) -> Correlated:
        """Unit variances, and the same correlation between every two of so many features.

        >>> Correlated.equally(2, 0.5).covariance
        ((1.0, 0.5), (0.5, 1.0))
        """
        whole_number("features", features, least=1)
        if not np.isfinite(as_float(correlation)):
            said = shown(correlation)
            raise BadInputError(f"correlation must be a number, such as 0.9, not {said}.")
        matrix = (1.0 - correlation) * np.eye(features) + correlation
        return cls(covariance=tuple(map(tuple, matrix.tolist())))

    def check(self, features: int) -> None:
        size = len(self.covariance)
        if size != features:
            raise BadInputError(
                f"covariance must be {features} x {features}, one row per number of a sample, not "
                f"{size} x {size}."
            )

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        root = np.linalg.cholesky(np.array(self.covariance))
        drawn = root @ rng.standard_normal((len(root), shape[-1]))
        return np.asarray(drawn, dtype=np.float64).reshape(shape)


@dataclass(frozen=True)
class Factors(Distribution):
    """Correlated inputs: f latent numbers per sample reach every feature.

    X = (U Z + E/2) / sqrt(f + 1/4) with U, Z and E standard normal, U drawn once per instance; every
    number keeps variance 1 over draws.
    """

    has_density = has_full_support = of_inputs = True

    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "count", whole_number("factors", self.count, least=1))

    def standard(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        own = rng.standard_normal(shape)
        U = rng.standard_normal((int(np.prod(shape[:-1])), self.count))
        Z = rng.standard_normal((self.count, shape[-1]))
        mixed: Array = (U @ Z).reshape(shape) + 0.5 * own
        return np.asarray(mixed / np.sqrt(self.count + 0.25))


def check_law(name: str, law: object, what: str | None = None) -> None:
    """Refuse what is no law, or is one of inputs and meant for something else."""
    if not isinstance(law, Distribution):
        raise BadInputError(f"{name} must be a distribution such as Normal(), not {law!r}.")
    if name != "inputs" and law.of_inputs:
        raise BadInputError(f"{type(law).__name__} is for inputs, not for {what or name}.")
