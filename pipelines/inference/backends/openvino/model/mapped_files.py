"""Maps files of weights, and releases their pages once the weights are repacked elsewhere in memory."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipelines.base.periodic import repeated_during

if TYPE_CHECKING:
    import openvino as ov

MAP_FIXED = 0x10
"""A flag of mmap(2) on Linux: replace the pages at the address."""
PERIOD_S = 0.005
"""Seconds between two releases of pages; weights are packed at up to 2 GB/s."""


class MappedFile:
    """The bytes of a file, `uint8[size]`; a page is read at its first access.

    `behind`: a second file, whose bytes begin at the next multiple of a page (`page_after`); between the two
    are zeros.  The array is writable only because OpenVINO requires it of arrays that it reads in place; do
    not write to it.  Hold this object as long as anything reads `bytes`.  `changed_ns` is when the file was
    changed last, `real_path` its path without links.  Raises OSError, and ValueError for an empty file.
    """

    def __init__(self, path: Path, behind: Path | None = None) -> None:
        self.path, self.real_path = path, path.resolve()
        with self.real_path.open("rb") as file:
            self.changed_ns = os.fstat(file.fileno()).st_mtime_ns
            if behind is None:
                self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            else:
                with behind.open("rb") as second:
                    self._pages = _mapped_together(file.fileno(), second.fileno())
        self.bytes = np.frombuffer(self._pages, np.uint8)

    def place(self, constant: ov.op.Constant) -> int | None:
        """The offset of a constant's numbers in the file, in bytes; None for one that is elsewhere."""
        offset = int(constant.data.ctypes.data) - int(self.bytes.ctypes.data)
        return offset if 0 <= offset <= len(self.bytes) - constant.get_byte_size() else None

    def release_pages(self) -> None:
        """Release the pages to the kernel's page cache; a later access reads them from there or from disk."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)


def page_after(size: int) -> int:
    """The first multiple of a page from `size` on, in bytes."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _mapped_together(*files: int) -> mmap.mmap:
    """Maps files behind each other into one range of addresses, which Python's own mmap cannot.

    Raises OSError.
    """
    sizes = [os.fstat(file).st_size for file in files]
    pages = mmap.mmap(-1, sum(map(page_after, sizes)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for file, size in zip(files, sizes, strict=True):
        access, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | MAP_FIXED
        if _libc().mmap(address, size, access, flags, file, 0) != address:
            raise OSError(ctypes.get_errno(), "cannot map two files behind each other")
        address += page_after(size)
    return pages


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return libc


@contextmanager
def release_pages_during(files: Sequence[MappedFile]) -> Iterator[None]:
    """Release the files' pages periodically during the block, in which weights are repacked elsewhere."""

    def release_pages() -> None:
        for file in files:
            file.release_pages()

    try:
        with repeated_during(release_pages, PERIOD_S, thread_name="let-go"):
            yield
    finally:
        release_pages()
