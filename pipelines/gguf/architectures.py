"""What the architectures of GGUF files mean, as data: which are served, and how they differ from llama."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.routers import SIGMOID, Mixture, Routing, read_mixture


@dataclass(frozen=True)
class Architecture:
    """How a decoder differs from the plainest one.

    `interleaved`: converters interleave the halves of query and key heads that rotate together.
    `activation`: of the gate.  `scaled_embedding`: embeddings are multiplied by √width.
    `nope_every`: every n-th layer has no positions (NoPE).  `windowed`: layers attend to
    `attention.sliding_window` tokens, but every n-th by `global_every` to all.  `local_base`: the rotary base
    of those with a window.  `wide_scale`: with this many layers, scores are scaled by width / heads in place
    of the head size.  `routing` of experts; None where mixtures are not served.  `norm_of_feed`: the norm
    before the feed-forward part.
    """

    interleaved: bool = False
    activation: Literal["silu", "gelu"] = "silu"
    scaled_embedding: bool = False
    nope_every: int = 0
    windowed: bool = False
    global_every: int = 0
    local_base: float | None = None
    wide_scale: int = 0
    routing: Routing | None = None
    norm_of_feed: str = "ffn_norm"


_GEMMA = Architecture(activation="gelu", scaled_embedding=True)
ARCHITECTURES = {
    "llama": Architecture(interleaved=True, routing=Routing()),
    "qwen2": Architecture(),
    "qwen2moe": Architecture(routing=Routing(sums_to_one=False)),
    "qwen3": Architecture(),
    "qwen3moe": Architecture(routing=Routing()),
    "ernie4_5": Architecture(interleaved=True),
    "ernie4_5-moe": Architecture(interleaved=True, routing=Routing()),
    "dots1": Architecture(routing=Routing(sums_to_one=False)),
    "glm4moe": Architecture(routing=Routing(SIGMOID, sums_to_one=False), norm_of_feed="post_attention_norm"),
    "phi3": Architecture(windowed=True),
    "smollm3": Architecture(interleaved=True, nope_every=4),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, windowed=True, global_every=2, wide_scale=46),
    "gemma3": replace(_GEMMA, windowed=True, global_every=6, wide_scale=62, local_base=10000.0),
}
"""`general.architecture` → what it means.  Files of Mistral and Mixtral say llama."""


@dataclass(frozen=True)
class DecoderFacts:
    """The sizes and numbers of one decoder; `window` is -1, a cap 0 and `mixture` None where there is none.

    `rotated`: the first numbers of each head, which rotary positions change.  `next_layers`: those behind the
    layers, which are for tokens after the next one, and are not computed.
    """

    name: str
    kind: Architecture
    layers: int
    next_layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    rotated: int
    mixture: Mixture | None
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
    mixture = read_mixture(metadata, kind.routing)
    width, heads = metadata.count("embedding_length"), metadata.count("attention.head_count")
    kv_heads = metadata.count("attention.head_count_kv", heads)
    size = metadata.count("attention.key_length", max(width // heads, 1))
    if heads % kv_heads or size % 2 or metadata.count("attention.value_length", size) != size:
        raise GgufError(f"has {heads} query and {kv_heads} key heads of {size}, with values of another size")
    rotated = metadata.count("rope.dimension_count", size)
    if rotated % 2 or rotated > size or (rotated < size and kind.interleaved):
        raise GgufError(f"rotates {rotated} numbers of each head of {size} by its position")
    next_layers = metadata.count("nextn_predict_layers", 0, 0)
    layers = metadata.count("block_count", least=next_layers + 1) - next_layers
    scaled_by = width / heads if layers == kind.wide_scale else size
    return DecoderFacts(
        name,
        kind,
        layers=layers,
        next_layers=next_layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_size=size,
        rotated=rotated,
        mixture=mixture,
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
