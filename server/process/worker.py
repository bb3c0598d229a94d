"""The gunicorn worker class, made from uvicorn's.

Added: requests that outlive the graceful timeout end with an error instead of SIGKILL; `--reload` works; a
worker without a master ends; request lines and headers are bounded in size and in time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn.arbiter import Arbiter
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import Server
from uvicorn_worker import UvicornWorker

from pipelines.garbage_collection import freeze_objects
from server.process.worker_state import STATE_KEY, WorkerProcess, WorkerState
from server.settings import read_settings

MAX_HEADER_BYTES = 64 << 10
"""Request line and headers together."""
HEADER_OVERHEAD_BYTES = 32
"""Counted for each header besides its text, so that many short ones are bounded too."""
KILL_MARGIN_S = 2
"""Workers end this long before the master would kill them."""
DRAIN_MARGIN_S = 1.0
"""Streams are ended this long before uvicorn cancels what is left."""
FIRST_REQUEST_S = 1.0
"""A connection made just before its worker leaves has this time to send its first request."""
MAX_MESSAGE_BYTES = 16 << 20
"""Of a WebSocket."""


class HeadersTooLarge(Exception):
    """Raised inside the parser's callbacks; the parser reports it as a bad request."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a bound on the request head: MAX_HEADER_BYTES, and `header_timeout_s` to send it.

    The clock runs from the connection or the first byte of a request to the end of its headers.  A worker
    that leaves still answers the first request of a connection, which uvicorn would reset.
    """

    def __init__(self, *args: Any, header_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_timeout_s = header_timeout_s
        self._num_bytes = 0
        self._started = False
        self._clock: asyncio.TimerHandle | None = None
        self._leaving = False

    def shutdown(self) -> None:
        if self.cycle is None:
            self._leaving = True
            self.loop.call_later(FIRST_REQUEST_S, self._leave)
        else:
            super().shutdown()

    def _leave(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._num_bytes = 0
        self._started = True
        self._start_clock()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + HEADER_OVERHEAD_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_clock()
        super().on_headers_complete()
        if self._leaving and self.cycle is not None:
            self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        """The reply to what the parser refuses; a head that is too large gets 431."""
        if self._num_bytes > MAX_HEADER_BYTES:
            self._refuse(431)
        else:
            super().send_400_response(msg)

    def _count(self, num_bytes: int) -> None:
        self._num_bytes += num_bytes
        if self._num_bytes > MAX_HEADER_BYTES:
            raise HeadersTooLarge

    def _start_clock(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self._header_timeout_s, self._time_is_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _time_is_up(self) -> None:
        self._clock = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._start_clock()  # a pipelined request: the response before it must not be broken
        elif self._started:
            self._refuse(408)
        else:
            self.transport.close()  # opened and never used, as browsers do

    def _refuse(self, status: int) -> None:
        self._stop_clock()
        if not self.transport.is_closing():
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()


def give_way() -> None:
    """Schedule this process as batch work: a worker that wakes up does not preempt a thread of the model.

    Each token wakes a worker, on the core of the host that sent it.  Where the system has no such policy, or
    does not allow it, nothing changes.
    """
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class DrainingServer(Server):
    """Uvicorn's server, which ends long streams before it cancels them."""

    def __init__(self, config: Config, process: WorkerProcess) -> None:
        super().__init__(config)
        self._process = process

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.lifespan.state[STATE_KEY] = self._process
        await super().startup(sockets)
        freeze_objects()
        give_way()
        self._process.state.set_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        grace_s = self.config.timeout_graceful_shutdown or 0
        delay_s = max(0.2, grace_s - DRAIN_MARGIN_S)
        timer = asyncio.get_running_loop().call_later(delay_s, self._process.drain.end_streams)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()


class Worker(UvicornWorker):  # type: ignore[misc]  # uvicorn_worker has no types
    """One HTTP process.  It looks at its master once a second."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.CONFIG_KWARGS = {
            "loop": "uvloop",
            "http": partial(BoundedProtocol, header_timeout_s=read_settings().header_timeout_s),
            "ws_max_size": MAX_MESSAGE_BYTES,
            "server_header": False,
        }
        super().__init__(*args, **kwargs)
        self.config.timeout_graceful_shutdown = max(1, self.cfg.graceful_timeout - KILL_MARGIN_S)
        self.config.timeout_notify = 1
        self.config.access_log = bool(self.cfg.accesslog)
        self.state, self.made_at_s = WorkerState(), time.monotonic()  # the master's pool reads both
        self._leaving = False
        self._log_everything()

    async def callback_notify(self) -> None:
        """Touch the worker's file; end when a reload is requested or when the master is gone."""
        self.notify()
        if not self._leaving and (not self.alive or os.getppid() != self.ppid):
            self._leaving = True
            os.kill(os.getpid(), signal.SIGTERM)

    def _log_everything(self) -> None:
        """Whatever is logged in this process goes where gunicorn's own lines go."""
        root, gunicorn = logging.getLogger(), self.log.error_log
        root.handlers = gunicorn.handlers
        root.setLevel(gunicorn.level)

    async def _serve(self) -> None:
        self.config.app = self.wsgi
        server = DrainingServer(self.config, WorkerProcess(self.state))
        self._install_sigquit_handler()
        await server.serve(sockets=self.sockets)
        if not server.started:
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
