"""Few instead of many: the ids that may be among a row's largest, found without sorting the row.

Knows arrays of numbers; knows nothing of probabilities.  Rows are worked on in parts that fit a core's cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ops.contract import Floats, Index

Values = Floats

PART_VALUES = 2**17
"""Values worked on at once (512 KiB of float32): more leaves the cache, fewer waste calls on small rows."""
MAX_COLUMN = 128
COLUMNS_PER_WANTED = 8


def parts(num_rows: int, vocab: int) -> Iterator[slice]:
    """Slices that cover `num_rows` rows in order, each of about PART_VALUES values and at least one row."""
    size = max(1, PART_VALUES // max(1, vocab))
    return (slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size))


def floors(values: Values, wanted: Index) -> Values:
    """A lower bound of each row's `wanted`-th largest value: float32[n]; -inf where too many are wanted.

    values: float32[n, vocab]; wanted: int64[n], >= 1.  The row is cut into columns; the `wanted`-th largest
    of the columns' maxima is such a bound, and a close one while there are many more columns than wanted.
    """
    num_rows, vocab = values.shape
    few = wanted * COLUMNS_PER_WANTED <= vocab
    if not few.any():
        return np.full(num_rows, -np.inf, np.float32)
    height = min(MAX_COLUMN, vocab // (COLUMNS_PER_WANTED * int(wanted[few].max())))
    width = vocab // height
    maxima = np.sort(values[:, : height * width].reshape(num_rows, height, width).max(axis=1), axis=1)
    at = width - np.where(few, wanted, 1)
    found = np.take_along_axis(maxima, at[:, None], axis=1)[:, 0]
    return np.where(few, found, np.float32(-np.inf))


def at_least(values: Values, floor: Values, padding: float) -> tuple[Index, Values]:
    """Ids (ascending) and values of each row's entries that are not below its floor, padded to one width.

    values: float32[n, vocab]; floor: float32[n].  Gives int64[n, width] and float32[n, width], width >= 1;
    where a row has fewer entries its tail is id 0 with value `padding`.  NaN is not below anything.
    """
    flat = np.flatnonzero(~(values < floor[:, None]))
    rows, ids = np.divmod(flat, values.shape[1])
    counts = np.bincount(rows, minlength=len(values))
    width = max(1, int(counts.max(initial=0)))
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.zeros((len(values), width), np.int64)
    numbers = np.full((len(values), width), padding, np.float32)
    found[rows, columns] = ids
    numbers[rows, columns] = values[rows, ids]
    return found, numbers
