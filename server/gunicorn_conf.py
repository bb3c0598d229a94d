"""`gunicorn -c server/gunicorn_conf.py` starts a whole server: workers, engine host and its supervision.

Set by the environment (`server/settings.py` checks; a wrong or unknown BRAID_ variable stops the start):

| variable               | default    | meaning                                                             |
|------------------------|------------|---------------------------------------------------------------------|
| BRAID_HOST             | 127.0.0.1  | address to listen at; 0.0.0.0 for every interface                   |
| BRAID_PORT             | 8000       | port to listen at                                                   |
| BRAID_MODELS           | model_repo | the model repository; the default: here, else beside the packages   |
| BRAID_DEVICE           |            | cpu or cuda:0: run every model here, whatever its graph says        |
| BRAID_WORKERS          | 2          | HTTP processes                                                      |
| BRAID_API_KEYS         |            | keys that clients may send, with commas between; none: no key asked |
| BRAID_IN_PROCESS       | 0          | 1: one worker, the engine a thread of it; for development           |
| BRAID_GRACE_S          | 30         | seconds that running requests have to finish after SIGTERM          |
| BRAID_ENGINE_TIMEOUT_S | 60         | seconds without a heartbeat until the engine host is restarted      |
| BRAID_HEADER_TIMEOUT_S | 20         | seconds a client has to send a request's headers                    |
| BRAID_LOG_LEVEL        | info       | debug, info, warning or error                                       |
| BRAID_ACCESS_LOG       | 0          | 1: a line on stdout for each request                                |
| BRAID_MAX_BODY_MB      | 64         | largest request body; beyond it 413                                 |
| BRAID_MAX_CONCURRENCY  | 256        | requests in flight per worker; beyond it 429                        |
| BRAID_CORS_ORIGINS     |            | web origins that may call, with commas between; * for all           |
| BRAID_TRUST_REQUEST_CHAT_TEMPLATE | 0 | 1: a request may bring its own chat template                 |
| BRAID_RESPONSES_STORE  | 1          | 0: responses are not stored, whatever their requests ask            |
| BRAID_RESPONSES_FILE   |            | SQLite file they are stored in; none: they go when the server stops |
| BRAID_RESPONSES_COUNT  | 10000      | most responses stored; the oldest go first                          |
| BRAID_RESPONSES_MB     | 512        | most megabytes stored                                               |
| BRAID_RESPONSES_HOURS  | 24         | how long a response is stored                                       |
| BRAID_ENGINE_SOCKET    |            | set by the server for its workers, not by you                       |

Signals to the master: SIGTERM drains and stops, SIGHUP reloads changed models and replaces the workers.
USR2 (binary upgrade) would start a second engine host and is not supported.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pipelines.telemetry import metrics
from server.process import supervisor
from server.settings import SettingsError, bracketed, read_settings

try:
    settings = read_settings()
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
    supervisor.start(arbiter, settings)


def on_reload(arbiter: Any) -> None:
    """SIGHUP: the host looks at the model repository while gunicorn replaces the workers."""
    if not settings.in_process:
        arbiter.braid_engine.signal(signal.SIGHUP)


def child_exit(arbiter: Any, worker: Any) -> None:
    """A worker ended, however it did."""
    metrics.mark_dead(worker.pid)


def on_exit(arbiter: Any) -> None:
    """After the workers have drained."""
    supervisor.stop(arbiter)
