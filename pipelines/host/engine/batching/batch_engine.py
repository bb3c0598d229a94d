"""The engine of encoders: runs texts of many requests together, texts of similar length in one batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from pipelines.errors import BraidError, EngineError, Overloaded
from pipelines.host.engine.batching.batch_assembly import assemble, scatter
from pipelines.host.engine.batching.batched_request import BatchPart, Texts, texts_of
from pipelines.host.engine.batching.failure_isolation import FailedBatches
from pipelines.host.engine.batching.text_checks import Bounds, check_answer, check_texts
from pipelines.host.engine.batching.waiting_queue import WaitingQueue
from pipelines.host.engine.encoder_batch import TokenBatch
from pipelines.host.engine.engine_contract import TensorRequest
from pipelines.host.engine.threaded_engine import Delivery, FinishedBatch, Runnable, ThreadedEngine
from pipelines.telemetry.step_profile import BATCHES, StepProfile

log = logging.getLogger("braid.engine")


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """`max_batch_tokens` are padded; a call that is not full waits `max_wait_s` for more texts."""

    max_batch_tokens: int = 8192
    max_wait_s: float = 0.0
    max_waiting_tokens: int = 4_000_000


class BatchEngine(ThreadedEngine[list[BatchPart]]):
    """A request is in `_requests` until all its outputs are computed, it failed or was cancelled.

    A batch that fails is run again in halves, until a request fails alone: it gets one error, and its other
    texts are dropped.
    """

    def __init__(
        self,
        body: Runnable,
        bounds: Bounds,
        settings: BatchSettings,
        *,
        per_token: bool = False,
        profile: StepProfile | None = None,
        warm: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`per_token`: the body returns an output for each token, else for each text."""
        self.bounds = bounds
        self._settings = settings
        self.per_token = per_token
        self._clock = clock
        self._requests: dict[Hashable, Texts] = {}
        self._waiting = WaitingQueue(settings.max_batch_tokens)
        self._failed_batches = FailedBatches()
        self._began_s = 0.0  # the batch that runs
        super().__init__(body, profile or StepProfile(), warm)

    def submit(self, key: Hashable, request: TensorRequest) -> None:
        inputs = request.inputs
        check_texts(inputs, self.bounds)
        check_answer(len(inputs["ids" if self.per_token else "lengths"]), self.bounds.output_size)
        texts = texts_of(key, inputs, request.on_result, self._clock())
        with self._condition:
            waiting = self._waiting.num_tokens
            if waiting and waiting + len(texts.ids) > self._settings.max_waiting_tokens:
                raise Overloaded(f"texts of {waiting} tokens wait for this model already")
            self._requests[key] = texts
            self._waiting.add(texts)
            self._condition.notify()

    def _due_s(self) -> float | None:
        """A full batch is due now, another one when the oldest request has waited `max_wait_s`."""
        waiting, settings = self._waiting, self._settings
        if self._failed_batches:
            return 0.0
        if not waiting.num_texts:
            return None
        if not settings.max_wait_s or waiting.num_tokens >= settings.max_batch_tokens:
            return 0.0
        return waiting.oldest.arrived_s + settings.max_wait_s - self._clock()

    def _begin(self) -> list[BatchPart]:
        parts = self._failed_batches.take() if self._failed_batches else self._waiting.take()
        self._totals.running = sum(map(len, parts))
        self._began_s = self._clock()
        return parts

    def _compute(self, parts: list[BatchPart]) -> TokenBatch:
        """Run the body and copy the outputs to their requests."""
        batch = assemble(parts)
        self.profile.mark("gather")
        encoded = self._body(batch)
        values = encoded.ops.fetch(encoded.values)
        self.profile.mark("fetch")
        scatter(values, parts)
        self.profile.mark("scatter")
        self.profile.end(BATCHES, int(batch.lengths.sum()), len(batch.lengths), 0)
        return batch

    def _end(self, parts: list[BatchPart], result: TokenBatch | Exception) -> list[Delivery]:
        if isinstance(result, Exception):
            return self._failed(parts, result)
        self._count(result, parts)
        return [one for part in parts for one in self._rows_of(part)]

    def _failed(self, parts: list[BatchPart], error: Exception) -> list[Delivery]:
        waited_for = [part for part in parts if self._requests.get(part.texts.key) is part.texts]
        if self._failed_batches.add(waited_for):
            log.warning("a batch of several requests failed and is run again in halves: %r", error)
            return []
        failure = _failure(error)
        return [one for part in waited_for for one in self._fail(part.texts, failure)]

    def _rows_of(self, part: BatchPart) -> list[Delivery]:
        texts = part.texts
        texts.remaining -= len(part)
        if texts.remaining or self._requests.get(texts.key) is not texts:
            return []
        del self._requests[texts.key]
        return [(texts.on_result, texts.key, texts.answer(self.per_token))]

    def _fail(self, texts: Texts, error: Exception) -> list[Delivery]:
        if self._requests.get(texts.key) is not texts:
            return []
        self._remove(texts.key)
        return [(texts.on_result, texts.key, error)]

    def _count(self, batch: TokenBatch, parts: list[BatchPart]) -> None:
        num_tokens, totals = int(batch.lengths.sum()), self._totals
        totals.prompt_tokens += num_tokens
        totals.step_tokens += num_tokens
        totals.padding_tokens += batch.ids.size - num_tokens
        waits = [(len(part), self._began_s - part.texts.arrived_s) for part in parts]
        self.finished_batches.append(FinishedBatch(num_tokens, self._clock() - self._began_s, waits))

    def _remove(self, key: Hashable) -> None:
        texts = self._requests.pop(key, None)
        if texts is not None:
            self._waiting.drop(texts)
            self._failed_batches.drop(texts)

    def _remove_all(self) -> None:
        for key in list(self._requests):
            self._remove(key)

    def _num_waiting(self) -> int:
        return self._waiting.num_texts + self._failed_batches.num_texts


def _failure(error: Exception) -> BraidError:
    """The error for the client; an error that is not the request's fault is logged."""
    if isinstance(error, BraidError):
        return error
    log.error("a batch failed", exc_info=error)
    return EngineError("the batch of this request failed; see the server's log")
