"""`gunicorn -c server/gunicorn_conf.py` starts a whole server: workers, engine host and its supervision.

Its settings are `BRAID_` variables (`server/base/settings.py`, docs/settings.md); a wrong or unknown one
stops the start.

Signals to the master: SIGTERM drains and stops, SIGHUP reloads changed models and replaces the workers.
USR2 (binary upgrade) would start a second engine host and is not supported.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pipelines.telemetry import registry
from server.base.environment import SettingsError, read_settings
from server.base.places import bracketed
from server.process import startup
from server.temporary_config import remove_temporary
from server.traces.endpoint import check_traces

try:
    settings = read_settings()
    check_traces(os.environ)
except SettingsError as error:
    sys.exit(f"Braid cannot start:\n{error}")

wsgi_app = "server.app:app"
bind = f"{bracketed(settings.host)}:{settings.port}"
workers = 1 if settings.in_process else settings.workers
worker_class = "server.process.worker.Worker"
timeout = 30
graceful_timeout = settings.grace_s
keepalive = 75
preload_app = False  # never: a compiled model made before a fork hangs in the child
loglevel = settings.log_level
accesslog = "-" if settings.access_log else None
control_socket_disable = True


def on_starting(arbiter: Any) -> None:
    """Once per server, before the first worker."""
    startup.start(arbiter, settings)


def on_reload(arbiter: Any) -> None:
    """SIGHUP: each host looks at the model repository while gunicorn replaces the workers."""
    if not settings.in_process:
        arbiter.braid_engines.signal(signal.SIGHUP)


def child_exit(arbiter: Any, worker: Any) -> None:
    """A worker ended, however it did."""
    registry.mark_dead(worker.pid)


def on_exit(arbiter: Any) -> None:
    """End what is left, after the workers have drained."""
    startup.stop(arbiter)
    remove_temporary(settings.models)
