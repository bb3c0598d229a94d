"""Decides which models leave memory: those without calls for long, and those that others need the room of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from pipelines.host.lifecycle.model_memory import ModelMemory
from pipelines.host.models.residents import Resident

Unit = list[Resident]
"""A model alone, or the loaded models of a group: they leave together."""


class Eviction:
    """Chooses models that leave, the least recently used first; a pinned one never does."""

    def __init__(
        self,
        memory: ModelMemory,
        has_calls: Callable[[str], bool],
        used_at_s: Callable[[str], float],
        is_held: Callable[[Resident], bool],
    ) -> None:
        """`has_calls`: whether calls run in a model; `used_at_s`: when its last one began or ended;
        `is_held`: whether a request has the model, and has not begun its calls.
        """
        self._memory = memory
        self._residents = memory.residents
        self._has_calls = has_calls
        self._used_at_s = used_at_s
        self._is_held = is_held

    @property
    def has_timers(self) -> bool:
        """Whether time alone may have a model leave."""
        return any(self._keep_s(model) < math.inf for model in self._residents.values())

    def unload_idle(self, now_s: float) -> None:
        """Have models leave that had no calls for their whole time."""
        for model in list(self._residents.values()):
            unit = self._residents.loaded_unit(model)
            if model.phase == "ready" and all(self._is_idle(member, now_s) for member in unit):
                for member in unit:
                    self._memory.retire(member, "idle")

    def make_room(self, wanted: Resident, end_calls: bool) -> None:
        """Have the least recently used models leave that are in the way of `wanted`, if that is enough.

        With `end_calls` also those that have calls, the longest loaded first.
        """
        for rival in self._residents.in_the_way(wanted):
            unit = self._residents.loaded_unit(rival)
            if rival.phase == "ready" and self._may_all_leave(unit, end_calls):
                self._retire(unit)
        free, needed = self._memory.room, self._residents.size(wanted)
        leaving: Unit = []
        for unit in self._candidates(wanted, end_calls):
            if free >= needed:
                break
            leaving += unit
            free += sum(model.num_bytes for model in unit)
        if free >= needed:
            self._retire(leaving)

    def shrink(self) -> None:
        """Have models leave for those that turned out larger than they seemed, or else these themselves."""
        while self._memory.room < 0:
            ready = [model for model in self._residents.values() if model.phase == "ready"]
            if not ready:
                return
            newest = max(ready, key=lambda model: model.loaded_at_s)
            candidates = self._candidates(newest, end_calls=False)
            self._retire(next(candidates, self._residents.loaded_unit(newest)))

    def _candidates(self, wanted: Resident, end_calls: bool) -> Iterator[Unit]:
        """Models and groups that may leave for `wanted`, in the order in which they do."""
        own = self._residents.unit(wanted)
        others = [model for model in self._residents.values() if model.phase == "ready" and model not in own]
        units = {id(unit[0]): unit for unit in map(self._residents.loaded_unit, others)}
        idle = [unit for unit in units.values() if self._may_all_leave(unit)]
        yield from sorted(idle, key=lambda unit: max(map(self._last_use_s, unit)))
        if end_calls:
            others_may = [unit for unit in units.values() if self._may_all_leave(unit, end_calls)]
            busy = [unit for unit in others_may if unit not in idle]
            yield from sorted(busy, key=lambda unit: max(model.loaded_at_s for model in unit))

    def _retire(self, unit: Unit) -> None:
        for model in unit:
            self._memory.retire(model, "room")

    def _may_all_leave(self, unit: Unit, end_calls: bool = False) -> bool:
        return all(self._may_leave(model, end_calls) for model in unit)

    def _may_leave(self, model: Resident, end_calls: bool = False) -> bool:
        """Whether a model may leave; with `end_calls` also one that has calls, when those have ended."""
        if model.terms.pinned or model.is_loading or self._is_held(model):
            return False
        return end_calls or not self._has_calls(model.name)

    def _is_idle(self, model: Resident, now_s: float) -> bool:
        return self._may_leave(model) and now_s - self._last_use_s(model) >= self._keep_s(model)

    def _last_use_s(self, model: Resident) -> float:
        return max(model.loaded_at_s, self._used_at_s(model.name))

    def _keep_s(self, model: Resident) -> float:
        """Seconds without calls after which a model may leave."""
        for seconds in (model.keep_alive_s, model.terms.keep_alive_s, self._memory.limits.idle_s):
            if seconds is not None:
                return seconds
        return math.inf
