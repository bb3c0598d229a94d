"""Finds the sections of a shared library: 64-bit little-endian ELF, read without binutils."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

Bytes = bytes | bytearray | memoryview
MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")


class NotElf(ValueError):
    """These are not the bytes of a 64-bit little-endian ELF file."""


class Section(NamedTuple):
    name: str
    offset: int  # bytes from the start of the file
    size: int  # bytes


def sections(data: Bytes) -> list[Section]:
    """Every section of the file.  Raises `NotElf`."""
    if bytes(data[: len(MAGIC)]) != MAGIC or len(data) < HEADER.size:
        raise NotElf("not a 64-bit little-endian ELF file")
    *_, at, _, _, _, _, entry_size, count, names_index = HEADER.unpack_from(data)
    if not at:
        return []
    first = SECTION.unpack_from(data, at)
    count = count or first[5]  # more than 65279 sections: the count is in section 0
    names_index = first[6] if names_index == 0xFFFF else names_index
    raw = [SECTION.unpack_from(data, at + number * entry_size) for number in range(count)]
    return list(_named(data, raw, names_index))


def _named(data: Bytes, raw: list[tuple[int, ...]], names_index: int) -> Iterator[Section]:
    names_at, names_size = raw[names_index][4], raw[names_index][5]
    names = bytes(data[names_at : names_at + names_size])
    for name_at, _, _, _, offset, size, *_ in raw:
        yield Section(names[name_at : names.index(b"\0", name_at)].decode(), offset, size)
