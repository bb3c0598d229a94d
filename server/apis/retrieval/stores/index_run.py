"""One update of a store's index: its files are cut and embedded, and written as a new version."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.base.errors import Unavailable
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.dense_vectors import Floats
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_reader import About, query_vectors
from pipelines.retrieval.index_update import Making, SourceDocument, describe, remove, update
from pipelines.retrieval.passages import Passages
from pipelines.telemetry.request_trace import RequestTrace
from pipelines.values.node_values import Prompt, Vectors
from pipelines.values.tasks import PoolingInput
from pipelines.wire.sampling_params import BACKGROUND
from pipelines.worker import model_choice
from pipelines.worker.model_choice import EMBEDDING
from pipelines.worker.pipeline import Pipeline
from server.apis.batches.line_calls import TENANT
from server.apis.retrieval.stores.file_texts import FileTexts
from server.apis.retrieval.stores.rows import StoreFileRow, StoreRow
from server.apis.retrieval.stores.work_table import StoreWork
from server.services.services import Services

TEXTS = 16
"""Passages that are embedded by one request: those of clients take turns with them."""
CHARS_PER_TOKEN = 4
VECTOR_BYTES = 3
"""Bytes of each number of a vector: it is stored in 8 bits and in 16."""
PATH = "/v1/vector_stores"


class IndexRun:
    """Belongs to the event loop of a worker; the index itself is written in a thread."""

    def __init__(self, services: Services, store: StoreRow, index: Path) -> None:
        self._services, self._store = services, store
        self._folder = IndexFolder(index)
        self._texts = FileTexts(services.stores.files.folder)
        self._loop = asyncio.get_running_loop()
        self._embedding: Future[Floats] | None = None
        self.is_stopped = False

    def stop(self) -> None:
        """End `run` soon; it raises Unavailable or CancelledError, and the index stays as it is."""
        self.is_stopped = True
        if self._embedding is not None:
            self._embedding.cancel()

    async def run(self, work: StoreWork) -> tuple[dict[str, int], dict[str, tuple[str, str]]]:
        """The bytes that each file has in the index now, and the code and message of those that are wrong.

        Raises IndexBusy, OSError, ValueError, sqlite3.Error and BraidError; nothing of a version that is not
        whole is left.
        """
        await asyncio.to_thread(self._apply, work)
        return await asyncio.to_thread(self._usage), self._texts.errors

    def _apply(self, work: StoreWork) -> None:
        making = Making(self._store.model, self._embed)
        if work.removed:
            remove(self._folder, work.removed, making)
        if work.described:
            describe(self._folder, map(self._document, work.described), making)
        if work.added:
            update(self._folder, map(self._document, work.added), making, keeps_others=True)

    def _document(self, file: StoreFileRow) -> SourceDocument:
        cutting = file.chunks and Cutting(*(CHARS_PER_TOKEN * tokens for tokens in file.chunks))
        return SourceDocument(file.id, file.id, partial(self._texts.read, file), file.attributes, cutting)

    def _usage(self) -> dict[str, int]:
        number = self._folder.number()
        if number is None:
            return {}
        version = self._folder.version(number)
        passages, size = Passages(version), About.read(version).size
        try:
            counts = passages.documents()
            return {
                name: num_bytes + counts[name] * size * VECTOR_BYTES
                for name, num_bytes in passages.num_bytes().items()
            }
        finally:
            passages.close()

    def _embed(self, texts: list[str]) -> dict[str, Vectors]:
        """Dense vectors, float32[texts, size]; called in a thread of the update."""
        if self.is_stopped:
            raise Unavailable("the update was stopped")
        self._embedding = asyncio.run_coroutine_threadsafe(self._vectors(texts), self._loop)
        if self.is_stopped:
            self._embedding.cancel()
        return {"dense": self._embedding.result()}

    async def _vectors(self, texts: list[str]) -> Floats:
        services, closers = self._services, list[Callable[[], None]]()
        try:
            pipeline = await model_choice.find_pipeline(
                services.catalogue, self._store.model, EMBEDDING, closers.append, _loaded
            )
            parts = [
                await self._part(pipeline, texts[first : first + TEXTS])
                for first in range(0, len(texts), TEXTS)
            ]
        finally:
            for close in closers:
                close()
        return np.concatenate(parts)

    async def _part(self, pipeline: Pipeline, texts: list[str]) -> Floats:
        """The vectors of one request, below all requests of clients; its tokens are counted for its key."""
        trace = RequestTrace(os.urandom(16).hex(), time.monotonic())
        trace.account, trace.path = self._store.account, PATH
        request = PoolingInput(
            prompts=[Prompt.of_text(text) for text in texts],
            purpose="search_document",
            truncate_prompt_tokens=-1,
            priority=BACKGROUND,
        )
        client = self._services.client.route(None)
        tenant = TENANT + self._store.account
        call = await asyncio.to_thread(pipeline.prepare, request, client, tenant, trace=trace)
        try:
            call.start()
            pooled = await call.answer()
        finally:
            call.close()
            self._services.usage.add(trace)
        if pooled is None:
            raise Unavailable("the engine gave no vectors")
        return query_vectors(pooled.values)


async def _loaded(loading: Coroutine[Any, Any, Pipeline]) -> Pipeline:
    return await loading
