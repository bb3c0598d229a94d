"""Decides whose weights an engine holds: which adapter is read next, which leaves, and which call waits.

Does no I/O.  Calls are served in the order in which they came, so that none waits without end: one whose
adapter has no place holds back the later ones of other adapters, and the adapter that no call uses for the
longest time leaves for it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from pipelines.host.adapters.registry import RegisteredAdapter


@dataclass(frozen=True)
class ReadWeights:
    """Read an adapter; `arrived` or `failed` follows."""

    adapter: RegisteredAdapter


@dataclass(frozen=True)
class DropWeights:
    """Free the weights of an adapter."""

    number: int


@dataclass(frozen=True)
class EnterEngine:
    """The adapter of a call is in memory: the call may run."""

    key: Hashable


Move = ReadWeights | DropWeights | EnterEngine


@dataclass
class _Place:
    """An adapter in memory, or on its way.  `calls` hold it; those in `coming` wait for its weights."""

    adapter: RegisteredAdapter
    is_read: bool = False
    has_left: bool = False
    calls: set[Hashable] = field(default_factory=set)
    coming: list[Hashable] = field(default_factory=list)


class AdapterPlaces:
    """The adapters of one engine.  Belongs to the thread that holds the turn.

    `_places` are in the order of their last use.  Invariant: there are at most `max_loaded` of them.
    """

    def __init__(self, max_loaded: int, max_rank: int) -> None:
        self.max_loaded = max_loaded
        self.max_rank = max_rank
        self._places: OrderedDict[int, _Place] = OrderedDict()
        self._waiting: deque[tuple[Hashable, RegisteredAdapter]] = deque()

    def ask(self, key: Hashable, adapter: RegisteredAdapter) -> None:
        """A call wants to run with an adapter."""
        self._waiting.append((key, adapter))

    def leave(self, key: Hashable) -> None:
        """A call has ended, or was cancelled while it waited."""
        for place in self._places.values():
            if key in place.calls:
                place.calls.discard(key)
                place.coming = [each for each in place.coming if each != key]
                self._places.move_to_end(place.adapter.number)
                return
        self._waiting = deque(each for each in self._waiting if each[0] != key)

    def arrived(self, number: int) -> None:
        """The weights of an adapter were read."""
        self._places[number].is_read = True

    def failed(self, number: int) -> list[Hashable]:
        """The weights of an adapter cannot be read: the calls that wait for them."""
        return self._places.pop(number).coming

    def left(self, number: int) -> None:
        """No later call asks for an adapter: it leaves after those that did."""
        if number in self._places:
            self._places[number].has_left = True

    @property
    def running(self) -> list[str]:
        """Names of adapters that calls run with."""
        return sorted({place.adapter.name for place in self._places.values() if place.calls})

    @property
    def waiting(self) -> list[str]:
        """Names of adapters that calls wait for."""
        coming = (place.adapter.name for place in self._places.values() if place.coming)
        return sorted({*coming, *(adapter.name for _, adapter in self._waiting)})

    def plan(self) -> Iterator[Move]:
        """What is to be done now, in this order."""
        yield from self._drop_left()
        while self._waiting:
            key, adapter = self._waiting[0]
            if adapter.number not in self._places:
                if len(self._places) >= self.max_loaded:
                    unused = self._least_recently_used()
                    if unused is None:
                        break
                    yield self._drop(unused)
                self._places[adapter.number] = _Place(adapter)
                yield ReadWeights(adapter)
            self._waiting.popleft()
            place = self._places[adapter.number]
            self._places.move_to_end(adapter.number)
            place.calls.add(key)
            place.coming.append(key)
        for place in list(self._places.values()):
            if place.is_read:
                coming, place.coming = place.coming, []
                yield from (EnterEngine(key) for key in coming)

    def _drop_left(self) -> Iterator[DropWeights]:
        wanted = {adapter.number for _, adapter in self._waiting}
        for number, place in list(self._places.items()):
            if place.has_left and place.is_read and not place.calls and number not in wanted:
                yield self._drop(number)

    def _least_recently_used(self) -> int | None:
        return next(
            (number for number, place in self._places.items() if place.is_read and not place.calls), None
        )

    def _drop(self, number: int) -> DropWeights:
        del self._places[number]
        return DropWeights(number)
