"""The engine of encoders: runs texts of many requests together, texts of similar length in one batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.adapters.weights import BASE, AdapterWeights, HoldsAdapters, LinearShape, WithoutAdapters
from pipelines.base.errors import EngineError, Overloaded
from pipelines.inference.contracts.encoder_batch import BodyResult, RowShape, TokenBatch
from pipelines.inference.engine.batching.batch_assembly import assemble, scatter
from pipelines.inference.engine.batching.batched_request import BatchPart, Texts, texts_of
from pipelines.inference.engine.batching.embed_cache import EmbedCache
from pipelines.inference.engine.batching.joining_engine import JoiningEngine
from pipelines.inference.engine.batching.known_images import KnownImages
from pipelines.inference.engine.batching.text_checks import Bounds, cache_miss, check_answer, checked_texts
from pipelines.inference.engine.batching.threaded_engine import Runnable
from pipelines.inference.engine.batching.waiting_queue import WaitingQueue
from pipelines.inference.engine.interface.engine_contract import Identity, Result, TensorRequest
from pipelines.inference.engine.interface.submission_checks import check_rows
from pipelines.telemetry.step_profile import BATCHES, StepProfile
from pipelines.wire.engine_view import RequestState, SequenceView


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """`max_batch_tokens` are padded; a call that is not full waits `max_wait_s` for more texts."""

    max_batch_tokens: int = 8192
    max_wait_s: float = 0.0
    max_waiting_tokens: int = 4_000_000


@dataclass(frozen=True, slots=True)
class BatchBody:
    """What computes the batches of an engine."""

    compute: Runnable
    """Encodes a `TokenBatch`: the results that it wants, by their places; the engine closes it."""
    adapters: HoldsAdapters = field(default_factory=WithoutAdapters)
    """Holds the adapters that requests name: the encoder."""
    profile: StepProfile = field(default_factory=StepProfile)
    """The engine and the lines of the body mark in it what a batch spends its time on."""
    warm: Callable[[], bool] | None = None
    """Called while no request waits, until it returns False."""


class BatchEngine(JoiningEngine[BatchPart]):
    """The texts of a request may run in several batches; it has its result when all outputs are computed."""

    shown_as = "pooling"

    def __init__(
        self,
        body: BatchBody,
        bounds: Bounds,
        settings: BatchSettings,
        *,
        results: Sequence[RowShape] = (),
        cache: EmbedCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`results` are those of the body; without any it gives one vector for each text.

        `cache`, of a body that reads images and gives rows of tokens: an image whose rows are there is not
        run.
        """
        self.bounds = bounds
        self._settings = settings
        self._results = results or (RowShape(per_token=False, size=bounds.output_size),)
        self._cache = cache
        self._known = None if cache is None else KnownImages(cache)
        self._waiting = WaitingQueue(settings.max_batch_tokens)
        self._adapters = body.adapters
        self._numbers = {BASE}  # of the adapters that requests may name
        self._changes: list[Callable[[], None]] = []  # of what is held, for the engine's thread
        super().__init__(body.compute, body.profile, body.warm, clock)

    @property
    def per_token(self) -> bool:
        """Whether the first result has an output for each token."""
        return self._results[0].per_token

    def submit(self, key: Hashable, request: TensorRequest) -> None:
        if "wanted" in request.inputs:
            request.on_result(key, {"known": self._find_named(request)})
            return
        if request.adapter not in self._numbers:
            raise EngineError(f"adapter {request.adapter} is not loaded")
        bounds, inputs = self.bounds, checked_texts(request.inputs, self.bounds)
        check_rows(request.images, inputs["lengths"].tolist(), bounds.embeds_size, bounds.mrope_axes)
        texts = texts_of(key, inputs, request.on_result, self._clock(), request.images, request.adapter)
        wanted = [self._results[place] for place in texts.results]
        check_answer(wanted, len(texts.lengths), len(texts.ids))
        with self._condition:
            self._find_known(texts)
            if self._known is not None and "uuids" in inputs:
                self._known.add(request.origin.tenant, inputs, texts.names)
            if not texts.remaining:
                request.on_result(key, texts.answer(self._results))
                return
            waiting = self._waiting.num_tokens
            if waiting and waiting + len(texts.ids) > self._settings.max_waiting_tokens:
                raise Overloaded(f"texts of {waiting} tokens wait for this model already")
            self._requests[key] = texts
            self._waiting.add(texts)
            self._condition.notify()

    @property
    def linears(self) -> Mapping[str, LinearShape]:
        """The linear layers that adapters may change; {} where none may."""
        return self._adapters.linears

    def put_adapter(self, number: int, weights: AdapterWeights) -> None:
        """Hold an adapter for requests that name `number`."""
        self._numbers.add(number)
        self._change(partial(self._adapters.put_adapter, number, weights))

    def drop_adapter(self, number: int) -> None:
        """Free an adapter that no request in the engine names, after the run in progress."""
        self._numbers.discard(number)
        self._change(partial(self._adapters.drop_adapter, number))

    def _change(self, change: Callable[[], None]) -> None:
        with self._condition:
            self._changes.append(change)
            self._condition.notify()

    def _between_jobs(self) -> None:
        changes, self._changes = self._changes, []
        for change in changes:
            change()

    def _find_known(self, texts: Texts) -> None:
        """Images whose rows are there are not run."""
        if self._cache is not None and texts.names:
            self._totals.image_queries += len(texts.names)
            self._totals.image_hits += self._cache.fill(texts, self.bounds.output_size)
        if texts.stored is not None and (missing := texts.order[texts.stored[texts.order]]).size:
            raise cache_miss(int(missing.min()))

    def _find_named(self, request: TensorRequest) -> NDArray[Any]:
        """object[images]: what is known of the images of these names."""
        wanted = request.inputs["wanted"]
        if self._known is None:
            return np.full(len(wanted), b"", object)
        with self._condition:
            return self._known.find(request.origin.tenant, wanted)

    def _queue_due_s(self) -> float | None:
        """A full batch is due now, another one when the oldest request has waited `max_wait_s`."""
        waiting, settings = self._waiting, self._settings
        if not waiting.num_texts:
            return None
        if not settings.max_wait_s or waiting.num_tokens >= settings.max_batch_tokens:
            return 0.0
        return waiting.oldest.arrived_s + settings.max_wait_s - self._clock()

    def _take(self) -> list[BatchPart]:
        return self._waiting.take()

    def _compute(self, parts: list[BatchPart]) -> TokenBatch:
        """Run the body and copy the outputs to their requests."""
        batch = assemble(parts)
        self.profile.mark("gather")
        results: Mapping[int, BodyResult] = self._body(batch)
        fetched = {place: result.fetch() for place, result in results.items()}
        self.profile.mark("fetch")
        for place, rows in fetched.items():
            scatter(rows, parts, place)
        self.profile.mark("scatter")
        self.profile.end(BATCHES, int(batch.lengths.sum()), len(batch.lengths), 0)
        return batch

    def _count(self, parts: list[BatchPart], batch: TokenBatch) -> int:
        num_tokens, totals = int(batch.lengths.sum()), self._totals
        totals.prompt_tokens += num_tokens
        totals.step_tokens += num_tokens
        totals.padding_tokens += batch.ids.size - num_tokens
        return num_tokens

    def _result(self, part: BatchPart, batch: TokenBatch) -> Result | None:
        texts = part.request
        texts.remaining -= len(part)
        texts.num_done += part.length * len(part)
        if texts.remaining:
            return None
        if self._cache is not None and texts.names:
            self._cache.store(texts)
        return texts.answer(self._results)

    def _drop(self, texts: Texts) -> None:
        self._waiting.drop(texts)

    def _num_queued(self) -> int:
        return self._waiting.num_texts

    def _view_of(self, texts: Texts, identity: Identity) -> SequenceView:
        waits = self._waiting.num_left(texts) >= texts.remaining
        state: RequestState = "waiting" if waits else "running"
        return SequenceView(
            name=identity.name,
            choice=0,
            state=state,
            prompt_tokens=len(texts.ids),
            prompt_done=texts.num_done,
            cached_tokens=0,
            output_tokens=0,
            max_tokens=0,
            blocks=0,
            age_s=identity.age_s,
            adapter=identity.adapter,
            tenant=identity.tenant,
        )
