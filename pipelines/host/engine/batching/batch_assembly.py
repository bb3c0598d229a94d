"""Pieces of requests → the batch that an encoder runs, and its rows → back to their requests.

Knows arrays; knows nothing of whose turn it is, nor of what the rows mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.host.engine.batching.batched_request import Piece
from pipelines.host.engine.encoder_batch import TokenBatch


def gathered(pieces: Sequence[Piece]) -> TokenBatch:
    """The texts of the pieces below each other, in their order; the first is the longest."""
    sizes = [len(piece) for piece in pieces]
    shape = sum(sizes), pieces[0].length
    ids, types = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    at = 0
    for piece, size in zip(pieces, sizes, strict=True):
        texts, tokens, rows = piece.texts, piece.tokens, slice(at, at + size)
        ids[rows, : piece.length] = texts.ids[tokens]
        if texts.types is not None:
            types[rows, : piece.length] = texts.types[tokens]
        at += size
    return TokenBatch(
        ids,
        np.repeat([piece.length for piece in pieces], sizes),
        types,
        np.repeat([piece.texts.activate for piece in pieces], sizes),
    )


def scatter(values: NDArray[np.float32], pieces: Sequence[Piece]) -> None:
    """Write each text's row into its request's, made when its first comes.

    `values`: float32[num_texts, size], or for tokens float32[num_texts, width, size]; the requests' rows are
    float32[num_texts, size], for tokens float32[num_tokens, size].
    """
    at, size = 0, values.shape[-1]
    for piece in pieces:
        texts, rows = piece.texts, values[at : at + len(piece)]
        if texts.rows is None:
            num_rows = len(texts.order) if values.ndim == 2 else len(texts.ids)
            texts.rows = np.empty((num_rows, size), np.float32)
        if values.ndim == 2:
            texts.rows[piece.items] = rows
        else:
            texts.rows[piece.tokens] = rows[:, : piece.length]
        at += len(piece)
