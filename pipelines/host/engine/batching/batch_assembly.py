"""Builds the batch that an encoder runs from parts of requests, and returns its outputs to the requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.host.contracts.encoder_batch import TokenBatch
from pipelines.host.engine.batching.batched_request import BatchPart


def assemble(parts: Sequence[BatchPart]) -> TokenBatch:
    """One batch of the texts of the parts, in order; the first part is the longest."""
    sizes = [len(part) for part in parts]
    shape = sum(sizes), parts[0].length
    ids, types = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    at = 0
    for part, size in zip(parts, sizes, strict=True):
        texts, tokens, span = part.request, part.tokens, slice(at, at + size)
        ids[span, : part.length] = texts.ids[tokens]
        if texts.types is not None:
            types[span, : part.length] = texts.types[tokens]
        at += size
    return TokenBatch(
        ids,
        np.array([part.length for part in parts]).repeat(sizes),
        types,
        np.array([part.request.activate for part in parts]).repeat(sizes),
        _joined([part.features for part in parts]),
        _joined([part.grids for part in parts]),
        [images for part in parts for images in part.images]
        if any(part.request.images for part in parts)
        else (),
        _adapters(parts, sizes),
    )


def _adapters(parts: Sequence[BatchPart], sizes: Sequence[int]) -> NDArray[np.int32]:
    """The load number of each text's adapter; [] where none has one."""
    numbers = [part.request.adapter for part in parts]
    return np.array(numbers, np.int32).repeat(sizes) if any(numbers) else np.zeros(0, np.int32)


def _joined(arrays: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Joins the arrays of all parts, in order; None where no part has one."""
    found = [each for each in arrays if each is not None]
    return np.concatenate(found) if found else None


def scatter(values: NDArray[np.float32], parts: Sequence[BatchPart]) -> None:
    """Copy the outputs of each text to its request, whose array is made with its first outputs.

    `values`: float32[num_texts, size], or for tokens float32[num_texts, width, size]; the requests' outputs
    are float32[num_texts, size], for tokens float32[num_tokens, size].
    """
    at, size = 0, values.shape[-1]
    for part in parts:
        texts, outputs = part.request, values[at : at + len(part)]
        if texts.outputs is None:
            num_outputs = len(texts.lengths) if values.ndim == 2 else len(texts.ids)
            texts.outputs = np.empty((num_outputs, size), np.float32)
        if values.ndim == 2:
            texts.outputs[part.items] = outputs
        else:
            texts.outputs[part.tokens] = outputs[:, : part.length]
        at += len(part)
