"""The way of a call's requests to one of several engines."""

from __future__ import annotations

from msgspec.structs import replace

from pipelines.wire.requests import Submit, SubmitTensors
from pipelines.wire.update_queue import PendingReply, UpdateQueue
from pipelines.worker.engines.links import EngineLinks


class Route:
    """Sends requests as an `EngineClient` does: to the engine of the first one, while that has their models.

    Belongs to the event loop.
    """

    def __init__(self, links: EngineLinks, key: str | None) -> None:
        """`key`: what the requests of one session have alike; None: there is no such."""
        self._links = links
        self._key = key
        self._engine: int | None = None

    def submit(self, message: Submit | SubmitTensors, pending: UpdateQueue | PendingReply) -> int:
        """Does `EngineClient.submit` with the worker's own numbers of the instance and the adapter."""
        place = self._links.place(message, self._key, self._engine)
        self._engine = place.engine
        address = replace(message.address, instance_id=place.instance_id)
        return place.link.submit(replace(message, address=address, adapter=place.adapter), pending)

    def abort(self, request_id: int, choice: int = -1) -> None:
        self._links.of_request(request_id).abort(request_id, choice)

    def release(self, request_id: int) -> None:
        self._links.of_request(request_id).release(request_id)
