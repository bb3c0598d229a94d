"""Finds the ids that may be among a row's largest values without sorting the row.

Rows are processed in slices that fit a core's cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ops.contract import Floats, Index
from ops.scratch import scratch

PART_VALUES = 2**17
"""Values processed together (512 KiB of float32): more exceed the cache, fewer waste calls on small rows."""
MAX_COLUMN = 128
COLUMNS_PER_WANTED = 8
"""Columns of a row for each wanted value: few of them contain a wanted value."""


def row_slices(num_rows: int, vocab: int) -> list[slice]:
    """Slices that cover `num_rows` rows in order, each of about PART_VALUES values and at least one row."""
    size = max(1, PART_VALUES // max(1, vocab))
    return [slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size)]


def rows_at(values: Floats, rows: Index) -> Floats:
    """Some rows of float32[n, vocab] as float32[m, vocab], read only: a view when they are contiguous."""
    first = int(rows[0])
    if len(rows) == 1 or (np.diff(rows) == 1).all():
        return values[first : first + len(rows)]
    return values[rows]


def num_columns(vocab: int, wanted: int) -> int:
    """The number of columns into which a row is divided to find its `wanted` largest values."""
    return vocab // max(1, min(MAX_COLUMN, vocab // (COLUMNS_PER_WANTED * wanted)))


def column_maxima(row: Floats, width: int) -> Floats:
    """The largest value of each column of float32[vocab]: float32[width]; id t is in column t % width.

    The pass runs along whole lines of columns, which is several times faster than along blocks of ids, and
    faster still when the row was read just before.
    """
    whole = len(row) // width * width
    maxima: Floats = row[:whole].reshape(-1, width).max(axis=0)
    if whole < len(row):
        rest = maxima[: len(row) - whole]
        np.maximum(rest, row[whole:], out=rest)
    return maxima


def entries_at_least(row: Floats, columns: Floats, floor: float) -> tuple[Index, Floats]:
    """Ids (ascending, int64[k]) and values (float32[k]) of the entries of float32[vocab] not below the floor.

    columns: its `column_maxima`.  When few columns reach the floor, only these are read.  NaN counts as not
    below.
    """
    width = len(columns)
    some = np.flatnonzero(~(columns < floor))
    if len(some) * COLUMNS_PER_WANTED > width:
        high = scratch("high", row.shape, np.bool_)
        ids = np.flatnonzero(np.logical_not(np.less(row, floor, out=high), out=high))
        return ids, row[ids]
    whole = len(row) // width * width
    values = row[:whole].reshape(-1, width)[:, some].reshape(-1)
    high = np.flatnonzero(~(values < floor))
    lines, at = np.divmod(high, len(some))
    ids = lines * width + some[at]
    if whole < len(row):
        rest = np.flatnonzero(~(row[whole:] < floor)) + whole
        return np.concatenate([ids, rest]), np.concatenate([values[high], row[rest]])
    return ids, values[high]


def pad_rows(rows: Sequence[tuple[Index, Floats]], padding: float) -> tuple[Index, Floats]:
    """Ids and values of rows of any length as int64[n, width] and float32[n, width].

    The end of a shorter row is id 0 with the value `padding`.
    """
    width = max(len(ids) for ids, _ in rows)
    every_id = np.zeros((len(rows), width), np.int64)
    every_value = np.full((len(rows), width), padding, np.float32)
    for (ids, values), into_ids, into_values in zip(rows, every_id, every_value, strict=True):
        into_ids[: len(ids)] = ids
        into_values[: len(ids)] = values
    return every_id, every_value
