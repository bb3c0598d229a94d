"""The gunicorn worker class, made from uvicorn's.

Added: requests that outlive the graceful timeout end with an error instead of SIGKILL; `--reload` works; a
worker without a master ends; requests are bounded in size and in time while they come in.
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
from uvicorn.server import Server
from uvicorn_worker import UvicornWorker

from pipelines.base.garbage_collection import freeze_objects, map_large_blocks
from server.base.environment import read_settings
from server.http.bounded_protocol import BoundedProtocol
from server.process.socket_options import socket_options
from server.process.worker_state import STATE_KEY, WorkerProcess, WorkerState

KILL_MARGIN_S = 2
"""Workers end this long before the master would kill them."""
DRAIN_MARGIN_S = 1.0
"""Streams are ended this long before uvicorn cancels what is left."""


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
        map_large_blocks()
        give_way()
        self._process.state.set_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        grace_s = self.config.timeout_graceful_shutdown or 0
        self._process.drain.begin()
        delay_s = max(0.2, grace_s - DRAIN_MARGIN_S)
        timer = asyncio.get_running_loop().call_later(delay_s, self._process.drain.end_streams)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()


class Worker(UvicornWorker):  # type: ignore[misc]  # uvicorn_worker has no types
    """One HTTP process.  It looks at its master once a second."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings = read_settings()
        self.CONFIG_KWARGS = {
            "loop": "uvloop",
            "http": partial(
                BoundedProtocol,
                header_timeout_s=settings.header_timeout_s,
                body_timeout_s=settings.body_timeout_s,
            ),
            **socket_options(),
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
        is_orphan = os.getppid() != self.ppid
        if not self._leaving and (not self.alive or is_orphan):
            self._leaving = True
            if is_orphan:
                self.state.set_server_ends()
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
