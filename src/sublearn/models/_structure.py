"""What is known about a model's layers, and why some weights in them are wasted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sublearn._arrays import Indices

_KEY_BIAS = re.compile(r"(^|[._])(k|key|k_proj|wk|to_k|k_lin|key_proj)\.bias$")
_VALUE_BIAS = re.compile(r"(^|[._])(v|value|v_proj|wv|to_v|v_lin|value_proj)\.bias$")
_JOINT_BIAS = re.compile(r"(in_proj_bias|c_attn\.bias|qkv\.bias|query_key_value\.bias)$")
_WITHIN = re.compile(
    r"\.(base_layer|lora_[A-Za-z_]+|shira_[A-Za-z_]+|default|modules_to_save)\b.*$"
)


@dataclass(frozen=True)
class Structure:
    """Kinds of layers by the names of their parameters ("LayerNorm", "Linear", ...), in order."""

    kinds: Mapping[str, str]

    def covered(self, names: Sequence[str]) -> tuple[int, int]:
        """In how many layers these parameters lie, and how many layers have parameters."""
        return len({layer_name(n) for n in names}), len({layer_name(n) for n in self.kinds})

    def explain(
        self,
        idle: Mapping[str, float],
        zeros: Mapping[str, Indices],
        even: Mapping[str, int],
        outputs: int,
    ) -> list[str]:
        """Known causes of the waste that was measured, one sentence each.

        ``even`` counts the entries that move the ``outputs`` numbers of every sample alike.
        """
        lines: list[str] = []

        def idle_in(names: Sequence[str]) -> float:
            return sum(idle.get(name, 0.0) for name in names)

        keys = [
            n for n in zeros if zeros[n].size and (_KEY_BIAS.search(n) or _JOINT_BIAS.search(n))
        ]
        if keys:
            count = sum(int(zeros[n].size) for n in keys)
            lines.append(
                f"known cause: {count} key biases add the same number to every score of a query, "
                "which softmax takes away."
            )
        values = [n for n in idle if _VALUE_BIAS.search(n) or _JOINT_BIAS.search(n)]
        rest = sum(idle[n] - zeros[n].size for n in values)
        if rest > 0.5:
            lines.append(
                "known cause: value biases pass through attention unchanged, since its weights sum to "
                "one, and do what the bias of the output projection does."
            )
        norms = [
            n
            for n in idle
            if "Norm" in self.kinds.get(n, "") and n.endswith("bias") and idle[n] > 0.5
        ]
        if norms:
            lines.append(
                f"known cause: shifts of normalisations ({idle_in(norms):.0f} of them) do what the biases of "
                "the layers after them do."
            )
        before = [n for n in self._before_norm() if idle.get(n, 0.0) > 0.5]
        if before:
            lines.append(
                f"known cause: a normalisation takes away the mean of the biases before it "
                f"({idle_in(before):.0f} wasted there)."
            )
        if sum(even.values()) > outputs:
            where = [name for name, count in even.items() if count]
            more = f" and {len(where) - 3} more" if len(where) > 3 else ""
            lines.append(
                f"known cause: {sum(even.values())} weights in {', '.join(where[-3:])}{more} move the "
                f"outputs of all samples alike, as the bias of a head does, and {outputs} would do for that."
            )
        adapters = [n for n in idle if "lora_A" in n or "lora_B" in n]
        if adapters and idle_in(adapters) > 0.5:
            lines.append(
                "known cause: A and B of LoRA can be rescaled against each other, so each adapter of "
                "rank k has k x k directions that change nothing."
            )
        return lines

    def _before_norm(self) -> list[str]:
        """Biases whose next parameter belongs to a normalisation over features."""
        names = list(self.kinds)
        kinds = ("LayerNorm", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d")
        return [
            name
            for name, after in pairwise(names)
            if name.endswith("bias")
            and self.kinds[after] in kinds
            and self.kinds[name] not in kinds
            and layer_name(name) != layer_name(after)
        ]


def layer_name(parameter: str) -> str:
    """The layer of a parameter: adapters belong to the layer that they adapt.

    >>> layer_name("h.0.attn.c_attn.lora_A.default.weight"), layer_name("h.0.attn.c_attn.base_layer.bias")
    ('h.0.attn.c_attn', 'h.0.attn.c_attn')
    """
    if _WITHIN.search(parameter):
        return _WITHIN.sub("", parameter)
    return parameter.rpartition(".")[0]
