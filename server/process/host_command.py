"""The engine hosts that the settings ask for: the device and the CPUs of each, and how it is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.base.cpu_cores import usable_cores
from server.base.settings import Settings
from server.process.cpu_shares import divide
from server.process.heartbeats import heartbeats


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One engine host.  `label` is None for the only one, else "1/2" for the second of two.

    `cpus` None: all that there are.
    """

    name: str
    socket: Path
    heartbeat: Path
    label: str | None = None
    device: str | None = None
    cpus: frozenset[int] | None = None


def plan_hosts(settings: Settings) -> list[HostPlan]:
    """Engines that compute on the CPU share its cores.  Raises ValueError where these are too few."""
    sockets, devices, beats = settings.engine_sockets, settings.engine_devices, heartbeats(settings)
    if len(sockets) == 1:
        return [HostPlan("engine host", sockets[0], beats[0], device=devices[0])]
    cpus = _cpus(devices)
    return [
        HostPlan(
            f"engine host {i}",
            socket,
            beats[i],
            label=f"{i}/{len(sockets)}",
            device=devices[i],
            cpus=cpus[i],
        )
        for i, socket in enumerate(sockets)
    ]


def _cpus(devices: Sequence[str | None]) -> list[frozenset[int] | None]:
    """The cores of each engine: one with a GPU may use them all, and so may the only one without."""
    computing = [i for i, device in enumerate(devices) if not (device or "cpu").startswith("cuda")]
    shares: list[frozenset[int] | None] = [None] * len(devices)
    if len(computing) > 1 and hasattr(os, "sched_getaffinity"):
        cores = usable_cores(os.sched_getaffinity(0))
        for i, share in zip(computing, divide(cores, len(computing)), strict=True):
            shares[i] = share
    return shares


def host_command(settings: Settings, plan: HostPlan, with_banner: bool) -> list[str]:
    """The command line of an engine host.  `-P`: the current folder must not shadow our packages."""
    command = [sys.executable, "-P", "-m", "pipelines.host", "--models", str(settings.models)]
    command += [
        "--socket",
        str(plan.socket),
        "--heartbeat",
        str(plan.heartbeat),
        "--parent",
        str(os.getpid()),
    ]
    command += ["--log-level", settings.log_level, "--snapshots", str(plan.socket.with_name("models"))]
    command += ["--load-timeout", str(settings.load_timeout)]
    command += ["--idle-unload", str(settings.idle_unload_s), "--poll-models", str(settings.poll_models)]
    if plan.label:
        command += ["--engine", plan.label]
    if settings.max_loaded_gb:
        command += ["--max-loaded-gb", str(settings.max_loaded_gb)]
    if settings.load_on_request:
        command += ["--load-on-request"]
    if settings.cache:
        command += ["--cache", str(settings.cache)]
    if settings.prefix_file_gb:
        command += ["--prefix-file-gb", str(settings.prefix_file_gb)]
    command += ["--prepared-mb", str(settings.prepared_mb)]
    if settings.first_run:
        command += ["--first-run"]
    if plan.device:
        command += ["--device", plan.device]
    for module in settings.lora_modules:
        command += ["--lora-module", module]
    if with_banner:
        command += ["--url", settings.url]
        if settings.default_model:
            command += ["--default-model", settings.default_model]
    if settings.needs_key:
        command += ["--needs-key"]
    return command
