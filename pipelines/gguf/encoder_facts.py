"""What a GGUF file says of an encoder of BERT's form, and how the architectures of this form differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.rotary import BASE, LARGEST_BASE
from pipelines.gguf.routers import Mixture, Routing, read_mixture


@dataclass(frozen=True)
class EncoderKind:
    """`positions`: embeddings, rotations of queries and keys, or what is taken from scores as tokens are
    further apart (ALiBi).  `gate`: the activation of networks with a gate.  `routing` of experts, where some
    layers have them.
    """

    positions: Literal["embedded", "rotary", "alibi"] = "embedded"
    gate: Literal["silu", "gelu"] = "silu"
    routing: Routing | None = None


ENCODERS = {
    "bert": EncoderKind(),
    "nomic-bert": EncoderKind("rotary"),
    "nomic-bert-moe": EncoderKind("rotary", routing=Routing(sums_to_one=False)),
    "jina-bert-v2": EncoderKind("alibi", gate="gelu"),
}
"""Architectures of this form."""
MIXED_EVERY = "moe_every_n_layers"
"""Every n-th layer has experts, from the second one on."""


class BertFacts(NamedTuple):
    """The sizes of an encoder; `types` is how many kinds of parts a text may have, `mixture` None where no
    layer has experts.
    """

    name: str
    kind: EncoderKind
    layers: int
    width: int
    heads: int
    inner: int
    context: int
    epsilon: float
    types: int
    rope_base: float
    mixture: Mixture | None
    mixed_every: int

    def is_mixed(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return self.mixture is not None and layer % self.mixed_every == 1 % self.mixed_every


def read_bert_facts(metadata: Metadata) -> BertFacts:
    """Raises `GgufError`."""
    kind = ENCODERS[metadata.architecture]
    width, heads = metadata.count("embedding_length"), metadata.count("attention.head_count")
    if width % heads:
        raise GgufError(f"has {heads} heads for a width of {width}")
    if metadata.flag(f"{metadata.architecture}.attention.causal"):
        raise GgufError(f"is of architecture {metadata.architecture} with causal attention")
    return BertFacts(
        metadata.architecture,
        kind,
        layers=metadata.count("block_count"),
        width=width,
        heads=heads,
        inner=metadata.count("feed_forward_length"),
        context=metadata.count("context_length"),
        epsilon=metadata.own("attention.layer_norm_epsilon", most=1),
        types=int(metadata.number("tokenizer.ggml.token_type_count", 1)),
        rope_base=_read_rope_base(metadata) if kind.positions == "rotary" else BASE,
        mixture=read_mixture(metadata, kind.routing),
        mixed_every=metadata.count(MIXED_EVERY, 1) if kind.routing else 1,
    )


def _read_rope_base(metadata: Metadata) -> float:
    scaling = metadata.own_text("rope.scaling.type") or "none"
    if scaling != "none":
        raise GgufError(f"scales its positions by {scaling}, which is not served for encoders")
    return metadata.own("rope.freq_base", BASE, 1, LARGEST_BASE)
