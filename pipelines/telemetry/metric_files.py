"""The files of a process' metrics, in pages that the disk has given before they are mapped.

A write to a mapped page that the disk has no room for ends a process with SIGBUS: so a file that gets no room
is not mapped, and its values are counted in memory until there is some.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from contextlib import suppress

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

HEAD = struct.Struct("i4x")
"""The number of used bytes, those of the head among them."""
FIRST_BYTES = 64 << 10
MAX_ENTRY_BYTES = 32
"""The bytes of an entry besides its key: lengths, padding, value and time."""
RETRY_S = 1.0
"""The seconds between two attempts to get room on the disk."""


_waiting: dict[MetricFile, float] = {}
"""Files of this process without room, and when each is tried again by the monotonic clock."""
_writing = threading.RLock()
"""Held while a value is written or a file replaced: a value that is written meanwhile would be lost."""


def install() -> None:
    """Have the library's metrics that are made from now on in these files."""
    values.MmapedDict = MetricFile  # type: ignore[attr-defined,assignment]


class MetricFile(MmapedDict):
    """The library's form of a file: its used bytes, then keys with their values.

    Readers find a file whole or not at all: each size of it is written under another name first.  Values are
    written from any thread.
    """

    def __init__(self, filename: str) -> None:
        self._fname = filename
        self._move(_left(filename), FIRST_BYTES)
        entries = self._read_all_values()  # type: ignore[no-untyped-call]
        self._positions = {key: place for key, _, _, place in entries}

    def _move(self, content: bytes, num_bytes: int) -> None:
        """Have the values in `num_bytes` of new pages or more, of the file if the disk has them."""
        self._used, self._capacity = max(HEAD.size, len(content)), num_bytes
        while self._capacity < self._used:
            self._capacity *= 2
        self._m = mmap.mmap(-1, self._capacity)
        self._m[: self._used] = HEAD.pack(self._used) + content[HEAD.size :]
        self._store()

    def _store(self) -> None:
        """Replace the file, and map it instead of memory; where that fails, it is tried again later."""
        part = f"{self._fname}.part"
        try:
            with open(part, "w+b") as file:
                _allocate(file.fileno(), self._capacity)
                pages = mmap.mmap(file.fileno(), self._capacity)
            pages[: self._used] = self._m[: self._used]
            os.rename(part, self._fname)
        except OSError:
            _waiting[self] = time.monotonic() + RETRY_S
            with suppress(OSError):
                os.unlink(part)
        else:
            self._m = pages
            _waiting.pop(self, None)

    def _init_value(self, key: str) -> None:
        while self._used + len(key.encode()) + MAX_ENTRY_BYTES > self._capacity:
            self._move(self._m[: self._used], 2 * self._capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        with _writing:
            if _waiting:
                store_waiting()
            super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        _waiting.pop(self, None)
        self._m.close()


def store_waiting() -> None:
    """Store the files that had no room.  Any write does so for all, and an engine host that has nothing to
    write: some values are written once in the life of a process.
    """
    with _writing:
        for file, retry_s in list(_waiting.items()):
            if time.monotonic() >= retry_s:
                file._store()


def _left(filename: str) -> bytes:
    """The used part of a file that an earlier process with this pid has written; b"" for none."""
    try:
        with open(filename, "rb") as file:
            content = file.read()
    except OSError:
        return b""
    return content[: HEAD.unpack_from(content)[0]] if len(content) >= HEAD.size else b""


def _allocate(file: int, num_bytes: int) -> None:
    """Give a file its size, and its pages their room on the disk.  Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, num_bytes)
    else:
        os.write(file, bytes(num_bytes))
