"""What a GGUF file says of its decoder, read and checked: sizes, numbers, and what each layer is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.gguf.architectures import ARCHITECTURES, Architecture
from pipelines.gguf.errors import GgufError
from pipelines.gguf.latent_attention import Latent, read_latent
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.recurrent import Recurrence, read_recurrence
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
class DecoderFacts:
    """The sizes and numbers of one decoder; `window` is -1, a cap 0 and `mixture` None where there is none.

    `feeds`: which layers are a feed-forward part alone.  `windows`: whether each layer attends to a window.
    `rotated`: the first numbers of each head, which
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
    feeds: tuple[bool, ...]
    xielu: tuple[Xielu, ...]
    recurrence: Recurrence | None
    latent: Latent | None
    has_positions: bool

    def window_of(self, layer: int) -> int:
        """The tokens that a layer attends to; -1 is no limit."""
        return self.window if self.windows[layer] else -1

    def is_recurrent(self, layer: int) -> bool:
        return self.recurrence is not None and self.recurrence.layers[layer]

    def attention_number(self, layer: int) -> int:
        """The number of a layer among those of attention."""
        return sum(not self.is_recurrent(before) and not self.feeds[before] for before in range(layer))

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
    latent = read_latent(metadata) if kind.is_latent else None
    mixture = read_mixture(metadata, _routing(metadata, kind))
    width, heads = metadata.count("embedding_length"), metadata.count("attention.head_count")
    next_layers = metadata.count("nextn_predict_layers", 0, 0)
    layers = metadata.count("block_count", least=next_layers + 1) - next_layers
    feeds = _read_feeds(metadata, kind, layers)
    recurrence = read_recurrence(metadata, kind.recurrence, feeds)
    if latent:
        kv_heads, size, rotated = 1, latent.head_size, latent.rotated
        scale = latent.key_size**-0.5 * latent.growth
    else:
        kv_heads = _read_kv_heads(metadata, recurrence, feeds, heads)
        size, rotated = _read_head(metadata, heads, kv_heads, width)
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
        epsilon=_read_epsilon(metadata, kind),
        context=metadata.count("context_length"),
        scale=metadata.own("attention.scale", scale) if "attention" in kind.scales else scale,
        window=window,
        windows=_read_windows(metadata, kind, layers, window),
        attention_cap=metadata.own("attn_logit_softcapping", 0),
        logit_cap=metadata.own("final_logit_softcapping", 0),
        scales=_read_scales(metadata, kind),
        feeds=feeds,
        xielu=read_xielu(metadata, layers) if kind.activation == "xielu" else (),
        recurrence=recurrence,
        latent=latent,
        has_positions=not kind.may_have_no_positions or metadata.flag(f"{name}.{POSITIONS}") is not False,
    )


def _routing(metadata: Metadata, kind: Architecture) -> Routing | None:
    """How experts are chosen where the file does not say it."""
    if kind.sigmoid_tokens and len(metadata.texts("tokenizer.ggml.tokens")) == kind.sigmoid_tokens:
        return Routing(SIGMOID, sums_to_one=False)
    return kind.routing


def _read_head(metadata: Metadata, heads: int, kv_heads: int, width: int) -> tuple[int, int]:
    """The numbers of a head, and those of them that positions rotate."""
    size = metadata.count("attention.key_length", max(width // heads, 1))
    if heads % kv_heads or size % 2 or metadata.count("attention.value_length", size) != size:
        raise GgufError(f"has {heads} query and {kv_heads} key heads of {size}, with values of another size")
    rotated = metadata.count("rope.dimension_count", size)
    if rotated % 2 or rotated > size:
        raise GgufError(f"rotates {rotated} numbers of each head of {size} by its position")
    return size, rotated


def _read_feeds(metadata: Metadata, kind: Architecture, layers: int) -> tuple[bool, ...]:
    """Which layers are a feed-forward part alone."""
    if not kind.has_one_part:
        return (False,) * layers
    return tuple(size > 0 for size in metadata.per_layer("feed_forward_length", layers) or [0] * layers)


def _read_epsilon(metadata: Metadata, kind: Architecture) -> float:
    """Files of Nemotron may have that of other norms alone."""
    other = metadata.own(EPSILON["layer"], 0, most=1) if kind.has_one_part else 0
    return metadata.own(EPSILON[kind.norm], other or None, most=1)


def _read_kv_heads(
    metadata: Metadata, recurrence: Recurrence | None, feeds: tuple[bool, ...], heads: int
) -> int:
    """The key heads of a layer, which all layers of attention have alike."""
    if recurrence is None:
        return metadata.count("attention.head_count_kv", heads)
    said = metadata.per_layer("attention.head_count_kv", len(feeds)) or [heads] * len(feeds)
    others = [is_state or is_feed for is_state, is_feed in zip(recurrence.layers, feeds, strict=True)]
    counts = {int(count) for count, is_other in zip(said, others, strict=True) if not is_other}
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
