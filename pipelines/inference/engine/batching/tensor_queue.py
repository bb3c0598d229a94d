"""The waiting requests for tensor models, in turn between tenants, and which of them run together.

Turns are those of start-time fair queueing (Goyal, Vin and Cheng, "Start-time fair queueing", 1996), counted
in bytes of tensors: a tenant with many requests delays another by one run.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count

from pipelines.inference.engine.batching.batched_request import Arrays
from pipelines.inference.engine.interface.engine_contract import ResultCallback

JoinedShapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TensorWork:
    """One request.  It can be joined with others of equal `shapes`, those of its inputs but for the first
    length, which is `rows`; None where it cannot.
    """

    key: Hashable
    on_result: ResultCallback
    arrived_s: float
    tenant: str
    inputs: Arrays
    outputs: list[str]
    num_bytes: int
    shapes: JoinedShapes | None
    rows: int

    @property
    def request(self) -> TensorWork:
        """A request runs whole: it is the only part of itself."""
        return self

    def __len__(self) -> int:
        return 1


def joined_shapes(inputs: Arrays) -> tuple[JoinedShapes | None, int]:
    """(shapes but for the first length, that length) of inputs that have one and the same first length."""
    lengths = {array.shape[:1] for array in inputs.values()}
    if len(lengths) != 1 or not all(lengths) or lengths == {(0,)}:
        return None, 0
    return tuple(inputs[name].shape[1:] for name in sorted(inputs)), lengths.pop()[0]


class TensorQueue:
    """Requests leave it one batch after another: the first in turn, and the next that can be joined to it.

    Invariants: `_turns` has the requests of `_waiting` (which are in the order in which they came), sorted;
    `_bytes[tenant]` and `_rows[shapes]` are sums over them, never 0.
    """

    def __init__(self, max_batch: int, max_wait_s: float) -> None:
        """`max_batch`: most rows of a batch, unless it is one request."""
        self.num_bytes = 0
        self._max_batch = max_batch
        self._max_wait_s = max_wait_s
        self._waiting: dict[TensorWork, None] = {}
        self._turns: list[tuple[int, int, TensorWork]] = []
        self._bytes: Counter[str] = Counter()
        self._rows: Counter[JoinedShapes | None] = Counter()
        self._clock = 0  # the tag of the last batch: bytes that each tenant had its turn for
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, work: TensorWork) -> bool:
        return work in self._waiting

    def add(self, work: TensorWork) -> None:
        tag = self._clock + self._bytes[work.tenant]
        insort(self._turns, (tag, next(self._numbers), work))
        self._waiting[work] = None
        self._sum(work, 1)

    def drop(self, work: TensorWork) -> None:
        """Remove a request; one that does not wait is no error."""
        if work in self._waiting:
            self._turns = [turn for turn in self._turns if turn[2] is not work]
            self._forget(work)

    def due_s(self, now_s: float) -> float | None:
        """A full batch is due now, another one when the oldest request has waited `max_wait_s`."""
        if not self._turns:
            return None
        shapes = self._turns[0][2].shapes
        if shapes is None or not self._max_wait_s or self._rows[shapes] >= self._max_batch:
            return 0.0
        return next(iter(self._waiting)).arrived_s + self._max_wait_s - now_s

    def take(self) -> list[TensorWork]:
        """The next batch; something waits."""
        tag, _, first = self._turns[0]
        self._clock = max(self._clock, tag)
        taken, rows, at = [first], first.rows, 1
        while first.shapes is not None and rows < self._max_batch and at < len(self._turns):
            work = self._turns[at][2]
            if work.shapes == first.shapes and rows + work.rows <= self._max_batch:
                taken.append(work)
                rows += work.rows
            at += 1
        for work in taken:
            self._forget(work)
        self._turns[:at] = [turn for turn in self._turns[:at] if turn[2] in self._waiting]
        return taken

    def _forget(self, work: TensorWork) -> None:
        del self._waiting[work]
        self._sum(work, -1)

    def _sum(self, work: TensorWork, sign: int) -> None:
        self.num_bytes += sign * work.num_bytes
        self._bytes[work.tenant] += sign * max(1, work.num_bytes)
        self._rows[work.shapes] += sign * work.rows
        if not self._bytes[work.tenant]:
            del self._bytes[work.tenant]
        if not self._rows[work.shapes]:
            del self._rows[work.shapes]
