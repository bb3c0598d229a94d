"""Whether the content of a file is what its hub says: SHA-256 of large files, git's id of small ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

READ_BYTES = 4 << 20
GIT_ID_DIGITS = 40


def content_id(file: Path, etag: str, note: Callable[[int], None] = lambda _: None) -> str:
    """The id of a file's content, of the kind that `etag` is; `note` gets the bytes that were read so far.

    Raises OSError.
    """
    digest = hashlib.sha256()
    if len(etag) == GIT_ID_DIGITS:
        digest = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    num_bytes = 0
    with file.open("rb") as opened:
        while piece := opened.read(READ_BYTES):
            digest.update(piece)
            num_bytes += len(piece)
            note(num_bytes)
    return digest.hexdigest()
