"""Holds the updates or the result of one request until they are read.

Belongs to one event loop.  Does not depend on connections, engines or text.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace
from numpy.typing import NDArray

from pipelines.base.errors import BraidError
from pipelines.wire.messages import TokenUpdate

MAX_UNREAD = 1 << 16
"""Tokens and their alternatives that wait for one reader; with all their log-probabilities about 7 MB."""
MAX_READ = 1000
"""Tokens and alternatives that a reader gets at once, or those of one token: what becomes of them is done in
one turn of the event loop, and takes about 3 ms with log-probabilities.
"""


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
        self._left_some = False  # whether the last reader did not get all

    async def get(self) -> list[TokenUpdate]:
        """Unread updates, at most one per choice and MAX_READ tokens and alternatives; waits for the first;
        [] once every choice has ended.  Between two parts of what was there others have a turn.

        Raises the request's BraidError, after what came before it was read: a step failed, the model is
        gone, or the host died.  Cancelling a `get` loses nothing.  One reader at a time.
        """
        while not self._unread and self.open:
            await self._wait()
        if self._left_some:
            await asyncio.sleep(0)
        if self._num_unread > MAX_READ:
            return self._some()
        if self._unread:
            unread, self._unread, self._num_unread, self._left_some = self._unread, {}, 0, False
            return list(unread.values())
        if self._error is not None:
            raise self._error
        return []

    def _some(self) -> list[TokenUpdate]:
        """The updates that a reader gets at once: MAX_READ tokens and alternatives at most."""
        taken: list[TokenUpdate] = []
        room = MAX_READ
        for choice, update in list(self._unread.items()):
            num_fitting, size = _fitting(update, room)
            if num_fitting < len(update.piece.token_ids):
                if num_fitting == 0 and taken:
                    break
                update = replace(update, piece=update.piece.split(max(1, num_fitting)))
                size = _size(update)
            else:
                del self._unread[choice]
            taken.append(update)
            self._num_unread -= size
            room -= size
            if room <= 0:
                break
        self._left_some = bool(self._unread)
        return taken

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


def _fitting(update: TokenUpdate, room: int) -> tuple[int, int]:
    """How many of an update's tokens fit with their alternatives, and the size of those."""
    scores = update.piece.logprobs.tokens if update.piece.logprobs is not None else []
    size = 0
    for place in range(len(update.piece.token_ids)):
        more = 1 + (len(scores[place].top_ids) if place < len(scores) else 0)
        if size + more > room:
            return place, size
        size += more
    return len(update.piece.token_ids), size


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
