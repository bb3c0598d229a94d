"""Files of weights, mapped: what was packed from them does not stay in memory twice.

Knows files and pages; knows nothing of models.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

PERIOD_S = 0.005
"""Between two times that pages are let go of; weights are packed at up to 2 GB/s."""


class MappedFile:
    """The bytes of a file, `uint8[size]`; a page is read when somebody first looks at it.

    Writable, but only because OpenVINO asks it of an array that it reads in place: nobody writes.  Keep this
    object as long as anything reads `bytes`.  Raises OSError, and ValueError for an empty file.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.bytes = np.frombuffer(self._pages, np.uint8)

    def let_go(self) -> None:
        """Leave its pages to the kernel's cache of files; who looks again finds them there, or on disk."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)


@contextmanager
def release_pages_during(files: Sequence[MappedFile]) -> Iterator[None]:
    """Let go of the files' pages again and again, for all that is read within is packed elsewhere."""
    ended = threading.Event()

    def let_go() -> None:
        for file in files:
            file.let_go()

    def keep_letting_go() -> None:
        while not ended.wait(PERIOD_S):
            let_go()

    thread = threading.Thread(target=keep_letting_go, name="let-go", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        let_go()
