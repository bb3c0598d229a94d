"""Narrows guide masks by the other bans of a request, as long as a token is left."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.sampling.logit_edits import RowEdits
from pipelines.inference.sampling.step_context import Masks

Words = NDArray[np.uint32]


def narrow(masks: Masks, edits: Mapping[int, RowEdits]) -> Words:
    """The bits of `masks` without what `edits`, by logit row, forbid; a row that would lose all stays
    unchanged.

    So a grammar that allows only the end is not stuck before `min_tokens`, nor by banned words.
    """
    bits = masks.bits
    for i, row in enumerate(masks.rows.tolist()):
        if row in edits:
            left = _without(bits[i], edits[row])
            if left.any():
                bits[i] = left
    return bits


def _without(allowed: Words, edits: RowEdits) -> Words:
    left = allowed.copy()
    if edits.restricts:
        left &= bits_of(edits.allowed, len(left))
    if edits.params.bad_words_ids:
        left &= ~bits_of(edits.bans(), len(left))
    if edits.num_outputs < edits.params.min_tokens:
        left &= ~bits_of(edits.end_token_ids, len(left))
    return left


def bits_of(ids: NDArray[np.int64], num_words: int) -> Words:
    """uint32[num_words] with the bit of each id set."""
    flags = np.zeros(num_words * 32, np.uint8)
    flags[ids] = 1
    return np.packbits(flags, bitorder="little").view(np.uint32)
