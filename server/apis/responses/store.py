"""The response store of one worker: runs database calls off the event loop, and fails orphaned responses.

Does not depend on HTTP.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from graphs.errors import shown
from pipelines.base.errors import BraidError, EngineError
from server.apis.responses.database import ResponseDatabase, StoreLimits
from server.apis.responses.event_encoding import encode, encode_event
from server.apis.responses.events import failure_events
from server.apis.responses.reply_models import Response
from server.apis.responses.sqlite_tables import StoredResponse
from server.base.disk_space import DiskReserve
from server.base.replica_ids import replica_of
from server.base.settings import Settings
from server.sqlite.off_loop import OffLoop

P = ParamSpec("P")
T = TypeVar("T")


class NoResponse(BraidError):
    """No response with that id is stored; where the id names another server than this one, which."""

    status, kind = 404, "invalid_request_error"

    def __init__(self, response_id: str, field: str = "response_id", replica: str | None = None) -> None:
        """`replica` is the name of this server."""
        word = "previous_response_not_found" if field == "previous_response_id" else None
        text = f"Response with id '{shown(response_id)}' not found."
        stored_by = replica_of(response_id)
        if replica is not None and stored_by not in (None, replica):
            text += (
                f" It is stored by the replica '{stored_by}', and this is '{replica}': send the X-Session-ID "
                "of the request that made it, or let the proxy follow the replica that the id names."
            )
        super().__init__(text, field=field, word=word)


class ResponseStore:
    """Async access to the response database: `await store.run(ResponseDatabase.method, …)`.

    All calls run in one thread.  Open from start-up to shutdown of the worker.
    """

    def __init__(self, settings: Settings) -> None:
        self.enabled = settings.responses_store
        """Whether this server stores responses (BRAID_RESPONSES_STORE)."""

        self._path = settings.responses_file
        self._replica = settings.replica
        self._limits = StoreLimits(
            max_count=settings.responses_count,
            max_bytes=settings.responses_mb << 20,
            max_age_s=settings.responses_hours * 3600,
            share=settings.key_share,
        )
        self._reserve = DiskReserve(settings.disk_reserve_mb << 20)
        self._off_loop = OffLoop("response store", lambda: ResponseDatabase(self._path, self._limits))

    async def open(self) -> None:
        """Open the database.  Raises RuntimeError when the file cannot be used; each use tries it again."""
        if self.enabled:
            self._off_loop.start()
            try:
                await self._off_loop.open()
            except (OSError, sqlite3.Error) as error:
                raise RuntimeError(f"responses cannot be stored in {self._path}: {error}") from error

    async def close(self) -> None:
        await self._off_loop.close()

    async def run(
        self, function: Callable[Concatenate[ResponseDatabase, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`function(database, *args, **kwargs)` in the store's thread.  Raises Unavailable when it fails."""
        return await self._off_loop.run(function, *args, **kwargs)

    async def add(self, stored: StoredResponse) -> bool:
        """Store a new response; False when its id is in use.

        Raises Unavailable, and StorageFull where the disk, or the store for one response, is too small.
        """
        return await self.run(self._add, stored)

    def _add(self, database: ResponseDatabase, stored: StoredResponse) -> bool:
        if self._path is not None:
            self._reserve.check(self._path.parent, len(stored.body) + len(stored.items))
        return database.add(stored)

    async def get(self, response_id: str, account: str, field: str = "response_id") -> StoredResponse:
        """A stored response that `account` may read.

        Raises NoResponse, naming the request's `field` that held the id.
        """
        stored = await self.run(find_response, response_id, account) if self.enabled else None
        if stored is None:
            raise self.missing(response_id, field)
        return stored

    def missing(self, response_id: str, field: str = "response_id") -> NoResponse:
        """The error for a response that is not stored here."""
        return NoResponse(response_id, field, self._replica)


def find_response(database: ResponseDatabase, response_id: str, account: str) -> StoredResponse | None:
    """A stored response of an account; a running one whose worker died is marked as failed first."""
    stored = database.get(response_id, account)
    if stored is None or stored.owner is None or not database.is_abandoned(response_id):
        return stored
    response = Response.model_validate_json(stored.body)
    lost = EngineError("the process that computed this response ended; send the request again")
    failed = failure_events(response, lost, database.next_number(response_id))
    events = [(event["sequence_number"], encode_event(event)) for event in failed]
    database.end(stored, response.status, encode_response(response), events)
    return database.get(response_id, account)


def encode_response(response: Response) -> bytes:
    """A response as it is stored and sent."""
    return encode(response.to_dict())
