"""The sums of an index's files: they find damage that leaves a file as long as it was."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

DAMAGED = "the index is damaged; remove its folder, and index the documents again"
READ = 1 << 20
"""Bytes that are read at a time."""


class FileSum(NamedTuple):
    """The number of a file's bytes, and their CRC-32."""

    size: int
    crc32: int


class Stopped(Exception):
    """The sum is not wanted any more."""


def sum_of(path: Path, is_wanted: Callable[[], bool] = lambda: True) -> FileSum:
    """The sum of a file; reading takes half a second of a core for a gigabyte.

    Raises OSError, and Stopped as soon as it is not wanted any more.
    """
    size = crc32 = 0
    block = memoryview(bytearray(READ))
    with path.open("rb", buffering=0) as file:
        while length := file.readinto(block):
            if not is_wanted():
                raise Stopped
            size, crc32 = size + length, zlib.crc32(block[:length], crc32)
    return FileSum(size, crc32)


def sums_of(paths: Iterable[Path], known: Mapping[str, FileSum]) -> dict[str, FileSum]:
    """The sums of files by their names; those that are known are not read again.  Raises OSError."""
    return {path.name: known.get(path.name) or sum_of(path) for path in paths}


def check_sum(path: Path, wanted: FileSum, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Raises ValueError where a file holds other bytes than it was written with, OSError, and Stopped."""
    if sum_of(path, is_wanted) != wanted:
        raise ValueError(f"{path} holds other bytes than were written: {DAMAGED}")
