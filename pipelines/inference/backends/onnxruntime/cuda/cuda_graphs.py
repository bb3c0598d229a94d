"""Manages CUDA graphs of decode steps: buckets of shapes, and the lock that guards captures."""

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
"""Batch sizes of graphs; a step is padded to the next larger one."""
MAX_BATCH = BATCHES[-1]
"""The most sequences of one call; onnxruntime-genai has the same limit for this operator."""
MAX_PADDING = max(upper - lower for lower, upper in pairwise(BATCHES)) - 1
MAX_GRAPHS = 128
"""Graphs of steps of the base; ONNX Runtime frees none before the session, and further shapes have none."""
MAX_ADAPTER_GRAPHS = 64
"""Graphs of steps with adapters, beside those: captured as such steps come, and never while it warms up."""
RUNS_TO_CAPTURE = 3
"""ONNX Runtime computes a new graph id twice and captures it the third time, in one call or in three."""


class CaptureLock:
    """Excludes captures from all other use of the device by other threads (a shared/exclusive lock).

    ONNX Runtime captures in CUDA's global mode: during a capture, a thread that allocates, frees or waits on
    any device of the process fails, and invalidates the capture.  Threads that load or close models hold the
    lock together with `device_calls`; a capture does not wait for them but is postponed.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._num_device_calls = 0
        self._capturing = False

    @contextmanager
    def device_calls(self) -> Iterator[None]:
        """Held during device calls outside the thread that computes steps; waits for the end of a capture."""
        with self._changed:
            self._changed.wait_for(lambda: not self._capturing)
            self._num_device_calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_device_calls -= 1

    @contextmanager
    def try_capture(self) -> Iterator[bool]:
        """Whether a capture may be made now; if so, other threads' device calls wait for its end."""
        with self._changed:
            granted = self._capturing = not (self._num_device_calls or self._capturing)
        try:
            yield granted
        finally:
            if granted:
                with self._changed:
                    self._capturing = False
                    self._changed.notify_all()


CAPTURE_LOCK = CaptureLock()
"""One for the process, because the capture mode is global to the process."""


def padded_batch(count: int) -> int:
    """The batch size of the bucket for `count` sequences; `count <= MAX_BATCH`."""
    return BATCHES[bisect_left(BATCHES, count)]


def padded_columns(count: int) -> int:
    """The width of the bucket's block table: the next power of two."""
    return 1 << (count - 1).bit_length()


class GraphShape(NamedTuple):
    """What distinguishes graphs: addresses and shapes are part of a graph, values are not.

    The step's logits start at row `first_row` of the buffer.  `rank` is that of its adapters together.
    """

    batch: int
    columns: int
    first_row: int = 0
    rank: int = 0


@dataclass(eq=False)
class GraphBucket:
    """One shape.  `graph_id` is the id of its graph in ONNX Runtime; NO_GRAPH once a capture has failed."""

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

    def disable(self, error: Exception) -> None:
        """Run without a graph from now on, and log the reason."""
        self.graph_id = NO_GRAPH
        log.warning("no CUDA graph for decode steps of %s: %s", self.shape, error)


NO_GRAPH = -1
"""The graph id for a run without capture or replay."""


@dataclass
class GraphBuckets:
    """The buckets used so far.  When not `enabled`, no bucket has a graph; shapes are padded all the same.

    ONNX Runtime stores graphs per thread, so all runs of a session's buckets are on one thread.
    """

    enabled: bool
    known: dict[GraphShape, GraphBucket] = field(default_factory=dict)

    def of(self, shape: GraphShape) -> GraphBucket:
        """The bucket of a shape.  Graph ids start at 1: ONNX Runtime reserves 0."""
        if shape not in self.known:
            number = len(self.known) + 1
            self.known[shape] = GraphBucket(shape, number if self._below_limit(shape) else NO_GRAPH)
        return self.known[shape]

    def missing(self, max_sequences: int, max_columns: int) -> list[GraphShape]:
        """The common shapes that were never run, most frequent first: all batches at the smallest width
        first.
        """
        batches = BATCHES[: bisect_left(BATCHES, min(max_sequences, MAX_BATCH)) + 1]
        widths = [1 << power for power in range(padded_columns(max_columns).bit_length())]
        shapes = [GraphShape(batch, columns) for columns, batch in product(widths, batches)]
        return [shape for shape in shapes if shape not in self.known] if self.enabled else []

    @property
    def num_captured(self) -> int:
        return sum(bucket.captured for bucket in self.known.values())

    def _below_limit(self, shape: GraphShape) -> bool:
        with_adapters = sum(known.rank > 0 for known in self.known)
        if shape.rank:
            return self.enabled and with_adapters < MAX_ADAPTER_GRAPHS
        return self.enabled and len(self.known) - with_adapters < MAX_GRAPHS
