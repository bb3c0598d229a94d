"""A worker's connections to several engine hosts, and which of them takes a request."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipelines.base.errors import Unavailable
from pipelines.wire.client import EngineClient
from pipelines.wire.requests import Submit, SubmitTensors
from pipelines.worker.engines.choice import choose
from pipelines.worker.engines.merged_status import MergedStatus


class EnginePlace(NamedTuple):
    """An engine, the connection to it, and what the numbers of an instance and an adapter are there."""

    engine: int
    link: EngineClient
    instance_id: int
    adapter: int


class EngineLinks:
    """Belongs to the event loop.  Of connection i of N every request id leaves the rest i when divided by N,
    so an id names its engine.
    """

    def __init__(self, links: Sequence[EngineClient], max_ahead: int) -> None:
        """The engine of a key may have at most `max_ahead` requests more than the least busy one."""
        self.all = tuple(links)
        self.merged = MergedStatus(len(links))
        self._max_ahead = max_ahead
        self._turns = itertools.count(os.getpid())  # workers begin with different engines

    @property
    def listening(self) -> list[EngineClient]:
        """The links whose host takes requests.  Raises Unavailable where there is none."""
        found = [link for link in self.all if link.status is not None and link.status.state != "draining"]
        if not found:
            is_ending = any(link.status is not None for link in self.all)
            raise Unavailable("the server is shutting down" if is_ending else "the engine is starting")
        return found

    @property
    def first_known(self) -> EngineClient:
        """The first one whose host is there; where none is, the first one."""
        return next((link for link in self.all if link.status is not None), self.all[0])

    def of_request(self, request_id: int) -> EngineClient:
        return self.all[request_id % len(self.all)]

    def place(self, message: Submit | SubmitTensors, key: str | None, preferred: int | None) -> EnginePlace:
        """Where a request goes: to the engine that holds the outputs of the requests that it refers to; else
        to the `preferred` engine; else to the one of its key, or the least busy one.

        Raises Unavailable where that engine, or every one, is gone or has not what the request needs.
        """
        places = self._places(message.address.instance_id, message.adapter)
        if refers_to := message.refers_to:
            engine = refers_to[0] % len(self.all)
            if engine not in places:
                raise Unavailable("the engine that worked on this is gone; send the request again")
            return places[engine]
        if preferred in places:
            return places[preferred]
        if not places:
            raise Unavailable(
                f"The model `{message.address.model}` was just reloaded; send the request again.", 1
            )
        return places[choose(key, self._in_flight(places), self._max_ahead, next(self._turns))]

    def _places(self, instance_id: int, adapter: int) -> dict[int, EnginePlace]:
        """The engines that listen and have the instance and the adapter."""
        listening, found = self.listening, {}
        for engine, link in enumerate(self.all):
            theirs = self.merged.instance(engine, instance_id)
            their_adapter = self.merged.adapter(engine, adapter)
            if link in listening and theirs is not None and their_adapter is not None:
                found[engine] = EnginePlace(engine, link, theirs, their_adapter)
        return found

    def _in_flight(self, places: Mapping[int, EnginePlace]) -> dict[int, int]:
        return {engine: place.link.num_in_flight for engine, place in places.items()}
