"""The rules for a path in a graph file: relative, inside the model's folder, and of what exists."""

from __future__ import annotations

import difflib
import os
import posixpath
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PureWindowsPath

MAX_LISTED = 2000
"""Most files that are searched for a suggestion."""


def fault(path: str, folder: Path | None) -> str | None:
    """What is wrong with the path of a file, or None.  Without a folder only the text is checked."""
    fault = _fault(path, folder)
    return fault if fault or folder is None else _kind_fault(path, folder)


def folder_fault(path: str, folder: Path | None) -> str | None:
    """What is wrong with the path of a folder, as `fault` says it of a file."""
    fault = _fault(path, folder)
    if fault or folder is None or (folder / path).is_dir():
        return fault
    return f"there is no folder `{path}`; make it, it may be empty"


def _fault(path: str, folder: Path | None) -> str | None:
    fault = _text_fault(path)
    return fault if fault or folder is None else _link_fault(path, folder)


def _text_fault(path: str) -> str | None:
    if not path.strip() or not path.isprintable():
        return "a path must not be empty nor hold control characters"
    if path.startswith("/") or PureWindowsPath(path).drive:
        return f"`{path}` is absolute; a path is relative to the folder of the graph file"
    if posixpath.normpath(path).split("/")[0] == "..":
        return f"`{path}` leaves the model's folder; put the file inside it"
    return None


def _link_fault(path: str, folder: Path) -> str | None:
    home, target = os.path.realpath(folder), os.path.realpath(folder / path)
    if os.path.commonpath([home, target]) != home:
        return f"`{path}` leaves the model's folder by a symbolic link; put the file itself inside it"
    return None


def _kind_fault(path: str, folder: Path) -> str | None:
    target = os.path.realpath(folder / path)
    if os.path.isfile(target):
        return None
    if os.path.isdir(target):
        return f"`{path}` is a folder, not a file{_listing('it holds', list(_files(Path(target))))}"
    return f"there is no file `{path}`{_near(path, list(_files(folder)))}"


def _near(path: str, files: list[str]) -> str:
    same_name = [file for file in files if posixpath.basename(file) == posixpath.basename(path)]
    alike = same_name or difflib.get_close_matches(posixpath.normpath(path), files, 3)
    named = _listing("near it", alike) or _listing("the model's folder holds", files)
    return named or "; the model's folder is empty"


def _listing(what: str, files: list[str]) -> str:
    more = f" and {len(files) - 6} more" if len(files) > 6 else ""
    return f"; {what}: {', '.join(files[:6])}{more}" if files else ""


def _files(folder: Path) -> Iterator[str]:
    """Files below `folder`, sorted in each folder, at most MAX_LISTED; links to folders are not entered."""
    return islice(_walk(folder), MAX_LISTED)


def _walk(folder: Path) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield (Path(where) / name).relative_to(folder).as_posix()
