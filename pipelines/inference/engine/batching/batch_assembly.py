"""Builds the batch that an encoder runs from parts of requests, and returns its outputs to the requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.encoder_batch import Rows, TokenBatch
from pipelines.inference.engine.batching.batched_request import BatchPart, Texts


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
        tuple(sorted({place for part in parts for place in part.request.results})),
    )


def _adapters(parts: Sequence[BatchPart], sizes: Sequence[int]) -> NDArray[np.int32]:
    """The load number of each text's adapter; [] where none has one."""
    numbers = [part.request.adapter for part in parts]
    return np.array(numbers, np.int32).repeat(sizes) if any(numbers) else np.zeros(0, np.int32)


def _joined(arrays: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Joins the arrays of all parts, in order; None where no part has one."""
    found = [each for each in arrays if each is not None]
    return np.concatenate(found) if found else None


def scatter(rows: Rows, parts: Sequence[BatchPart], place: int = 0) -> None:
    """Copy one result of the batch to the requests that want it."""
    at = 0
    for part in parts:
        if place in part.request.results:
            _write(rows[at : at + len(part)], part, place)
        at += len(part)


def _write(rows: Rows, part: BatchPart, place: int) -> None:
    """Copy the outputs of a request's texts to it; the array for them is made with its first outputs.

    A request's outputs are float32[num_texts, size], for tokens float32[num_tokens, size], or a list with an
    array for each text.
    """
    texts = part.request
    if place not in texts.outputs:
        texts.outputs[place] = _room(rows, texts)
    outputs = texts.outputs[place]
    if isinstance(outputs, list):
        for item, row in zip(part.items.tolist(), rows, strict=True):
            outputs[item] = row
    elif outputs.ndim == rows.ndim:  # type: ignore[union-attr]
        outputs[part.items] = rows
    else:
        outputs[part.tokens] = rows[:, : part.length]  # type: ignore[call-overload]


def _room(rows: Rows, texts: Texts) -> Rows:
    """An array for all outputs of a request, with values like `rows`."""
    if isinstance(rows, list):
        return [rows[0]] * len(texts.lengths)
    num_outputs = len(texts.lengths) if rows.ndim == 2 else len(texts.ids)
    return np.empty((num_outputs, rows.shape[-1]), np.float32)
