"""A batch engine around the fake encoder, for tests: its body waits where a test wants it to."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fake_encoder import FakeEncoder, row_of
from patience import PATIENCE_S

from pipelines.inference.contracts.encoder_batch import Encoded, RowShape, TokenBatch
from pipelines.inference.engine.batching.batch_engine import BatchBody, BatchEngine, BatchSettings
from pipelines.inference.engine.batching.text_checks import Bounds
from pipelines.inference.engine.interface.engine_contract import TensorRequest

LONG_S = PATIENCE_S


@dataclass
class Body:
    """Runs the fake encoder; once for each `turns.release()` when the test holds it."""

    encoder: FakeEncoder
    held: bool = False
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    began: queue.Queue[TokenBatch] = field(default_factory=queue.Queue)
    closed: threading.Event = field(default_factory=threading.Event)

    def __call__(self, batch: TokenBatch) -> dict[int, Encoded]:
        self.began.put(batch)
        if self.held:
            assert self.turns.acquire(timeout=LONG_S)
        return {0: Encoded(self.encoder.run(batch), batch, self.encoder.ops)}

    def close(self) -> None:
        self.closed.set()


class Rig:
    """An engine, what it was asked and what it told."""

    def __init__(
        self,
        held: bool = False,
        per_token: bool = False,
        warm: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        **settings: Any,
    ) -> None:
        encoder = self.encoder = FakeEncoder(per_token=per_token, warm=warm or 0, num_linears=1)
        self.body = Body(encoder, held)
        bounds = Bounds(encoder.max_tokens, encoder.vocab_size, encoder.size)
        self.engine = BatchEngine(
            BatchBody(self.body, adapters=encoder, warm=None if warm is None else encoder.warm),
            bounds,
            BatchSettings(**settings),
            results=[RowShape(per_token, encoder.size)],
            clock=clock,
        )
        self.told: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self.asked: dict[Any, list[list[int]]] = {}

    def put(self, key: Any, texts: list[list[int]], adapter: int = 0, **more: Any) -> None:
        request = TensorRequest(
            tensors(texts, **more), None, lambda *answer: self.told.put(answer), adapter=adapter
        )
        self.engine.submit(key, request)
        self.asked[key] = texts

    def answer(self) -> tuple[Any, Any]:
        return self.told.get(timeout=LONG_S)

    def close(self) -> None:
        self.engine.close()
        self.body.held = False
        self.body.turns.release(1000)
        assert self.body.closed.wait(LONG_S)


def tensors(texts: list[list[int]], priority: int = 0, activate: bool = True, types: Any = None) -> Any:
    """A request as it comes over the wire."""
    message = {
        "ids": np.array([value for text in texts for value in text], np.int32),
        "lengths": np.array([len(text) for text in texts], np.int32),
        "activate": np.array([activate], np.uint8),
        "priority": np.array([priority], np.int64),
    }
    return (
        message
        if types is None
        else {**message, "types": np.array([value for text in types for value in text], np.uint8)}
    )


def rows_of(texts: list[list[int]]) -> Any:
    """What the fake encoder gives for each text alone."""
    return np.array([row_of(text) for text in texts])
