"""Computes background responses in this worker; every worker can read, follow and cancel them.

Workers share state only through the store: it holds the progress of each response and the worker that owns
it.  A run ends when its response has been taken from it (cancelled, deleted, or declared dead).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from pipelines.base.errors import Unavailable
from pipelines.telemetry.request_trace import RequestTrace
from pipelines.worker.call import Call
from server.apis.responses.database import ResponseDatabase
from server.apis.responses.event_encoding import encode_event
from server.apis.responses.events import ResponseEvents
from server.apis.responses.output_items import Event
from server.apis.responses.sqlite_tables import StoredResponse
from server.apis.responses.store import ResponseStore, encode_response, find_response
from server.http.errors import public_error
from server.http.exchange import Exchange
from server.schema.sse import DONE
from server.sqlite.leases import new_owner

log = logging.getLogger("braid.server")

WRITE_S = 0.05
"""Interval at which the new events of a run are written to the store."""
HEARTBEAT_S = 0.2
"""Interval of a worker's heartbeats, which also find runs that another worker ended."""
POLL_S = 0.05
"""Interval at which a stream of a background response reads new events from the store."""


class BackgroundRun:
    """One response being computed, and its events that are not yet written to the store."""

    def __init__(
        self,
        response_events: ResponseEvents,
        call: Call,
        items: bytes,
        account: str,
        trace: RequestTrace,
    ) -> None:
        self.account = account
        self.trace = trace
        self.response_events = response_events
        self.call = call
        self.id = response_events.response.id
        self._items = items
        self._unwritten: list[tuple[int, bytes]] = []
        self._has_unwritten = asyncio.Event()
        self._encoded_state: tuple[str, int] | None = None  # (status, number of items) of `_body`
        self._body = b""

    def add_events(self, events: list[Event]) -> None:
        """Queue events for the store; an empty list makes the state alone be written."""
        self._unwritten += [(event["sequence_number"], encode_event(event)) for event in events]
        self._has_unwritten.set()

    async def next_events(self) -> list[tuple[int, bytes]]:
        """Wait for queued events and take all of them."""
        await self._has_unwritten.wait()
        self._has_unwritten.clear()
        taken, self._unwritten = self._unwritten, []
        return taken

    def to_stored(self, owner: str | None) -> StoredResponse:
        """The response in its current state; encoded again only when its status or its items changed."""
        response = self.response_events.response
        state = (response.status, len(response.output))
        if self._encoded_state != state:
            self._encoded_state, self._body = state, encode_response(response)
        ids = tuple(item["id"] for item in response.output)
        return StoredResponse(
            self.id,
            response.status,
            self._body,
            self._items,
            background=True,
            owner=owner,
            item_ids=ids,
            account=self.account,
        )


class BackgroundResponses:
    """The background runs of one worker."""

    def __init__(self, store: ResponseStore) -> None:
        self.draining = False
        """Whether streams that follow a response must end now because this worker stops."""

        self._store = store
        self._owner = new_owner()
        self._runs: dict[str, BackgroundRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._heartbeats: asyncio.Task[None] | None = None

    async def start(
        self, run: BackgroundRun, at_end: Callable[[], None], item_ids: tuple[str, ...] = ()
    ) -> bool:
        """Store the response and start computing it; False, with nothing done, when its id is in use.

        `at_end` is called once when the run has ended for any reason; `item_ids` are those of its own input.
        """
        stored = replace(run.to_stored(self._owner), item_ids=item_ids)
        if not await self._store.add(stored):
            return False
        self._runs[run.id] = run
        task = asyncio.create_task(self._compute(run), name=f"response-{run.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: at_end())
        if self._heartbeats is None or self._heartbeats.done():
            self._heartbeats = asyncio.create_task(self._send_heartbeats(), name="response-heartbeats")
        return True

    def follow(self, response_id: str, after: int, exchange: Exchange) -> AsyncIterator[bytes]:
        """The encoded events of any worker's response, until the client disconnects or this worker stops.

        Whether the client may read the response was checked.
        """
        gone = asyncio.Event()
        exchange.when_gone(gone.set)
        return follow(
            self._store, response_id, exchange.account, after, lambda: gone.is_set() or self.draining
        )

    async def close(self, timeout_s: float) -> None:
        """Wait for the runs; after the timeout the rest is cancelled, and other workers find it abandoned."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in [*self._tasks, *([self._heartbeats] if self._heartbeats else [])]:
            task.cancel()
            await asyncio.wait({task})

    async def _compute(self, run: BackgroundRun) -> None:
        writing = asyncio.create_task(self._write(run))
        try:
            run.add_events(run.response_events.start())
            await self._collect_events(run)
            await writing
        except Exception:
            log.exception("background response %s failed and could not be stored", run.id)
        finally:
            writing.cancel()
            run.call.close()
            self._runs.pop(run.id, None)

    async def _collect_events(self, run: BackgroundRun) -> None:
        response_events = run.response_events
        try:
            async for batch in run.call.updates():
                run.add_events([event for _, update in batch for event in response_events.push(update)])
        except Exception as error:
            run.add_events(response_events.fail(public_error(error, run.trace)))
        if not response_events.ended:  # another worker ended it in the store
            response_events.cancel()
            run.add_events([])

    async def _write(self, run: BackgroundRun) -> None:
        """Write events until the response has ended or has another owner; a failing store stops the call."""
        try:
            while True:
                events = await run.next_events()
                ended = run.response_events.ended
                stored = run.to_stored(None if ended else self._owner)
                if not await self._store.run(ResponseDatabase.update, self._owner, stored, events) or ended:
                    return
                await asyncio.sleep(WRITE_S)
        finally:
            run.call.close()

    async def _send_heartbeats(self) -> None:
        while self._runs:
            running = dict(self._runs)
            try:
                owned = await self._store.run(ResponseDatabase.heartbeat, self._owner, list(running))
            except Unavailable:  # logged by the store
                owned = set(running)
            for response_id in running.keys() - owned:
                running[response_id].call.close()
            await asyncio.sleep(HEARTBEAT_S)


async def follow(
    store: ResponseStore, response_id: str, account: str, after: int, stopped: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The encoded events with a larger number than `after`, until the response has ended.

    Once `stopped` returns True the stream ends early; a client can continue it with another stream.
    """

    def read(database: ResponseDatabase, after: int) -> tuple[bool, list[tuple[int, bytes]]]:
        if database.is_abandoned(response_id):
            find_response(database, response_id, account)
        return database.is_running(response_id), database.events(response_id, after)

    while True:
        try:
            running, events = await store.run(read, after)
        except Unavailable:  # logged by the store
            running, events = False, []
        if events:
            after = events[-1][0]
            data = b"".join([data for _, data in events])
            yield data
            if data.endswith(DONE):
                return
        elif not running or stopped():
            yield DONE
            return
        else:
            await asyncio.sleep(POLL_S)
