"""What the architectures of GGUF files mean, as data: which are served, and how they differ from llama."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata


@dataclass(frozen=True)
class Architecture:
    """How a decoder differs from the plainest one.

    `interleaved`: converters interleave the halves of query and key heads that rotate together.
    `activation`: of the gate.  `scaled_embedding`: embeddings are multiplied by √width.
    `unturned_every`: every n-th layer has no positions.  `global_every`: every n-th layer attends to all
    tokens, the others to `attention.sliding_window` of them.  `local_base`: the rotary base of the latter.
    `wide_scale`: with this many layers, scores are scaled by width / heads in place of the head size.
    """

    interleaved: bool = False
    activation: Literal["silu", "gelu"] = "silu"
    scaled_embedding: bool = False
    unturned_every: int = 0
    global_every: int = 0
    local_base: float | None = None
    wide_scale: int = 0


ARCHITECTURES = {
    "llama": Architecture(interleaved=True),
    "qwen2": Architecture(),
    "qwen3": Architecture(),
    "smollm3": Architecture(interleaved=True, unturned_every=4),
    "gemma": Architecture(activation="gelu", scaled_embedding=True),
    "gemma2": Architecture(activation="gelu", scaled_embedding=True, global_every=2, wide_scale=46),
    "gemma3": Architecture(
        activation="gelu", scaled_embedding=True, global_every=6, local_base=10000.0, wide_scale=62
    ),
}
"""`general.architecture` → what it means.  Mistral's files say llama."""


@dataclass(frozen=True)
class DecoderFacts:
    """The sizes and numbers of one decoder; `window` is -1 and caps are 0 where there is none."""

    name: str
    kind: Architecture
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    epsilon: float
    context: int
    scale: float
    window: int
    attention_cap: float
    logit_cap: float

    def window_of(self, layer: int) -> int:
        """The tokens that a layer attends to; -1 is no limit."""
        every = self.kind.global_every
        return -1 if not every or (layer + 1) % every == 0 else self.window

    def is_turned(self, layer: int) -> bool:
        """Whether queries and keys of a layer are turned by their positions."""
        every = self.kind.unturned_every
        return not every or (layer + 1) % every != 0


def read_facts(metadata: Metadata) -> DecoderFacts:
    """Raises `GgufError` for an architecture that is not served and for sizes that cannot be."""
    name = metadata.architecture
    if name not in ARCHITECTURES:
        raise GgufError(
            f"is of architecture {name or '(none)'}; GGUF files of {', '.join(ARCHITECTURES)} are served, "
            "others from their Hugging Face folders with `braid export`"
        )
    if metadata.count("expert_count", 0, 0):
        raise GgufError(f"is a mixture of experts ({name}.expert_count), which is not served from GGUF files")
    kind = ARCHITECTURES[name]
    width, heads = metadata.count("embedding_length"), metadata.count("attention.head_count")
    kv_heads = metadata.count("attention.head_count_kv", heads)
    size = metadata.count("attention.key_length", max(width // heads, 1))
    if heads % kv_heads or size % 2 or metadata.count("attention.value_length", size) != size:
        raise GgufError(f"has {heads} query and {kv_heads} key heads of {size}, with values of another size")
    if metadata.count("rope.dimension_count", size) != size:
        raise GgufError("turns a part of each head by its position, which is not served")
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
        epsilon=metadata.own("attention.layer_norm_rms_epsilon", most=1),
        context=metadata.count("context_length"),
        scale=scaled_by**-0.5,
        window=metadata.count("attention.sliding_window") if kind.global_every else -1,
        attention_cap=metadata.own("attn_logit_softcapping", 0),
        logit_cap=metadata.own("final_logit_softcapping", 0),
    )
