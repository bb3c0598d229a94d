"""Reads parts of a file: one that is cut short meanwhile is an error; mapped pages would be a signal."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np

from pipelines.gguf.blocks import Bytes
from pipelines.gguf.errors import GgufError


class FileBytes:
    """A file that is open as long as this object lives.  It is read from any thread.  Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        weakref.finalize(self, os.close, self._file)
        self.size = os.fstat(self._file).st_size

    def read(self, offset: int, size: int) -> Bytes:
        """uint8[size], in memory of its own.  Raises `GgufError` where the file does not give them."""
        content: Bytes = np.empty(size, np.uint8)
        left = content.data
        while left:
            count = self._read_some(left, offset)
            if not count:
                raise GgufError(f"was cut short to {offset} of {self.size} bytes while it was read")
            left, offset = left[count:], offset + count
        return content

    def _read_some(self, into: memoryview, offset: int) -> int:
        try:
            return os.preadv(self._file, [into], offset)
        except OSError as error:
            raise GgufError(f"cannot be read: {error}") from error
