"""Derivatives from captured activations equal those of torch.func and of plain backward passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is tested by make test-models")

from models.layers import KINDS, dense_jacobian, make  # noqa: E402
from sublearn import BadInputError  # noqa: E402
from sublearn.models import Derivatives, _passes  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")


@pytest.mark.parametrize("at_once", [None, 4, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_the_dense_jacobian(kind: str, at_once: int | None) -> None:
    model, inputs = make(kind)
    J = dense_jacobian(model, inputs)
    found = Derivatives(model, inputs, samples_at_once=at_once)
    rng = np.random.default_rng(0)
    R = rng.standard_normal(found.outputs.shape)
    scores, squares = found.scores(R), found.squared_norms()
    for name, columns in J.items():
        scale = max(1.0, np.abs(columns).max() ** 2)
        assert np.abs(scores[name].ravel() - R.ravel() @ columns).max() < 1e-12 * scale
        assert np.abs(squares[name].ravel() - (columns**2).sum(0)).max() < 1e-12 * scale
    for share in (1.0, 0.3, 0.02):
        masks = {n: rng.random(s) < share for n, s in found.shapes.items()}
        wanted = np.concatenate([J[n][:, masks[n].ravel()] for n in found.shapes], axis=1)
        assert np.abs(found.gather(masks) - wanted).max(initial=0.0) < 1e-12


@pytest.mark.parametrize("at_once", [2, 6])
def test_scores_make_no_more_than_themselves(at_once: int) -> None:
    """A tied head and a table, which are most of a language model: no second array of their size."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.inner = nn.Embedding(300, 8), nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.inner(self.table(x)))[:, -1] @ self.table.weight.T

    made: dict[int, Any] = {}

    class Storages(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and result.numel() >= 300 * 8:
                made[result.untyped_storage().data_ptr()] = (
                    result  # held, so that none is used again
                )
            return result

    model, x = Tied(), torch.randint(0, 300, (6, 4))
    found = Derivatives(model, x, samples_at_once=at_once, outputs=3)
    assert set(found.followed.values()) == {"batch"}
    with Storages():
        found.scores(np.ones((6, 3)))
    made.pop(model.table.weight.data_ptr(), None)
    assert len(made) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_one_parameter_alone(kind: str) -> None:
    """The backward passes end where its uses are: behind them nothing is asked for."""
    model, inputs = make(kind)
    J = dense_jacobian(model, inputs)
    found = Derivatives(model, inputs)
    rng = np.random.default_rng(3)
    for name, shape in found.shapes.items():
        mask = np.array(rng.random(shape) < 0.5)
        mask.reshape(-1)[0] = True
        for asked in (found, Derivatives(model, inputs, names=[name])):
            wanted = J[name][:, mask.ravel()]
            assert np.abs(asked.gather({name: mask}) - wanted).max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_summed_in_pieces(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few numbers each, as large models need it, and whichever way the cotangents lie."""
    model, inputs = make(kind)
    J = dense_jacobian(model, inputs)
    summed = _passes._Columns._summed

    def either_way(plan: Any, G: Any) -> Any:
        found = summed(plan, G)
        turned = G.transpose(1, 2).contiguous().transpose(1, 2)
        for same in (turned, G.contiguous(), G):
            assert torch.allclose(summed(plan, same), found, rtol=1e-12, atol=1e-12)
        return found

    monkeypatch.setattr(_passes._Columns, "_summed", either_way)
    for piece in (1 << 24, 40, 1):
        monkeypatch.setattr(_passes, "PIECE", piece)
        found = Derivatives(model, inputs)
        rng = np.random.default_rng(2)
        for share in (0.3, 0.03):
            masks = {n: rng.random(s) < share for n, s in found.shapes.items()}
            wanted = np.concatenate([J[n][:, masks[n].ravel()] for n in found.shapes], axis=1)
            assert np.abs(found.gather(masks) - wanted).max(initial=0.0) < 1e-12


def test_gradients_that_are_one_tensor_are_told_apart() -> None:
    """Autograd hands one tensor to all that is added up: who writes on it spoils the others'."""

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = (nn.Parameter(torch.randn(1, 3)) for _ in range(2))
            self.out, self.aside = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.out(x + self.one + self.two)

    torch.manual_seed(0)
    model, inputs = Sum().double(), torch.randn(4, 3, dtype=torch.float64)
    for at_once in (1, None):
        found = Derivatives(model, inputs, samples_at_once=at_once)
        assert set(found.followed.values()) == {"batch"}
        columns = found.gather({name: np.ones(shape, bool) for name, shape in found.shapes.items()})
        J = dense_jacobian(model, inputs)
        assert np.abs(columns - np.concatenate(list(J.values()), axis=1)).max() < 1e-12
        assert not columns[:, -8:].any()  # a layer that takes no part


@pytest.mark.parametrize("kind", KINDS)
def test_layers_that_are_known_take_the_fast_way(kind: str) -> None:
    model, inputs = make(kind)
    ways = Derivatives(model, inputs).followed
    slow = {"einsum": {"w"}, "routed": {"low.weight", "low.bias", "high.weight", "high.bias"}}
    assert {name for name, way in ways.items() if way != "batch"} == slow.get(kind, set())


def test_flags_and_gradients_are_left_alone() -> None:
    model, inputs = make("mlp")
    next(iter(model.parameters())).requires_grad_(False)
    before = [p.requires_grad for p in model.parameters()]
    Derivatives(model, inputs).squared_norms()
    assert [p.requires_grad for p in model.parameters()] == before
    assert all(p.grad is None for p in model.parameters())


def test_only_named_parameters() -> None:
    model, inputs = make("mlp")
    found = Derivatives(model, inputs, names=["2.weight"])
    assert list(found.squared_norms()) == ["2.weight"] == list(found.scores(found.outputs))


def test_chosen_outputs_of_a_language_model() -> None:
    model, inputs = make("language")
    every = dense_jacobian(model, inputs)
    samples, (positions, classes) = len(inputs), (5, 11)
    rng = np.random.default_rng(1)
    chosen = np.stack(
        [rng.integers(0, positions, (samples, 3)), rng.integers(0, classes, (samples, 3))], axis=-1
    )
    found = Derivatives(model, inputs, outputs=chosen)
    flat = chosen[..., 0] * classes + chosen[..., 1]
    rows = (np.arange(samples)[:, None] * positions * classes + flat).ravel()
    whole = {n: np.ones(s, bool) for n, s in found.shapes.items()}
    wanted = np.concatenate([every[n][rows] for n in found.shapes], axis=1)
    assert np.abs(found.gather(whole) - wanted).max() < 1e-12
    by_place = Derivatives(model, inputs, outputs=flat)
    assert np.array_equal(by_place.outputs, found.outputs)
    drawn = Derivatives(model, inputs, outputs=4, seed=3)
    assert drawn.outputs.shape == (samples, 4)
    assert np.array_equal(drawn.outputs, Derivatives(model, inputs, outputs=4, seed=3).outputs)


def test_an_operation_that_was_missed_is_found_by_the_check() -> None:
    """A custom autograd function is not seen by the recorder; the comparison with autograd is."""

    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            x, w = ctx.saved_tensors
            return grads[0] * w, (grads[0] * x).sum(0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, dtype=torch.float64))
            self.out = nn.Linear(4, 2).double()

        def forward(self, x: Any) -> Any:
            return self.out(Hidden.apply(x * self.w, self.w))

    torch.manual_seed(0)
    model, x = Model(), torch.randn(5, 4, dtype=torch.float64)
    found = Derivatives(model, x)
    assert found.followed["w"] == "sample" and found.followed["out.weight"] == "batch"
    rows = [torch.autograd.grad(o, model.w, retain_graph=True)[0] for o in model(x).reshape(-1)]
    wanted = torch.stack(rows).numpy()
    assert np.abs(found.gather({"w": np.ones(4, bool)}) - wanted).max() < 1e-12


def test_weights_that_lie_otherwise_in_memory() -> None:
    model, inputs = make("conv2d")
    wanted = dense_jacobian(model, inputs)
    model = model.to(memory_format=torch.channels_last)
    model[-1].weight = nn.Parameter(model[-1].weight.detach().T.contiguous().T)
    found = Derivatives(model, inputs)
    squares = found.squared_norms()
    assert found.followed["7.weight"] == "sample"
    for name, columns in wanted.items():
        assert np.abs(squares[name].ravel() - (columns**2).sum(0)).max() < 1e-12


def test_half_precision_and_float32() -> None:
    model, inputs = make("mlp")
    exact = Derivatives(model, inputs).squared_norms()
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        found = Derivatives(model.to(dtype), inputs).squared_norms()
        for name, values in exact.items():
            assert np.abs(found[name] - values).max() <= tolerance * values.max()


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "no module": (lambda: Derivatives(len, torch.ones(2, 2)), "model must be a torch.nn.Module"),
    "no parameters": (lambda: Derivatives(nn.ReLU(), torch.ones(2, 2)), "no parameters"),
    "unknown name": (
        lambda: Derivatives(nn.Linear(2, 1), torch.ones(2, 2), names=["wieght"]),
        "Did you mean 'weight'",
    ),
    "nan": (
        lambda: Derivatives(nn.Linear(2, 1), torch.full((2, 2), float("nan"))),
        "NaN or infinity",
    ),
    "no samples": (lambda: Derivatives(nn.Linear(2, 1), torch.ones(0, 2)), "no sample"),
    "other counts": (
        lambda: Derivatives(nn.Bilinear(2, 2, 1), (torch.ones(2, 2), torch.ones(3, 2))),
        "same number of samples",
    ),
    "batch norm": (
        lambda: Derivatives(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), torch.ones(4, 2)),
        "batch normalisation '1' is in training mode.*model.eval",
    ),
    "batch norm without statistics of its own": (
        lambda: Derivatives(
            nn.Sequential(nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2, track_running_stats=False)).eval(),
            torch.ones(4, 2, 3),
        ),
        "batch normalisation '1' keeps no running statistics, .* evaluation mode too .*: make it",
    ),
    "dropout": (
        lambda: Derivatives(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), torch.ones(4, 2)),
        "dropout '1' is in training mode.*model.eval",
    ),
    "not a tensor": (
        lambda: Derivatives(nn.Linear(2, 1), torch.ones(2, 2), forward=lambda m, x: "no"),
        "must return a floating-point tensor",
    ),
    "wrong rows": (
        lambda: Derivatives(nn.Linear(2, 1), torch.ones(2, 2), forward=lambda m, x: m(x).T),
        "one row per sample",
    ),
    "interaction": (
        lambda: Derivatives(
            nn.Linear(2, 2), torch.randn(4, 2), forward=lambda m, x: m(x) - m(x).mean(0)
        ),
        "changes with the other samples",
    ),
    "interaction with earlier samples": (
        lambda: Derivatives(
            nn.Linear(2, 2), torch.randn(4, 2), forward=lambda m, x: m(x).cumsum(0)
        ),
        "changes with the other samples",
    ),
    "outputs beyond": (
        lambda: Derivatives(nn.Linear(2, 3), torch.ones(2, 2), outputs=[[0], [3]]),
        "outputs must lie within",
    ),
    "too many outputs": (
        lambda: Derivatives(nn.Linear(1, 5000), torch.ones(2, 1)),
        "5000 outputs per sample.*outputs=16",
    ),
    "mask of another shape": (
        lambda: Derivatives(nn.Linear(2, 3), torch.ones(2, 2)).gather({"bias": [True]}),
        r"mask of bias must be of shape \(3,\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case: str) -> None:
    run, message = BAD[case]
    torch.manual_seed(0)
    with pytest.raises(BadInputError, match=message) as caught:
        run()
    assert "\n" not in str(caught.value)


def test_samples_may_lie_anywhere() -> None:
    """As many positions as samples, samples second: the layout is found from the cotangents."""
    torch.manual_seed(0)

    class Second(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 4)
            self.out = nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.out(torch.tanh(self.inner(x.transpose(0, 1))).cumsum(0)[-1])

    model, x = Second().double(), torch.randn(5, 5, 3, dtype=torch.float64)
    J = dense_jacobian(model, x)
    found = Derivatives(model, x)
    assert set(found.followed.values()) == {"batch"}
    assert (
        np.abs(
            found.squared_norms()["inner.weight"].ravel() - (J["inner.weight"] ** 2).sum(0)
        ).max()
        < 1e-12
    )


@pytest.mark.parametrize("seed", range(6))
def test_as_many_steps_as_samples(seed: int) -> None:
    """Steps before samples, equally many, of which the last alone is read: shapes tell nothing."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.head(torch.tanh(self.mix(x.transpose(0, 1)))[-1])

    torch.manual_seed(seed)
    model, inputs = Last().double(), torch.randn(6, 6, 3, dtype=torch.float64)
    J = dense_jacobian(model, inputs)
    columns = Derivatives(model, inputs, seed=seed).gather(
        {n: np.ones(tuple(p.shape), bool) for n, p in model.named_parameters()}
    )
    wanted = np.concatenate([J[n] for n, _ in model.named_parameters()], axis=1)
    assert np.abs(columns - wanted).max() < 1e-12


class Mixed(nn.Module):
    """Every way in which squares are added up: once, over positions, rows and a tied head, direct, apart."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.inner = nn.Embedding(9, 8), nn.Linear(8, 8)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 9, bias=False)
        self.last = nn.Linear(9, 3)
        if tied:
            self.head.weight = self.embed.weight
        self.twice = nn.Parameter(torch.randn(8, 8))

    def forward(self, codes: Any) -> Any:
        state = torch.tanh(self.inner(self.embed(codes)))
        state = state @ self.twice[:, :4] @ self.twice[:, 4:].T + state @ self.twice
        return self.last(self.head(self.norm(state)).mean(1))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squares_of_half_precision_neither_overflow_nor_vanish(
    dtype: Any, size: float, tied: bool
) -> None:
    model, codes = Mixed(tied), torch.randint(9, (6, 5))
    with torch.no_grad():
        model.last.weight.mul_(size)
        model.head.weight.mul_(1.0 if tied else size**0.5)
    half = model.to(dtype)
    found = Derivatives(half, codes).squared_norms()
    wide = Derivatives(half.double(), codes).squared_norms()
    for name, expected in wide.items():
        assert found[name].dtype == np.float32 and np.isfinite(found[name]).all(), name
        far = np.abs(found[name] - expected).max() / expected.max()
        assert far < (0.05 if dtype == torch.float16 else 0.1), (name, far)
        seen = expected > 1e-2 * expected.max()
        assert (found[name][seen] > 0).all(), name


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("at_once", [None, 4])
@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
def test_sums_of_half_precision_do_not_overflow(size: float, at_once: Any, tied: bool) -> None:
    """Cotangents and weights of 100 over 40 samples: more than 65504, the most that float16 holds."""
    model, codes = Mixed(tied), torch.randint(9, (40, 5))
    with torch.no_grad():
        model.last.weight.mul_(size)
    half = model.to(torch.float16)
    R = np.abs(np.random.default_rng(0).standard_normal((40, 3))) * size
    found = Derivatives(half, codes, samples_at_once=at_once).scores(R)
    wide = Derivatives(half.double(), codes).scores(R)
    for name, expected in wide.items():
        far = np.abs(found[name] - expected).max() / np.abs(expected).max()
        assert far < 0.05, (name, far)
