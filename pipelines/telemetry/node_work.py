"""How long the nodes of a graph work on one call; counted when it has ended, for all calls together."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import NODE_RUNS, NODE_SECONDS
from pipelines.telemetry.registry import labelled


class NodeWork:
    """The work of one node for one call, by the monotonic clock; `path` is the node's.

    It ran at `start_s` for `run_s` seconds, and then worked on what came back for `busy_s` seconds between
    `first_s` and `last_s`, which are 0 where nothing did.
    """

    __slots__ = ("busy_s", "first_s", "last_s", "path", "run_s", "runs", "start_s")

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.runs = 0
        self.start_s = self.run_s = 0.0
        self.first_s = self.last_s = self.busy_s = 0.0

    def ran(self, from_s: float, to_s: float) -> None:
        self.start_s = self.start_s or from_s
        self.run_s += to_s - from_s
        self.runs += 1

    def worked(self, from_s: float, to_s: float) -> None:
        """Counts the node's work on what came back."""
        self.first_s = self.first_s or from_s
        self.last_s = to_s
        self.busy_s += to_s - from_s


def count_nodes(model: str, works: Mapping[str, NodeWork]) -> None:
    """Count the work of a call of a model, by the path of each node.

    A node that is another graph worked while the nodes of that graph did, which are called NODE.INNER.
    """
    seconds = {path: work.run_s + work.busy_s for path, work in works.items()}
    for path, work in works.items():
        while "." in path:
            path = path.rpartition(".")[0]
            seconds[path] += work.busy_s
    for path, work in works.items():
        deferred.gain(labelled(NODE_RUNS, model, path), work.runs)
        deferred.gain(labelled(NODE_SECONDS, model, path), seconds[path])
