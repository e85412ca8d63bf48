"""Laws: mean 0, variance 1, scale g, the promised rank, and honest flags."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

import sublearn as sl
from networks.reference import one_sentence
from sublearn import BadInputError, ensembles
from sublearn.ensembles import Distribution

LAWS: list[Distribution] = [
    sl.ensembles.Normal(),
    sl.ensembles.Uniform(),
    sl.ensembles.StudentT(df=6.0),
    sl.ensembles.Rademacher(),
    sl.ensembles.Sparse(density=0.3),
    sl.ensembles.LowRank(rank=2),
    sl.ensembles.Factors(count=2),
]


def test_no_law_is_forgotten() -> None:
    public = [getattr(ensembles, name) for name in ensembles.__all__]
    concrete = {
        thing
        for thing in public
        if inspect.isclass(thing)
        and issubclass(thing, Distribution)
        and not inspect.isabstract(thing)
    }
    # Correlated fixes the number of features, so it has tests of its own below.
    assert {type(law) for law in LAWS} | {sl.ensembles.Correlated} == concrete


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("g", [1.0, 0.25, 3.0])
def test_mean_variance_and_scale(law: Distribution, g: float) -> None:
    # Many small matrices, so that the entries of LowRank are close to independent as well.
    parameters = {k: v for k, v in law.describe().items() if k != "law"}
    scaled = type(law)(**{**parameters, "g": g})
    rng = np.random.default_rng(1)
    values = np.stack([scaled.draw(rng, (5, 4)) for _ in range(4000)])
    assert values.shape == (4000, 5, 4) and values.dtype == np.float64
    assert abs(values.mean()) < 0.03 * g
    assert abs(values.std() / g - 1) < 0.03
    # The scale is a factor and nothing else.
    one, many = (type(law)(**{**parameters, "g": v}) for v in (1.0, g))
    same = one.draw(np.random.default_rng(2), (3, 2))
    again = many.draw(np.random.default_rng(2), (3, 2))
    # LowRank has it in a factor, so that their product is what it says: the view rounds otherwise.
    np.testing.assert_allclose(
        g * same, again, rtol=1e-15 if type(law) is sl.ensembles.LowRank else 0
    )


def test_supports() -> None:
    rng = np.random.default_rng(3)
    uniform = sl.ensembles.Uniform(g=2.0).draw(rng, (10_000,))
    assert np.abs(uniform).max() <= 2 * np.sqrt(3) and np.abs(uniform).max() > 3.4
    assert set(sl.ensembles.Rademacher(g=2.0).draw(rng, (100,)).tolist()) == {-2.0, 2.0}
    zeros = (sl.ensembles.Sparse(density=0.3).draw(rng, (10_000,)) == 0).mean()
    assert abs(zeros - 0.7) < 0.02
    # df <= 2 has no variance and is left as it is: the median of |t| with one degree is 1.
    assert abs(np.median(np.abs(sl.ensembles.StudentT(df=1.0).draw(rng, (10_000,)))) - 1) < 0.05


@pytest.mark.parametrize("rank", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [(5, 6), (3, 2, 6)])
def test_low_rank_has_that_rank(rank: int, shape: tuple[int, ...]) -> None:
    x = sl.ensembles.LowRank(rank=rank).draw(np.random.default_rng(4), shape)
    assert x.shape == shape
    features = int(np.prod(shape[:-1]))
    assert np.linalg.matrix_rank(x.reshape(features, -1)) == min(rank, features, shape[-1])


def test_flags() -> None:
    dense = {type(law).__name__: law.has_density for law in LAWS}
    full = {type(law).__name__: law.has_full_support for law in LAWS}
    assert {name for name, yes in dense.items() if not yes} == {"Rademacher", "Sparse"}
    assert {name for name, yes in full.items() if yes} == {"Normal", "StudentT", "Factors"}
    assert {type(law).__name__ for law in LAWS if law.of_inputs} == {"LowRank", "Factors"}


def test_equal_laws_describe_themselves_equally() -> None:
    for one, other in (
        (sl.ensembles.Normal(1), sl.ensembles.Normal(1.0)),
        (sl.ensembles.Normal(np.float32(0.5)), sl.ensembles.Normal(0.5)),  # type: ignore[arg-type]
        (sl.ensembles.StudentT(df=3), sl.ensembles.StudentT(df=3.0)),
        (sl.ensembles.LowRank(rank=np.int64(2)), sl.ensembles.LowRank(rank=2)),  # type: ignore[arg-type]
    ):
        assert one == other and repr(one.describe()) == repr(other.describe())
    assert sl.ensembles.LowRank(rank=2).describe() == {"law": "LowRank", "g": 1.0, "rank": 2}


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: sl.ensembles.Normal(0), "scale g must be positive and finite, not 0"),
    (lambda: sl.ensembles.Normal(-1.0), "scale g"),
    (lambda: sl.ensembles.Uniform(np.nan), "scale g .* not nan"),
    (lambda: sl.ensembles.Rademacher(np.inf), "scale g"),
    (lambda: sl.ensembles.Normal("1"), "scale g .* not '1'"),  # type: ignore[arg-type]
    (lambda: sl.ensembles.Normal(True), "scale g .* not True"),
    (lambda: sl.ensembles.StudentT(df=0), "df must be positive"),
    (lambda: sl.ensembles.StudentT(df=None), "df must be positive"),  # type: ignore[arg-type]
    (lambda: sl.ensembles.Sparse(density=0), "density must be positive"),
    (lambda: sl.ensembles.Sparse(density=1), "density must lie strictly between 0 and 1"),
    (lambda: sl.ensembles.LowRank(rank=0), "rank must be a whole number of at least 1, not 0"),
    (lambda: sl.ensembles.LowRank(rank=1.5), "rank must be a whole number"),  # type: ignore[arg-type]
    (lambda: sl.ensembles.LowRank(g=-1.0), "scale g"),
    (lambda: sl.ensembles.StudentT(g=0), "scale g"),
    (lambda: sl.ensembles.Sparse(g=0), "scale g"),
    (lambda: sl.ensembles.Correlated(g=0), "scale g"),
]


@pytest.mark.parametrize(("make", "match"), BAD)
def test_bad_parameters(make: Callable[[], object], match: str) -> None:
    with pytest.raises(BadInputError, match=match) as caught:
        make()
    assert one_sentence(caught.value)


def test_correlated_inputs_have_their_covariance() -> None:
    wanted = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
    law = sl.ensembles.Correlated(g=2.0, covariance=wanted.tolist())
    drawn = law.draw(np.random.default_rng(3), (3, 1, 200_000)).reshape(3, -1)
    assert np.allclose(np.cov(drawn), 4.0 * wanted, atol=0.05)
    net = sl.LinearRNN(n=4, b=1, d=1, T=3)
    problem = sl.Problem(net, 2, sl.Ensemble(inputs=law))
    plain = sl.Problem(net, 2)
    assert problem.digest != plain.digest
    rows = sl.Allocation.from_entries(net, {"D": [(0, 0), (0, 2)]})
    assert sl.certify(problem, rows).kind == "maximal"
    assert sl.decide(sl.draw(problem, rows)).kind == "matched"


def test_correlated_inputs_are_float64_numbers_of_full_rank() -> None:
    covariance = ((2.0, 0.9, 0.1), (0.9, 1.0, -0.3), (0.1, -0.3, 0.5))
    net, law = sl.LinearRNN(n=2, b=1, d=1, T=3), sl.ensembles.Correlated(covariance=covariance)
    asked = sl.Allocation.whole(net, ["W"])
    drawn = sl.draw(sl.Problem(net, 5, sl.Ensemble(inputs=law)), asked)
    assert drawn.input_factors is None and not drawn.inputs_are_rounded
    # No product that rounds stands behind them: what is decided is what is shown.
    table = drawn.inputs.reshape(3, 5)
    exact = [[fmpq(*value.as_integer_ratio()) for value in row] for row in table.tolist()]
    assert drawn.exact_inputs.rationals() == exact
    assert fmpq_mat(exact).rank() == 3 and drawn.exact_inputs.pivots() == [0, 1, 2]
    low = sl.Ensemble(inputs=sl.ensembles.LowRank(rank=1))
    product = sl.draw(sl.Problem(net, 5, low), asked)
    assert product.inputs_are_rounded and len(product.exact_inputs.pivots()) == 1


@pytest.mark.parametrize(
    ("covariance", "words"),
    [
        ([[1.0, 2.0]], "square"),
        ("no", "square"),
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite"),
        ([[1.0, 1.0], [1.0, 1.0]], "LowRank"),
        ([[0.0]], "LowRank"),
    ],
)
def test_covariances_are_checked(covariance: object, words: str) -> None:
    with pytest.raises(sl.BadInputError, match=words):
        sl.ensembles.Correlated(covariance=covariance)  # type: ignore[arg-type]


def test_a_covariance_fits_its_network() -> None:
    law = sl.ensembles.Correlated(covariance=((1.0, 0.2), (0.2, 1.0)))
    with pytest.raises(sl.BadInputError, match="covariance must be 3 x 3"):
        sl.Problem(sl.FeedForward((3, 2)), 2, sl.Ensemble(inputs=law))
    for each in (law, sl.ensembles.Factors(count=2)):
        with pytest.raises(sl.BadInputError, match=f"{type(each).__name__} is for inputs"):
            sl.Ensemble(weights=each)
