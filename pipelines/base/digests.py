"""Digests as hexadecimal text: names of entries in caches, tags of what is sent."""

from __future__ import annotations

import hashlib


def digest(*contents: str | bytes, num_bytes: int = 16) -> str:
    """The BLAKE2b digest of all contents, one after the other, in 2 * `num_bytes` digits.

    Texts count in UTF-8; a lone surrogate counts as a question mark.
    """
    found = hashlib.blake2b(digest_size=num_bytes)
    for content in contents:
        found.update(content.encode(errors="replace") if isinstance(content, str) else content)
    return found.hexdigest()
