"""The sizes of the kernels' cases.  Data only."""

from __future__ import annotations

from typing import NamedTuple


class Size(NamedTuple):
    """`rows` × `vocab` logits; `sequences`, `context` and `block_tokens` of steps and caches."""

    rows: int
    vocab: int
    sequences: int
    context: int
    block_tokens: int


SIZES = {
    "tiny": Size(3, 131, 3, 70, 16),
    "small": Size(7, 4099, 9, 700, 16),
    "medium": Size(33, 151_936, 64, 3000, 128),
    "large": Size(256, 151_936, 256, 8000, 128),
}
"""`tiny` is for tests and for the sanitizer, which makes each thread a thousand times slower."""
