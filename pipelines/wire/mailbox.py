"""Where the updates of one request wait to be read.

Knows choices and updates; knows nothing of connections, engines or text.  Belongs to one event loop.
"""

from __future__ import annotations

import asyncio

from pipelines.errors import BraidError
from pipelines.wire.messages import TokenUpdate


class Mailbox:
    """Updates of one request that nobody has read yet.

    Updates of a choice that pile up are joined into one, so a slow reader does less work, not more.
    `open` holds the choices that have not ended; an update of a choice that is not in it is dropped.
    """

    def __init__(self) -> None:
        self.open: set[int] = set()
        self._unread: dict[int, TokenUpdate] = {}
        self._error: BraidError | None = None
        self._wake: asyncio.Future[None] | None = None

    async def get(self) -> list[TokenUpdate]:
        """All unread updates, at most one per choice; waits for the first; [] once every choice has ended.

        Raises the request's BraidError, after what came before it was read: a step failed, the model is
        gone, or the host died.  Cancelling a `get` loses nothing.  One reader at a time.
        """
        while not self._unread and self.open:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        if self._unread:
            unread, self._unread = self._unread, {}
            return list(unread.values())
        if self._error is not None:
            raise self._error
        return []

    def put(self, update: TokenUpdate) -> None:
        """Take one update; with `finish` its choice has ended."""
        if update.choice not in self.open:
            return
        earlier = self._unread.setdefault(update.choice, update)
        if earlier is not update:
            _join(earlier, update)
        if update.finish is not None:
            self.open.discard(update.choice)
        self._notify()

    def fail(self, error: BraidError) -> None:
        """End every choice with `error`; what is unread stays readable.  After the end: no effect."""
        if self.open:
            self._error = error
            self.end()

    def drop(self, choice: int) -> None:
        """End one choice without a word; what it said before stays readable."""
        self.open.discard(choice)
        self._notify()

    def end(self) -> None:
        """End every choice without a word; a waiting `get` returns."""
        self.open.clear()
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


def _join(earlier: TokenUpdate, update: TokenUpdate) -> None:
    """Append `update` to an unread update of the same choice.  `num_cached` is true on the first only."""
    earlier.token_ids = earlier.token_ids + update.token_ids
    earlier.logprobs = earlier.logprobs + update.logprobs
    earlier.finish, earlier.stop_token_id = update.finish, update.stop_token_id
