"""A fetched model as a folder of a repository: its files, and a note of where they come from.

ORG/NAME:TAG/
├── .braid-hub.json            the name, the commit and the files
├── config.json                a copy: people edit small files
└── openvino_model.bin         a hard link to the blob in the cache, which takes no room

A graph names no file outside of its folder: symbolic links are for GGUF files alone, on another file system.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from pipelines.hub.base.errors import HubError
from pipelines.hub.base.local_names import MAX_NAME_PARTS
from pipelines.repository.model_folders import find_model, versions

NOTE = ".braid-hub.json"
NEW = ".pulling-"
"""How the name of a folder begins that is not complete yet; no server looks at it."""
DATA = re.compile(r"\.onnx[._]data(_\d+)?$")
"""Weights beside an ONNX file: the libraries that read them refuse links of each kind, so they are copied."""
SMALL_BYTES = 16 << 20
GGUF = ".gguf"
LEFT_S = 6 * 3600.0
"""Seconds after which an unfinished folder of a process that is gone is removed."""


def read_note(folder: Path) -> dict[str, Any] | None:
    """What the note in a folder says; None in one that was not fetched."""
    try:
        content = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def check_place(folder: Path) -> None:
    """Raise HubError where something else than a fetched model has the place of one."""
    if folder.is_symlink() or (folder.exists() and read_note(folder) is None):
        raise HubError(f"{folder} is there already and was not fetched; --as gives the model another name")
    above = next((parent for parent in folder.parents if parent.exists()), folder)
    if not above.is_dir():
        raise HubError(f"{above} is no folder")


def check_above(folder: Path, repository: Path) -> None:
    """Raise HubError where a folder above is a model itself: what is put there would be a version of it."""
    above = [parent for parent in folder.parents if repository in parent.parents and parent.is_dir()]
    for parent in above:
        if read_note(parent) is not None or find_model(parent) or versions(parent):
            raise HubError(f"{parent} is the folder of a model; --as gives the model another name")


def is_current(folder: Path, note: Mapping[str, Any]) -> bool:
    """Whether a folder holds the same files of the same commit, all of them there."""
    found = read_note(folder)
    if found is None or any(found.get(key) != note[key] for key in note if key != "revision"):
        return False
    return all((folder / path).exists() for path in note["files"])


def write_folder(folder: Path, snapshot: Path, links: Mapping[str, str], note: Mapping[str, Any]) -> None:
    """Have the folder hold these files of a snapshot, and nothing else.  It appears whole.

    Raises OSError, and HubError where something else is there.
    """
    check_place(folder)
    new = new_folder(folder)
    try:
        fill(new, snapshot, links)
        put_in_place(new, folder, note)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def fill(folder: Path, snapshot: Path, links: Mapping[str, str]) -> None:
    """Copy or link files of a snapshot into an empty folder.  Raises OSError."""
    for path, origin in links.items():
        _place(folder / path, snapshot / origin)


def new_folder(folder: Path) -> Path:
    """An empty folder beside the place of a model, which a scan passes by.  Raises OSError."""
    remove_left(folder.parent)
    new = folder.with_name(f"{NEW}{os.getpid()}-{folder.name}")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    return new


def remove_left(parent: Path) -> None:
    """Remove what processes that were killed left behind in a folder, hours ago."""
    for path in parent.glob(f"{NEW}*"):
        owner = path.name.removeprefix(NEW).partition("-")[0]
        with suppress(FileNotFoundError):  # its own process may remove it now
            is_old = path.lstat().st_mtime < time.time() - LEFT_S
            if is_old and owner.isdecimal() and not psutil.pid_exists(int(owner)):
                shutil.rmtree(path, ignore_errors=True)


def put_in_place(new: Path, folder: Path, note: Mapping[str, Any]) -> None:
    """Give a complete folder its name, in the place of an older one.  Raises OSError, HubError."""
    (new / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
    check_place(folder)
    old = folder.with_name(f"{NEW}{os.getpid()}-old-{folder.name}")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def noted_folders(repository: Path) -> list[Path]:
    """The folders of all models of a repository that were fetched."""
    patterns = ("/".join(["*"] * depth + [NOTE]) for depth in range(1, MAX_NAME_PARTS + 1))
    return [file.parent for pattern in patterns for file in repository.glob(pattern)]


def folder_bytes(folder: Path) -> int:
    """Bytes of all files of a folder, where they are links of what these lead to."""
    sizes = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # it is removed meanwhile
            sizes += path.stat().st_size * path.is_file()
    return sizes


def copied_bytes(links: Mapping[str, str], sizes: Mapping[str, int], cache: Path, repository: Path) -> int:
    """Bytes of the files that are copied, between these folders."""
    is_near = _device(cache) == _device(repository)
    return sum(sizes[origin] for origin in links.values() if _is_copied(origin, sizes[origin], is_near))


def _device(folder: Path) -> int:
    """The file system of a folder that may not be there yet."""
    place = folder.absolute()
    return next(above for above in (place, *place.parents) if above.exists()).stat().st_dev


def _is_copied(path: str, num_bytes: int, is_near: bool) -> bool:
    if num_bytes <= SMALL_BYTES or DATA.search(path):
        return True
    return not is_near and not path.lower().endswith(GGUF)


def _place(place: Path, origin: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    blob = origin.resolve()
    if not _is_copied(origin.name, blob.stat().st_size, is_near=True):
        try:
            os.link(blob, place)
            return
        except OSError:  # another file system, or one without hard links
            if origin.name.lower().endswith(GGUF):
                place.symlink_to(origin.absolute())
                return
    shutil.copyfile(blob, place)
