"""Start and end of a server: its private folder, its engine host and its workers' pool.

The gunicorn configuration calls these functions.
"""

from __future__ import annotations

import os
from typing import Any

from server.process.grpc_port import check_grpc
from server.process.private_folder import PrivateFolder, remove_left_over
from server.process.supervisor import EngineSupervisor, host_command
from server.process.worker_pool import WorkerPool
from server.settings import Settings


def start(arbiter: Any, settings: Settings) -> None:
    """Prepare a server's private folder and, unless in-process, start and supervise its engine host.

    Sets BRAID_ENGINE_SOCKET, BRAID_RESPONSES_FILE, BRAID_TLS and PROMETHEUS_MULTIPROC_DIR for every process
    that is started from here on.
    """
    settings = settings.model_copy(update={"tls": bool(arbiter.cfg.is_ssl)})
    os.environ["BRAID_TLS"] = str(settings.tls)
    if settings.grpc_port is not None:
        check_grpc(settings, settings.grpc_port)
    for left in remove_left_over():
        arbiter.log.info("Removed %s, which a killed server left behind", left)
    arbiter.braid_folder = PrivateFolder()
    folder = arbiter.braid_folder.path
    (folder / "metrics").mkdir()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder / "metrics")
    if settings.responses_file is None:
        os.environ["BRAID_RESPONSES_FILE"] = str(folder / "responses.sqlite")
    socket = folder / "engine.sock"
    os.environ["BRAID_ENGINE_SOCKET"] = str(socket)
    if settings.in_process:
        return
    arbiter.braid_engine = EngineSupervisor(
        lambda number: host_command(settings, socket, folder / "heartbeat", with_banner=number == 0),
        folder / "heartbeat",
        arbiter.log,
        timeout_s=settings.engine_timeout_s,
        grace_s=settings.grace_s,
    )
    WorkerPool(arbiter, arbiter.braid_engine).install()
    arbiter.braid_engine.poll()


def stop(arbiter: Any) -> None:
    """The end of a server: its workers are gone, now its host and its folder go."""
    if getattr(arbiter, "braid_engine", None) is not None:
        arbiter.braid_engine.stop()
    arbiter.braid_folder.remove()
