"""Where each model of a repository is, and what memory all of them take: what happened, what was decided."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pipelines.host.lifecycle.residency_decisions import (
    Decision,
    FailModel,
    LoadModel,
    Reason,
    RestoreModel,
    RetireModel,
)
from pipelines.host.models.residents import GB, MemoryLimits, Resident, Residents, Terms

RETRY_S = 30.0
"""A load that failed is not tried again before."""


class ModelMemory:
    """The models of a repository, and the bytes that they take.

    `residents`: the models by name.  Invariant: what is in memory, arriving or closing never exceeds
    `limits.max_bytes`, as far as sizes were known before a load.
    """

    def __init__(
        self, limits: MemoryLimits, clock: Callable[[], float], decide: Callable[[Decision], None]
    ) -> None:
        """`decide` takes what the host is to do."""
        self.limits = limits
        self.residents = Residents()
        self._clock = clock
        self._decide = decide
        self._closing = 0  # bytes of instances that are to be closed

    # What happened

    def found(self, name: str, terms: Terms) -> None:
        """A folder is new, was changed, or is to be tried again.

        A load of it that was decided on before has not begun, and is decided on anew.
        """
        at_start = terms.pinned or not self.limits.on_request
        model = self.residents.setdefault(name, Resident(name, terms, wanted=at_start))
        model.terms = terms
        if model.phase in ("failed", "loading"):
            model.phase, model.wanted, model.retry_at_s = "unloaded", at_start and not model.by_hand, 0.0
        model.is_loading, model.arriving = False, 0
        model.is_changed = model.phase == "ready"

    def gone(self, name: str) -> None:
        """The folder is no longer in the repository."""
        model = self.residents.pop(name, None)
        if model is not None and model.phase == "ready":
            self._closing += model.num_bytes

    def loaded(self, name: str, num_bytes: int) -> None:
        """The model serves; an instance that served before is to be closed."""
        model = self.residents[name]
        if model.phase == "ready":
            self._closing += model.num_bytes
        model.terms = replace(model.terms, num_bytes=num_bytes)
        model.phase, model.num_bytes, model.arriving = "ready", num_bytes, 0
        model.loaded_at_s = self._clock()
        model.is_loading = model.is_changed = model.wanted = False

    def failed(self, name: str, problem: str) -> None:
        """A load failed; an instance that serves serves on."""
        model = self.residents.get(name)
        if model is None:
            return
        model.arriving, model.is_loading, model.is_changed = 0, False, False
        if model.phase == "loading":
            self._set_failed(model, problem)

    def closed(self, name: str, num_bytes: int, was_last: bool) -> None:
        """An instance is closed, the last one of its name or not."""
        self._closing -= num_bytes
        model = self.residents.get(name)
        if was_last and model is not None and model.phase == "leaving":
            model.phase, model.num_bytes, model.is_changed = "unloaded", 0, False

    def keep_alive(self, name: str, seconds: float) -> None:
        """From now on the model may leave after this time without calls."""
        if name in self.residents:
            self.residents[name].keep_alive_s = seconds

    # What is so

    @property
    def is_loading(self) -> bool:
        """Whether anything is being loaded, or is to be."""
        return any(model.is_loading or model.wanted or model.is_changed for model in self.residents.values())

    @property
    def is_closing(self) -> bool:
        """Whether memory is freed soon."""
        return self._closing != 0

    def is_in_memory(self, name: str) -> bool:
        """Whether a model is loaded, on its way into memory or out of it."""
        return name in self.residents and self.residents[name].in_memory

    def has_failed(self, name: str) -> bool:
        return name in self.residents and self.residents[name].phase == "failed"

    def is_by_hand(self, name: str) -> bool:
        """Whether a client unloaded the model."""
        return name in self.residents and self.residents[name].by_hand

    @property
    def room(self) -> float:
        """Bytes that are free once all that closes is closed; infinity without a bound."""
        return self._bound - (self._taken - self._closing)

    @property
    def _bound(self) -> float:
        return math.inf if self.limits.max_bytes is None else self.limits.max_bytes

    @property
    def _taken(self) -> int:
        """Bytes that are in memory, on their way into it or out of it."""
        there = sum(model.num_bytes for model in self.residents.values() if model.phase == "ready")
        return there + sum(model.arriving for model in self.residents.values()) + self._closing

    # What is to be done

    def load_unit(self, model: Resident) -> bool:
        """Load a model with its group, if it fits now; one that never fits fails."""
        size = self.residents.size(model)
        if size > self._bound:
            problem = f"it needs {size / GB:.2f} GB, and max_loaded_gb allows {self._bound / GB:.2f}"
            self._set_failed(model, problem)
            self._decide(FailModel(model.name, problem))
            return True
        if self.residents.in_the_way(model) or self._taken + size > self._bound:
            return False
        for member in self.residents.missing_unit(model):
            member.phase, member.is_loading, member.arriving = "loading", True, member.terms.num_bytes
            self._decide(LoadModel(member.name, not member.wanted or member.loaded_at_s > 0))
        return True

    def load_beside(self, model: Resident) -> bool:
        """Load a changed folder beside its instance, if both fit now."""
        if self._taken + model.terms.num_bytes > self._bound:
            return False
        model.is_loading, model.arriving = True, model.terms.num_bytes
        self._decide(LoadModel(model.name))
        return True

    def retire(self, model: Resident, reason: Reason) -> None:
        """The model takes no new calls, and is closed after its last one."""
        model.phase = "leaving"
        self._closing += model.num_bytes
        self._decide(RetireModel(model.name, reason))

    def restore(self, model: Resident) -> None:
        """A model that was to leave takes calls again."""
        model.phase = "ready"
        self._closing -= model.num_bytes
        self._decide(RestoreModel(model.name))

    def _set_failed(self, model: Resident, problem: str) -> None:
        model.phase, model.problem, model.wanted = "failed", problem, False
        model.retry_at_s = self._clock() + RETRY_S
