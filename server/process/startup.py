"""Start and end of a server: its private folder, its engine hosts and its workers' pool.

The gunicorn configuration calls these functions.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from server.base.settings import Settings
from server.keys.key_file import KEYS_COPY, KeyFile, KeyFileError
from server.process.engine_hosts import EngineHosts
from server.process.grpc_port import check_grpc
from server.process.host_command import HostPlan, host_command, plan_hosts
from server.process.open_files import allow_open_files
from server.process.private_folder import PrivateFolder, remove_left_over
from server.process.supervisor import EngineSupervisor
from server.process.worker_pool import WorkerPool


def start(arbiter: Any, settings: Settings) -> None:
    """Prepare a server's private folder and, unless in-process, start and supervise its engine hosts.

    Sets BRAID_TLS, and what `open_folder` sets, for every process that is started from here on.
    """
    settings = settings.model_copy(update={"tls": bool(arbiter.cfg.is_ssl)})
    os.environ["BRAID_TLS"] = str(settings.tls)
    allow_open_files()
    if settings.grpc_port is not None:
        check_grpc(settings, settings.grpc_port)
    _announce_end(arbiter)
    arbiter.braid_folder = folder = open_folder(settings, arbiter.log)
    if settings.keys_file is not None:
        try:
            KeyFile(settings.keys_file, folder.path / KEYS_COPY)
        except KeyFileError as error:
            folder.remove()
            sys.exit(f"Braid cannot start: BRAID_KEYS_FILE: {error}")
    if settings.in_process:
        return
    try:
        arbiter.braid_engines = supervise(settings, arbiter.braid_folder, arbiter.log)
    except ValueError as error:
        sys.exit(f"Braid cannot start: BRAID_ENGINES: {error}")
    WorkerPool(arbiter, arbiter.braid_engines).install()
    arbiter.braid_engines.poll()


def open_folder(settings: Settings, log: logging.Logger) -> PrivateFolder:
    """A private folder, after those of servers that were killed are removed.

    Sets BRAID_ENGINE_SOCKET, BRAID_RESPONSES_FILE, BRAID_USAGE_FILE, BRAID_FILES and
    PROMETHEUS_MULTIPROC_DIR in the environment.
    """
    for left in remove_left_over():
        log.info("Removed %s, which a killed server left behind", left)
    folder = PrivateFolder()
    (folder.path / "metrics").mkdir()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder.path / "metrics")
    if settings.responses_file is None:
        os.environ["BRAID_RESPONSES_FILE"] = str(folder.path / "responses.sqlite")
    if settings.usage_file is None:
        os.environ["BRAID_USAGE_FILE"] = str(folder.path / "usage.sqlite")
    if settings.files is None:
        os.environ["BRAID_FILES"] = str(folder.path / "files")
    os.environ["BRAID_ENGINE_SOCKET"] = str(folder.path / "engine.sock")
    return folder


def supervise(
    settings: Settings, folder: PrivateFolder, log: logging.Logger, with_banner: bool = True
) -> EngineHosts:
    """What starts the engine hosts, at its first `poll`.  Raises ValueError where cores are too few."""
    settings = settings.model_copy(update={"engine_socket": folder.path / "engine.sock"})
    return EngineHosts([_supervisor(settings, plan, log, with_banner) for plan in plan_hosts(settings)])


def _supervisor(
    settings: Settings, plan: HostPlan, log: logging.Logger, with_banner: bool
) -> EngineSupervisor:
    """The supervisor of one host; the first start of the first one prints the banner."""
    is_first = plan.label is None or plan.label.startswith("0/")
    return EngineSupervisor(
        lambda number: host_command(settings, plan, with_banner=with_banner and is_first and number == 0),
        plan,
        log,
        timeout_s=settings.engine_timeout_s,
        grace_s=settings.grace_s,
    )


def _announce_end(arbiter: Any) -> None:
    """Have the arbiter note in each worker's shared memory, before it stops them, that the server ends."""
    stop_workers = arbiter.stop

    def announce_and_stop(graceful: bool = True) -> None:
        for worker in list(arbiter.WORKERS.values()):
            worker.state.set_server_ends()
        stop_workers(graceful)

    arbiter.stop = announce_and_stop


def stop(arbiter: Any) -> None:
    """The end of a server: its workers are gone, now its host and its folder go."""
    if getattr(arbiter, "braid_engines", None) is not None:
        arbiter.braid_engines.stop()
    arbiter.braid_folder.remove()
