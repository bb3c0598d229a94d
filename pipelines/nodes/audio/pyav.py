"""The library that reads, writes and resamples sound, which is an extra."""

from __future__ import annotations

from typing import Any

from pipelines.base.errors import RequestError


def import_av(problem: str, instead: str = "Install", field: str | None = None) -> Any:
    """The module.  Raises RequestError where it is missing: what cannot be done then, and what to do."""
    try:
        import av
    except ImportError:
        raise RequestError(
            f"This server {problem}: PyAV is not installed.  {instead} it with "
            "pip install 'braid-server[audio]' and restart the server.",
            field,
        ) from None
    return av
