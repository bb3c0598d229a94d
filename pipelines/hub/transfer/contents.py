"""Whether the content of a file is what its hub says: SHA-256 of large files, git's id of small ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

GIT_ID_DIGITS = 40


def content_id(file: Path, etag: str) -> str:
    """The id of a file's content, of the kind that `etag` is.  Raises OSError."""
    digest = hashlib.sha256()
    if len(etag) == GIT_ID_DIGITS:
        digest = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: digest).hexdigest()
