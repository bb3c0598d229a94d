"""The requests in flight: the connection of each, its engine, and the choices that have not ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.host.adapters.registry import RegisteredAdapter
from pipelines.host.models.instances import ModelInstance
from pipelines.inference.engine.interface.engine_contract import Engine, Identity
from pipelines.wire.engine_view import is_own
from pipelines.wire.listener import Peer
from pipelines.wire.requests import NO_ORIGIN, Origin

Key = tuple[Peer, int]
"""A call: its connection and its request id there."""
ALL = -1
"""The number in place of a choice that stands for all of a call."""


@dataclass(eq=False)
class InFlightCall:
    """A request in flight.  `open` holds the choices that have not ended.

    One that `holds` its outputs has not ended when they are there: `held` are the rows of each text.
    `adapter` is what it runs with, if it does.  Until it `has_entered` its engine, which is `node` of its
    graph, its guide or its adapter is prepared, or a pause holds it back; `prompt_tokens` are those of all
    prompts.
    """

    instance: ModelInstance
    engine: Engine[Any]
    node: str
    open: set[int]
    origin: Origin = NO_ORIGIN
    holds: bool = False
    held: list[NDArray[np.float32]] = field(default_factory=list)
    adapter: RegisteredAdapter | None = None
    at_end: list[Callable[[], object]] = field(default_factory=list)
    prompt_tokens: int = 0
    max_tokens: int = 0
    has_entered: bool = False
    began_s: float = field(default_factory=monotonic)

    def enter(self, key: Key, request: Any) -> None:
        """Submit it to its engine.  Raises what that does."""
        self.engine.submit(key, request)
        self.has_entered = True

    def when_ended(self, callback: Callable[[], object]) -> None:
        """Call `callback` when it has ended, however it does."""
        self.at_end.append(callback)

    @property
    def identity(self) -> Identity:
        """What is shown of it beside its progress."""
        adapter = None if self.adapter is None else self.adapter.name
        return Identity(self.origin.name, monotonic() - self.began_s, adapter, self.origin.tenant)


class Calls:
    """The calls of a host.  Belongs to the thread that holds the turn.

    Invariants: a call is here exactly while one of its choices may still give an Output;
    `instance.num_calls` is the number of its calls here.
    """

    def __init__(self) -> None:
        self._calls: dict[Key, InFlightCall] = {}
        self.find = self._calls.get  # an attribute: called for each token

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[InFlightCall]:
        return iter(self._calls.values())

    def items(self) -> list[tuple[Key, InFlightCall]]:
        return list(self._calls.items())

    def start(self, key: Key, call: InFlightCall) -> None:
        self._calls[key] = call
        call.instance.num_calls += 1
        call.instance.used_at_s = monotonic()

    def ended(self, key: Key, call: InFlightCall, choice: int = ALL) -> None:
        """Nothing more comes for this choice."""
        if choice == ALL:
            call.open.clear()
        else:
            call.open.discard(choice)
        if not call.open and self._calls.pop(key, None) is not None:
            call.instance.num_calls -= 1
            call.instance.used_at_s = monotonic()
            for callback in call.at_end:
                callback()

    def abort(self, key: Key, choice: int = ALL) -> None:
        """Cancel a choice; one that is unknown has ended already."""
        call = self._calls.get(key)
        if call is None:
            return
        if choice == ALL:
            call.engine.cancel(key)
        elif choice in call.open:
            call.engine.cancel(key, choice)
        self.ended(key, call, choice)

    def named(self, name: str, account: str | None = None) -> list[Key]:
        """The calls of an HTTP request whose results are not there yet; of no name there are none.

        With an `account` only its own.
        """
        found = [(key, call) for key, call in self._calls.items() if name and call.origin.name == name]
        return [key for key, call in found if not call.held and is_own(call.origin.tenant, account)]

    def preparing(self, engine: Engine[Any]) -> Iterator[InFlightCall]:
        """The calls of an engine that have not entered it yet."""
        return (call for call in self if call.engine is engine and not call.has_entered)

    def num_preparing(self, engine: Engine[Any]) -> int:
        return sum(1 for _ in self.preparing(engine))

    def of_peer(self, peer: Peer) -> list[Key]:
        return [key for key in self._calls if key[0] is peer]

    def of_engine(self, engine: Engine[Any]) -> list[Key]:
        return [key for key, call in self._calls.items() if call.engine is engine]
