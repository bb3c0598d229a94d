"""The cache of converted GGUF files: each is converted once, and again when it has changed.

CACHE/gguf/NAME-1f0c…/        one folder for each file, by its path
└── 83ab…/                    its newest conversion, by size, time and the code that converts
    ├── source.txt            the file's path
    └── model/                model.onnx, tokenizer.json …
"""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from pathlib import Path

from pipelines.base.cache_folder import appearing, default_cache, is_left, is_unfinished
from pipelines.base.code_digest import code_digest
from pipelines.base.digests import digest
from pipelines.gguf.errors import GgufError
from pipelines.gguf.parts import present_parts

log = logging.getLogger(__name__)

MODEL, SOURCE = "model", "source.txt"
CONVERTS = ("pipelines.gguf", "pipelines.onnx_format")
"""Modules that decide what a conversion is."""


def converted(source: Path, cache_folder: Path | None = None) -> Path:
    """The folder with the converted form of the file `source`; converts it when that is not there.  `source`
    may be the first part of a model in several.

    Files that were removed or replaced lose their conversions.  Raises `GgufError`.
    """
    source = source.resolve()
    entries = (cache_folder or default_cache()) / "gguf"
    place = entries / f"{source.stem}-{digest(str(source), num_bytes=8)}"
    try:
        entry = place / _state(source)
        if not entry.is_dir():
            _make(source, entry)
            with suppress(OSError):  # another server may sweep, too
                _sweep(entries, place, entry)
    except OSError as error:
        raise GgufError(
            f"{source.name} cannot be converted in {entries}: {error}; BRAID_CACHE names another folder"
        ) from error
    return entry / MODEL


def _make(source: Path, entry: Path) -> None:
    """Convert into an entry that appears whole or not at all."""
    from pipelines.gguf.convert import convert  # loads onnx: 0.4 s, 40 MB

    log.info("converting %s", source)
    with appearing(entry) as scratch:
        convert(source, scratch / MODEL)
        (scratch / SOURCE).write_text(str(source), encoding="utf-8")
        if _state(source) != entry.name:
            raise GgufError(f"{source.name} changed while it was read; reload when it is complete")


def _sweep(entries: Path, place: Path, newest: Path) -> None:
    """Remove older conversions of this file, those of files that are gone, and what killed processes left.

    A process that still has a removed conversion open keeps its mapped weights.
    """
    for entry in entries.glob("*/*"):
        is_older = entry.parent == place and entry != newest
        if is_left(entry) if is_unfinished(entry) else is_older or _is_orphan(entry):
            shutil.rmtree(entry, ignore_errors=True)
    for folder in entries.iterdir():
        if not any(folder.iterdir()):
            folder.rmdir()


def _is_orphan(entry: Path) -> bool:
    try:
        return not Path((entry / SOURCE).read_text(encoding="utf-8")).exists()
    except OSError:
        return False


def _state(source: Path) -> str:
    stats = [part.stat() for part in present_parts(source)]
    files = " ".join(f"{stat.st_size} {stat.st_mtime_ns}" for stat in stats)
    return digest(f"{files} {code_digest(*CONVERTS)}", num_bytes=8)
