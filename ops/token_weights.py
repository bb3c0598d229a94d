"""Weights of token ids, their sums by block, and sampling of an id by a uniform number.

See `ops.sampling` for the definition of a weight.  Whole rows of weights are float32[..., width]: `width` is
the vocabulary, padded with zeros to whole blocks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.candidates import row_slices, rows_at
from ops.contract import Floats, Index
from ops.scratch import scratch

Sums = NDArray[np.float64]

HALF_STEP = 2.0**-25
"""A uniform of 24 bits means the middle of its step: 0 does not select a first id of tiny weight."""
BLOCK = 128
"""Weights added in float32; the sums of blocks are added in float64."""


def sum_blocks(logits: Floats, rows: Index, temperature: Floats) -> tuple[Floats, Floats]:
    """The largest logit of some rows, float32[m], and the weight of each of their blocks, float32[m, blocks].

    logits: float32[n, vocab]; rows: int64[m]; temperature: float32[m].
    """
    peaks = np.empty(len(rows), np.float32)
    sums = np.empty((len(rows), num_blocks(logits.shape[1])), np.float32)
    for part in row_slices(len(rows), logits.shape[1]):
        values = rows_at(logits, rows[part])
        peaks[part] = values.max(axis=1)
        sums[part] = block_sums(weights_of(values, peaks[part], temperature[part]))
    return peaks, sums


def weights_of(values: Floats, peaks: Floats, temperature: Floats) -> Floats:
    """Whole rows of weights of logits, float32[n, width]; peaks and temperature as in `weigh`.

    The array is valid until the same thread calls this again.
    """
    num_rows, vocab = values.shape
    weights = scratch("weights", (num_rows, num_blocks(vocab) * BLOCK), np.float32)
    weights[:, vocab:] = 0
    weigh(values, peaks, temperature, weights[:, :vocab])
    return weights


def weigh(values: Floats, peaks: Floats, temperature: Floats, out: Floats) -> None:
    """Write the weights of logits to `out`, both float32[n, k], which may be the same array.

    peaks: float32[n], each row's largest logit; temperature: float32[n].
    """
    finite = np.isfinite(peaks)
    odd = None if finite.all() else ~finite
    maxima = None if odd is None else (values[odd] == peaks[odd, None]) | np.isnan(values[odd])
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        np.subtract(values, peaks[:, None], out=out)
        if (temperature != 1).any():
            out /= temperature[:, None]
        np.exp(out, out=out)
    if odd is not None:
        out[odd] = maxima


def num_blocks(vocab: int) -> int:
    """The number of blocks of a row of `vocab` weights."""
    return -(-vocab // BLOCK)


def block_sums(weights: Floats) -> Floats:
    """The weight of each block of whole rows: float32[..., width / BLOCK]."""
    sums: Floats = np.einsum("bi->b", weights.reshape(-1, BLOCK))
    return sums.reshape(*weights.shape[:-1], -1)


def running_sums(weights: Floats) -> Sums:
    """The weight of the first 1, 2, … blocks of whole rows: float64[..., width / BLOCK]."""
    return np.cumsum(block_sums(weights), axis=-1, dtype=np.float64)


def blocks_of(row: Floats, blocks: Index) -> tuple[Index, Floats]:
    """Ids and values, both [k], of some blocks of float32[vocab], and of the last, incomplete block."""
    whole = len(row) // BLOCK
    some = blocks[blocks < whole]
    ids = (some[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
    values = row[: whole * BLOCK].reshape(-1, BLOCK)[some].reshape(-1)
    if whole * BLOCK == len(row):
        return ids, values
    last = np.arange(whole * BLOCK, len(row))
    return np.concatenate([ids, last]), np.concatenate([values, row[last]])


def find_blocks(sums: Sums, chances: Floats) -> tuple[Index, Sums]:
    """The block of each row's sampled id, and the weight in it that the id exceeds; sums: `running_sums`."""
    targets = _targets(chances, sums)
    blocks = np.count_nonzero(sums <= targets[:, None], axis=1)
    previous = np.take_along_axis(sums, np.maximum(blocks - 1, 0)[:, None], axis=1)[:, 0]
    return blocks, targets - np.where(blocks > 0, previous, 0)


def find_places(inside: Floats, targets: Sums) -> Index:
    """The place in its block of each row's sampled id, from the block's weights float32[n, BLOCK]."""
    within = np.cumsum(inside, axis=1, dtype=np.float64)
    at = np.count_nonzero(within <= targets[:, None], axis=1)
    # The float32 sum of a block may exceed its float64 sum by a rounding: stay on an id that has weight.
    last = BLOCK - 1 - np.argmax(inside[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(at, last), np.int64)


def pick_from_row(weights: Floats, sums: Sums, chance: np.float32) -> int:
    """The sampled id of one whole row; sums: `running_sums`."""
    blocks, targets = find_blocks(sums[None], np.array([chance]))
    inside = weights.reshape(-1, BLOCK)[blocks]
    return int(blocks[0] * BLOCK + find_places(inside, targets)[0])


def pick_from_lists(ids: Index, weights: Floats, chances: Floats) -> Index:
    """The sampled id of short rows, int64[n]; ids and weights are [n, k], with weight 0 for ids that were
    filtered out.

    Added one by one in float64: ids of weight 0 in between change no sum.
    """
    sums = np.cumsum(weights, axis=1, dtype=np.float64)
    at = np.count_nonzero(sums <= _targets(chances, sums)[:, None], axis=1)
    return np.take_along_axis(ids, at[:, None], axis=1)[:, 0]


def _targets(chances: Floats, sums: Sums) -> Sums:
    """The cumulative weight that the sampled id exceeds; exact in float64 but for the product."""
    return np.asarray((chances.astype(np.float64) + HALF_STEP) * sums[:, -1], np.float64)
