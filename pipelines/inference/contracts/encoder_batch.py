"""The contract between batchers, step nodes and encoder sessions: a batch of texts, and its encoding.

A window of sound is a text too: its tokens are the frames that the encoder gives for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ops.contract import PoolingOps

if TYPE_CHECKING:
    from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds


@dataclass(frozen=True)
class TokenBatch:
    """Texts side by side, each padded at its end to the width of the longest, or a little wider.

    ids, types: int64[num_texts, width], 0 behind a text's end; lengths: int64[num_texts], each at least 1;
    activate: bool[num_texts], whether the request wants normalised vectors, or probabilities; features, of
    windows of sound or images: float32[num_texts, …], and then the ids are all 0; grids, of images whose
    tokens are in rows and columns: int32[num_texts, 2], and then the features are float32[num_tokens, …];
    images, of texts that show some: what stands for their tokens, None for a text without any; adapters
    int32[num_texts]: the load numbers of the adapters that the texts are run with; [] where none has one;
    results: the places of the body's results that one of the texts wants.
    """

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64]
    types: NDArray[np.int64]
    activate: NDArray[np.bool_]
    features: NDArray[np.float32] | None = None
    grids: NDArray[np.int32] | None = None
    images: Sequence[PromptEmbeds | None] = ()
    adapters: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    results: tuple[int, ...] = (0,)

    @cached_property
    def mask(self) -> NDArray[np.int64]:
        """int64[num_texts, width]: 1 for a token, 0 after the end of a text."""
        return (np.arange(self.ids.shape[1]) < self.lengths[:, None]).astype(np.int64)

    @property
    def positions(self) -> NDArray[np.int64]:
        """int64[num_texts, width]: 0, 1, 2 … in each row."""
        return np.broadcast_to(np.arange(self.ids.shape[1]), self.ids.shape)


Rows = NDArray[Any] | list[NDArray[Any]]
"""One result for the texts of a batch, in host memory: float32[num_texts, size], or for tokens
float32[num_texts, width, size]; or a list, of a text float32[num_vectors, size] or `WEIGHT`[num_weights].
"""
WEIGHT = np.dtype([("id", np.int32), ("weight", np.float32)])
"""A number of a sparse vector that is not 0: its place, which is an id of the vocabulary, and its value."""


class BodyResult(Protocol):
    """What a line of a batcher's body may give as a result."""

    def fetch(self) -> Rows: ...


@dataclass(frozen=True)
class Encoded:
    """The result of a line of the body for a batch.

    `values`: float32[num_texts, width, size] for tokens, values after the end of a text are undefined; or
    float32[num_texts, size].  It stays on its device; `ops` is the arithmetic for it.  `chosen`, of values of
    tokens: bool[num_texts, width], those that belong to the result; None: all of each text.
    """

    values: Any
    batch: TokenBatch
    ops: PoolingOps
    chosen: NDArray[np.bool_] | None = None

    def fetch(self) -> Rows:
        values = self.ops.fetch(self.values)
        if self.chosen is None:
            return values
        return [text[: len(own)][own] for text, own in zip(values, self.chosen, strict=True)]


@dataclass(frozen=True)
class SparseEncoded:
    """Sparse vectors of a batch: of each text the numbers that are not 0, `WEIGHT`[num_weights], by id."""

    texts: list[NDArray[Any]]

    def fetch(self) -> Rows:
        return self.texts


@dataclass(frozen=True)
class RowShape:
    """A vector of `size` numbers for each text, or for each of its tokens.

    `is_sparse`: most of them are 0, and at most `most` of a text are not, or as many as it has tokens where
    that is None.
    """

    per_token: bool
    size: int
    is_sparse: bool = False
    most: int | None = None

    def num_values(self, num_texts: int, num_tokens: int) -> int:
        """The most numbers that texts with this many tokens have."""
        if self.is_sparse:
            return num_tokens if self.most is None else num_texts * self.most
        return self.size * (num_tokens if self.per_token else num_texts)

    def __str__(self) -> str:
        return f"{self.size} numbers for each {'token' if self.per_token else 'text'}"
