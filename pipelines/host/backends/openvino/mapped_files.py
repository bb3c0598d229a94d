"""Maps files of weights, and releases their pages once the weights are repacked elsewhere in memory."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

PERIOD_S = 0.005
"""Seconds between two releases of pages; weights are packed at up to 2 GB/s."""


class MappedFile:
    """The bytes of a file, `uint8[size]`; a page is read at its first access.

    The array is writable only because OpenVINO requires it of arrays that it reads in place; do not write to
    it.  Hold this object as long as anything reads `bytes`.  Raises OSError, and ValueError for an empty
    file.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.bytes = np.frombuffer(self._pages, np.uint8)

    def release_pages(self) -> None:
        """Release the pages to the kernel's page cache; a later access reads them from there or from disk."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)


@contextmanager
def release_pages_during(files: Sequence[MappedFile]) -> Iterator[None]:
    """Release the files' pages periodically during the block, in which weights are repacked elsewhere."""
    ended = threading.Event()

    def release_pages() -> None:
        for file in files:
            file.release_pages()

    def keep_letting_go() -> None:
        while not ended.wait(PERIOD_S):
            release_pages()

    thread = threading.Thread(target=keep_letting_go, name="let-go", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        release_pages()
