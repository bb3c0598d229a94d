"""What the architectures of GGUF files mean, as data: which are served, and how they differ from llama."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.recurrent import Kind, Recurrence, read_recurrence
from pipelines.gguf.routers import SIGMOID, Mixture, Routing, read_mixture
from pipelines.gguf.xielu import Xielu, read_xielu

POSITIONS = "rope.scaling.finetuned"
"""What files of architectures that may have no positions say of them."""
EPSILON = {"rms": "attention.layer_norm_rms_epsilon", "layer": "attention.layer_norm_epsilon"}
"""Kind of a norm → the key of the number that keeps it from dividing by 0."""
FACTORS = {
    "embeddings": ("embedding_scale", 1.0),
    "residuals": ("residual_scale", 1.0),
    "queries": ("attention.temperature_scale", 0.0),
}
"""What is scaled → the key of the number, and what it is where the file does not say it."""


@dataclass(frozen=True)
class Architecture:
    """How a decoder differs from the plainest one.

    `interleaved`: converters interleave the halves of query and key heads that rotate together.
    `activation`: of the gate.  `scaled_embedding`: embeddings are multiplied by √width.
    `nope_every`: every n-th layer has no positions (NoPE); `nope_outside`: layers without a window have none
    where others have one; `may_have_no_positions`: the file says it.  `windowed`: layers attend to
    `attention.sliding_window` tokens, but every n-th by `global_every` to all; `may_have_window`: the
    file may leave it out.  `is_locally_plain`: positions of layers with a window are not scaled, and have
    the rotary base `local_base` where it is given.
    `wide_scale`: with this many layers, scores are scaled by width / heads in place of the head size.
    `routing` of experts; None where mixtures are not served.  `norm_of_feed`: the norm before the
    feed-forward part; None: there are norms only after the parts.  `is_parallel`: both parts read the same
    norm.  `norm`: what kind it is.  `head_norms`: where queries and keys are normed.  `scales`: what the file
    scales; `logits` by a factor or by a divisor.  `recurrence`: what layers are that are not attention.
    `gates_attention`: each query has as many numbers that gate what it finds.  `output_norm`: the last one.
    `is_causal`: tokens attend to those before them, else to all, or to those of a window around them.
    """

    interleaved: bool = False
    activation: Literal["silu", "gelu", "xielu"] = "silu"
    scaled_embedding: bool = False
    nope_every: int = 0
    nope_outside: bool = False
    may_have_no_positions: bool = False
    windowed: bool = False
    global_every: int = 0
    may_have_window: bool = False
    is_locally_plain: bool = False
    local_base: float | None = None
    wide_scale: int = 0
    routing: Routing | None = None
    norm_of_feed: str | None = "ffn_norm"
    is_parallel: bool = False
    norm: Literal["rms", "layer"] = "rms"
    head_norms: Literal["each head", "all heads", "after positions"] = "each head"
    scales: frozenset[str] = frozenset()
    logits: Literal["factor", "divisor"] | None = None
    recurrence: Kind | None = None
    gates_attention: bool = False
    output_norm: str = "output_norm"
    is_causal: bool = True


_GRANITE = Architecture(
    interleaved=True, scales=frozenset({"embeddings", "residuals", "attention"}), logits="divisor"
)
_QWEN35 = Architecture(norm_of_feed="post_attention_norm", recurrence="tiled delta net", gates_attention=True)
_GEMMA = Architecture(activation="gelu", scaled_embedding=True)
_GEMMA3 = replace(
    _GEMMA, windowed=True, global_every=6, wide_scale=62, is_locally_plain=True, local_base=10000.0
)
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
    "glm4": Architecture(interleaved=True),
    "granite": _GRANITE,
    "mistral3": Architecture(interleaved=True, scales=frozenset({"queries"})),
    "hunyuan-dense": Architecture(head_norms="after positions"),
    "seed_oss": Architecture(norm_of_feed="post_attention_norm"),
    "apertus": Architecture(activation="xielu"),
    "exaone4": Architecture(
        norm_of_feed=None, windowed=True, may_have_window=True, global_every=4, nope_outside=True
    ),
    "olmo2": Architecture(
        norm_of_feed=None,
        head_norms="all heads",
        windowed=True,
        may_have_window=True,
        global_every=4,
        is_locally_plain=True,
    ),
    "cohere2": Architecture(
        interleaved=True,
        norm="layer",
        is_parallel=True,
        windowed=True,
        global_every=4,
        nope_outside=True,
        logits="factor",
    ),
    "granitehybrid": replace(_GRANITE, routing=Routing(), recurrence="mamba 2", may_have_no_positions=True),
    "lfm2": Architecture(recurrence="short conv", output_norm="token_embd_norm"),
    "qwen35": _QWEN35,
    "qwen35moe": replace(_QWEN35, routing=Routing()),
    "qwen3next": replace(_QWEN35, routing=Routing(), recurrence="delta net"),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, windowed=True, global_every=2, wide_scale=46),
    "gemma3": _GEMMA3,
    "gemma-embedding": replace(_GEMMA3, is_causal=False),
}
"""`general.architecture` → what it means.  Files of Mistral and Mixtral say llama."""


@dataclass(frozen=True)
class DecoderFacts:
    """The sizes and numbers of one decoder; `window` is -1, a cap 0 and `mixture` None where there is none.

    `windows`: whether each layer attends to a window.  `rotated`: the first numbers of each head, which
    rotary positions change.  `scales` by what is scaled.  `next_layers`: those behind the layers, which are
    for tokens after the next one, and are not computed.
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
    windows: tuple[bool, ...]
    attention_cap: float
    logit_cap: float
    scales: Mapping[str, float]
    xielu: tuple[Xielu, ...]
    recurrence: Recurrence | None
    has_positions: bool

    def window_of(self, layer: int) -> int:
        """The tokens that a layer attends to; -1 is no limit."""
        return self.window if self.windows[layer] else -1

    def is_recurrent(self, layer: int) -> bool:
        return self.recurrence is not None and self.recurrence.layers[layer]

    def attention_number(self, layer: int) -> int:
        """The number of a layer among those of attention."""
        return sum(not self.is_recurrent(before) for before in range(layer))

    def has_rope(self, layer: int) -> bool:
        """Whether queries and keys of a layer have rotary positions; without (NoPE) they have none."""
        if not self.has_positions:
            return False
        if self.kind.nope_outside and any(self.windows):
            return self.windows[layer]
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
    next_layers = metadata.count("nextn_predict_layers", 0, 0)
    layers = metadata.count("block_count", least=next_layers + 1) - next_layers
    recurrence = read_recurrence(metadata, kind.recurrence, layers)
    kv_heads = _read_kv_heads(metadata, recurrence, layers, heads)
    size = metadata.count("attention.key_length", max(width // heads, 1))
    if heads % kv_heads or size % 2 or metadata.count("attention.value_length", size) != size:
        raise GgufError(f"has {heads} query and {kv_heads} key heads of {size}, with values of another size")
    rotated = metadata.count("rope.dimension_count", size)
    if rotated % 2 or rotated > size:
        raise GgufError(f"rotates {rotated} numbers of each head of {size} by its position")
    scale = (width / heads if layers == kind.wide_scale else size) ** -0.5
    window = _read_window(metadata, kind)
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
        epsilon=metadata.own(EPSILON[kind.norm], most=1),
        context=metadata.count("context_length"),
        scale=metadata.own("attention.scale", scale) if "attention" in kind.scales else scale,
        window=window,
        windows=_read_windows(metadata, kind, layers, window),
        attention_cap=metadata.own("attn_logit_softcapping", 0),
        logit_cap=metadata.own("final_logit_softcapping", 0),
        scales=_read_scales(metadata, kind),
        xielu=read_xielu(metadata, layers) if kind.activation == "xielu" else (),
        recurrence=recurrence,
        has_positions=not kind.may_have_no_positions or metadata.flag(f"{name}.{POSITIONS}") is not False,
    )


def _read_kv_heads(metadata: Metadata, recurrence: Recurrence | None, layers: int, heads: int) -> int:
    """The key heads of a layer, which all layers of attention have alike."""
    if recurrence is None:
        return metadata.count("attention.head_count_kv", heads)
    said = metadata.per_layer("attention.head_count_kv", layers) or [heads] * layers
    counts = {int(count) for count, is_state in zip(said, recurrence.layers, strict=True) if not is_state}
    if len(counts) > 1 or min(counts) < 1:
        raise GgufError(f"has layers of {', '.join(map(str, sorted(counts)))} key heads")
    return counts.pop()


def _read_window(metadata: Metadata, kind: Architecture) -> int:
    if kind.global_every and not kind.may_have_window:
        return metadata.count("attention.sliding_window")
    return (metadata.count("attention.sliding_window", 0, 0) or -1) if kind.windowed else -1


def _read_windows(metadata: Metadata, kind: Architecture, layers: int, window: int) -> tuple[bool, ...]:
    """Which layers attend to the window alone: the file may say it of each layer, or of which ones not."""
    if window < 0:
        return (False,) * layers
    said = metadata.per_layer("attention.sliding_window_pattern", layers) if kind.global_every else None
    if said is not None and len(set(said)) > 1:
        return tuple(bool(is_windowed) for is_windowed in said)
    every = int(said[0]) if said else kind.global_every
    return tuple(not every or (layer + 1) % every != 0 for layer in range(layers))


def _read_scales(metadata: Metadata, kind: Architecture) -> dict[str, float]:
    """What embeddings, residuals and logits are multiplied by; of queries, how their factor grows."""
    scales = {what: metadata.own(*said) for what, said in FACTORS.items() if what in kind.scales}
    if kind.logits:
        factor = metadata.own("logit_scale", 1, 1e-9)
        scales["logits"] = factor if kind.logits == "factor" else 1 / factor
    return scales
