"""Instances that ask the same with fewer equations, or with rational numbers instead of real ones.

Each step keeps the learnable weights and their solutions exactly as they are:

- Student and teacher end in the same invertible activation: phi(a) = phi(b) says a = b.
- No learnable weight comes before some ReLU layer: what enters the next one is rational, and known.
- The student is linear: its outputs on a sample that is a combination of others (with a bias, an affine
  one) are that combination of its outputs. If the targets are not, no weights give them; if they are,
  the sample adds nothing (appendix F.1). In any network, so does a sample that is there twice.
- Linear RNNs with n and n* units on inputs of full rank T b are asked for the T Markov parameters
  D W^s B of the teacher. The difference of two such sequences is one of n + n* units, so by Cayley and
  Hamilton it vanishes if n + n* terms in a row do: the others add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sublearn.allocations import Allocation
from sublearn.ensembles import Instance, Teacher, split_rows
from sublearn.exact import Dyadics
from sublearn.matchers.proofs._balls import BALLS, precision, wanted
from sublearn.networks import FeedForward, LinearRNN, before_both, evaluate

REGULAR = 1e-9  # the least singular value over the largest, above which samples are independent
BITS = 256


def simplify(instance: Instance) -> tuple[Instance, str | None]:
    """An instance with the same solutions, and why there is none where a step has shown that.

    >>> import numpy as np, sublearn as sl
    >>> problem = sl.Problem(sl.FeedForward((3, 1), output="tanh"), samples=5)
    >>> simple, _ = simplify(sl.draw(problem, {"W1": sl.Anywhere(3)}))
    >>> simple.network.spec, simple.samples   # five samples of three numbers
    ('ffn:3-1', 3)
    """
    if "_whole" in vars(instance):
        return instance, None  # it has been here before
    out = _behind_frozen(_before_outputs(instance))
    reason: str | None
    if out.network.is_linear:
        out, reason = _independent(out)
        out = out if reason is not None else _shortened(out)
    else:
        out, reason = _distinct(out)
    if reason is None:
        vars(out)["_whole"] = instance
    return out, reason


def whole(instance: Instance) -> Instance:
    """What an instance was before :func:`simplify`."""
    out: Instance = vars(instance).get("_whole", instance)
    return out


def _before_outputs(instance: Instance) -> Instance:
    """Both networks up to their last pre-activations, if the same invertible function follows."""
    teacher = instance.teacher
    pair = None if teacher is None else before_both(instance.network, teacher.network)
    if teacher is None or pair is None:
        return instance
    return instance.taught_by(pair[0], Teacher(pair[1], teacher.weights))


def _behind_frozen(instance: Instance) -> Instance:
    """The layers from the first learnable one on, with the exact outputs of the ReLU layers before."""
    form, allocation = instance.network.layered, instance.allocation
    if form is None or set(form.activations[:-1]) != {"relu"}:
        return instance
    first = min(form.layer_of(name) for name in allocation.names)
    if first == 0:
        return instance
    before = FeedForward(form.sizes[: first + 1], "relu", "relu", bool(form.biases))
    activation = "relu" if first + 1 < len(form.weights) else "linear"
    after = FeedForward(form.sizes[first:], activation, form.activations[-1], bool(form.biases))

    def own(name: str, skipped: int) -> str:
        """What the instance calls a weight of the layers behind the first ``skipped`` ones."""
        names = form.weights if name.startswith("W") else form.biases
        return names[int(name[1:]) - 1 + skipped]

    exact = {name: Dyadics.of(instance.weights[own(name, 0)]) for name in before.shapes}
    entering: Dyadics = evaluate(
        before,
        exact,
        split_rows(before, instance.exact_inputs),
        instance.samples,
        Dyadics.of,
        lambda _, state: state.positive_part(),
    )
    if not np.isfinite(entering.floats()).all():
        return instance
    flat = {name: allocation.flat(own(name, first)) for name in after.shapes}
    weights = {name: instance.weights[own(name, first)] for name in after.shapes}
    return instance.on(after, Allocation(after.shapes, flat), weights, entering)


def _independent(instance: Instance) -> tuple[Instance, str | None]:
    """A linear student on samples none of which is a combination of those before it."""
    m = instance.samples
    biased = instance.network.is_biased
    view = instance.inputs.reshape(-1, m)
    if m <= view.shape[0] + biased:
        table = np.vstack([view, np.ones(m)]) if biased else view
        sizes = np.linalg.svd(table, compute_uv=False)
        if sizes[-1] > REGULAR * sizes[0]:
            return instance, None
    entering = instance.exact_inputs
    if biased:
        entering = entering.over(Dyadics.of(np.ones((1, m))))
    kept = entering.pivots()
    if len(kept) == m:
        return instance, None
    reason = (
        "on linearly dependent samples the outputs of a linear network depend on each other in the same "
        "way, and the targets do not"
    )
    targets = instance.exact_targets
    if targets is not None:
        if entering.over(targets).pivots() != kept:
            return instance, reason
    elif not _follow(instance, kept):
        apart = _apart(instance, entering, kept)
        return instance, reason if apart else None
    # Where every sample is zero, one of them says what the network does with zeros.
    return instance.only(kept or [0]), None


def _follow(instance: Instance, kept: Sequence[int]) -> bool:
    """Whether targets that are not rational repeat those of the samples kept: copies of samples do."""
    assert instance.asking is not None
    shown = instance.asking[1].whole.transpose().tolist()
    known = [shown[s] for s in kept]
    return all(column in known for column in shown)


def _apart(instance: Instance, entering: Dyadics, kept: Sequence[int]) -> bool:
    """Whether balls show that some target is not the combination that its sample is."""
    reduced, scale, rank = entering.whole.rref()
    width, entries = entering.shape[1], reduced.entries()
    with precision(BITS):
        targets = wanted(instance, BALLS)
        for s in range(width):
            if s in kept:
                continue
            for o in range(instance.network.output_size):
                follows = sum(
                    (targets[o, kept[row]] * entries[row * width + s] for row in range(rank)),
                    start=targets[o, 0] * 0,
                )
                if follows != targets[o, s] * scale:
                    return True
    return False


def _distinct(instance: Instance) -> tuple[Instance, str | None]:
    """No sample twice; a sample with two different targets has no match."""
    view = instance.inputs.reshape(-1, instance.samples)
    if np.unique(view, axis=1).shape[1] == instance.samples:
        return instance, None
    columns = [tuple(column) for column in instance.exact_inputs.whole.transpose().tolist()]
    first: dict[tuple[object, ...], int] = {}
    of = [first.setdefault(tuple(map(int, column)), s) for s, column in enumerate(columns)]
    kept = sorted(set(of))
    if len(kept) == instance.samples:
        return instance, None
    shown = targets = instance.exact_targets
    if shown is None:
        # Targets that are not rational are known to be the same where the teacher saw the same.
        assert instance.asking is not None
        shown = instance.asking[1]
    seen = shown.whole.transpose().tolist()
    if any(seen[s] != seen[f] for s, f in enumerate(of)):
        twice = "one sample is there twice, with different targets"
        return instance, None if targets is None else twice
    return instance.only(kept), None


def _shortened(instance: Instance) -> Instance:
    """Linear recurrences on T b independent samples: the first n + n* Markov parameters say it all."""
    student, teacher = instance.network.recurrence, instance.teacher
    shown = None if teacher is None else teacher.network.recurrence
    if student is None or teacher is None or shown is None:
        return instance
    if instance.samples != student.T * student.b:
        return instance
    steps = student.n + shown.n
    if steps >= student.T or len(instance.exact_inputs.pivots()) < instance.samples:
        return instance
    short = LinearRNN(student.n, student.b, student.d, steps)
    flat = {name: instance.allocation.flat(old) for name, old in student.names.items()}
    return Instance.from_teacher(
        short,
        Allocation(short.shapes, flat),
        {name: instance.weights[old] for name, old in student.names.items()},
        np.eye(steps * student.b).reshape(short.input_shape(steps * student.b)),
        {name: teacher.weights[old] for name, old in shown.names.items()},
        LinearRNN(shown.n, shown.b, shown.d, steps),
    )
