"""Weights that a served model reads where its files are mapped, and what becomes of it when these change.

A file that is replaced by another one is no change: what is mapped stays what it was.  One that is cut or
written in place changes under the model, and a page that it does not have any more ends a process with
SIGBUS.  So the compiled kernels bring a handler that gives zeros for such a page, and each step is checked:
what was computed while a file had another size or time than when it was opened is no result.
"""

from __future__ import annotations

import ctypes
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from ops.cpu.build import operators
from pipelines.base.errors import EngineError
from pipelines.inference.backends.cpu_kernels import kernel_library
from pipelines.repository.snapshot import WEIGHT_SUFFIXES

log = logging.getLogger("braid.host")

ADVICE = "reload the model repository when it is complete"
MAPS = Path("/proc/self/maps")
"""What this process has mapped, on Linux."""


class WeightsChanged(EngineError):
    """A file of weights was cut or written in place after its model was loaded."""


@dataclass(frozen=True)
class OpenFile:
    """A file by its descriptor, whatever its name stands for later, with the size and time that it had."""

    name: str
    descriptor: int
    size: int
    time_ns: int

    @classmethod
    def open(cls, path: Path) -> OpenFile:
        """Raises OSError."""
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        found = os.fstat(descriptor)
        return cls(path.name, descriptor, found.st_size, found.st_mtime_ns)

    @property
    def is_changed(self) -> bool:
        found = os.fstat(self.descriptor)
        return (found.st_size, found.st_mtime_ns) != (self.size, self.time_ns)


class MappedWeights:
    """The files in a model's folder that this process has mapped."""

    def __init__(self, folder: Path | None = None) -> None:
        self._files = [] if folder is None else [OpenFile.open(path) for path in mapped_files(folder)]

    def check(self) -> None:
        """Raise WeightsChanged where one of them is not what it was."""
        for file in self._files:
            if file.is_changed:
                raise WeightsChanged(f"{file.name} was cut or rewritten after its model was loaded; {ADVICE}")

    def close(self) -> None:
        files, self._files = self._files, []
        for file in files:
            os.close(file.descriptor)


def mapped_files(folder: Path) -> list[Path]:
    """The files with weights of a folder that this process has mapped; none where the system does not say."""
    try:
        lines = MAPS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    mapped = {line.split(maxsplit=5)[-1] for line in lines}
    files = (path for path in folder.rglob("*") if path.suffix.lower() in WEIGHT_SUFFIXES)
    return [path for path in files if os.path.realpath(path) in mapped]


def survive_cut_files() -> None:
    """From now on a read behind the end of a mapped file gives zeros, where there are compiled kernels."""
    for engine in operators():
        library = kernel_library(engine)
        if library is not None and _survives(library):
            return


def _survives(library: Path) -> bool:
    """Whether the handler of a library is in place."""
    try:
        error: int = ctypes.CDLL(str(library)).braid_survive_cut_files()
    except (OSError, AttributeError) as fault:  # as where OpenVINO is not loaded yet
        log.debug("%s cannot be loaded: %s", library, fault)
        return False
    return error == 0
