"""The room that fetched files take in the caches of hubs, those of other programs and pulls included.

CACHE/.locks/braid-lock          held while a pull looks whether it has room
CACHE/.locks/braid-PID.files     the contents that a pull which runs will have fetched at its end, with sizes
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.base.file_lock import locked
from pipelines.hub.base.environment import HubEnvironment
from pipelines.hub.base.errors import NoRoom
from pipelines.hub.base.names import MODELSCOPE, URL
from pipelines.hub.base.sizes import shown_gb
from pipelines.hub.room import notes_of_others
from pipelines.hub.transfer.part_file import PART, TABLE

START, END = "braid-", ".files"


@contextmanager
def room_in_caches(environment: HubEnvironment, name: str, sizes: Mapping[Path, int]) -> Iterator[None]:
    """Until the block ends, other pulls leave room for these contents, by their places in a cache.

    Raises NoRoom where all would take more than `max_cache_bytes` of the environment, and OSError.
    """
    if environment.max_cache_bytes is None or not sizes:
        yield
        return
    folder = environment.hub_cache / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / f"{START}{os.getpid()}{END}"
    with locked(folder / f"{START}lock"):
        whole = sum({**_running(folder), **_present(cache_roots(environment)), **sizes}.values())
        if whole > environment.max_cache_bytes:
            raise NoRoom(
                f"{name}: the caches of fetched files would take {shown_gb(whole)}, of the "
                f"{shown_gb(environment.max_cache_bytes)} that BRAID_PULL_CACHE_GB allows; "
                "`braid pull --clean NAME` removes a model"
            )
        note.write_text(json.dumps({str(path): size for path, size in sizes.items()}))
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def cache_roots(environment: HubEnvironment) -> Sequence[Path]:
    """The caches of all hubs: that of the Hugging Face libraries, and Braid's own."""
    return environment.hub_cache, environment.own_cache / URL, environment.own_cache / MODELSCOPE


def _present(roots: Sequence[Path]) -> dict[Path, int]:
    """The contents in the caches; one of which a part is there counts whole."""
    sizes = {}
    for path in (path for root in roots for path in root.glob("*/blobs/*")):
        if path.name.endswith(TABLE):
            continue
        with suppress(OSError):  # it is removed meanwhile
            sizes[path.with_name(path.name.removesuffix(PART))] = path.lstat().st_size
    return sizes


def _running(folder: Path) -> dict[Path, int]:
    """The contents that other processes fetch."""
    notes = (json.loads(note) for note in notes_of_others(folder, START, END))
    return {Path(path): size for note in notes for path, size in note.items()}
