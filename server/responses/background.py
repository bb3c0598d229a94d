"""Background responses: this worker computes them, every worker can read, follow and cancel them.

The store is where workers meet: how far a response came is written there, and who works on it; a run whose
response is no longer its own ends.  Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from uuid import uuid4

from pipelines.errors import Unavailable
from pipelines.worker.call import Call
from server.generation.replies.sse import DONE
from server.http.errors import hidden
from server.http.exchange import Exchange
from server.responses.events import Telling
from server.responses.output import Event
from server.responses.sse import written
from server.responses.store import Store
from server.responses.stored import ResponseStorage, look, packed
from server.responses.tables import Kept

log = logging.getLogger("braid.server")

WRITE_S = 0.05
"""Events of a run are written together, so often."""
BEAT_S = 0.2
"""How often a worker says that it lives, and looks for runs that somebody else ended."""
POLL_S = 0.05
"""How often a stream of a background response looks for more."""


class Run:
    """One response being computed, and the events of it that are not yet written."""

    def __init__(self, telling: Telling, call: Call, items: bytes) -> None:
        self.telling = telling
        self.call = call
        self.id = telling.response.id
        self._items = items
        self._waiting: list[tuple[int, bytes]] = []
        self._news = asyncio.Event()
        self._packed: tuple[str, int] | None = None  # the state that the body tells
        self._body = b""

    def tell(self, events: list[Event]) -> None:
        self._waiting += [(told["sequence_number"], written(told)) for told in events]
        self._news.set()

    async def news(self) -> list[tuple[int, bytes]]:
        """The events since the last time, once there are some."""
        await self._news.wait()
        self._news.clear()
        taken, self._waiting = self._waiting, []
        return taken

    def kept(self, owner: str | None) -> Kept:
        """The response so far; packed anew only when its status or its items changed."""
        response = self.telling.response
        state = (response.status, len(response.output))
        if self._packed != state:
            self._packed, self._body = state, packed(response)
        ids = tuple(item["id"] for item in response.output)
        return Kept(self.id, response.status, self._body, self._items, True, owner, ids)


class Background:
    """The runs of one worker."""

    def __init__(self, keeper: ResponseStorage) -> None:
        self.leaving = False
        """Whether streams that follow a response should end: this worker will not live to see it end."""

        self._keeper = keeper
        self._owner = uuid4().hex
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._beats: asyncio.Task[None] | None = None

    async def start(self, run: Run, at_end: Callable[[], None], item_ids: tuple[str, ...] = ()) -> bool:
        """Keep the response and work on it; False, and nothing is done, when there is one of its id.

        `at_end` is called once when the run ended, however it did; `item_ids` are those of its own input.
        """
        if not await self._keeper(Store.add, replace(run.kept(self._owner), item_ids=item_ids)):
            return False
        self._runs[run.id] = run
        task = asyncio.create_task(self._whole(run), name=f"response-{run.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: at_end())
        if self._beats is None or self._beats.done():
            self._beats = asyncio.create_task(self._beat(), name="response-beats")
        return True

    def follow(self, response_id: str, after: int, exchange: Exchange) -> AsyncIterator[bytes]:
        """The events of any worker's response, until the client leaves or this worker does."""
        gone = asyncio.Event()
        exchange.when_gone(gone.set)
        return follow(self._keeper, response_id, after, lambda: gone.is_set() or self.leaving)

    async def close(self, timeout_s: float) -> None:
        """Wait for the runs; what cannot end in time is left, and found abandoned."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in [*self._tasks, *([self._beats] if self._beats else [])]:
            task.cancel()
            await asyncio.wait({task})

    async def _whole(self, run: Run) -> None:
        writing = asyncio.create_task(self._write(run))
        try:
            run.tell(run.telling.begin())
            await self._say(run)
            await writing
        except Exception:
            log.exception("response %s is lost", run.id)
        finally:
            writing.cancel()
            run.call.close()
            self._runs.pop(run.id, None)

    async def _say(self, run: Run) -> None:
        try:
            async for batch in run.call.updates():
                run.tell([told for _, update in batch for told in run.telling.push(update)])
        except Exception as error:
            run.tell(run.telling.fail(hidden(error, run.id)))
        if not run.telling.ended:  # somebody else ended it, and said so in the store
            run.telling.cancel()
            run.tell([])

    async def _write(self, run: Run) -> None:
        """Until the response ended, or is no longer ours; what cannot be written is not computed either."""
        try:
            while True:
                events = await run.news()
                ended = run.telling.ended
                kept = run.kept(None if ended else self._owner)
                if not await self._keeper(Store.go_on, self._owner, kept, events) or ended:
                    return
                await asyncio.sleep(WRITE_S)
        finally:
            run.call.close()

    async def _beat(self) -> None:
        while self._runs:
            asked = dict(self._runs)
            try:
                ours = await self._keeper(Store.beat, self._owner, list(asked))
            except Unavailable:  # logged where it happened
                ours = set(asked)
            for response_id in asked.keys() - ours:
                asked[response_id].call.close()
            await asyncio.sleep(BEAT_S)


async def follow(
    keeper: ResponseStorage, response_id: str, after: int, stopped: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The events with a larger number than `after`, as they come; the stream's end when no more will.

    Once `stopped` it ends where it is; a client goes on from there with another stream.
    """

    def more(store: Store, after: int) -> tuple[bool, list[tuple[int, bytes]]]:
        if store.is_abandoned(response_id):
            look(store, response_id)
        return store.is_owned(response_id), store.events(response_id, after)

    while True:
        try:
            running, events = await keeper(more, after)
        except Unavailable:  # logged where it happened
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
