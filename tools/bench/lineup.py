"""The contenders of a run: Braid and every peer that installs, each with its form of the model, all started.

Knows which contenders there are; nothing of workloads or figures.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.bench.braid import braid
from tools.bench.contenders import Child, Contender, ContenderFailed
from tools.bench.environments import NotInstalled, environment
from tools.bench.load import Settings
from tools.bench.model import Model, NotMade, weight_bytes
from tools.bench.peers.table import PEERS, Peer
from tools.bench.peers.vllm import vllm

BRAID, ENGINE = "braid", "braid-engine"
SERVED = {BRAID: "int8", "braid-fp16": "fp16"}
"""Braid over HTTP, and what its weights are."""
EVERYTHING = frozenset({"batched", "sampled", "constrained"})
NAMES = (*SERVED, ENGINE, *PEERS)
DEFAULT = (BRAID, *PEERS)


@dataclass
class Entrant:
    """A started contender; its model's weights are read once a token."""

    contender: Contender
    can: frozenset[str]
    weights: str
    weight_bytes: int


@dataclass
class Lineup:
    """The contenders that run, and the others with their reasons."""

    entrants: dict[str, Entrant] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        if name in self.entrants:
            self.entrants.pop(name).contender.stop()

    def stop(self) -> None:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda entrant: entrant.contender.stop(), self.entrants.values()))


def start(
    lineup: Lineup, names: Collection[str], model: Model, venvs: Path, settings: Settings, workers: int
) -> None:
    """Every contender of `names` with its model loaded, or its reason.  Makes what is missing first."""
    repositories = {name: model.repository(weights) for name, weights in SERVED.items() if name in names}
    ready = {name: _prepare(lineup, name, model, venvs) for name in PEERS if name in names}
    logs = model.folder / "logs"
    logs.mkdir(exist_ok=True)
    model.stage("starting the contenders")
    for name, repository in repositories.items():
        folder = repository / model.name / "model"
        contender = braid(repository, model.name, settings, workers, logs / name)
        lineup.entrants[name] = Entrant(contender, EVERYTHING, SERVED[name], weight_bytes(folder))
    if ENGINE in names:
        lineup.entrants[ENGINE] = _engine(model, settings, logs / ENGINE)
    for name, made in ready.items():
        if made is not None:
            lineup.entrants[name] = _peer(PEERS[name], *made, model.embedding_values, settings, logs / name)
    for name, entrant in list(lineup.entrants.items()):
        try:
            entrant.contender.wait_until_ready()
        except ContenderFailed as error:
            lineup.leave_out(name, str(error))


def _engine(model: Model, settings: Settings, log: Path) -> Entrant:
    """Braid's engine alone, which knows no grammars."""
    folder = model.repository("int8") / model.name / "model"
    contender = Child(Path(sys.executable), "tools.bench.engine", folder, settings, log)
    return Entrant(contender, EVERYTHING - {"constrained"}, "int8", weight_bytes(folder))


def _prepare(lineup: Lineup, name: str, model: Model, venvs: Path) -> tuple[Path, Path] | None:
    """The Python of a peer and its form of the model, or None and the reason in `lineup`."""
    try:
        python = environment(venvs / name, PEERS[name].recipe, model.stage)
        model.repository("int8")  # where openvino-genai finds its weights
        return python, model.of(PEERS[name], python)
    except (NotInstalled, NotMade) as error:
        lineup.leave_out(name, str(error))
        return None


def _peer(
    peer: Peer, python: Path, folder: Path, embedding_values: int, settings: Settings, log: Path
) -> Entrant:
    if peer.module:
        contender: Contender = Child(python, peer.module, folder, settings, log)
    else:
        contender = vllm(python, folder, settings, log)
    read_bytes = weight_bytes(folder) - peer.gathered * embedding_values
    return Entrant(contender, peer.can, peer.weights, read_bytes)
