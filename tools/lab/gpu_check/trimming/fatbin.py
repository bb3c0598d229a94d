"""Finds the CUDA machine code in a shared library, and removes that of unneeded architectures.

The layout is that of the section `.nv_fatbin` as nvcc 8 to 13 write it (NVIDIA does not document it; it was
found by reading such files and agrees with what `cuobjdump` lists): fat binaries one after another, each a
header and entries, each entry one architecture's code with a header of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tools.lab.gpu_check.trimming.elf import Bytes, sections

SECTION_NAMES = (".nv_fatbin", "__nv_relfatbin")
MAGIC = 0xBA55ED50
FATBIN = struct.Struct("<IHHQ")  # magic, version, header bytes, bytes after the header
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, header bytes, payload bytes, …, architecture
KINDS = {1: "compute", 2: "sm"}  # PTX, machine code
ALIGNMENT = 8


class Entry(NamedTuple):
    """One architecture's code: `payload` bytes from `offset` of the file."""

    architecture: str  # "sm_90": machine code; "compute_90": PTX
    offset: int
    size: int


def fat_binaries(data: Bytes) -> Iterator[list[Entry]]:
    """The entries of every fat binary of a shared library's bytes, in file order.  Raises `NotElf`."""
    for section in sections(data):
        if section.name in SECTION_NAMES:
            yield from _in_section(data, section.offset, section.offset + section.size)


def trimmed(data: bytearray, keep: str) -> dict[str, int]:
    """Overwrite with zeros, in place, the code of all architectures but `keep` ("sm_90").

    Sizes and headers stay, so that no address changes; zeros cost nothing once compressed.  A fat binary
    without code for `keep` is not changed: its other code may be needed.
    Returns the number of zeroed bytes by architecture.
    """
    zeroed: dict[str, int] = {}
    for entries in list(fat_binaries(data)):
        if not any(entry.architecture == keep for entry in entries):
            continue
        for entry in entries:
            if entry.architecture != keep:
                data[entry.offset : entry.offset + entry.size] = bytes(entry.size)
                zeroed[entry.architecture] = zeroed.get(entry.architecture, 0) + entry.size
    return zeroed


def _in_section(data: Bytes, at: int, end: int) -> Iterator[list[Entry]]:
    while at + FATBIN.size <= end:
        magic, _, header, size = FATBIN.unpack_from(data, at)
        if magic != MAGIC:
            at += ALIGNMENT  # padding between two
            continue
        yield list(_entries(data, at + header, at + header + size))
        at += header + size


def _entries(data: Bytes, at: int, end: int) -> Iterator[Entry]:
    while at < end:
        kind, _, header, size, architecture = ENTRY.unpack_from(data, at)
        if header == 0:
            raise ValueError(f"a fat binary entry without a header at byte {at}: an unknown layout")
        yield Entry(f"{KINDS.get(kind, kind)}_{architecture}", at + header, size)
        at += header + size
