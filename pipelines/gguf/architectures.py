"""What the architectures of GGUF files mean, as data: which are served, and how they differ from llama."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pipelines.gguf.recurrent import Kind
from pipelines.gguf.routers import SIGMOID, SOFTMAX_OF_CHOSEN, SPARSE_MIXER, Routing


@dataclass(frozen=True)
class Architecture:
    """How a decoder differs from the plainest one.

    `interleaved`: converters interleave the halves of query and key heads that rotate together.
    `activation`: of the gate.  `scaled_embedding`: embeddings are multiplied by √width.
    `nope_every`: every n-th layer has no positions (NoPE); `nope_outside`: layers without a window have none
    where others have one; `may_have_no_positions`: the file says it.  `windowed`: layers attend to
    `attention.sliding_window` tokens, but every n-th by `global_every` to all, the first one too where
    `global_first`; `may_have_window`: the
    file may leave it out.  `is_locally_plain`: positions of layers with a window are not scaled, and have
    the rotary base `local_base` where it is given.  `rounds_yarn`: the ramp of yarn's shares begins and ends
    at whole pairs.
    `wide_scale`: with this many layers, scores are scaled by width / heads in place of the head size; `scale`
    is what they are multiplied by in place of both.  `shares_keys`: the last layers may attend to keys and
    values of others.  `may_lack_values`: keys are values where a layer has no weights for them.
    `has_streams`: a state is several streams, of which the layers compute one.  `norms_values`: values are
    normed, without weight.
    `norms_embeddings`: they are normed, so that the first layer may have no norm before it.
    `routing` of experts; None where mixtures are not served.  `norm_of_feed`: the norm before the
    feed-forward part; None: there are norms only after the parts.  `is_parallel`: both parts read the same
    norm.  `norm`: what kind it is.  `head_norms`: where queries and keys are normed.  `scales`: what the file
    scales; `logits` by a factor or by a divisor.  `recurrence`: what layers are that are not attention.
    `is_latent`: attention is that of `latent_attention`.  `sigmoid_tokens`: files with this many tokens that
    do not say how they score experts mean the sigmoid.  `gates_attention`: each query has as many numbers
    that gate what it finds.  `output_norm`: the last one.  `has_one_part`: each layer is attention, a state
    or a feed-forward part, which alone has a `feed_forward_length`.  `is_causal`: tokens attend to those
    before them, else to all, or to those of a window around them.  `axes`: how those of positions share the
    pairs of a head's numbers: one after the other, or in turns; text has the same position on each.
    """

    interleaved: bool = False
    activation: Literal["silu", "gelu", "xielu", "clamped", "relu2", "gelu by erf"] = "silu"
    scaled_embedding: bool = False
    nope_every: int = 0
    nope_outside: bool = False
    may_have_no_positions: bool = False
    windowed: bool = False
    global_every: int = 0
    global_first: bool = False
    may_have_window: bool = False
    is_locally_plain: bool = False
    rounds_yarn: bool = True
    local_base: float | None = None
    wide_scale: int = 0
    scale: float | None = None
    routing: Routing | None = None
    norm_of_feed: str | None = "ffn_norm"
    is_parallel: bool = False
    norm: Literal["rms", "layer"] = "rms"
    head_norms: Literal["each head", "all heads", "after positions"] = "each head"
    scales: frozenset[str] = frozenset()
    logits: Literal["factor", "divisor"] | None = None
    recurrence: Kind | None = None
    gates_attention: bool = False
    is_latent: bool = False
    sigmoid_tokens: int = 0
    output_norm: str = "output_norm"
    is_causal: bool = True
    has_one_part: bool = False
    shares_keys: bool = False
    has_streams: bool = False
    norms_embeddings: bool = False
    may_lack_values: bool = False
    norms_values: bool = False
    axes: Literal["sections", "turns"] | None = None


_GRANITE = Architecture(
    interleaved=True, scales=frozenset({"embeddings", "residuals", "attention"}), logits="divisor"
)
_LFM2 = Architecture(recurrence="short conv", output_norm="token_embd_norm")
_QWEN35 = Architecture(
    norm_of_feed="post_attention_norm", recurrence="tiled delta net", gates_attention=True, axes="turns"
)
_NEMOTRON = Architecture(
    activation="relu2",
    nope_every=1,
    routing=Routing(SIGMOID),
    recurrence="mamba 2",
    scales=frozenset({"attention"}),
    has_one_part=True,
)
_GEMMA = Architecture(activation="gelu", scaled_embedding=True)
_GEMMA3 = replace(
    _GEMMA, windowed=True, global_every=6, wide_scale=62, is_locally_plain=True, local_base=10000.0
)
_SHARING = replace(
    _GEMMA,
    windowed=True,
    is_locally_plain=True,
    local_base=10000.0,
    scale=1.0,
    shares_keys=True,
    norms_values=True,
)
ARCHITECTURES = {
    "llama": Architecture(interleaved=True, routing=Routing()),
    "qwen2": Architecture(),
    "qwen2moe": Architecture(routing=Routing(sums_to_one=False)),
    "qwen2vl": Architecture(axes="sections"),
    "qwen3": Architecture(),
    "qwen3moe": Architecture(routing=Routing()),
    "qwen3vl": Architecture(axes="turns"),
    "qwen3vlmoe": Architecture(axes="turns", routing=Routing()),
    "ernie4_5": Architecture(interleaved=True),
    "ernie4_5-moe": Architecture(interleaved=True, routing=Routing()),
    "dots1": Architecture(routing=Routing(sums_to_one=False)),
    "glm4moe": Architecture(routing=Routing(SIGMOID, sums_to_one=False), norm_of_feed="post_attention_norm"),
    "phi3": Architecture(windowed=True),
    "phimoe": Architecture(windowed=True, norm="layer", routing=Routing(SPARSE_MIXER)),
    "smollm3": Architecture(interleaved=True, nope_every=4),
    "glm4": Architecture(interleaved=True),
    "olmoe": Architecture(head_norms="all heads", routing=Routing(sums_to_one=False)),
    "minimax-m2": Architecture(head_norms="all heads", routing=Routing(SIGMOID)),
    "hunyuan-moe": Architecture(head_norms="after positions", routing=Routing()),
    "bailingmoe2": Architecture(routing=Routing(sums_to_one=False)),
    "granite": _GRANITE,
    "granitemoe": replace(_GRANITE, routing=Routing()),
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
    "gpt-oss": Architecture(
        activation="clamped",
        routing=Routing(SOFTMAX_OF_CHOSEN, sums_to_one=False),
        norm_of_feed="post_attention_norm",
        windowed=True,
        global_every=2,
        rounds_yarn=False,
    ),
    "deepseek2": Architecture(
        interleaved=True,
        is_latent=True,
        routing=Routing(sums_to_one=False),
        sigmoid_tokens=154880,
        scales=frozenset({"queries"}),
    ),
    "granitehybrid": replace(_GRANITE, routing=Routing(), recurrence="mamba 2", may_have_no_positions=True),
    "lfm2": _LFM2,
    "lfm2moe": replace(_LFM2, routing=Routing(SIGMOID)),
    "nemotron_h": _NEMOTRON,
    "nemotron_h_moe": _NEMOTRON,
    "qwen35": _QWEN35,
    "qwen35moe": replace(_QWEN35, routing=Routing()),
    "qwen3next": replace(_QWEN35, routing=Routing(), recurrence="delta net", axes=None),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, windowed=True, global_every=2, wide_scale=46),
    "gemma3": _GEMMA3,
    "gemma3n": replace(_SHARING, global_every=5, has_streams=True),
    "gemma4": replace(_SHARING, global_every=6, routing=Routing(), may_lack_values=True),
    "modern-bert": Architecture(
        activation="gelu by erf",
        norm="layer",
        norms_embeddings=True,
        windowed=True,
        may_have_window=True,
        global_every=3,
        global_first=True,
        is_locally_plain=True,
        local_base=10000.0,
        is_causal=False,
    ),
    "gemma-embedding": replace(_GEMMA3, is_causal=False),
}
"""`general.architecture` → what it means.  Files of Mistral and Mixtral say llama."""
