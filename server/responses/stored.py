"""The store of responses as a worker sees it: off the event loop, and without those whose worker died.

Knows nothing of HTTP or of how responses come to be.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from pipelines.errors import BraidError, EngineError, Unavailable
from server.responses.events import failure
from server.responses.schema import Response
from server.responses.sse import written
from server.responses.store import Limits, Store
from server.responses.tables import Kept
from server.settings import Settings

log = logging.getLogger("braid.server")

P = ParamSpec("P")
T = TypeVar("T")


class NoResponse(BraidError):
    """There is no response of that id, or no more."""

    status, kind = 404, "invalid_request_error"

    def __init__(self, response_id: str, field: str = "response_id") -> None:
        super().__init__(f"Response with id '{response_id}' not found.", field=field)


class ResponseStorage:
    """`await keeper(Store.method, …)` calls it in the one thread that may.

    Open from start-up to shutdown.
    """

    def __init__(self, settings: Settings) -> None:
        self.keeps = settings.responses_store
        """Whether anything is stored at all."""

        self._path = settings.responses_file
        self._limits = Limits(
            settings.responses_count, settings.responses_mb << 20, settings.responses_hours * 3600
        )
        self._store: Store | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Raises RuntimeError when the file cannot be used."""
        if self.keeps:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="responses")
            loop = asyncio.get_running_loop()
            try:
                self._store = await loop.run_in_executor(self._thread, Store, self._path, self._limits)
            except (OSError, sqlite3.Error) as error:
                raise RuntimeError(f"responses cannot be stored in {self._path}: {error}") from error

    async def close(self) -> None:
        if self._thread is not None and self._store is not None:
            store, self._store = self._store, None
            await asyncio.get_running_loop().run_in_executor(self._thread, store.close)
            self._thread.shutdown()

    async def __call__(
        self, function: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Raises Unavailable when the file cannot be read or written."""
        store = self._store
        if store is None:
            raise Unavailable("this server keeps no responses now")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, lambda: function(store, *args, **kwargs))
        except sqlite3.Error as error:
            log.error("the store of responses failed", exc_info=error)
            raise Unavailable("the store of responses cannot be reached") from None

    async def get(self, response_id: str, field: str = "response_id") -> Kept:
        """Raises NoResponse, which names the `field` that the id stood in."""
        kept = await self(look, response_id) if self.keeps else None
        if kept is None:
            raise NoResponse(response_id, field)
        return kept


def look(store: Store, response_id: str) -> Kept | None:
    """A response; one whose worker died has failed."""
    kept = store.get(response_id)
    if kept is None or kept.owner is None or not store.is_abandoned(response_id):
        return kept
    response = Response.model_validate_json(kept.body)
    lost = EngineError("the process that worked on this response ended; ask again")
    told = failure(response, lost, store.next_number(response_id))
    events = [(one["sequence_number"], written(one)) for one in told]
    store.take(kept, response.status, packed(response), events)
    return store.get(response_id)


def packed(response: Response) -> bytes:
    """A response as it is stored and sent."""
    return msgspec.json.encode(response.plain())
