"""A file of slots of one size: named contents with checksums, which outlive the process that wrote them.

Whatever a crash, a full disk or another program leaves in the file, a slot gives back what was written under
its name, or nothing.

offset 0                 HEADER_BYTES   what the contents depend on, as JSON; another header empties the file
HEADER_BYTES             ENTRY_BYTES    for each slot: name, age, checksum of the content, checksum of these
`_first`                 slot_bytes     for each slot: its content
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

MAGIC = b"braid prefixes 1\n"
HEADER_BYTES = 4096
NAME_BYTES = 16
ENTRY = struct.Struct(f"<{NAME_BYTES}sQI")
SUM = struct.Struct("<I")
ENTRY_BYTES = ENTRY.size + SUM.size


class SlotsTaken(Exception):
    """Another process, or an older instance of the model, has the file."""


class StoredSlot(NamedTuple):
    """A slot with a content; the largest age is the one used last."""

    slot: int
    name: bytes
    age: int


class SlotFile:
    """`num_slots` slots of `slot_bytes` bytes; the file is never larger than `max_bytes`, which must hold one
    slot.

    `facts` are what contents depend on: a file with others is emptied.  Only its user may read the file, and
    one process at a time has it.  A slot is written and read as a whole.  Not thread-safe, but that one
    thread may read while another one writes.  Raises SlotsTaken, OSError.
    """

    def __init__(self, path: Path, facts: Mapping[str, str], slot_bytes: int, max_bytes: int) -> None:
        self.slot_bytes = slot_bytes
        self.num_slots = slots_within(max_bytes, slot_bytes)
        if self.num_slots < 1:
            raise ValueError(f"{max_bytes} bytes hold no slot of {slot_bytes}")
        self._first = _aligned(HEADER_BYTES + self.num_slots * ENTRY_BYTES)
        self._header = _header({**facts, "slot_bytes": str(slot_bytes), "slots": str(self.num_slots)})
        self._held: dict[int, tuple[bytes, int]] = {}  # slot → name and checksum of its content
        self._fd = _open_locked(path)
        try:
            if os.pread(self._fd, HEADER_BYTES, 0) != self._header:
                self.erase()
            os.ftruncate(self._fd, self._first + self.num_slots * slot_bytes)  # a hole until it is written
        except BaseException:
            os.close(self._fd)
            raise

    def stored(self) -> list[StoredSlot]:
        """The slots that seem to hold something, in order of age; their contents are checked when read."""
        table = _read(self._fd, HEADER_BYTES, self.num_slots * ENTRY_BYTES)
        found = list(self._entries(table))
        found.sort(key=lambda each: each.age)
        return found

    def _entries(self, table: bytes) -> Iterator[StoredSlot]:
        for slot in range(len(table) // ENTRY_BYTES):
            entry = table[slot * ENTRY_BYTES : (slot + 1) * ENTRY_BYTES]
            if entry[ENTRY.size :] == SUM.pack(crc32(entry[: ENTRY.size])):
                name, age, checksum = ENTRY.unpack_from(entry)
                self._held[slot] = (name, checksum)
                yield StoredSlot(slot, name, age)

    def write(self, slot: int, name: bytes, age: int, content: NDArray[np.uint8]) -> None:
        """Replace what a slot holds."""
        self._held.pop(slot, None)
        _write(self._fd, self._first + slot * self.slot_bytes, content.data)
        self._held[slot] = (name, crc32(content.data))
        self.set_age(slot, age)

    def set_age(self, slot: int, age: int) -> None:
        """Write the entry of a slot that holds something anew."""
        name, checksum = self._held[slot]
        entry = ENTRY.pack(name, age, checksum)
        _write(self._fd, HEADER_BYTES + slot * ENTRY_BYTES, memoryview(entry + SUM.pack(crc32(entry))))

    def read(self, slot: int, name: bytes, into: NDArray[np.uint8]) -> bool:
        """Read the content of a slot, uint8[slot_bytes]; False where it is not what was written under `name`:
        also where another thread writes to the slot meanwhile.
        """
        held, checksum = self._held.get(slot, (b"", 0))
        if held != name:
            return False
        num_read = os.preadv(self._fd, [into.data], self._first + slot * self.slot_bytes)
        return num_read == self.slot_bytes and crc32(into.data) == checksum

    def expect(self, slot: int) -> None:
        """Have the system read a slot ahead."""
        place = self._first + slot * self.slot_bytes
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, place, self.slot_bytes, os.POSIX_FADV_WILLNEED)

    def erase(self) -> None:
        """Remove all contents; their room on the disk is free again."""
        self._held.clear()
        os.ftruncate(self._fd, 0)
        _write(self._fd, 0, memoryview(self._header))
        os.ftruncate(self._fd, self._first + self.num_slots * self.slot_bytes)

    def close(self) -> None:
        """Another process may have the file."""
        os.close(self._fd)


def slots_within(max_bytes: int, slot_bytes: int) -> int:
    """Slots of a file of at most `max_bytes`."""
    return max(0, max_bytes - 2 * HEADER_BYTES) // (slot_bytes + ENTRY_BYTES)


def read_facts(path: Path) -> dict[str, str]:
    """What the contents of a file depend on; {} where it is no file of slots.  Raises OSError."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    try:
        facts = json.loads(header.removeprefix(MAGIC).rstrip(b"\0")) if header.startswith(MAGIC) else {}
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def remove_file(path: Path) -> None:
    """Remove a file that no process has.  Raises OSError."""
    try:
        fd = _open_locked(path)
    except SlotsTaken:
        return
    try:
        path.unlink()
    finally:
        os.close(fd)


def _header(facts: Mapping[str, str]) -> bytes:
    text = MAGIC + json.dumps(facts, sort_keys=True).encode()
    if len(text) > HEADER_BYTES:
        raise ValueError(f"the facts of a file take {len(text)} bytes")
    return text.ljust(HEADER_BYTES, b"\0")


def _open_locked(path: Path) -> int:
    """Open or make a file that only its user reads, and that this process alone has."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            state = os.fstat(fd)
            if not stat.S_ISREG(state.st_mode):
                raise OSError(f"{path} is no file")
            os.fchmod(fd, 0o600)
        except BlockingIOError:
            os.close(fd)
            raise SlotsTaken(str(path)) from None
        except BaseException:
            os.close(fd)
            raise
        if state.st_nlink:
            return fd
        os.close(fd)  # it was removed before it was locked


def _read(fd: int, offset: int, count: int) -> bytes:
    """Up to `count` bytes: a file that was cut has fewer."""
    parts = []
    while count and (part := os.pread(fd, count, offset)):
        parts.append(part)
        offset, count = offset + len(part), count - len(part)
    return b"".join(parts)


def _write(fd: int, offset: int, content: memoryview) -> None:
    while len(content):
        written = os.pwrite(fd, content, offset)
        offset, content = offset + written, content[written:]


def _aligned(offset: int) -> int:
    return -(-offset // HEADER_BYTES) * HEADER_BYTES
