"""Decides which models are in memory: what is loaded next, which one leaves for it, and which request waits.

Does no I/O and holds no model: it is informed of what happened, and `plan` says what to do.  Requests are
served in the order in which they came, so that no model and no group waits without end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

from pipelines.base.errors import BraidError, ModelNotFound, Unavailable, unloaded_by_hand
from pipelines.host.lifecycle.residency_decisions import (
    AnswerClient,
    Decision,
    FailModel,
    LoadModel,
    Reason,
    RestoreModel,
    RetireModel,
)
from pipelines.host.models.residents import GB, MemoryLimits, Resident, Residents, Terms, Wish

RETRY_S = 30.0
"""A load that failed is not tried again before."""
TURN_S = 5.0
"""A request waits this long for models to be without calls; then one that has calls is to end them."""


class Residency:
    """The models of a repository, and the requests that wait for them.

    `_closing` counts the bytes of instances that are to be closed.  Invariant: what is in memory, arriving or
    closing never exceeds `limits.max_bytes`, as far as sizes were known before a load.
    """

    def __init__(
        self,
        limits: MemoryLimits,
        busy: Callable[[str], bool],
        used_at_s: Callable[[str], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`busy`: whether calls run in a model; `used_at_s`: when its last one began or ended."""
        self.limits = limits
        self._busy_calls = busy
        self._used_at_s = used_at_s
        self._clock = clock
        self._residents = Residents()
        self._wishes: dict[Hashable, Wish] = {}
        self._unloads: dict[Hashable, str] = {}
        self._closing = 0
        self._decisions: list[Decision] = []

    # What happened

    def found(self, name: str, terms: Terms) -> None:
        """A folder is new, was changed, or is to be tried again.

        A load of it that was decided on before has not begun, and is decided on anew.
        """
        at_start = terms.pinned or not self.limits.on_request
        one = self._residents.setdefault(name, Resident(name, terms, wanted=at_start))
        one.terms = terms
        if one.phase in ("failed", "loading"):
            one.phase, one.wanted, one.retry_at_s = "unloaded", at_start and not one.by_hand, 0.0
        one.is_loading, one.arriving = False, 0
        one.is_changed = one.phase == "ready"

    def gone(self, name: str) -> None:
        """The folder is no longer in the repository."""
        one = self._residents.pop(name, None)
        if one is not None and one.phase == "ready":
            self._closing += one.num_bytes

    def loaded(self, name: str, num_bytes: int) -> None:
        one = self._residents[name]
        if one.phase == "ready":
            self._closing += one.num_bytes
        one.terms = replace(one.terms, num_bytes=num_bytes)
        one.phase, one.num_bytes, one.arriving = "ready", num_bytes, 0
        one.loaded_at_s = self._clock()
        one.is_loading = one.is_changed = one.wanted = False

    def failed(self, name: str, problem: str) -> None:
        """A load failed; an instance that serves serves on."""
        one = self._residents.get(name)
        if one is None:
            return
        one.arriving, one.is_loading, one.is_changed = 0, False, False
        if one.phase == "loading":
            one.phase, one.problem, one.wanted = "failed", problem, False
            one.retry_at_s = self._clock() + RETRY_S

    def closed(self, name: str, num_bytes: int, was_last: bool) -> None:
        """An instance is closed, the last one of its name or not."""
        self._closing -= num_bytes
        one = self._residents.get(name)
        if was_last and one is not None and one.phase == "leaving":
            one.phase, one.num_bytes, one.is_changed = "unloaded", 0, False

    # What clients ask for

    def ask(self, key: Hashable, name: str, by_hand: bool = False) -> None:
        """A request wants a model, or with `by_hand` a client wants it loaded; an answer follows."""
        self._wishes[key] = Wish(key, name, self._clock(), by_hand)
        one = self._residents.get(name)
        if by_hand and one is not None:
            one.by_hand, one.retry_at_s = False, 0.0

    def withdraw(self, key: Hashable) -> None:
        """The request needs the model no more, or has the calls that hold it."""
        self._wishes.pop(key, None)
        self._unloads.pop(key, None)

    def unload(self, key: Hashable, name: str) -> None:
        """A client wants a model unloaded, until one loads it; an answer follows."""
        self._unloads[key] = name
        one = self._residents.get(name)
        if one is not None:
            one.by_hand, one.wanted = True, False

    def keep_alive(self, name: str, seconds: float) -> None:
        """From now on the model may leave after this time without calls."""
        if name in self._residents:
            self._residents[name].keep_alive_s = seconds

    # What to do

    @property
    def is_loading(self) -> bool:
        """Whether anything is being loaded, or is to be."""
        return any(one.is_loading or one.wanted or one.is_changed for one in self._residents.values())

    @property
    def keys(self) -> list[Hashable]:
        """The keys of all who wait for an answer or hold a model."""
        return [*self._wishes, *self._unloads]

    def is_in_memory(self, name: str) -> bool:
        """Whether a model is loaded, on its way into memory or out of it."""
        return name in self._residents and self._residents[name].in_memory

    def has_failed(self, name: str) -> bool:
        return name in self._residents and self._residents[name].phase == "failed"

    def is_by_hand(self, name: str) -> bool:
        """Whether a client unloaded the model."""
        return name in self._residents and self._residents[name].by_hand

    @property
    def is_waited_for(self) -> bool:
        """Whether a client waits for an answer."""
        return bool(self._unloads) or any(not wish.granted for wish in self._wishes.values())

    @property
    def has_timers(self) -> bool:
        """Whether time alone may change what `plan` says."""
        return self.limits.idle_s is not None or any(
            one.keep_alive_s is not None or one.terms.keep_alive_s is not None
            for one in self._residents.values()
        )

    def plan(self) -> list[Decision]:
        """What is to be done now, in order; the caller does all of it."""
        now_s = self._clock()
        self._unload_by_hand()
        self._answer(now_s)
        self._unload_idle(now_s)
        self._serve_wishes(now_s)
        self._load_wanted()
        self._reload_changed()
        self._shrink()
        self._answer(now_s)
        decisions, self._decisions = self._decisions, []
        return decisions

    def _unload_by_hand(self) -> None:
        for key, name in list(self._unloads.items()):
            one = self._residents.get(name)
            if one is None:
                self._say(key, ModelNotFound(f"The model `{name}` does not exist.", field="model"))
            elif not one.by_hand:
                self._say(key, Unavailable(f"The model `{name}` was loaded again."))
            elif one.phase == "ready" and not one.is_loading and not self._is_held(one):
                self._leave(one, "client")
            elif not one.in_memory:
                one.phase, one.problem = "unloaded", ""
                self._say(key)

    def _say(self, key: Hashable, error: BraidError | None = None) -> None:
        wish = self._wishes.get(key)
        self._unloads.pop(key, None)
        if error is not None:
            self._wishes.pop(key, None)
        self._decisions.append(AnswerClient(key, error, by_hand=wish is None or wish.by_hand))

    def _answer(self, now_s: float) -> None:
        """Grant the wishes for what is ready, refuse those that nothing can be done for."""
        first_s: dict[str, float] = {}
        for wish in self._waiting():
            one, asked_s = self._residents.get(wish.name), first_s.setdefault(wish.name, wish.asked_at_s)
            if one is not None and one.phase == "ready" and not one.by_hand:
                wish.granted = True
                self._say(wish.key)
            elif (error := self._refusal(wish, one, now_s - asked_s)) is not None:
                self._say(wish.key, error)

    def _refusal(self, wish: Wish, one: Resident | None, waited_s: float) -> BraidError | None:
        """`waited_s` is the time of the first one that wants the model: all of them are refused together, so
        that models whose calls were to end for it take calls again.
        """
        now_s = self._clock()
        if one is None:
            return ModelNotFound(f"The model `{wish.name}` does not exist.", field="model")
        if one.by_hand:
            return unloaded_by_hand(one.name)
        if one.phase == "failed" and now_s < one.retry_at_s:
            return could_not_load(one.name, one.problem, math.ceil(one.retry_at_s - now_s))
        if one.is_loading or waited_s < self.limits.load_timeout_s:
            return None
        return Unavailable(f"The model `{one.name}` {self._what_holds(one)}", math.ceil(TURN_S))

    def _what_holds(self, wanted: Resident) -> str:
        held = [
            f"`{one.name}` ({one.num_bytes / GB:.2f} GB{', pinned' if one.terms.pinned else ''}"
            f"{', has calls' if self._busy(one) else ''})"
            for one in self._residents.values()
            if one.in_memory and one is not wanted
        ]
        need = f"needs {self._residents.size(wanted) / GB:.2f} GB"
        bound = f" of {self.limits.max_bytes / GB:.2f} GB" if self.limits.max_bytes is not None else ""
        return f"{need}{bound}; the memory is held by {', '.join(held) or 'models that are being closed'}"

    def _unload_idle(self, now_s: float) -> None:
        for one in list(self._residents.values()):
            unit = self._residents.loaded_unit(one)
            if one.phase == "ready" and all(
                self._may_leave(each) and now_s - self._last_use_s(each) >= self._keep_s(each)
                for each in unit
            ):
                for each in unit:
                    self._leave(each, "idle")

    def _serve_wishes(self, now_s: float) -> None:
        """Load what is waited for, in the order of the wishes; a model that must wait holds up those behind
        it, or it might wait without end.
        """
        for wish in self._waiting():
            one = self._residents[wish.name]
            if one.is_loading or one.phase == "ready":
                continue
            if one.phase == "leaving":
                if one.is_changed:
                    return  # it is loaded again when it is closed
                self._stay(one)
                self._answer(now_s)
            elif not self._load_unit(one):
                self._make_room(one, now_s - wish.asked_at_s >= TURN_S)
                return

    def _load_unit(self, one: Resident) -> bool:
        """Load a model with its group, if it fits now; one that never fits fails."""
        size, bound = self._residents.size(one), self.limits.max_bytes
        if bound is not None and size > bound:
            self._fail(one, size, bound)
            return True
        if self._residents.in_the_way(one) or (bound is not None and self._taken() + size > bound):
            return False
        for each in self._residents.missing_unit(one):
            each.phase, each.is_loading, each.arriving = "loading", True, each.terms.num_bytes
            self._decisions.append(LoadModel(each.name, not each.wanted or each.loaded_at_s > 0))
        return True

    def _fail(self, one: Resident, size: int, bound: int) -> None:
        one.problem = f"it needs {size / GB:.2f} GB, and max_loaded_gb allows {bound / GB:.2f}"
        one.phase, one.wanted, one.retry_at_s = "failed", False, self._clock() + RETRY_S
        self._decisions.append(FailModel(one.name, one.problem))

    def _make_room(self, one: Resident, end_calls: bool) -> None:
        """Have the least recently used models leave that are in the way of `one`, if that is enough.

        With `end_calls` also those that have calls, the longest loaded first.
        """
        for rival in self._residents.in_the_way(one):
            unit = self._residents.loaded_unit(rival)
            if rival.phase == "ready" and all(self._may_leave(each, end_calls) for each in unit):
                for each in unit:
                    self._leave(each, "room")
        bound = self.limits.max_bytes
        if bound is None:
            return
        free = bound - (self._taken() - self._closing)
        leaving: list[Resident] = []
        for unit in self._victims(one, end_calls):
            if free >= self._residents.size(one):
                break
            leaving += unit
            free += sum(each.num_bytes for each in unit)
        if free >= self._residents.size(one):
            for each in leaving:
                self._leave(each, "room")

    def _victims(self, one: Resident, end_calls: bool) -> Iterator[list[Resident]]:
        """Models and groups that may leave for `one`, in the order in which they do."""
        own = self._residents.unit(one)
        units = {
            id(unit[0]): unit
            for each in self._residents.values()
            if each.phase == "ready" and each not in own and (unit := self._residents.loaded_unit(each))
        }
        idle = [unit for unit in units.values() if all(map(self._may_leave, unit))]
        yield from sorted(idle, key=lambda unit: max(map(self._last_use_s, unit)))
        if end_calls:
            busy = [
                unit
                for unit in units.values()
                if unit not in idle and all(self._may_leave(each, end_calls) for each in unit)
            ]
            yield from sorted(busy, key=lambda unit: max(each.loaded_at_s for each in unit))

    def _load_wanted(self) -> None:
        """Load what is new, the pinned first; what does not fit is loaded by its first request."""
        wanted = [one for one in self._residents.values() if one.wanted and not one.in_memory]
        for one in sorted(wanted, key=lambda one: not one.terms.pinned):
            if one.phase == "unloaded" and not self._load_unit(one) and not self._closing:
                one.wanted = False

    def _reload_changed(self) -> None:
        """Load a changed folder beside its instance; where that does not fit, the instance leaves first."""
        for one in self._residents.values():
            if not one.is_changed or one.phase != "ready" or one.is_loading or one.by_hand:
                continue
            bound = self.limits.max_bytes
            if bound is None or self._taken() + one.terms.num_bytes <= bound:
                one.is_loading, one.arriving = True, one.terms.num_bytes
                self._decisions.append(LoadModel(one.name))
            elif not self._closing and not self._is_held(one):
                one.wanted = True
                self._leave(one, "changed")

    def _shrink(self) -> None:
        """Models that turned out larger than they seemed: others leave for them, or else they do."""
        bound = self.limits.max_bytes
        while bound is not None and self._taken() - self._closing > bound:
            newest = max(
                (one for one in self._residents.values() if one.phase == "ready"),
                key=lambda one: one.loaded_at_s,
                default=None,
            )
            if newest is None:
                return
            unit = next(self._victims(newest, False), self._residents.loaded_unit(newest))
            for each in unit:
                self._leave(each, "room")

    # Facts about models

    def _waiting(self) -> list[Wish]:
        return [wish for wish in self._wishes.values() if not wish.granted]

    def _taken(self) -> int:
        """Bytes that are in memory, on their way into it or out of it."""
        there = sum(one.num_bytes for one in self._residents.values() if one.phase == "ready")
        return there + sum(one.arriving for one in self._residents.values()) + self._closing

    def _busy(self, one: Resident) -> bool:
        return self._busy_calls(one.name) or self._is_held(one)

    def _is_held(self, one: Resident) -> bool:
        """Whether a request has the model that has not begun its calls; a short time."""
        return any(wish.granted and wish.name == one.name for wish in self._wishes.values())

    def _may_leave(self, one: Resident, end_calls: bool = False) -> bool:
        """With `end_calls` also a model that has calls, when those have ended."""
        if one.terms.pinned or one.is_loading or self._is_held(one):
            return False
        return end_calls or not self._busy_calls(one.name)

    def _last_use_s(self, one: Resident) -> float:
        return max(one.loaded_at_s, self._used_at_s(one.name))

    def _keep_s(self, one: Resident) -> float:
        """Seconds without calls after which a model may leave."""
        for seconds in (one.keep_alive_s, one.terms.keep_alive_s, self.limits.idle_s):
            if seconds is not None:
                return seconds
        return math.inf

    def _leave(self, one: Resident, reason: Reason) -> None:
        one.phase = "leaving"
        self._closing += one.num_bytes
        self._decisions.append(RetireModel(one.name, reason))

    def _stay(self, one: Resident) -> None:
        one.phase = "ready"
        self._closing -= one.num_bytes
        self._decisions.append(RestoreModel(one.name))


def could_not_load(name: str, problem: str, retry_after_s: int) -> BraidError:
    return Unavailable(f"The model `{name}` could not be loaded: {problem} (run: braid check)", retry_after_s)
