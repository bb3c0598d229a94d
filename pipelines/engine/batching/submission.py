"""What a request for rows must be before an engine takes it.  Knows bounds of a model; queues nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.engine.batching.texts import Arrays
from pipelines.errors import RequestError


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an encoder reads: texts of at most `max_tokens`, of ids below `vocab_size`."""

    max_tokens: int
    vocab_size: int


def check_texts(inputs: Arrays, bounds: Bounds) -> None:
    """Raise RequestError, in vLLM's words, for texts that the model cannot read."""
    ids, lengths = inputs["ids"], inputs["lengths"]
    if not len(lengths) or int(lengths.min()) < 1:
        raise RequestError("The decoder prompt cannot be empty")
    check_length(int(lengths.max()), bounds.max_tokens)
    if int(lengths.sum()) != len(ids):
        raise RequestError("the lengths of the texts are not those of their ids")
    outside = (ids < 0) | (ids >= bounds.vocab_size)
    if outside.any():
        raise RequestError(f"Token id {ids[np.argmax(outside)]} is out of vocabulary")


def check_length(num_tokens: int, max_tokens: int) -> None:
    """Raise RequestError for a text of more tokens than the model reads."""
    if num_tokens > max_tokens:
        raise RequestError(
            f"This model's maximum context length is {max_tokens} tokens. However, your prompt contains "
            f"{num_tokens} input tokens, which exceeds this limit even without any output tokens. "
            "Please reduce the length of the input prompt.",
            "input_tokens",
        )
