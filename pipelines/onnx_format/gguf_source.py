"""Names the GGUF file whose rows are the weights of a graph: what `braid::GgufLinear` nodes read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

NAME = "gguf.json"
"""The file beside model.onnx."""


class SourceFile(NamedTuple):
    """A file by its path, with the bytes and the time of its last change, in ns, that it has to have."""

    path: str
    num_bytes: int
    time_ns: int


class GgufSource(NamedTuple):
    """A GGUF file, or all parts of one, in order."""

    files: tuple[SourceFile, ...]

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)

    @classmethod
    def of(cls, paths: Sequence[Path]) -> GgufSource:
        """The files as they are now.  Raises OSError."""
        stats = [(str(path), path.stat()) for path in paths]
        return cls(tuple(SourceFile(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats))

    @classmethod
    def read(cls, folder: Path) -> GgufSource | None:
        """What the model.onnx in a folder reads; None for one whose weights are in its own folder.

        Raises OSError, and ValueError for another content than `write` gives.
        """
        file = folder / NAME
        if not file.is_file():
            return None
        noted = json.loads(file.read_text(encoding="utf-8"))
        files = tuple(SourceFile(str(path), int(size), int(time_ns)) for path, size, time_ns in noted)
        if not files:
            raise ValueError(f"{file} names no file")
        return cls(files)

    def write(self, folder: Path) -> None:
        """Note it beside the model.onnx of a folder."""
        (folder / NAME).write_text(json.dumps(self.files), encoding="utf-8")
