"""Several versions of one model: their names, and which of them are served.

The newest has the model's own name; another one that is served too is the model NAME/versions/N.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_OTHER = re.compile(r"(.+)/versions/(\d+)")


def other_version(name: str, version: int) -> str:
    """The name of a version that is served beside the newest one."""
    return f"{name}/versions/{version}"


def model_of(name: str) -> str:
    """The model that a name belongs to: its own, or without the part that names another version."""
    found = _OTHER.fullmatch(name)
    return found[1] if found else name


def is_other_version(name: str) -> bool:
    """Whether a name is that of a version beside the newest one."""
    return model_of(name) != name


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Which versions are served: the `latest` newest ones or all (None), or those that `specific` names."""

    latest: int | None = 1
    specific: tuple[int, ...] | None = None

    def choose(self, versions: Collection[int]) -> list[int]:
        """Chooses the versions that are served, the newest first."""
        if self.specific is not None:
            return sorted(set(versions) & set(self.specific), reverse=True)
        return sorted(versions, reverse=True)[: self.latest]
