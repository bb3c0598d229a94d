"""The statuses of several engine hosts as one, in numbers of the worker's own.

Each host numbers its model instances, its adapters and its statuses by itself.  Instances of different hosts
that were loaded from the same files have one number here, and so have adapters of one name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from msgspec.structs import replace

from pipelines.wire.messages import AdapterStatus, GraphText, ModelStatus, Status

STATES = ("failed", "unloading", "unloaded", "loading", "ready")
"""A model is in the last of these that it is in somewhere."""
HOST_STATES = ("draining", "starting", "ready")

Content = tuple[str, int, str, tuple[tuple[str, GraphText], ...]]
"""What an instance was loaded from: name, version, fingerprint and graphs."""


@dataclass(slots=True)
class _Engine:
    """What is known of one host: its status, and what our numbers are there."""

    status: Status | None = None
    owns: dict[int, int] = field(default_factory=dict)  # the host's instance → our number
    instances: dict[int, int] = field(default_factory=dict)  # our number → the host's instance
    adapters: dict[int, int] = field(default_factory=dict)  # our number → the host's


class MergedStatus:
    """What several hosts serve together.  A number that was given is never given again."""

    def __init__(self, num_engines: int) -> None:
        self._engines = [_Engine() for _ in range(num_engines)]
        self._contents: dict[Content, int] = {}
        self._adapters: dict[tuple[str, str], int] = {}
        self._numbers = count(1)
        self._num_statuses = 0
        self._past: dict[int, list[int]] = {}  # our status → those of the hosts that it was made of

    def take(self, engine: int, status: Status | None) -> Status | None:
        """A host's status has changed, None where it is gone; gives what they serve together.

        A model is ready when one host has it ready.  Where hosts have different ones ready, as in the middle
        of a reload, it is what was seen last.
        """
        self._engines[engine].status = status
        self._follow(self._engines[engine])
        self._forget()
        statuses = [engine.status for engine in self._engines if engine.status is not None]
        if not statuses:
            self._past.clear()
            return None
        self._num_statuses += 1
        self._past[self._num_statuses] = [
            engine.status.number if engine.status else 0 for engine in self._engines
        ]
        state = max((status.state for status in statuses), key=HOST_STATES.index)
        names = sorted({model.name for status in statuses for model in status.models})
        return Status(
            os.getpid(),
            state,
            [self._merged(name) for name in names],
            self._num_statuses,
            is_paused=any(status.is_paused for status in statuses),
            is_sleeping=any(status.is_sleeping for status in statuses),
        )

    def instance(self, engine: int, number: int) -> int | None:
        """What our number of an instance is at a host; None where it has no such one."""
        return self._engines[engine].instances.get(number)

    def adapter(self, engine: int, number: int) -> int | None:
        """What our number of an adapter is at a host; None where it cannot be used there.  0 stays 0."""
        return self._engines[engine].adapters.get(number) if number else 0

    def in_use(self, engine: int, numbers: Iterable[int]) -> list[int]:
        """The instances of a host that are meant."""
        there = self._engines[engine].instances
        return sorted(there[each] for each in numbers if each in there)

    def followed(self, engine: int, number: int) -> int:
        """The number of the host's own status, when ours with this number has been followed; 0: none."""
        for past in [each for each in self._past if each < number]:
            del self._past[past]
        return self._past[number][engine] if number in self._past else 0

    def _follow(self, engine: _Engine) -> None:
        """Number what a host has."""
        before, engine.owns, engine.instances, engine.adapters = engine.owns, {}, {}, {}
        for model in engine.status.models if engine.status else ():
            engine.owns |= {name: before[name] for name in model.replaced if name in before}
            if model.instance_id:
                engine.owns[model.instance_id] = self._number_of(model)
            for adapter in model.adapters:
                key = model.name, adapter.name
                if key not in self._adapters:
                    self._adapters[key] = next(self._numbers)
                if not adapter.problem:
                    engine.adapters[self._adapters[key]] = adapter.number
        engine.instances = {number: theirs for theirs, number in sorted(engine.owns.items())}

    def _number_of(self, model: ModelStatus) -> int:
        content = model.name, model.version, model.fingerprint, tuple(sorted(model.graphs.items()))
        if content not in self._contents:
            self._contents[content] = next(self._numbers)
        return self._contents[content]

    def _forget(self) -> None:
        """What no host has any more gets another number when it comes back."""
        held = {number for each in self._engines for number in each.instances}
        self._contents = {content: number for content, number in self._contents.items() if number in held}

    def _merged(self, name: str) -> ModelStatus:
        entries = [
            (number, engine, model)
            for number, engine in enumerate(self._engines)
            for model in (engine.status.models if engine.status else ())
            if model.name == name
        ]
        models = [model for *_, model in entries]
        shown = max(models, key=lambda model: (STATES.index(model.state), self._own(model)))
        number = self._own(shown)
        held = {holder for content, holder in self._contents.items() if content[0] == name}
        bounds = [model.max_context for model in models if self._own(model) == number and model.max_context]
        return replace(
            shown,
            instance_id=number,
            problems=[
                f"engine {place}: {problem}" for place, _, model in entries for problem in model.problems
            ],
            replaced=sorted(held - {number}),
            max_context=min(bounds, default=shown.max_context),
            on_request=any(model.on_request for model in models),
            adapters=self._merged_adapters(name, models),
        )

    def _own(self, model: ModelStatus) -> int:
        """Our number of what new calls of a model use at a host; 0: there is nothing to call."""
        return self._number_of(model) if model.instance_id else 0

    def _merged_adapters(self, name: str, models: list[ModelStatus]) -> list[AdapterStatus]:
        """One that can be used at one host can be used."""
        adapters: dict[str, AdapterStatus] = {}
        for adapter in (one for model in models for one in model.adapters):
            if adapter.name not in adapters or adapters[adapter.name].problem:
                adapters[adapter.name] = replace(adapter, number=self._adapters[name, adapter.name])
        return [adapters[each] for each in sorted(adapters)]
