"""The engine host as a process: `python -m pipelines.host --models FOLDER --socket PATH`.

Handles signals, logs, the heartbeat and the death of the parent; `host.py` has the loop.
SIGTERM finishes the requests in flight and exits 0, SIGHUP scans the model repository again.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pipelines.host.announce import announce
from pipelines.host.background_build import start_build
from pipelines.host.first_run.new_models import HostOptions
from pipelines.host.host import Host
from pipelines.host.models.process_death import die_with_parent
from pipelines.host.models.residents import MemoryLimits
from pipelines.inference.backends.host_memory import default_cache_bytes, limit_default_caches
from pipelines.inference.contracts.device_errors import DeviceLost
from pipelines.telemetry import metrics, processes
from pipelines.wire.lora_modules import parse_module
from pipelines.wire.messages import Status
from pipelines.wire.socket_listener import SocketListener

log = logging.getLogger("braid.host")

DEVICE_LOST = 3  # exit status
LOG_FORMAT = "[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM; never returns."""
    options = _parse(arguments)
    faulthandler.enable()
    logging.basicConfig(level=options.log_level.upper(), format=LOG_FORMAT, datefmt="%Y-%m-%d %H:%M:%S %z")
    logging.getLogger("onnx_ir").setLevel(logging.WARNING)  # it logs every pass over a graph
    index, _, number = (options.engine or "0/1").partition("/")
    host = Host(
        HostOptions(
            options.models,
            options.device,
            options.cache,
            options.first_run,
            options.prefix_file_gb,
            engine=index,
            prepared_mb=options.prepared_mb,
            poll_s=options.poll_models,
            modules=[parse_module(module) for module in options.lora_module],
        ).source(),
        SocketListener(options.socket),
        snapshots=options.snapshots,
        limits=MemoryLimits.of(
            options.max_loaded_gb, options.idle_unload, options.load_timeout, options.load_on_request
        ),
        heartbeat=_heartbeat(options.heartbeat),
        announce=partial(_announce, options),
    )
    processes.register("host")
    if options.engine:
        metrics.engine_is_up(index, int(number))
        limit_default_caches(default_cache_bytes() // int(number))
    _handle_signals(host)
    die_with_parent(options.parent)  # without workers no request is left to finish
    start_build(options.device)
    try:
        host.run()
    except DeviceLost as error:
        log.critical("%s; the engine host ends and is started again", error)
        os._exit(DEVICE_LOST)  # the interpreter's end would call the device, and might wait indefinitely
    log.info("drained")
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)  # not sys.exit: a load may be inside C++, and the interpreter must not end under it


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pipelines.host", description="The engine host of a Braid server.")
    parser.add_argument("--models", type=Path, required=True, help="the model repository")
    parser.add_argument("--socket", type=Path, required=True, help="unix socket to listen at")
    parser.add_argument("--device", help="run every model on this device instead of the one in its graph")
    parser.add_argument("--heartbeat", type=Path, help="file whose modification time is the heartbeat")
    parser.add_argument(
        "--snapshots", type=Path, help="folder for copies of models' small files; default: temporary"
    )
    parser.add_argument(
        "--cache", type=Path, help="folder for what can be made again; default: the user's own"
    )
    parser.add_argument("--prepared-mb", type=int, default=0, help="MB of prepared models; 0: none")
    parser.add_argument(
        "--first-run", action="store_true", help="run a model that is new in a process of its own first"
    )
    parser.add_argument(
        "--prefix-file-gb", type=float, default=0, help="GiB of each model's file of prefixes; 0: none"
    )
    parser.add_argument("--max-loaded-gb", type=float, help="GiB that loaded models take at most")
    parser.add_argument(
        "--load-timeout", type=float, default=60, help="seconds that a request waits for that"
    )
    parser.add_argument(
        "--load-on-request", action="store_true", help="load models at their first request, not at start"
    )
    parser.add_argument("--idle-unload", type=float, default=0, help="seconds without calls; 0: never")
    parser.add_argument("--poll-models", type=float, default=0, help="seconds between two scans; 0: none")
    parser.add_argument(
        "--lora-module", action="append", default=[], help="an adapter as name=path or JSON; may be repeated"
    )
    parser.add_argument("--engine", help="0/2 for the first of two hosts of a server: its label in metrics")
    parser.add_argument("--parent", type=int, help="pid of the parent; the host ends when it does")
    parser.add_argument("--url", help="the server's address; given, a banner is printed when all is loaded")
    parser.add_argument("--default-model", help="the model that the banner's example calls")
    parser.add_argument("--needs-key", action="store_true", help="clients must send an API key")
    parser.add_argument("--log-level", default="info")
    return parser.parse_args(arguments)


def _announce(options: argparse.Namespace, status: Status) -> None:
    if options.url:
        announce(status, options.models, options.url, options.needs_key, options.default_model)


def _heartbeat(path: Path | None) -> Callable[[], None]:
    """Touches the file; where that was removed, the supervisor notices."""

    def beat() -> None:
        if path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.utime(path)

    return beat


def _handle_signals(host: Host) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: host.drain())
    signal.signal(signal.SIGHUP, lambda number, frame: host.rescan())
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the master, which ends the host after the workers


if __name__ == "__main__":
    main()
