"""Long texts in parts that a classifier reads whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

SPARE_TOKENS = 8
"""Tokens that a model puts around a text, and those that a part may have more than it had in its text."""
SLAB_CHARS = 1 << 16
"""A text is tokenized in slabs of this many characters, each with some of the one before."""
OVERLAP_CHARS = 1 << 10
SHORT_CHARS = 1 << 12
"""This many characters are tokenized on the event loop."""
MAX_PARTS = 1024
"""Most parts of all texts that are judged at once: more cost a classifier minutes."""


def parts_of(texts: Sequence[str], tokenizer: Any, max_context: int) -> list[str]:
    """The texts in parts of at most `max_context` tokens, special ones included; a further part of a text
    begins with the last quarter of the one before.
    """
    return [part for text in texts for part in _parts(text, tokenizer, max(max_context - SPARE_TOKENS, 4))]


def _parts(text: str, tokenizer: Any, most: int) -> Iterator[str]:
    for start in range(0, max(len(text), 1), SLAB_CHARS):
        slab = text[max(0, start - OVERLAP_CHARS) : start + SLAB_CHARS]
        places = tokenizer.encode_batch([slab], add_special_tokens=False)[0].offsets
        if len(places) <= most:
            yield slab
            continue
        shared = most // 4
        for first in range(0, len(places) - shared, most - shared):
            part = places[first : first + most]
            yield slab[part[0][0] : part[-1][1]]
