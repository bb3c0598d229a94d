"""The answer to a request whose client waits for it: whole, or as a stream.

Knows nothing of requests or of how a response is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import falcon.asgi

from pipelines.errors import RequestError, Unavailable
from pipelines.worker.call import Call
from server.http.errors import hidden
from server.http.exchange import ClientGone, Exchange
from server.http.streaming import as_stream, begun, following, kept_alive
from server.responses.events import Telling
from server.responses.output import Event
from server.responses.prepare import Asked
from server.responses.sse import joined
from server.responses.store import Store
from server.responses.stored import ResponseStorage, packed
from server.responses.tables import Kept


class Answer:
    """The answer to one request whose client waits for it."""

    def __init__(
        self, keeper: ResponseStorage, exchange: Exchange, telling: Telling, call: Call, asked: Asked
    ) -> None:
        self._keeper = keeper
        self._exchange = exchange
        self._telling = telling
        self._call = call
        self._asked = asked

    async def whole(self) -> bytes:
        self._telling.begin()
        async for _ in self._told():
            pass
        if not self._telling.ended:
            raise ClientGone
        await self._keep()
        return packed(self._telling.response)

    async def stream(self, resp: falcon.asgi.Response) -> None:
        """Begin a stream once the first piece is there: what fails before it is an answer with a status."""
        opening, told = joined(self._telling.begin()), self._told()
        first = await begun(told, self._exchange)
        as_stream(resp, kept_alive(self._exchange, self._events(opening, first, told)))

    async def _told(self) -> AsyncIterator[list[Event]]:
        """The events of the pieces, as they come."""
        with self._asked.translated.named():
            async for batch in self._call.updates():
                yield [event for _, update in batch for event in self._telling.push(update)]

    async def _events(
        self, opening: bytes, first: asyncio.Future[list[Event] | None], told: AsyncIterator[list[Event]]
    ) -> AsyncIterator[bytes]:
        """The bytes of the stream; the response is kept before its client learns that it ended."""
        yield opening
        try:
            events = await first
            while events is not None:
                if self._telling.ended:
                    await self._keep()
                    events[-1]["response"]["store"] = self._telling.response.store
                yield joined(events)
                events = await following(told)
        except Exception as error:
            events = self._telling.fail(hidden(error, self._exchange.request_id))
            await self._keep()
            yield joined(events)
        finally:
            self._call.close()

    async def _keep(self) -> None:
        """Store what ended.  An answer that cannot be stored is an answer nevertheless."""
        response = self._telling.response
        if not response.store:
            return
        ids = (*self._asked.own_ids, *(item["id"] for item in response.output))
        kept = Kept(response.id, response.status, packed(response), self._asked.packed(), item_ids=ids)
        try:
            response.store = await self._keeper(Store.add, kept)
        except Unavailable:  # logged where it happened
            response.store = False


def taken(response_id: str) -> RequestError:
    return RequestError(f"there is a response with id '{response_id}' already", field="request_id")
