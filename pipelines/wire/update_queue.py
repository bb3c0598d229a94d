"""Holds the updates or the result of one request until they are read.

Belongs to one event loop.  Does not depend on connections, engines or text.
"""

from __future__ import annotations

import asyncio
from typing import Any

from numpy.typing import NDArray

from pipelines.base.errors import BraidError
from pipelines.wire.messages import TokenUpdate

MAX_UNREAD = 1 << 16
"""Tokens and their alternatives that wait for one reader; with all their log-probabilities about 7 MB."""


class _Pending:
    """The end of a request's choices; `open` has those that have not ended, others get no update."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self._error: BraidError | None = None
        self._wake: asyncio.Future[None] | None = None

    def fail(self, error: BraidError) -> None:
        """End every choice with `error`; what is unread stays readable.  After the end: no effect."""
        if self.open:
            self._error = error
            self.end()

    def drop(self, choice: int) -> None:
        """End one choice without an update; unread updates stay readable."""
        self.open.discard(choice)
        self._notify()

    def end(self) -> None:
        """End every choice without an update; a waiting `get` returns."""
        self.open.clear()
        self._notify()

    async def _wait(self) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        await self._wake

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class UpdateQueue(_Pending):
    """The unread updates of one request.

    Unread updates of a choice are joined into one, so a slow reader does less work, not more; one that reads
    too little is cut off.  With `whole` the reader is woken by the first update of a choice and by its end
    alone, and as much waits as there is.
    """

    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.whole = whole
        self._unread: dict[int, TokenUpdate] = {}
        self._num_unread = 0

    async def get(self) -> list[TokenUpdate]:
        """All unread updates, at most one per choice; waits for the first; [] once every choice has ended.

        Raises the request's BraidError, after what came before it was read: a step failed, the model is
        gone, or the host died.  Cancelling a `get` loses nothing.  One reader at a time.
        """
        while not self._unread and self.open:
            await self._wait()
        if self._unread:
            unread, self._unread, self._num_unread = self._unread, {}, 0
            return list(unread.values())
        if self._error is not None:
            raise self._error
        return []

    @property
    def is_overfull(self) -> bool:
        """Whether the reader takes too little, as for a client that does not read its stream."""
        return self._num_unread > MAX_UNREAD and not self.whole

    def put(self, update: TokenUpdate) -> None:
        """Add one update; with `finish` its choice has ended."""
        if update.choice not in self.open:
            return
        self._num_unread += _size(update)
        unread = self._unread.setdefault(update.choice, update)
        if unread is not update:
            unread.piece.extend(update.piece)
        has_ended = update.piece.finish is not None
        if has_ended:
            self.open.discard(update.choice)
        if has_ended or not self.whole or update.piece.prefill_s is not None:
            self._notify()


def _size(update: TokenUpdate) -> int:
    """Tokens of an update, and alternatives of those that have some."""
    piece, found = update.piece, update.piece.logprobs
    return len(piece.token_ids) + (sum(len(each.top_ids) for each in found.tokens) if found else 0)


class PendingReply(_Pending):
    """The result of a request whose reply is one message; it counts as choice 0."""

    def __init__(self) -> None:
        super().__init__()
        self._result: dict[str, NDArray[Any]] | None = None

    async def get(self) -> dict[str, NDArray[Any]] | None:
        """Waits for the result; None when the request was ended without one.

        Raises the request's BraidError.  Cancelling a `get` loses nothing.  One reader at a time.
        """
        while self.open:
            await self._wait()
        if self._error is not None:
            raise self._error
        return self._result

    def put(self, result: dict[str, NDArray[Any]]) -> None:
        """Set the result, which ends the request."""
        if self.open:
            self._result = result
            self.end()
