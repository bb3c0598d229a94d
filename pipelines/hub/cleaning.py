"""Removes what downloads left behind, and models that are wanted no more, from caches and folders."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.hub.base.cache import RepoCache
from pipelines.hub.base.environment import HubEnvironment
from pipelines.hub.base.names import HubName
from pipelines.hub.cache_room import cache_roots
from pipelines.hub.model_folder import folder_bytes, noted_folders, read_note, remove_left
from pipelines.hub.transfer.part_file import PART, TABLE

ENDS = (PART, TABLE, ".incomplete")
"""Names of parts end so: Braid's, and those that the Hugging Face libraries never use again."""
OLD_S = 24 * 3600.0
"""Seconds without a byte after which a part is left behind."""


def remove_parts(environment: HubEnvironment, repositories: Iterable[Path]) -> int:
    """Remove the parts of files that no process fetches, and unfinished folders; returns the bytes of parts.

    Raises OSError.
    """
    num_bytes = 0
    for root in cache_roots(environment):
        for part in root.glob("models--*/blobs/*"):
            if part.name.endswith(ENDS) and part.lstat().st_mtime < time.time() - OLD_S:
                num_bytes += _remove_part(root, part)
    for repository in repositories:
        for folder in {repository, *(model.parent for model in noted_folders(repository))}:
            remove_left(folder)
    return num_bytes


def remove_model(name: HubName, environment: HubEnvironment, repositories: Iterable[Path]) -> int:
    """Remove a model from the cache and from the folders that it was fetched into; returns its bytes in the
    cache, with all quantisations that were fetched.

    Raises OSError.
    """
    for repository in repositories:
        for folder in noted_folders(repository):
            note = read_note(folder) or {}
            if (note.get("name"), note.get("hub")) == (str(name), name.hub):
                shutil.rmtree(folder)
    folder = RepoCache.of(name, environment).folder
    num_bytes = folder_bytes(folder / "blobs")
    shutil.rmtree(folder, ignore_errors=not folder.exists())
    return num_bytes


def _remove_part(root: Path, part: Path) -> int:
    """Remove a part, unless a process fetches the file now; returns the bytes that it had on the disk."""
    etag = part.name.partition(".")[0]
    with _lock_of(root / ".locks" / part.parents[1].name / f"{etag}.lock") as is_free:
        if not is_free:
            return 0
        num_bytes = part.lstat().st_blocks * 512
        part.unlink()
    return num_bytes


@contextmanager
def _lock_of(path: Path) -> Iterator[bool]:
    """The lock of a content, if no process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)
