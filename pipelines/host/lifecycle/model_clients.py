"""Decides which clients of models wait, and what they are answered: requests, loads and unloads by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

from pipelines.base.errors import BraidError, ModelNotFound, Unavailable, unloaded_by_hand
from pipelines.host.lifecycle.model_memory import ModelMemory
from pipelines.host.lifecycle.residency_decisions import AnswerClient, Decision
from pipelines.host.models.residents import GB, Resident, Wish

TURN_S = 5.0
"""A request waits this long for models to be without calls; then one that has calls is to end them."""


class ModelClients:
    """Who waits for a model, in the order in which they came, and who holds one.

    A wish that was granted holds its model until it is withdrawn: its calls have not begun.
    """

    def __init__(
        self,
        memory: ModelMemory,
        has_calls: Callable[[str], bool],
        clock: Callable[[], float],
        decide: Callable[[Decision], None],
    ) -> None:
        """`has_calls`: whether calls run in a model; `decide` takes the answers."""
        self._memory = memory
        self._has_calls = has_calls
        self._clock = clock
        self._decide = decide
        self._wishes: dict[Hashable, Wish] = {}
        self._unloads: dict[Hashable, str] = {}

    # What clients ask for

    def ask(self, key: Hashable, name: str, by_hand: bool = False) -> None:
        """A request wants a model, or with `by_hand` a client wants it loaded; an answer follows."""
        self._wishes[key] = Wish(key, name, self._clock(), by_hand)
        model = self._memory.residents.get(name)
        if by_hand and model is not None:
            model.by_hand, model.retry_at_s = False, 0.0

    def withdraw(self, key: Hashable) -> None:
        """The request needs the model no more, or has the calls that hold it."""
        self._wishes.pop(key, None)
        self._unloads.pop(key, None)

    def unload(self, key: Hashable, name: str) -> None:
        """A client wants a model unloaded, until one loads it; an answer follows."""
        self._unloads[key] = name
        model = self._memory.residents.get(name)
        if model is not None:
            model.by_hand, model.wanted = True, False

    # What is so

    @property
    def keys(self) -> list[Hashable]:
        """The keys of all who wait for an answer or hold a model."""
        return [*self._wishes, *self._unloads]

    @property
    def waiting(self) -> list[Wish]:
        """The wishes that are not granted yet, the oldest first."""
        return [wish for wish in self._wishes.values() if not wish.granted]

    @property
    def is_waited_for(self) -> bool:
        """Whether a client waits for an answer."""
        return bool(self._unloads or self.waiting)

    def holds(self, model: Resident) -> bool:
        """Whether a request has the model that has not begun its calls; a short time."""
        return any(wish.granted and wish.name == model.name for wish in self._wishes.values())

    # What is to be done

    def unload_by_hand(self) -> None:
        """Have the models leave that clients want unloaded, and answer for those that have left."""
        for key, name in list(self._unloads.items()):
            model = self._memory.residents.get(name)
            if model is None:
                self._answer(key, _no_model(name))
            elif not model.by_hand:
                self._answer(key, Unavailable(f"The model `{name}` was loaded again."))
            elif model.phase == "ready" and not model.is_loading and not self.holds(model):
                self._memory.retire(model, "client")
            elif not model.in_memory:
                model.phase, model.problem = "unloaded", ""
                self._answer(key)

    def answer(self, now_s: float) -> None:
        """Grant the wishes for what is ready, refuse those that nothing can be done for.

        All that want one model are refused together, by the time of the first, so that models whose calls
        were to end for it take calls again.
        """
        first_s: dict[str, float] = {}
        for wish in self.waiting:
            model = self._memory.residents.get(wish.name)
            asked_s = first_s.setdefault(wish.name, wish.asked_at_s)
            if model is not None and model.phase == "ready" and not model.by_hand:
                wish.granted = True
                self._answer(wish.key)
            elif (error := self._refusal(wish.name, model, asked_s, now_s)) is not None:
                self._answer(wish.key, error)

    def _answer(self, key: Hashable, error: BraidError | None = None) -> None:
        wish = self._wishes.get(key)
        self._unloads.pop(key, None)
        if error is not None:
            self._wishes.pop(key, None)
        self._decide(AnswerClient(key, error, by_hand=wish is None or wish.by_hand))

    def _refusal(self, name: str, model: Resident | None, asked_s: float, now_s: float) -> BraidError | None:
        """The error for a request that first asked at `asked_s`; None while it may wait."""
        if model is None:
            return _no_model(name)
        if model.by_hand:
            return unloaded_by_hand(name)
        if model.phase == "failed" and now_s < model.retry_at_s:
            return could_not_load(name, model.problem, math.ceil(model.retry_at_s - now_s))
        if model.is_loading or now_s - asked_s < self._memory.limits.load_timeout_s:
            return None
        return Unavailable(f"The model `{name}` {self._what_holds(model)}", math.ceil(TURN_S))

    def _what_holds(self, wanted: Resident) -> str:
        """What the model needs, and which models have the memory."""
        holders = [
            self._described(model)
            for model in self._memory.residents.values()
            if model.in_memory and model is not wanted
        ]
        max_bytes = self._memory.limits.max_bytes
        need = f"needs {self._memory.residents.size(wanted) / GB:.2f} GB"
        bound = "" if max_bytes is None else f" of {max_bytes / GB:.2f} GB"
        held_by = ", ".join(holders) or "models that are being closed"
        return f"{need}{bound}; the memory is held by {held_by}"

    def _described(self, model: Resident) -> str:
        pinned = ", pinned" if model.terms.pinned else ""
        calls = ", has calls" if self._has_calls(model.name) or self.holds(model) else ""
        return f"`{model.name}` ({model.num_bytes / GB:.2f} GB{pinned}{calls})"


def could_not_load(name: str, problem: str, retry_after_s: int) -> BraidError:
    return Unavailable(f"The model `{name}` could not be loaded: {problem} (run: braid check)", retry_after_s)


def _no_model(name: str) -> BraidError:
    return ModelNotFound(f"The model `{name}` does not exist.", field="model")
