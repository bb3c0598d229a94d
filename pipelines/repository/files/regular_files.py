"""Entries of model folders may be anything: a FIFO is never read, which would block."""

from __future__ import annotations

from pathlib import Path


def is_regular(path: Path) -> bool:
    """Whether a path is that of a file; False for one that the system does not let us look at."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_regular(path: Path) -> str:
    """The text of a file in UTF-8.  Raises OSError for what is no file, UnicodeDecodeError."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path.name} is {'a folder' if path.is_dir() else 'no regular file'}")
    return path.read_text(encoding="utf-8")
