"""A private copy of a model folder's small files, taken when the model is loaded.

The engine host takes it and workers build from it: later changes of the folder change no served model.
Weights are not copied: only the engine host reads them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

WEIGHT_SUFFIXES = frozenset(
    {".bin", ".ckpt", ".data", ".gguf", ".h5", ".npy", ".npz", ".onnx", ".onnx_data", ".pt", ".pth"}
    | {".safetensors", ".xml"}
)
"""Files of models themselves; they are not copied, however small."""
MAX_FILE_BYTES = 64 << 20
"""A longer file is not copied."""
MAX_FILES, MAX_TOTAL_BYTES = 2000, 512 << 20
"""A folder with more files to copy is refused."""


class SnapshotError(ValueError):
    """A folder cannot be copied; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The copy of a model folder's small files in `path`; `fingerprint` is the digest of all of them."""

    path: Path
    fingerprint: str

    def remove(self) -> None:
        """Delete the copy.  Never raises."""
        shutil.rmtree(self.path, ignore_errors=True)


def take_snapshot(folder: Path, path: Path, files: Iterable[Path] | None = None) -> Snapshot:
    """Copy the small files of `folder` to `path`, a new folder.  Raises SnapshotError and OSError.

    `files` are those that belong to the model; None: all in the folder.
    """
    path.mkdir(parents=True)
    try:
        _copy(folder, path, folder.rglob("*") if files is None else files)
        return Snapshot(path, digest(path))
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def digest(path: Path) -> str:
    """The digest of the names and contents of all files in `path`."""
    found = hashlib.blake2b(digest_size=16)
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        content = file.read_bytes()
        found.update(b"\0%b\0%d\0" % (os.fsencode(file.relative_to(path)), len(content)))
        found.update(content)
    return found.hexdigest()


def why_left_out(file: Path) -> str | None:
    """Why a file is not copied; None for one that is."""
    if file.suffix.lower() in WEIGHT_SUFFIXES:
        return f"files that end in {file.suffix} are weights"
    if file.stat().st_size > MAX_FILE_BYTES:
        return f"it is longer than {MAX_FILE_BYTES >> 20} MB"
    return None


def _copy(folder: Path, path: Path, files: Iterable[Path]) -> None:
    num_files = num_bytes = 0
    for file in _small_files(folder, files):
        num_files, num_bytes = num_files + 1, num_bytes + file.stat().st_size
        if num_files > MAX_FILES or num_bytes > MAX_TOTAL_BYTES:
            raise SnapshotError(
                f"{folder} holds more than {MAX_FILES} files or {MAX_TOTAL_BYTES >> 20} MB besides its "
                "weights; move files that the model does not need to another folder"
            )
        copy = path / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def _small_files(folder: Path, files: Iterable[Path]) -> Iterator[Path]:
    """Hidden files and folders are left out: they are of tools such as git."""
    for file in sorted(set(files)):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if not hidden and file.is_file() and why_left_out(file) is None:
            yield file
