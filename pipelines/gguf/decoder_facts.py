"""What a GGUF file says of its decoder, read and checked: sizes, numbers, and what each layer is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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
STREAMS = 4
"""Streams of a state where the file does not say it."""
FACTORS = {
    "embeddings": ("embedding_scale", 1.0),
    "residuals": ("residual_scale", 1.0),
    "queries": ("attention.temperature_scale", 0.0),
}
"""What is scaled → the key of the number, and what it is where the file does not say it."""


class Head(NamedTuple):
    """The key heads of a layer, the numbers of each head, and the first of them, which positions rotate."""

    kv_heads: int
    size: int
    rotated: int


@dataclass(frozen=True)
class DecoderFacts:
    """The sizes and numbers of one decoder; `window` is -1, a cap 0 and `mixture` None where there is none.

    `feeds`: which layers are a feed-forward part alone.  `windows`: whether each layer attends to a window.
    `local_head` is that of layers with a window, `head` of others.  Layers from `own_keys` on attend to the
    keys and values of the last one of their kind before.  `layer_size`: the numbers of a token's embeddings
    that each layer has of its own, or 0.  `streams`: how many there are, and which one the layers compute.
    `sparsity`: how many deviations above their mean gates of a layer begin to count, or 0.  `scales` by what
    is scaled.  `next_layers`: those behind the layers, which are for tokens after the next one, and are not
    computed.
    """

    name: str
    kind: Architecture
    layers: int
    next_layers: int
    width: int
    heads: int
    head: Head
    local_head: Head
    own_keys: int
    layer_size: int
    streams: tuple[int, int] | None
    sparsity: tuple[float, ...]
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

    def head_of(self, layer: int) -> Head:
        return self.local_head if self.windows[layer] else self.head

    def keys_of(self, layer: int) -> int:
        """The layer whose keys and values a layer attends to."""
        if layer < self.own_keys:
            return layer
        alike = [before for before in range(self.own_keys) if self.windows[before] == self.windows[layer]]
        return alike[-1]

    @property
    def without_keys(self) -> range:
        """The layers that attend to the keys of others, though the file may hold weights for them."""
        return range(self.own_keys, self.layers)

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
    if metadata.flag(f"{name}.attention.causal") not in (None, kind.is_causal):
        raise GgufError(f"says that its attention is {'not ' * kind.is_causal}causal, unlike that of {name}")
    latent = read_latent(metadata) if kind.is_latent else None
    mixture = read_mixture(metadata, _routing(metadata, kind))
    width, heads = metadata.count("embedding_length"), metadata.count("attention.head_count")
    next_layers = metadata.count("nextn_predict_layers", 0, 0)
    layers = metadata.count("block_count", least=next_layers + 1) - next_layers
    feeds = _read_feeds(metadata, kind, layers)
    recurrence = read_recurrence(metadata, kind.recurrence, feeds)
    window = _read_window(metadata, kind)
    windows = _read_windows(metadata, kind, layers, window)
    if latent:
        head = local_head = Head(1, latent.head_size, latent.rotated)
        scale = latent.key_size**-0.5 * latent.growth
    else:
        others = _are_others(recurrence, feeds)
        head, local_head = _read_heads(metadata, windows, others, width, heads)
        scale = kind.scale or (width / heads if layers == kind.wide_scale else head.size) ** -0.5
    return DecoderFacts(
        name,
        kind,
        layers=layers,
        next_layers=next_layers,
        width=width,
        heads=heads,
        head=head,
        local_head=local_head,
        streams=_read_streams(metadata) if kind.has_streams else None,
        sparsity=_read_sparsity(metadata, kind, layers),
        layer_size=metadata.count("embedding_length_per_layer_input", 0, 0),
        own_keys=layers - metadata.count("attention.shared_kv_layers", 0, 0) if kind.shares_keys else layers,
        mixture=mixture,
        epsilon=_read_epsilon(metadata, kind),
        context=metadata.count("context_length"),
        scale=metadata.own("attention.scale", scale) if "attention" in kind.scales else scale,
        window=window,
        windows=windows,
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


def _are_others(recurrence: Recurrence | None, feeds: tuple[bool, ...]) -> tuple[bool, ...]:
    """Which layers are not attention."""
    states = recurrence.layers if recurrence else (False,) * len(feeds)
    return tuple(is_state or is_feed for is_state, is_feed in zip(states, feeds, strict=True))


def _read_heads(
    metadata: Metadata, windows: Sequence[bool], others: Sequence[bool], width: int, heads: int
) -> tuple[Head, Head]:
    """The heads of layers that attend to all tokens, and of those with a window; the same where there are no
    layers of one kind.
    """
    size = metadata.count("attention.key_length", max(width // heads, 1))
    local_size = metadata.count("attention.key_length_swa", size)
    lengths = [("value_length", size), ("value_length_swa", local_size)]
    rotated = metadata.count("rope.dimension_count", size)
    local_rotated = metadata.count("rope.dimension_count_swa", rotated if local_size == size else local_size)
    for name, wanted in lengths:
        if metadata.count(f"attention.{name}", wanted) != wanted:
            raise GgufError(f"has keys of {wanted} numbers and values of another size")
    said = metadata.per_layer("attention.head_count_kv", len(windows)) or [heads] * len(windows)
    kinds = [
        (is_local, int(count))
        for is_local, count, is_other in zip(windows, said, others, strict=True)
        if not is_other
    ]
    full, local = (
        _only({count for is_local, count in kinds if is_local is which}) for which in (False, True)
    )
    both = Head(full or local, size, rotated), Head(local or full, local_size, local_rotated)
    for head in both:
        _check_head(head, heads)
    return both


def _only(counts: set[int]) -> int:
    """The key heads of all layers of a kind; 0 where there are none."""
    if len(counts) > 1 or 0 in counts:
        raise GgufError(f"has layers of {', '.join(map(str, sorted(counts)))} key heads")
    return next(iter(counts), 0)


def _check_head(head: Head, heads: int) -> None:
    if heads % head.kv_heads or head.size % 2:
        raise GgufError(f"has {heads} query and {head.kv_heads} key heads of {head.size}")
    if head.rotated % 2 or head.rotated > head.size:
        raise GgufError(f"rotates {head.rotated} numbers of each head of {head.size} by its position")


def _read_streams(metadata: Metadata) -> tuple[int, int]:
    count, active = metadata.count("altup.num_inputs", STREAMS), metadata.count("altup.active_idx", 0, 0)
    if active >= count:
        raise GgufError(f"computes stream {active} of {count}")
    return count, active


def _read_sparsity(metadata: Metadata, kind: Architecture, layers: int) -> tuple[float, ...]:
    """Files have -inf for layers whose gates all count."""
    said = metadata.array(f"{metadata.architecture}.activation_sparsity_scale") if kind.has_streams else None
    if said is None:
        return (0.0,) * layers
    if len(said) < layers or np.isnan(said).any() or np.isposinf(said).any():
        raise GgufError("has no activation_sparsity_scale for each layer")
    return tuple(max(float(number), 0.0) for number in said[:layers])


def _read_feeds(metadata: Metadata, kind: Architecture, layers: int) -> tuple[bool, ...]:
    """Which layers are a feed-forward part alone."""
    if not kind.has_one_part:
        return (False,) * layers
    return tuple(size > 0 for size in metadata.per_layer("feed_forward_length", layers) or [0] * layers)


def _read_epsilon(metadata: Metadata, kind: Architecture) -> float:
    """Files of Nemotron and Phi may have that of norms of the other kind alone."""
    other = metadata.own(EPSILON["rms" if kind.norm == "layer" else "layer"], 0, most=1)
    return metadata.own(EPSILON[kind.norm], other or None, most=1)


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
    ahead = 0 if kind.global_first else 1
    return tuple(not every or (layer + ahead) % every != 0 for layer in range(layers))


def _read_scales(metadata: Metadata, kind: Architecture) -> dict[str, float]:
    """What embeddings, residuals and logits are multiplied by; of queries, how their factor grows."""
    scales = {what: metadata.own(*said) for what, said in FACTORS.items() if what in kind.scales}
    if kind.logits:
        factor = metadata.own("logit_scale", 1, 1e-9)
        scales["logits"] = factor if kind.logits == "factor" else 1 / factor
    return scales
