"""Where the user's own files that can be made again are stored."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache() -> Path:
    """The user's folder for files that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "braid"
