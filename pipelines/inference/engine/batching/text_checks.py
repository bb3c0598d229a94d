"""Checks of a request for embeddings before the engine accepts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import ContextTooLong, RequestError

if TYPE_CHECKING:
    from pipelines.inference.contracts.encoder_batch import RowShape
    from pipelines.inference.engine.batching.batched_request import Arrays

MAX_ANSWER_VALUES = 1 << 25
"""Most numbers of one result: the wire's limit, and short enough for other requests of a worker."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a body: tokens per text, vocabulary size, and numbers per output of its result.

    `columns`: of a body that reads windows of sound, or images, the shape of each; of images that are grids
    of tokens the one of a token.  `embeds_size`: how many numbers stand for a token of an image that a text
    shows, 0 where texts show none; `mrope_axes`: on how many axes such tokens have positions.
    """

    max_tokens: int
    vocab_size: int
    output_size: int = 1
    columns: tuple[int, ...] | None = None
    embeds_size: int = 0
    mrope_axes: int = 1


def checked_texts(inputs: Arrays, bounds: Bounds) -> Arrays:
    """The texts of a request, those of windows of sound and of images with ids of 0.

    Raises RequestError, with vLLM's text, for texts that the model cannot run.
    """
    if bounds.columns is not None and len(bounds.columns) == 1:
        return _checked_grids(inputs, bounds, *bounds.columns)
    if bounds.columns is not None:
        return _checked_windows(inputs, bounds, bounds.columns)
    if "ids" not in inputs:
        raise RequestError("this model reads token ids, not features")
    _check_ids(inputs["ids"], inputs["lengths"], bounds)
    return inputs


def _checked_windows(inputs: Arrays, bounds: Bounds, columns: tuple[int, ...]) -> Arrays:
    features, num_stored = _features(inputs, columns), _num_stored(inputs)
    if features is None or features.shape[1:] != columns or not len(features) + num_stored:
        has = "token ids" if features is None else f"features of shape {list(features.shape)}"
        raise RequestError(
            f"this model reads features of shape [windows, {', '.join(map(str, columns))}], not {has}"
        )
    if features.dtype != np.float32 or not np.isfinite(features).all():
        raise RequestError("features are finite numbers of float32")
    num_windows = len(features) + num_stored
    if "names" in inputs and len(inputs["names"]) != num_windows:
        raise RequestError("each image has one name")
    lengths = np.full(num_windows, bounds.max_tokens, np.int32)
    return _with_lengths(inputs, features, lengths)


def _checked_grids(inputs: Arrays, bounds: Bounds, size: int) -> Arrays:
    features, grids = _features(inputs, (size,)), inputs.get("grids")
    if features is None or grids is None or features.shape[1:] != (size,) or grids.shape[1:] != (2,):
        raise RequestError(f"this model reads features of shape [tokens, {size}] of images, and their grids")
    lengths = grids.astype(np.int64).prod(axis=1)
    stored = inputs.get("stored", np.zeros(len(lengths), np.uint8))
    is_whole = len(lengths) == len(stored) > 0 and grids.min() > 0
    if not is_whole or lengths[stored == 0].sum() != len(features):
        raise RequestError("the grids of the images are not those of their features")
    if "names" in inputs and len(inputs["names"]) != len(grids):
        raise RequestError("each image has one name")
    if lengths.max() > bounds.max_tokens:
        raise RequestError(
            f"an image has {lengths.max()} tokens, and the encoder reads at most {bounds.max_tokens} of one "
            "image. Please send a smaller one, or set max_image_tokens of the graph's line of images.",
            "messages",
        )
    if features.dtype != np.float32 or not np.isfinite(features).all():
        raise RequestError("features are finite numbers of float32")
    return _with_lengths(inputs, features, lengths)


def _features(inputs: Arrays, columns: tuple[int, ...]) -> NDArray[Any] | None:
    """The features of a request; none where the embeddings of all its images are stored."""
    if "features" not in inputs and inputs.get("stored", np.zeros(1)).all():
        return np.empty((0, *columns), np.float32)
    return inputs.get("features")


def _num_stored(inputs: Arrays) -> int:
    return int(np.count_nonzero(inputs["stored"])) if "stored" in inputs else 0


def _with_lengths(inputs: Arrays, features: NDArray[Any], lengths: NDArray[Any]) -> Arrays:
    ids = np.zeros(int(lengths.sum()), np.int32)
    return {**inputs, "features": features, "ids": ids, "lengths": lengths.astype(np.int32)}


def _check_ids(ids: NDArray[Any], lengths: NDArray[Any], bounds: Bounds) -> None:
    num_tokens = lengths.tolist()
    if not num_tokens or min(num_tokens) < 1:
        raise RequestError("The decoder prompt cannot be empty")
    if (longest := max(num_tokens)) > bounds.max_tokens:
        raise too_long(bounds.max_tokens, str(longest))
    if sum(num_tokens) != len(ids):
        raise RequestError("the lengths of the texts are not those of their ids")
    if ids.min() < 0 or ids.max() >= bounds.vocab_size:
        outside = (ids < 0) | (ids >= bounds.vocab_size)
        raise RequestError(f"Token id {ids[np.argmax(outside)]} is out of vocabulary")


def check_answer(results: Sequence[RowShape], num_texts: int, num_tokens: int) -> None:
    """Raise RequestError before it is computed, for a request whose results would have too many numbers."""
    num_values = sum(shape.num_values(num_texts, num_tokens) for shape in results)
    if num_values > MAX_ANSWER_VALUES:
        words = " and ".join(map(str, results))
        raise RequestError(
            f"the reply would hold {num_values} numbers: {words}; "
            f"one request may have {MAX_ANSWER_VALUES}. Please send the input in several requests.",
            "input",
        )


def cache_miss(image: int) -> RequestError:
    """The error, with vLLM's text, for an image without data."""
    return RequestError(
        f"Cache miss for image at index {image} but data is not provided. Its rows are not stored any more: "
        "send the image itself, with the same `uuid`.",
        "messages",
    )


def too_long(max_tokens: int, contained: str) -> ContextTooLong:
    """The error with vLLM's text: `contained` is "at least" a number for text, whose end is not tokenized, or
    a number of ids.
    """
    return ContextTooLong(
        f"This model's maximum context length is {max_tokens} tokens. However, your prompt contains "
        f"{contained} input tokens, which exceeds this limit even without any output tokens. "
        "Please reduce the length of the input prompt.",
        "input_tokens",
    )
