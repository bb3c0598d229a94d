"""A reply that is read while it is generated."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import Unavailable
from pipelines.local.engine import LocalEngine, LocalRequest
from pipelines.local.generation import TextBody, open_text
from pipelines.local.loop_thread import CLOSED, LoopThread
from pipelines.local.replies import ReplyPiece, TextReply


class ReplyStream(Iterator[ReplyPiece]):
    """Iterates over the pieces of a reply as they come.

    Its request ends with its last piece; when it is left as a context; by `close`; and when nothing refers to
    the iterator any more, as after a `break`.  One thread reads it at a time.
    """

    def __init__(self, loop: LoopThread, engine: LocalEngine, body: TextBody) -> None:
        """Returns when the request has begun.  Raises BraidError."""
        self._loop = loop
        self._request = LocalRequest()
        self._unread: deque[ReplyPiece] = deque()
        try:
            self._running = loop.wait(open_text(engine, body, self._request))
        except BaseException:
            self.close()
            raise
        self._pieces = self._running.pieces()

    def __next__(self) -> ReplyPiece:
        while not self._unread:
            try:
                updates = self._loop.wait(self._more())
            except BaseException:
                self.close()
                raise
            if updates is None:
                self.close()
                raise StopIteration
            self._unread += updates
        return self._unread.popleft()

    async def _more(self) -> list[ReplyPiece] | None:
        try:
            return await anext(self._pieces, None)
        except ClientGone:
            raise Unavailable(CLOSED) from None

    @property
    def reply(self) -> TextReply:
        """All that was generated so far, joined; whole once the iteration has ended."""
        return self._running.reply

    def close(self) -> None:
        """End the request where it has not ended."""
        self._loop.post(self._request.close)

    def __enter__(self) -> ReplyStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
