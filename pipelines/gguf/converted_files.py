"""The cache of converted GGUF files: each is converted once, and again when it has changed.

CACHE/gguf/NAME-1f0c…/        one folder for each file, by its path
└── 83ab…/                    its newest conversion, by size, time, some pages and the code that converts
    ├── source.txt            the file's path
    ├── model/                model.onnx, whose linear layers read the file itself, tokenizer.json …
    │   └── vision/           the vision model of the mmproj file beside the file, where there is one
    └── codes/                the same with weights of its own, made for engines that cannot
        ├── source.txt
        └── model/
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.base.cache_folder import appearing, default_cache, is_unfinished, remove_left
from pipelines.base.code_digest import code_digest
from pipelines.base.digests import digest
from pipelines.gguf.errors import GgufError
from pipelines.gguf.parts import present_parts
from pipelines.gguf.vision_inputs import VISION, VisionInputs
from pipelines.onnx_format.gguf_source import GgufSource, SourceFile

log = logging.getLogger(__name__)

MODEL, SOURCE, CODES = "model", "source.txt", "codes"
UNUSED_S = 7 * 86400.0
"""Seconds after which weights of a conversion are removed that no engine opened."""
MAX_LABEL = 48
"""Characters of a file's name in that of its folder: up to 192 bytes, of the 255 that file systems take."""
PAGES, PAGE_BYTES = 64, 4096
"""Pages by which a file differs from another one of the same size and time."""
CONVERTS = ("pipelines.gguf", "pipelines.onnx_format")
"""Modules that decide what a conversion is."""


def converted(source: Path, cache_folder: Path | None = None, projector: Path | None = None) -> Path:
    """The folder with the converted form of the file `source`; converts it when that is not there.  `source`
    may be the first part of a model in several; with the mmproj file `projector` the model reads images.

    Weights of linear layers stay in the file (`with_codes`).  Files that were removed or replaced lose their
    conversions.  Raises `GgufError`.
    """
    source = source.parent.resolve() / source.name  # a link keeps its name, by which other parts are found
    entries = (cache_folder or default_cache()) / "gguf"
    place = entries / f"{_label(source)}-{digest(os.fsencode(source), num_bytes=8)}"
    origin = _present(source)
    mmproj = _present(projector) if projector else None
    entry = place / _key(origin, mmproj)
    with _named_errors(source, entries):
        if not entry.is_dir():
            _make(origin, entry, not _is_text(source), mmproj)
            with suppress(OSError):  # another server may sweep, too
                _sweep(entries, place, entry)
    return entry / MODEL


def with_codes(model: Path) -> Path:
    """The model.onnx of the same file as `model` that has all weights in its own folder, or `model` where it
    is that; converts when it is not there.  Raises `GgufError`, OSError and ValueError.
    """
    origin = GgufSource.read(model.parent)
    if origin is None:
        return model
    conversion = model.parent.parent
    entry = conversion / CODES
    with _named_errors(Path(origin.files[0].path), conversion.parents[1]):
        if not entry.is_dir():
            remove_left(conversion.iterdir())
            _check_same(origin)
            _make(origin, entry, has_codes=True, vision_inputs=VisionInputs.read(model.parent / VISION))
    with suppress(OSError):  # read-only, or another user's
        os.utime(entry)
    return entry / MODEL / model.name


@contextmanager
def _named_errors(source: Path, entries: Path) -> Iterator[None]:
    """Raises `GgufError` for what keeps a file from being converted in the cache."""
    try:
        yield
    except OSError as error:
        raise GgufError(
            f"{source.name} cannot be converted in {entries}: {error}; BRAID_CACHE names another folder"
        ) from error


def _label(source: Path) -> str:
    """The beginning of a file's name in Unicode, short enough to be a part of another one."""
    return os.fsencode(source.stem).decode("utf-8", "replace")[:MAX_LABEL]


def _make(
    origin: GgufSource,
    entry: Path,
    has_codes: bool,
    mmproj: GgufSource | None = None,
    vision_inputs: VisionInputs | None = None,
) -> None:
    """Convert into an entry that appears whole or not at all; `mmproj` is the mmproj file of a model that
    reads images, or `vision_inputs` says how it does.
    """
    from pipelines.gguf.convert import IN_FILE, INT8_SUMS, convert  # loads onnx: 0.4 s, 40 MB

    source = origin.files[0].path
    projector = Path(mmproj.files[0].path) if mmproj else None
    also = f" with {projector.name}" if projector else ""
    log.info("converting %s%s%s", source, " with its weights" if has_codes else "", also)
    with appearing(entry) as scratch:
        convert(Path(source), scratch / MODEL, INT8_SUMS if has_codes else IN_FILE, projector, vision_inputs)
        (scratch / SOURCE).write_text(source, encoding="utf-8", errors="surrogateescape")
        for files in filter(None, (origin, mmproj)):
            _check_same(files)


def _present(source: Path) -> GgufSource:
    """The file, or the parts of its model that are there.  Raises `GgufError`."""
    try:
        return GgufSource.of(present_parts(source))
    except OSError as error:
        raise _unreadable(source, error) from error


def _check_same(origin: GgufSource) -> None:
    first = Path(origin.files[0].path)
    if _present(first) != origin:
        raise GgufError(f"{first.name} changed while it was read; reload when it is complete")


def _is_text(path: Path) -> bool:
    """Whether a path is of Unicode, as attributes of a graph are."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _sweep(entries: Path, place: Path, newest: Path) -> None:
    """Remove older conversions of this file, those of files that are gone, codes that no engine opens, and
    what killed processes left.

    A process that still has a removed conversion open keeps its mapped weights.
    """
    remove_left([*entries.glob("*/*"), *entries.glob("*/*/*")])
    for entry in entries.glob("*/*"):
        is_older = entry.parent == place and entry != newest
        if not is_unfinished(entry) and (is_older or _is_orphan(entry)):
            shutil.rmtree(entry, ignore_errors=True)
    for codes in entries.glob(f"*/*/{CODES}"):
        if codes.stat().st_mtime < time.time() - UNUSED_S:
            shutil.rmtree(codes, ignore_errors=True)
    for folder in entries.iterdir():
        if not any(folder.iterdir()):
            folder.rmdir()


def _is_orphan(entry: Path) -> bool:
    try:
        path = (entry / SOURCE).read_text(encoding="utf-8", errors="surrogateescape")
        return not Path(path).exists()
    except OSError:
        return False


def _key(origin: GgufSource, mmproj: GgufSource | None) -> str:
    all_files = (*origin.files, *(mmproj.files if mmproj else ()))
    files = " ".join(f"{file.num_bytes} {file.time_ns} {_sample(file)}" for file in all_files)
    return digest(f"{files} {code_digest(*CONVERTS)}", num_bytes=8)


def _sample(file: SourceFile) -> str:
    """The digest of a few pages, which differ in another model of the same size and time, as files of images
    have all one time.  Raises `GgufError`.
    """
    try:
        with open(file.path, "rb") as opened:
            places = (file.num_bytes * number // PAGES for number in range(PAGES))
            return digest(*(os.pread(opened.fileno(), PAGE_BYTES, place) for place in places))
    except OSError as error:
        raise _unreadable(Path(file.path), error) from error


def _unreadable(source: Path, error: OSError) -> GgufError:
    return GgufError(f"{source.name} cannot be read: {error}")
