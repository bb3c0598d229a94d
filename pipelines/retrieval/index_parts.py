"""The parts of a version of an index: how their files are named and shared, and which are merged.

A part holds documents with their passages, words and vectors; its rows count from 0.  Its files never change,
and several versions share them.  Documents that were removed stay in them and are listed in a file beside;
another has the new attributes of documents that were described again.  An update writes a part for what is
new, so its work is in proportion to the change.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

REMOVED, DESCRIBED = "removed.bin", "described.json"
REMOVED_SHARE = DESCRIBED_SHARE = 8
"""Where more than one row in this number is of a removed passage, parts with such rows are written anew, and
so is a part where more than one document in this number was described again.
"""
PART_ROWS = 1 << 16
"""Rows from which on a part is full: it is merged with no other, and what is new goes to the next."""

Removed = NDArray[np.int32]
"""int32[n, 3]: number, first row and number of rows of the documents that were removed from a part."""
NONE_REMOVED: Removed = np.empty((0, 3), np.int32)
Described = Mapping[int, tuple[str, str]]
"""Number → digest and attributes (JSON) of the documents of a part that have others than its files say."""


@dataclass(frozen=True, slots=True)
class PartSize:
    """What a part has: all rows, those that are of removed passages, the documents that are left, and how
    many of these were described again.
    """

    rows: int
    removed: int
    documents: int
    described: int = 0

    @property
    def work(self) -> int:
        """What it takes to write the part anew: the rows and documents that are left."""
        return self.rows - self.removed + self.documents

    @property
    def is_described_anew(self) -> bool:
        return self.described * DESCRIBED_SHARE > self.documents


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
        PartGroup(range(number, number + 1), not (cleans and size.removed) and not size.is_described_anew)
        for number, size in enumerate(sizes[:begin])
    ]
    return groups + ([PartGroup(range(begin, len(sizes)), is_shared=False)] if begin < len(sizes) else [])


def is_full(num_rows: int) -> bool:
    """Whether a part with this many rows gets no more."""
    return num_rows >= PART_ROWS


def part_file(folder: Path, part: int, name: str) -> Path:
    """A file of a part of a version."""
    return folder / f"{part}-{name}"


def share_part(before: Path, old: int, new: Path, number: int) -> dict[str, str]:
    """Make the files of a part of a version those of a part of a new one too: the name of each there, by its
    name here.  Raises OSError.
    """
    names = {}
    for file in sorted(before.glob(f"{old}-*")):
        own = part_file(new, number, file.name.partition("-")[2])
        share_file(file, own)
        names[file.name] = own.name
    return names


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
    _write_own(part_file(folder, part, REMOVED), removed.tobytes())


def read_described(folder: Path, part: int) -> Described:
    """The documents of a part that were described again.  Raises OSError, ValueError for a damaged file."""
    path = part_file(folder, part, DESCRIBED)
    if not path.exists():
        return {}
    try:
        return {number: (digest, attributes) for number, digest, attributes in json.loads(path.read_bytes())}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}: the index is damaged") from None


def write_described(folder: Path, part: int, described: Described) -> None:
    """Write the file, which may be shared with an earlier version so far.  Raises OSError."""
    rows = [(number, *described[number]) for number in sorted(described)]
    _write_own(part_file(folder, part, DESCRIBED), json.dumps(rows, ensure_ascii=False).encode())


def _write_own(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def mark(mask: NDArray[np.bool_], spans: NDArray[np.integer[Any]], value: bool) -> None:
    """Set the rows of spans in a mask.  `spans`: int[n, 2], the first row and the number of rows of each.

    Raises ValueError for rows that the mask has not.
    """
    firsts, counts = spans.astype(np.int64).T
    if not len(firsts):
        return
    if min(firsts.min(), counts.min()) < 0 or (firsts + counts).max() > len(mask):
        raise ValueError(f"passages are in rows beyond the {len(mask)} of their part: the index is damaged")
    ends = np.cumsum(counts)
    mask[np.arange(ends[-1]) + np.repeat(firsts - ends + counts, counts)] = value
