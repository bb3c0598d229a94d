"""The files of a repository as a hub lists them, and which of their names may become files here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.hub.base.errors import Corrupt

MAX_PART_BYTES, MAX_PATH_BYTES, MAX_PARTS = 255, 1024, 16
MAX_FILE_BYTES = 1 << 42
"""A longer file is none of a model."""
MAX_FILES = 100_000
ETAG = re.compile(r"[0-9A-Za-z][\w.+-]{0,127}", re.ASCII)
"""What may be the name of a blob in the cache."""
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""Git ids and SHA-256 sums."""
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file: its path in the repository, and its size in bytes.

    `etag` is the name of its content: the SHA-256 of a large file, the git id of a small one; the hub's own
    word where it has neither (`is_hashed` is false then).
    """

    path: str
    num_bytes: int
    etag: str
    is_hashed: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """All files of a repository at one commit."""

    commit: str
    files: tuple[RemoteFile, ...]

    def size_of(self, paths: Iterable[str]) -> int:
        """Bytes of the files at these paths together."""
        wanted = set(paths)
        return sum(file.num_bytes for file in self.files if file.path in wanted)

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


def checked(commit: str, files: Iterable[RemoteFile]) -> Listing:
    """A listing whose names may become files here, each once.  Raises Corrupt."""
    if not COMMIT.fullmatch(commit):
        raise Corrupt(f"the hub names no commit: {commit[:60]!r}")
    by_path: dict[str, RemoteFile] = {}
    for file in files:
        check_file(file)
        by_path[file.path] = file
        if len(by_path) > MAX_FILES:
            raise Corrupt(f"the repository has more than {MAX_FILES} files")
    return Listing(commit, tuple(by_path[path] for path in sorted(by_path)))


def check_file(file: RemoteFile) -> None:
    """Raise Corrupt for a file that cannot be one of a model."""
    if not is_safe_path(file.path):
        raise Corrupt(f"the repository has a file with a name that is refused: {file.path[:120]!r}")
    if not 0 <= file.num_bytes <= MAX_FILE_BYTES:
        raise Corrupt(f"{file.path}: {file.num_bytes} bytes are no size of a file")
    form = HASH if file.is_hashed else ETAG
    if not form.fullmatch(file.etag) or ".." in file.etag:
        raise Corrupt(f"{file.path}: the hub names no content: {file.etag[:60]!r}")


def is_safe_path(path: str) -> bool:
    """Whether a path leads to a file below the folder that it is written into, on any system."""
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return False
    parts = path.split("/")
    return (
        0 < len(encoded) <= MAX_PATH_BYTES
        and len(parts) <= MAX_PARTS
        and path.isprintable()
        and not re.search(r'[\\:*?"<>|]', path)
        and all(_is_safe_part(part) for part in parts)
    )


def _is_safe_part(part: str) -> bool:
    return part not in ("", ".", "..") and len(part.encode()) <= MAX_PART_BYTES and part == part.strip()
