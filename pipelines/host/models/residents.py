"""What the residency policy knows of each model: what its folder asks for, where it is, who waits for it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

Phase = Literal["unloaded", "loading", "ready", "leaving", "failed"]

GB = 1 << 30


@dataclass(frozen=True)
class MemoryLimits:
    """What a server allows.  `idle_s` None: no model leaves for having no calls.

    `on_request`: models are loaded by their first request, but for those that are pinned.
    """

    max_bytes: int | None = None
    idle_s: float | None = None
    load_timeout_s: float = 60.0
    on_request: bool = False

    @classmethod
    def of(
        cls, max_loaded_gb: float | None, idle_unload_s: float, load_timeout_s: float, on_request: bool
    ) -> MemoryLimits:
        """From settings, in which 0 seconds are no limit."""
        max_bytes = None if max_loaded_gb is None else int(max_loaded_gb * GB)
        return cls(max_bytes, idle_unload_s or None, load_timeout_s, on_request)


@dataclass(frozen=True)
class Terms:
    """What a folder asks for.  `num_bytes` is an estimate until the model was loaded.

    `keep_alive_s`: seconds without calls after which it may leave, infinity for never; None: the server's.
    Models of one `group` are loaded and leave together, and no two groups are loaded at once.  `task` is what
    clients can request of the model.
    """

    num_bytes: int = 0
    pinned: bool = False
    keep_alive_s: float | None = None
    group: str | None = None
    task: str = ""


@dataclass(eq=False)
class Resident:
    """One model of the repository.

    `num_bytes` is what its current instance takes, `arriving` what one that is being loaded will take.
    `wanted`: load it as soon as it fits, without a request.  `is_changed`: its folder was, since it was
    loaded.  `by_hand`: unloaded by a client, so no request loads it.
    """

    name: str
    terms: Terms
    phase: Phase = "unloaded"
    num_bytes: int = 0
    arriving: int = 0
    loaded_at_s: float = 0.0
    retry_at_s: float = 0.0
    keep_alive_s: float | None = None
    problem: str = ""
    wanted: bool = False
    is_changed: bool = False
    is_loading: bool = False
    by_hand: bool = False

    @property
    def in_memory(self) -> bool:
        return self.phase in ("loading", "ready", "leaving")


class Residents(dict[str, Resident]):
    """The models of the repository by name, and which of them are loaded and leave together."""

    def unit(self, one: Resident) -> list[Resident]:
        """The model and what is loaded and leaves with it."""
        if one.terms.group is None:
            return [one]
        return [each for each in self.values() if each.terms.group == one.terms.group]

    def loaded_unit(self, one: Resident) -> list[Resident]:
        """What of it serves."""
        return [each for each in self.unit(one) if each.phase == "ready"]

    def missing_unit(self, one: Resident) -> Sequence[Resident]:
        """The model and what is loaded with it now."""
        others = [
            each
            for each in self.unit(one)
            if each is not one and each.phase == "unloaded" and not each.by_hand
        ]
        return [one, *others]

    def size(self, one: Resident) -> int:
        """Bytes that a model takes with what is loaded with it."""
        return sum(each.terms.num_bytes for each in self.missing_unit(one))

    def in_the_way(self, one: Resident) -> list[Resident]:
        """Models of other groups that are in memory."""
        own = one.terms.group
        return [
            each
            for each in self.values()
            if own is not None and each.in_memory and each.terms.group not in (None, own)
        ]


@dataclass(eq=False)
class Wish:
    """A request that wants a model.  Once granted it holds the model until it is withdrawn.

    `by_hand`: a client has the model loaded.
    """

    key: Hashable
    name: str
    asked_at_s: float
    by_hand: bool = False
    granted: bool = False
