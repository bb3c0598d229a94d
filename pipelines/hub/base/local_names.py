"""Names of fetched models in a repository of this machine."""

from __future__ import annotations

import re

from pipelines.hub.base.errors import HubError
from pipelines.hub.base.remote_files import is_safe_path

MAX_NAME_PARTS, MAX_PART_BYTES = 3, 200
"""The most parts of a name here, and the most bytes of a part: an unfinished folder has a longer name."""
_NAME = re.compile(r"[\w.+:@-]+")


def check_local_name(name: str) -> None:
    """Raise HubError for what is no name of a model in a repository."""
    parts = name.split("/")
    is_good = all(_NAME.fullmatch(part) and not part.startswith((".", "_")) for part in parts)
    is_good = is_good and all(len(part.encode()) <= MAX_PART_BYTES for part in parts)
    if not is_good or len(parts) > MAX_NAME_PARTS or not is_safe_path(name.replace(":", "-")):
        raise HubError(
            f"{name!r} is no name of a model here: expected letters, digits and any of . _ - + : in at most "
            f"{MAX_NAME_PARTS} parts with / between them"
        )
