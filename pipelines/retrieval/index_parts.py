"""The parts of a version of an index: how their files are named and shared, and which are merged.

A part holds documents with their passages, words and vectors; its rows count from 0.  Its files never change,
and several versions share them; documents that were removed stay in them and are listed in a file beside.
An update writes a part for what is new, so its work is in proportion to the change.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

REMOVED = "removed.bin"
REMOVED_SHARE = 8
"""Where more than one row in this number is of a removed passage, parts with such rows are written anew."""
PART_ROWS = 1 << 16
"""Rows from which on a part is full: it is merged with no other, and what is new goes to the next."""

Removed = NDArray[np.int32]
"""int32[n, 3]: number, first row and number of rows of the documents that were removed from a part."""
NONE_REMOVED: Removed = np.empty((0, 3), np.int32)


@dataclass(frozen=True, slots=True)
class PartSize:
    """What a part has: all rows, those that are of removed passages, and the documents that are left."""

    rows: int
    removed: int
    documents: int

    @property
    def work(self) -> int:
        """What it takes to write the part anew: the rows and documents that are left."""
        return self.rows - self.removed + self.documents


@dataclass(frozen=True, slots=True)
class PartGroup:
    """Neighbouring parts of a version, which the next one shares (a single part) or writes as one."""

    parts: range
    is_shared: bool


def plan_parts(sizes: Sequence[PartSize]) -> list[PartGroup]:
    """What becomes of the parts of a version in the next one.

    The last parts are merged so far back as one has no more than all after it together: sizes halve from part
    to part, so there are few, and a passage is written again some log2(PART_ROWS) times at most.
    """
    begin, total = len(sizes), 0
    for number in reversed(range(len(sizes))):
        work = sizes[number].work
        if total + work > PART_ROWS:
            break
        if number < len(sizes) - 1 and work <= total:
            begin = number
        total += work
    num_removed = sum(size.removed for size in sizes)
    cleans = num_removed * REMOVED_SHARE > sum(size.rows for size in sizes)
    groups = [
        PartGroup(range(number, number + 1), not (cleans and sizes[number].removed))
        for number in range(begin)
    ]
    return groups + ([PartGroup(range(begin, len(sizes)), is_shared=False)] if begin < len(sizes) else [])


def is_full(num_rows: int) -> bool:
    """Whether a part with this many rows gets no more."""
    return num_rows >= PART_ROWS


def part_file(folder: Path, part: int, name: str) -> Path:
    """A file of a part of a version."""
    return folder / f"{part}-{name}"


def share_part(before: Path, old: int, new: Path, number: int) -> None:
    """Make the files of a part of a version those of a part of a new one too.  Raises OSError."""
    for file in sorted(before.glob(f"{old}-*")):
        share_file(file, part_file(new, number, file.name.partition("-")[2]))


def share_file(file: Path, own: Path) -> None:
    """Make a file of a version one of a new one too; a copy where the disk has no links.  Raises OSError."""
    try:
        own.hardlink_to(file)
    except OSError:
        shutil.copyfile(file, own)


def read_removed(folder: Path, part: int) -> Removed:
    """The documents that were removed from a part.  Raises OSError, and ValueError for a damaged file."""
    path = part_file(folder, part, REMOVED)
    if not path.exists():
        return NONE_REMOVED
    numbers = np.fromfile(path, np.int32)
    if len(numbers) % 3:
        raise ValueError(f"{path} has {4 * len(numbers)} bytes: the index is damaged")
    return numbers.reshape(-1, 3)


def write_removed(folder: Path, part: int, removed: Removed) -> None:
    """Write the file, which may be shared with an earlier version so far.  Raises OSError."""
    path = part_file(folder, part, REMOVED)
    path.unlink(missing_ok=True)
    path.write_bytes(removed.tobytes())


def mark(mask: NDArray[np.bool_], spans: NDArray[np.int32] | Sequence[tuple[int, int]], value: bool) -> None:
    """Set the rows of spans, each (first row, number of rows), in a mask."""
    for first, count in np.asarray(spans, np.int64).reshape(-1, 2).tolist():
        mask[first : first + count] = value
