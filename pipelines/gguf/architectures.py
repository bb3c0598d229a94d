"""What the architectures of GGUF files mean, as data: which are served, and how they differ from llama."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata

SOFTMAX = 1
"""`expert_gating_func` of the mixtures that are served."""


@dataclass(frozen=True)
class Architecture:
    """How a decoder differs from the plainest one.

    `interleaved`: converters interleave the halves of query and key heads that rotate together.
    `activation`: of the gate.  `scaled_embedding`: embeddings are multiplied by √width.
    `nope_every`: every n-th layer has no positions (NoPE).  `windowed`: layers attend to
    `attention.sliding_window` tokens, but every n-th by `global_every` to all.  `local_base`: the rotary base
    of those with a window.  `wide_scale`: with this many layers, scores are scaled by width / heads in place
    of the head size.  `experts_sum_to_one`: the weights of the experts that were chosen are divided by their
    sum; None where mixtures are not served.
    """

    interleaved: bool = False
    activation: Literal["silu", "gelu"] = "silu"
    scaled_embedding: bool = False
    nope_every: int = 0
    windowed: bool = False
    global_every: int = 0
    local_base: float | None = None
    wide_scale: int = 0
    experts_sum_to_one: bool | None = None


_GEMMA = Architecture(activation="gelu", scaled_embedding=True)
ARCHITECTURES = {
    "llama": Architecture(interleaved=True, experts_sum_to_one=True),
    "qwen2": Architecture(),
    "qwen2moe": Architecture(experts_sum_to_one=False),
    "qwen3": Architecture(),
    "qwen3moe": Architecture(experts_sum_to_one=True),
    "phi3": Architecture(windowed=True),
    "smollm3": Architecture(interleaved=True, nope_every=4),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, windowed=True, global_every=2, wide_scale=46),
    "gemma3": replace(_GEMMA, windowed=True, global_every=6, wide_scale=62, local_base=10000.0),
}
"""`general.architecture` → what it means.  Files of Mistral and Mixtral say llama."""


@dataclass(frozen=True)
class DecoderFacts:
    """The sizes and numbers of one decoder; `window` is -1, caps and `experts` are 0 where there is none.

    `rotated`: the first numbers of each head, which rotary positions change.
    """

    name: str
    kind: Architecture
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    rotated: int
    experts: int
    experts_used: int
    epsilon: float
    context: int
    scale: float
    window: int
    attention_cap: float
    logit_cap: float

    def window_of(self, layer: int) -> int:
        """The tokens that a layer attends to; -1 is no limit."""
        every = self.kind.global_every
        return -1 if every and (layer + 1) % every == 0 else self.window

    def has_rope(self, layer: int) -> bool:
        """Whether queries and keys of a layer have rotary positions; without (NoPE) they have none."""
        every = self.kind.nope_every
        return not every or (layer + 1) % every != 0


def read_facts(metadata: Metadata) -> DecoderFacts:
    """Raises `GgufError` for an architecture that is not served and for sizes that cannot be."""
    name = metadata.architecture
    if name not in ARCHITECTURES:
        raise GgufError(
            f"is of architecture {name or '(none)'}; GGUF files of {', '.join(ARCHITECTURES)} are served, "
            "others from their Hugging Face folders with `braid export`"
        )
    kind = ARCHITECTURES[name]
    experts, experts_used = _read_experts(metadata, kind)
    width, heads = metadata.count("embedding_length"), metadata.count("attention.head_count")
    kv_heads = metadata.count("attention.head_count_kv", heads)
    size = metadata.count("attention.key_length", max(width // heads, 1))
    if heads % kv_heads or size % 2 or metadata.count("attention.value_length", size) != size:
        raise GgufError(f"has {heads} query and {kv_heads} key heads of {size}, with values of another size")
    rotated = metadata.count("rope.dimension_count", size)
    if rotated % 2 or rotated > size or (rotated < size and kind.interleaved):
        raise GgufError(f"rotates {rotated} numbers of each head of {size} by its position")
    layers = metadata.count("block_count")
    scaled_by = width / heads if layers == kind.wide_scale else size
    return DecoderFacts(
        name,
        kind,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_size=size,
        rotated=rotated,
        experts=experts,
        experts_used=experts_used,
        epsilon=metadata.own("attention.layer_norm_rms_epsilon", most=1),
        context=metadata.count("context_length"),
        scale=scaled_by**-0.5,
        window=_read_window(metadata, kind),
        attention_cap=metadata.own("attn_logit_softcapping", 0),
        logit_cap=metadata.own("final_logit_softcapping", 0),
    )


def _read_window(metadata: Metadata, kind: Architecture) -> int:
    if kind.global_every:
        return metadata.count("attention.sliding_window")
    return (metadata.count("attention.sliding_window", 0, 0) or -1) if kind.windowed else -1


def _read_experts(metadata: Metadata, kind: Architecture) -> tuple[int, int]:
    """The number of experts of a layer and of those that each token uses."""
    name, count = metadata.architecture, metadata.count("expert_count", 0, 0)
    if not count:
        return 0, 0
    if kind.experts_sum_to_one is None:
        raise GgufError(f"is a mixture of experts ({name}.expert_count), which is not served for {name}")
    used = metadata.count("expert_used_count")
    if used > count:
        raise GgufError(f"uses {used} of {count} experts")
    if metadata.count("expert_gating_func", SOFTMAX) != SOFTMAX:
        raise GgufError(f"weights its experts by another function than softmax ({name}.expert_gating_func)")
    return count, used
