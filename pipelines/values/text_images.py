"""The images that texts show, on their way to an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipelines.values.node_values import PlacedImage, PooledOutputs, Tokens
from pipelines.values.stream_values import Deferred


class TextImages(NamedTuple):
    """The images of texts: `embeddings` of all of them in order, which an encoder gives and the engine host
    holds, and for each text its images with their places there.
    """

    embeddings: Deferred[PooledOutputs]
    placed: Sequence[Sequence[PlacedImage]]


def shown_in(texts: Sequence[Tokens], embeddings: Deferred[PooledOutputs] | None) -> TextImages | None:
    """The images that stand in the texts; None where none does."""
    placed = [text.images for text in texts]
    return TextImages(embeddings, placed) if embeddings is not None and any(placed) else None
