"""What the writers of encoders and decoders need to know of a model: its sizes and its family's ways."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SideForm:
    """One side, encoder or decoder, of a model whose weights have the names of Hugging Face's BART.

    `norm_first`: a norm comes before each part of a layer, else after its sum.  `positions`: a row of a table
    is added for each position, `max_context` in all.  `relative`: scores have a bias by distance.  `gated`:
    the first layer of a feed-forward is multiplied by another one.  `rms`: norms have neither mean nor bias.
    """

    side: str
    width: int
    heads: int
    head_size: int
    layers: int
    inner: int
    max_context: int
    vocabulary: int
    activation: str = "gelu"
    norm_first: bool = True
    embedding_norm: bool = False
    final_norm: bool = True
    positions: bool = True
    relative: Buckets | None = None
    gated: bool = False
    rms: bool = False
    epsilon: float = 1e-5
    scale: float = 0.0  # of scores; 0: one over the root of the size of a head
    embedding_scale: float = 1.0
    head_scale: float = 1.0  # of what the logits are made of

    @property
    def prefix(self) -> str:
        return f"model.{self.side}."

    @property
    def attended(self) -> int:
        """Numbers of all heads together."""
        return self.heads * self.head_size

    @property
    def score_scale(self) -> float:
        return self.scale or self.head_size**-0.5


@dataclass(frozen=True)
class Buckets:
    """T5's distances that share a bias: `count` buckets, the last one from `farthest` tokens on."""

    count: int
    farthest: int
