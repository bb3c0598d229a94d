"""Both ends of the wire in one process: the engine host is a thread of the process with the client.

For `braid serve --in-process`, tests and scripts.  A step that holds the GIL delays everything else here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from pipelines.host.host import Host
from pipelines.host.models.loader import ModelSource
from pipelines.host.models.residents import MemoryLimits
from pipelines.inference.engine.batching.threaded_engine import wait_for_threads
from pipelines.wire.client import EngineClient
from pipelines.wire.listener import InProcessListener
from pipelines.wire.messages import Status

log = logging.getLogger("braid.host")

DRAIN_S = 10.0
"""How long `close` waits for the engine thread."""


class InProcessClient(EngineClient):
    """An EngineClient that owns its host: `start` starts the thread, `close` drains and joins it."""

    def __init__(
        self,
        source: ModelSource,
        *,
        snapshots: Path | None = None,
        limits: MemoryLimits | None = None,
        announce: Callable[[Status], None] = lambda status: None,
    ) -> None:
        listener = InProcessListener()
        super().__init__(listener.connect)
        self.host = Host(source, listener, snapshots=snapshots, limits=limits, announce=announce)
        self._thread = threading.Thread(target=self._run, name="engine-host", daemon=True)
        self._ended = asyncio.Event()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        await super().start()

    async def close(self) -> None:
        await super().close()
        self.host.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self._ended.wait()
            wait_for_threads(DRAIN_S)  # not in a thread: none is started while the program ends

    def _run(self) -> None:
        try:
            self.host.run()
        except BaseException:
            log.exception("the engine thread failed")
            self._loop.call_soon_threadsafe(self.lost)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the end is not waited for any more
            self._loop.call_soon_threadsafe(self._ended.set)
