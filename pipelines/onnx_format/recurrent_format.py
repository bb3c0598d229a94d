"""The nodes of recurrent layers in Braid's ONNX format: what a token leaves for later ones is a state of one
size, whatever the length of the text.

Projections, activations, norms and gates around them are plain ONNX: engines do not differ there.  A node
reads the tokens of a step in order, and each sequence has a state of its own in each node, zeros before its
first token.  Sums and states are float32; inputs of tokens and `mixed` are of one type, float32, float16 or
bfloat16.  t is the number of a token in its sequence, h a head, and constants are float32 initializers.

    node      mixed[1, num_tokens, channels] = braid::ShortConv(
                  rows[1, num_tokens, channels], weight[channels, 1, kernel], bias[channels])

mixed[t, c] = Σ_k weight[c, 0, k] · rows[t - (kernel - 1) + k, c] + bias[c], where rows before the first one
are 0; `bias` may be absent.  The state is [channels, kernel]: the last rows, the newest one last.

    node      mixed[1, num_tokens, value_heads, value_size] = braid::GatedDeltaNet(
                  query, key[1, num_tokens, key_heads, key_size],
                  value[1, num_tokens, value_heads, value_size],
                  decay, beta[1, num_tokens, value_heads])

q and k are `query` and `key` of head h // (value_heads / key_heads), each divided by √(Σ x² + epsilon).  The
state S[value_heads, value_size, key_size] of a token is made of that before it, and read:

    S' = exp(decay[t, h]) · S[t - 1, h]
    S[t, h] = S' + beta[t, h] · (value[t, h] - S' k) kᵀ
    mixed[t, h] = S[t, h] q / √key_size

    node      mixed[1, num_tokens, heads, head_size] = braid::Mamba2(
                  values[1, num_tokens, heads, head_size], steps[1, num_tokens, heads],
                  written, read[1, num_tokens, groups, state_size], decay[heads])

w and r are `written` and `read` of group h // (heads / groups); `steps` are above 0, `decay` below:

    S[t, h] = exp(decay[h] · steps[t, h]) · S[t - 1, h] + steps[t, h] · values[t, h] wᵀ
    mixed[t, h] = S[t, h] r

S is [heads, head_size, state_size].  What skips the state (D · values) is plain ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHORT_CONV, DELTA_NET, MAMBA2 = "ShortConv", "GatedDeltaNet", "Mamba2"
NUMBER = "state"
"""Attribute of every node: the number of its state, which counts from 0 in order over all kinds of nodes."""
EPSILON = "epsilon"

Size = str | int
"""The name of an attribute, or a number."""


@dataclass(frozen=True)
class RecurrentKind:
    """A kind of node: the sizes of its inputs behind [1, num_tokens], of its constants, which are its last
    inputs, and of its state.

    `repeated`: pairs of attributes of which the first is a multiple of the second.
    """

    inputs: Mapping[str, tuple[Size, ...]]
    constants: Mapping[str, tuple[Size, ...]]
    state: tuple[str, ...]
    repeated: tuple[str, str] | None = None
    floats: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the attributes that are sizes."""
        shapes = (*self.inputs.values(), *self.constants.values(), self.state)
        return tuple(dict.fromkeys(size for shape in shapes for size in shape if isinstance(size, str)))

    @property
    def attributes(self) -> tuple[str, ...]:
        return (NUMBER, *self.sizes, *self.floats)


KINDS = {
    SHORT_CONV: RecurrentKind(
        inputs={"rows": ("channels",)},
        constants={"weight": ("channels", 1, "kernel"), "bias": ("channels",)},
        state=("channels", "kernel"),
    ),
    DELTA_NET: RecurrentKind(
        inputs={
            "query": ("key_heads", "key_size"),
            "key": ("key_heads", "key_size"),
            "value": ("value_heads", "value_size"),
            "decay": ("value_heads",),
            "beta": ("value_heads",),
        },
        constants={},
        state=("value_heads", "value_size", "key_size"),
        repeated=("value_heads", "key_heads"),
        floats=(EPSILON,),
    ),
    MAMBA2: RecurrentKind(
        inputs={
            "values": ("heads", "head_size"),
            "steps": ("heads",),
            "written": ("groups", "state_size"),
            "read": ("groups", "state_size"),
        },
        constants={"decay": ("heads",)},
        state=("heads", "head_size", "state_size"),
        repeated=("heads", "groups"),
    ),
}
"""Operator → what its nodes have."""
OPTIONAL = frozenset({"bias"})
"""Constants that may be left out."""
