"""An event loop in a thread of its own, for callers in other threads that wait for what it does."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pipelines.base.errors import Unavailable

T = TypeVar("T")

CLOSED = "the models are closed"


class LoopThread:
    """Runs coroutines for any number of threads until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="braid-local", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns; it is cancelled where the wait is interrupted.

        Raises what `work` does, and Unavailable when the loop is closed before its end.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise Unavailable(CLOSED) from None
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Unavailable(CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def post(self, callback: Callable[[], Any]) -> None:
        """Have the loop call `callback` soon; a loop that is closed does nothing."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        self.wait(_cancel_others())
        self.post(self._loop.stop)
        self._thread.join()
        with contextlib.suppress(RuntimeError):  # at the interpreter's end no thread can be started
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
