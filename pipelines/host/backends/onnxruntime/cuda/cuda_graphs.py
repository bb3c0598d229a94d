"""Which decode steps are replayed as CUDA graphs: shapes rounded up to buckets, and what became of each.

Knows numbers and the rules of capture; knows nothing of sessions, arrays or models.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, product
from threading import Condition
from typing import NamedTuple

log = logging.getLogger(__name__)

BATCHES = (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256)
"""Batch sizes of graphs; a step takes the next one up and computes the rows between for nobody."""
MAX_BATCH = BATCHES[-1]
"""The most sequences of one call; onnxruntime-genai keeps to the same for this operator."""
MAX_PADDING = max(upper - lower for lower, upper in pairwise(BATCHES)) - 1
MAX_GRAPHS = 128
"""Graphs kept; ONNX Runtime frees none before its session, so what comes later runs without one."""
RUNS_TO_CAPTURE = 3
"""ONNX Runtime computes a new graph id twice and captures it the third time, in one call or in three."""


class CaptureLock:
    """Keeps captures apart from all else that other threads do with a device: one or the others, never both.

    ONNX Runtime captures in CUDA's global mode: while it does, a thread that allocates, frees or waits on
    any device of the process fails, and spoils the capture.  So who loads or closes holds the gate with its
    like, and a capture, which is short, waits for none: it is put off.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._num_calling = 0
        self._captures = False

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Whoever calls the device beside the thread that computes steps; waits for a capture to end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._captures)
            self._num_calling += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_calling -= 1

    @contextmanager
    def capture(self) -> Iterator[bool]:
        """Whether a capture may be made now; if so, nobody else calls until it is over."""
        with self._changed:
            granted = self._captures = not (self._num_calling or self._captures)
        try:
            yield granted
        finally:
            if granted:
                with self._changed:
                    self._captures = False
                    self._changed.notify_all()


CAPTURE_LOCK = CaptureLock()
"""The process's: the mode is the whole process's too."""


def padded_batch(count: int) -> int:
    """The bucket of a batch; `count <= MAX_BATCH`."""
    return BATCHES[bisect_left(BATCHES, count)]


def padded_columns(count: int) -> int:
    """The bucket of a block table's width: the next power of two."""
    return 1 << (count - 1).bit_length()


class GraphShape(NamedTuple):
    """What distinguishes graphs: addresses and shapes are baked in, values are not.

    The step's logits lie from row `first_row` of the buffer on.
    """

    batch: int
    columns: int
    first_row: int = 0


@dataclass(eq=False)
class GraphBucket:
    """One shape.  `graph_id` is ONNX Runtime's name for its graph; -1, which is none, once capture failed."""

    shape: GraphShape
    graph_id: int
    runs: int = 0

    @property
    def captures(self) -> bool:
        """Whether the next run may be the one that is captured."""
        return self.graph_id >= 0 and self.runs < RUNS_TO_CAPTURE

    @property
    def captured(self) -> bool:
        return self.graph_id >= 0 and self.runs >= RUNS_TO_CAPTURE

    def give_up(self, error: Exception) -> None:
        """Run without a graph from now on, and say so."""
        self.graph_id = NO_GRAPH
        log.warning("no CUDA graph for decode steps of %s: %s", self.shape, error)


NO_GRAPH = -1
"""The graph id that means: compute, do not capture or replay."""


@dataclass
class GraphBuckets:
    """The buckets met so far.  Where `enabled` is not, none gets a graph; shapes are rounded up all the same.

    ONNX Runtime keeps graphs per thread, so all runs of a session's buckets belong to one.
    """

    enabled: bool
    known: dict[GraphShape, GraphBucket] = field(default_factory=dict)

    def of(self, shape: GraphShape) -> GraphBucket:
        """The bucket of a shape.  Graph ids begin with 1: ONNX Runtime keeps 0 for itself."""
        if shape not in self.known:
            number = len(self.known) + 1
            self.known[shape] = GraphBucket(shape, number if self._has_room() else NO_GRAPH)
        return self.known[shape]

    def missing(self, max_sequences: int, max_columns: int) -> list[GraphShape]:
        """The common shapes that were never run, likeliest first: all batches at the smallest width first."""
        batches = BATCHES[: bisect_left(BATCHES, min(max_sequences, MAX_BATCH)) + 1]
        widths = [1 << power for power in range(padded_columns(max_columns).bit_length())]
        shapes = [GraphShape(batch, columns) for columns, batch in product(widths, batches)]
        return [shape for shape in shapes if shape not in self.known] if self.enabled else []

    @property
    def num_captured(self) -> int:
        return sum(bucket.captured for bucket in self.known.values())

    def _has_room(self) -> bool:
        return self.enabled and len(self.known) < MAX_GRAPHS
