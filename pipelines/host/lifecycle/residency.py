"""Decides which models are in memory: what is loaded next, which one leaves for it, and which request waits.

Does no I/O and holds no model: it is informed of what happened, and `plan` says what to do.  Requests are
served in the order in which they came, so that no model and no group waits without end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pipelines.host.lifecycle.eviction import Eviction
from pipelines.host.lifecycle.model_clients import TURN_S, ModelClients
from pipelines.host.lifecycle.model_memory import ModelMemory
from pipelines.host.lifecycle.residency_decisions import Decision
from pipelines.host.models.residents import MemoryLimits


class Residency:
    """What is loaded, in which order, of the models in `memory` for the clients in `clients`."""

    def __init__(
        self,
        limits: MemoryLimits,
        has_calls: Callable[[str], bool],
        used_at_s: Callable[[str], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`has_calls`: whether calls run in a model; `used_at_s`: when its last one began or ended."""
        self._clock = clock
        self._decisions: list[Decision] = []
        self.memory = ModelMemory(limits, clock, self._decide)
        self.clients = ModelClients(self.memory, has_calls, clock, self._decide)
        self._eviction = Eviction(self.memory, has_calls, used_at_s, self.clients.holds)

    @property
    def has_timers(self) -> bool:
        """Whether time alone may change what `plan` says."""
        return self._eviction.has_timers

    def plan(self) -> list[Decision]:
        """What is to be done now, in order; the caller does all of it."""
        now_s = self._clock()
        self.clients.unload_by_hand()
        self.clients.answer(now_s)
        self._eviction.unload_idle(now_s)
        self._serve_clients(now_s)
        self._load_wanted()
        self._reload_changed()
        self._eviction.shrink()
        self.clients.answer(now_s)
        decisions = self._decisions.copy()
        self._decisions.clear()
        return decisions

    def _decide(self, decision: Decision) -> None:
        self._decisions.append(decision)

    def _serve_clients(self, now_s: float) -> None:
        """Load what is waited for, in the order of the wishes; a model that must wait holds up those behind
        it, or it might wait without end.
        """
        for wish in self.clients.waiting:
            model = self.memory.residents[wish.name]
            if model.is_loading or model.phase == "ready":
                continue
            if model.phase == "leaving":
                if model.is_changed:
                    return  # it is loaded again when it is closed
                self.memory.restore(model)
                self.clients.answer(now_s)
            elif not self.memory.load_unit(model):
                self._eviction.make_room(model, now_s - wish.asked_at_s >= TURN_S)
                return

    def _load_wanted(self) -> None:
        """Load what is new, the pinned first; what does not fit is loaded by its first request."""
        wanted = [model for model in self.memory.residents.values() if model.wanted and not model.in_memory]
        for model in sorted(wanted, key=lambda model: not model.terms.pinned):
            if model.phase == "unloaded" and not self.memory.load_unit(model) and not self.memory.is_closing:
                model.wanted = False

    def _reload_changed(self) -> None:
        """Load a changed folder beside its instance; where that does not fit, the instance leaves first."""
        for model in self.memory.residents.values():
            if not model.is_changed or model.phase != "ready" or model.is_loading or model.by_hand:
                continue
            if self.memory.load_beside(model) or self.memory.is_closing or self.clients.holds(model):
                continue
            model.wanted = True
            self.memory.retire(model, "changed")
