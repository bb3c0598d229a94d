"""Starts the systems of a suite: Braid and every peer that can be installed, each with its model format."""

from __future__ import annotations

import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.lab.bench.base.environments import NotInstalled, environment
from tools.lab.bench.base.load import Settings
from tools.lab.bench.base.systems import Child, System, SystemFailed
from tools.lab.bench.braid import VARIANTS, braid
from tools.lab.bench.model import GGUF, Model, NotMade, weight_bytes
from tools.lab.bench.peers.table import PEERS, SERVERS, SPECULATION, Peer

BRAID, ENGINE = "braid", "braid-engine"
ALL_PEERS = PEERS | SPECULATION | SERVERS
EVERYTHING = frozenset({"batched", "sampled", "constrained", "scored"})
NAMES = (*VARIANTS, ENGINE, *ALL_PEERS)
EMBEDDING_BYTES = {"int8": 1, "fp16": 2, GGUF: 36 / 32}
"""Bytes of a value of the embedding in Braid's formats."""


@dataclass
class Entry:
    """A started system; `weight_bytes` of its model are read for each token."""

    system: System
    can: frozenset[str]
    weights: str
    weight_bytes: int


@dataclass
class Entries:
    """The systems that run, and the reasons of those that do not."""

    started: dict[str, Entry] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        if name in self.started:
            self.started.pop(name).system.stop()

    def stop(self) -> None:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda entry: entry.system.stop(), self.started.values()))


def start(
    entries: Entries, names: Collection[str], model: Model, venvs: Path, settings: Settings, workers: int
) -> None:
    """Start every system of `names` with its model, or note the reason; makes missing models first."""
    ready = {name: _prepare(entries, name, model, venvs) for name in ALL_PEERS if name in names}
    logs = model.folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    model.stage("starting the systems")
    for name in VARIANTS:
        if name in names:
            _serve(entries, name, model, settings, workers)
    if ENGINE in names:
        entries.started[ENGINE] = _engine(model, settings, logs / ENGINE)
    for name, prepared in ready.items():
        if prepared is not None:
            entries.started[name] = _peer(ALL_PEERS[name], *prepared, model, settings, logs / name)
    for name, entry in list(entries.started.items()):
        try:
            entry.system.wait_until_ready()
        except SystemFailed as error:
            entries.leave_out(name, str(error))


def _serve(entries: Entries, name: str, model: Model, settings: Settings, workers: int) -> None:
    """Braid over HTTP."""
    weights = VARIANTS[name].weights
    try:
        system = braid(name, model, settings, workers, model.folder / "logs" / name)
    except NotMade as error:
        entries.leave_out(name, str(error))
    else:
        entries.started[name] = Entry(system, EVERYTHING, weights, _read_bytes(model, weights))


def _read_bytes(model: Model, weights: str) -> int:
    """Bytes that a token reads of a model in one of Braid's formats."""
    folder = model.repository(weights) / model.name / "model"
    return weight_bytes(folder) - int(EMBEDDING_BYTES[weights] * model.gathered_values)


def _engine(model: Model, settings: Settings, log: Path) -> Entry:
    """Braid's engine without server; it supports no grammars and no prompt log-probabilities."""
    folder = model.repository("int8") / model.name / "model"
    system = Child(Path(sys.executable), "tools.lab.bench.engine", folder, settings, log)
    return Entry(system, EVERYTHING - {"constrained", "scored"}, "int8", _read_bytes(model, "int8"))


def _prepare(entries: Entries, name: str, model: Model, venvs: Path) -> tuple[Path, Path] | None:
    """The Python of a peer and its model format; None, with the reason in `entries`, when it cannot run."""
    peer = ALL_PEERS[name]
    try:
        python = environment(venvs / peer.environment, peer.recipe, model.stage)
        if not peer.serve:
            model.repository("int8")  # where openvino-genai finds its weights
        if peer.reads_draft:
            model.draft()
        return python, model.of(peer, python)
    except (NotInstalled, NotMade) as error:
        entries.leave_out(name, str(error))
        return None


def _peer(peer: Peer, python: Path, folder: Path, model: Model, settings: Settings, log: Path) -> Entry:
    if peer.serve:
        system: System = peer.serve(python, folder, settings, log)
    else:
        system = Child(python, peer.module, folder, settings, log)
    gathered = model.embedding_values if peer.unties else model.gathered_values
    read_bytes = weight_bytes(folder) - int(peer.embedding_bytes * gathered)
    return Entry(system, peer.can, peer.weights, read_bytes)
