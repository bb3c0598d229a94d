"""The adapters of all models by name, and their load numbers.  Reads no file."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from pipelines.base.errors import ModelNotFound, RequestError
from pipelines.host.adapters.adapter_discovery import AdaptersFound, FoundAdapter
from pipelines.wire.messages import AdapterStatus

log = logging.getLogger("braid.host")

MAX_PAST = 1000
"""Loads that are over whose numbers are known: a worker may send one before it has heard of the next."""
MAX_BY_HAND = 1000
"""Adapters that clients have loaded, of all models."""
MAX_NAMES = 8
"""Names that clients have given to one folder: each has weights, a model's entry and metrics of its own."""


@dataclass(frozen=True)
class RegisteredAdapter:
    """One load of an adapter.  `by_hand`: a client has loaded it, so no look at its folder removes it."""

    number: int
    model: str
    found: FoundAdapter
    created: int
    by_hand: bool = False

    @property
    def name(self) -> str:
        return self.found.name


class AdapterRegistry:
    """Belongs to the thread that holds the turn.  A number is given once and never again.

    `left` is called with every number that no new request uses any more.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when an adapter turned out not to be readable."""
        self.folders: dict[str, Path] = {}  # of the models that have adapters
        self.left: Callable[[int], None] = lambda number: None
        self._changed = changed
        self._adapters: dict[str, dict[str, RegisteredAdapter]] = {}  # model → name → its last load
        self._unloaded: set[tuple[str, str]] = set()  # by clients
        self._names: dict[int, str] = {}  # of every number that a request may have
        self._past: deque[int] = deque()  # those whose load is over, the oldest first
        self._numbers = count(1)
        self._clashes: set[tuple[str, str]] = set()

    def found(self, event: AdaptersFound) -> bool:
        """Follow a look at the folders of a model; whether anything is other than before."""
        before, adapters = dict(self._of(event.model)), self._of(event.model)
        if event.folder is None:
            self.folders.pop(event.model, None)
        else:
            self.folders[event.model] = event.folder
        by_name = {adapter.name: adapter for adapter in event.found}
        for name in adapters.keys() - by_name.keys():
            if not adapters[name].by_hand or event.folder is None:
                self._remove(event.model, name)
        for name, adapter in by_name.items():
            if (event.model, name) not in self._unloaded:
                self._follow(event.model, adapter)
        return before != adapters

    def _follow(self, model: str, found: FoundAdapter) -> None:
        """A folder is there: new, changed, or as it was."""
        known = self._of(model).get(found.name)
        if known is None or (known.found.path, known.found.digest) != (found.path, found.digest):
            if known is None or not known.by_hand or known.found.path == found.path:
                self.load(model, found, by_hand=known is not None and known.by_hand)
        elif known.found != found:
            self._of(model)[found.name] = replace(known, found=found)

    def load(self, model: str, adapter: FoundAdapter, by_hand: bool) -> RegisteredAdapter:
        """From now on new requests of the name use this load."""
        adapters = self._of(model)
        if adapter.name in adapters:
            self._remove(model, adapter.name)
        if by_hand:
            self._unloaded.discard((model, adapter.name))
        number = next(self._numbers)
        self._names[number] = adapter.name
        adapters[adapter.name] = RegisteredAdapter(number, model, adapter, int(time.time()), by_hand)
        return adapters[adapter.name]

    def unload(self, model: str, name: str) -> None:
        """A client unloads an adapter: it comes back when a client loads it."""
        self._remove(model, name)
        self._unloaded.add((model, name))

    def fail(self, number: int, problem: str) -> None:
        """What was registered cannot be read any more."""
        for adapters in self._adapters.values():
            for name, each in adapters.items():
                if each.number == number:
                    adapters[name] = replace(each, found=replace(each.found, problem=problem))
        self._changed()

    @property
    def is_full(self) -> bool:
        """Whether clients have loaded as many as they may."""
        loads = (each for adapters in self._adapters.values() for each in adapters.values())
        return sum(each.by_hand for each in loads) >= MAX_BY_HAND

    def check_names(self, found: FoundAdapter) -> None:
        """Raise RequestError where a folder has enough names without this one."""
        loads = (each for adapters in self._adapters.values() for each in adapters.values())
        names = {each.name for each in loads if each.by_hand and each.found.path == found.path}
        if len(names - {found.name}) >= MAX_NAMES:
            raise RequestError(
                f"this adapter has {MAX_NAMES} names already: {', '.join(sorted(names))}; unload one first"
            )

    def holding(self, name: str) -> list[RegisteredAdapter]:
        """The adapters of this name, of whichever model."""
        return [adapters[name] for adapters in self._adapters.values() if name in adapters]

    def current(self, model: str, number: int) -> RegisteredAdapter:
        """The adapter of a call: the newest load of the name whose number it has.

        Raises ModelNotFound where it was unloaded meanwhile, RequestError where it cannot be used.
        """
        name = self._names.get(number, "")
        adapter = self._of(model).get(name)
        if adapter is None:
            raise ModelNotFound(f"The model `{name}` does not exist.", field="model")
        if adapter.found.problem:
            raise RequestError(f"The adapter `{name}` cannot be used: {adapter.found.problem}", field="model")
        return adapter

    def statuses(self, models: Collection[str]) -> dict[str, list[AdapterStatus]]:
        """The adapters of each model for workers; `models` are all names that models have."""
        taken = dict.fromkeys(models, "a model of the repository")
        return {
            model: [self._status(self._adapters[model][name], taken) for name in sorted(self._of(model))]
            for model in sorted(self._adapters)
        }

    def _status(self, adapter: RegisteredAdapter, taken: dict[str, str]) -> AdapterStatus:
        """A name that is taken already is refused, and the one that has it keeps it."""
        problem, name = adapter.found.problem, adapter.name
        if not problem and name in taken:
            problem = f"the name {name} is that of {taken[name]}; rename the adapter"
            self._log_clash(adapter, problem)
        if not problem:
            taken[name] = f"an adapter of {adapter.model}"
        return AdapterStatus(name, adapter.number, str(adapter.found.path), adapter.created, problem)

    def _log_clash(self, adapter: RegisteredAdapter, problem: str) -> None:
        if (adapter.model, adapter.name) not in self._clashes:
            self._clashes.add((adapter.model, adapter.name))
            log.error("the adapter %s of %s is not served: %s", adapter.name, adapter.model, problem)

    def _remove(self, model: str, name: str) -> None:
        number = self._of(model).pop(name).number
        self._past.append(number)
        if len(self._past) > MAX_PAST:
            del self._names[self._past.popleft()]
        self.left(number)

    def _of(self, model: str) -> dict[str, RegisteredAdapter]:
        return self._adapters.setdefault(model, {})
