"""Runs a foreground response: the client waits for it, as a whole or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import falcon.asgi

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import RequestError, Unavailable
from pipelines.worker.call import Call
from server.apis.responses.event_encoding import KEEP_ALIVE, encode_events
from server.apis.responses.events import ResponseEvents
from server.apis.responses.output_items import Event
from server.apis.responses.prepared_request import PreparedRequest
from server.apis.responses.sqlite_tables import StoredResponse
from server.apis.responses.store import ResponseStore, encode_response
from server.http.errors import public_error
from server.http.exchange import Exchange
from server.http.streaming import as_stream, first_piece, kept_alive, next_piece

NOT_STORED = "X-Braid-Not-Stored"
"""The header of a reply that was to be stored and is not: why."""


class ForegroundResponse:
    """Runs one response whose client waits, and stores it when it has ended.

    `not_stored` is why that failed; the reply has `store` false then.
    """

    def __init__(
        self,
        store: ResponseStore,
        exchange: Exchange,
        response_events: ResponseEvents,
        call: Call,
        prepared: PreparedRequest,
    ) -> None:
        self._store = store
        self._exchange = exchange
        self._response_events = response_events
        self._call = call
        self._prepared = prepared
        self.not_stored = ""

    async def whole(self) -> bytes:
        """The body of the complete response.  Raises ClientGone when the call ended without a result."""
        self._response_events.start()
        async for _ in self._events():
            pass
        if not self._response_events.ended:
            raise ClientGone
        await self._save()
        return encode_response(self._response_events.response)

    async def stream(self, resp: falcon.asgi.Response) -> None:
        """Start a stream once the first events exist: an earlier failure gets an HTTP status of its own."""
        opening, batches = self._response_events.start(), self._events()
        first = await first_piece(batches, self._exchange)
        data = self._encoded(self._with_end(opening, first, batches))
        as_stream(resp, kept_alive(self._exchange, data, KEEP_ALIVE))

    async def batches(self) -> AsyncIterator[list[Event]]:
        """All events, also those of a failure; the response is stored before the last of them."""
        batches = self._events()
        first = asyncio.ensure_future(next_piece(batches))
        self._exchange.at_end(first.cancel)
        async for events in self._with_end(self._response_events.start(), first, batches):
            yield events

    async def _events(self) -> AsyncIterator[list[Event]]:
        """The events of each batch of updates from the call."""
        with self._prepared.translation.renamed_errors():
            async for batch in self._call.updates():
                yield [event for _, update in batch for event in self._response_events.push(update)]

    async def _encoded(self, batches: AsyncIterator[list[Event]]) -> AsyncIterator[bytes]:
        async for events in batches:
            yield encode_events(events)

    async def _with_end(
        self,
        opening: list[Event],
        first: asyncio.Future[list[Event] | None],
        batches: AsyncIterator[list[Event]],
    ) -> AsyncIterator[list[Event]]:
        """The events of the stream; the response is stored before its final event is sent."""
        yield opening
        try:
            events = await first
            while events is not None:
                if self._response_events.ended:
                    await self._save()
                    events[-1]["response"]["store"] = self._response_events.response.store
                yield events
                events = await next_piece(batches)
        except Exception as error:
            events = self._response_events.fail(public_error(error, self._exchange.trace))
            await self._save()
            yield events
        finally:
            self._call.close()

    async def _save(self) -> None:
        """Store the ended response; when the store fails, the client still gets it, with `store` false."""
        response = self._response_events.response
        if not response.store:
            return
        ids = (*self._prepared.own_ids, *(item["id"] for item in response.output))
        body, items = encode_response(response), self._prepared.encoded_items()
        account = self._exchange.account
        stored = StoredResponse(response.id, response.status, body, items, item_ids=ids, account=account)
        try:
            response.store = await self._store.add(stored)
        except Unavailable as error:  # logged by the store
            response.store, self.not_stored = False, error.message


def id_in_use(response_id: str) -> RequestError:
    """The error for a `request_id` that another stored response has."""
    return RequestError(f"a response with id '{response_id}' already exists", field="request_id")
