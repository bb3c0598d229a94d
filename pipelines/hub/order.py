"""What a server has a process fetch, and how it wishes the end of that."""

from __future__ import annotations

import msgspec

CANCEL = ".cancel"
"""Suffix of a file beside that of a pull's events; while it is there, the pull ends."""


class PullOrder(msgspec.Struct, frozen=True):
    """What is fetched, and where to; the fields are those of `WantedModel`, as texts."""

    name: str
    repository: str
    hub: str | None = None
    revision: str | None = None
    local: str | None = None
    device: str = "cpu"
    max_bytes: int | None = None
    cache: str | None = None
    max_cache_gb: float | None = None
