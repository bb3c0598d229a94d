"""Batches of texts as a batcher lays them out."""

from __future__ import annotations

import numpy as np

from pipelines.inference.contracts.encoder_batch import TokenBatch


def batch_of(texts: list[list[int]], width: int | None = None) -> TokenBatch:
    """The texts side by side, each of whose second half is of type 1."""
    lengths = np.array([len(text) for text in texts])
    ids = np.zeros((len(texts), width or lengths.max()), np.int64)
    types = np.zeros_like(ids)
    for text, row, kinds in zip(texts, ids, types, strict=True):
        row[: len(text)] = text
        kinds[len(text) // 2 : len(text)] = 1
    return TokenBatch(ids, lengths, types, np.ones(len(texts), np.bool_))
