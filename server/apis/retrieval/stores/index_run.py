"""One update of a store's index: its files are cut and embedded, and written as a new version."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.base.errors import Unavailable
from pipelines.retrieval.about import About
from pipelines.retrieval.cutting import Cutting
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_settings import IndexSettings
from pipelines.retrieval.index_update import SourceDocument, describe, remove, update
from pipelines.retrieval.index_version import query_vectors
from pipelines.retrieval.passages import Passages
from pipelines.telemetry.request_trace import RequestTrace
from pipelines.values.joined_vectors import joined
from pipelines.values.node_values import Prompt, SparseVectors, Vectors
from pipelines.values.search_values import VECTOR_KINDS
from pipelines.values.tasks import PoolingInput
from pipelines.wire.sampling_params import BACKGROUND
from pipelines.worker import model_choice
from pipelines.worker.model_choice import EMBEDDING
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import gives_kind
from server.apis.batches.line_calls import TENANT
from server.apis.retrieval.stores.file_texts import INVALID, FileTexts
from server.apis.retrieval.stores.rows import StoreFileRow, StoreRow
from server.apis.retrieval.stores.work_table import StoreWork
from server.services.services import Services

TEXTS = 16
"""Passages that are embedded by one request: those of clients take turns with them."""
CHARS_PER_TOKEN = 4
VECTOR_BYTES = 3
"""Bytes of each number of a vector: it is stored in 8 bits and in 16."""
POSTING_BYTES = 8
"""Bytes of each number of a sparse vector, and of the row that it belongs to."""
PATH = "/v1/vector_stores"
STOPPED = "the update was stopped"


class IndexRun:
    """Belongs to the event loop of a worker; the index itself is written in a thread."""

    def __init__(self, services: Services, store: StoreRow, index: Path) -> None:
        self._services, self._store = services, store
        self._folder = IndexFolder(index)
        self._texts = FileTexts(services.stores.files.folder)
        self._loop = asyncio.get_running_loop()
        self._embedding: Future[dict[str, Vectors]] | None = None
        self._kinds: tuple[str, ...] = ()
        self.is_stopped = False

    def stop(self) -> None:
        """End `run` soon; it raises Unavailable, and the index stays as it is."""
        self.is_stopped = True
        if self._embedding is not None:
            self._embedding.cancel()

    async def run(self, work: StoreWork) -> tuple[dict[str, int], dict[str, tuple[str, str]]]:
        """The bytes that each added file has in the index, and the code and message of those that are wrong.

        Raises IndexBusy, OSError, ValueError, sqlite3.Error and BraidError; nothing of a version that is not
        whole is left.
        """
        self._kinds = await asyncio.to_thread(self._stored_kinds) or await self._given_kinds()
        await asyncio.to_thread(self._apply, work)
        return await asyncio.to_thread(self._usage, work), self._texts.errors

    def _stored_kinds(self) -> tuple[str, ...]:
        """The kinds of vectors of the index, which stay; () where there is none yet."""
        number = self._folder.number()
        return () if number is None else About.read(self._folder.version(number)).kinds

    async def _given_kinds(self) -> tuple[str, ...]:
        """The kinds of vectors that the store's model gives."""
        closers = list[Callable[[], None]]()
        try:
            pipeline = await self._pipeline(closers)
            given = tuple(kind for kind in VECTOR_KINDS if gives_kind(pipeline, kind))
        finally:
            for close in closers:
                close()
        return given or ("dense",)

    async def _pipeline(self, closers: list[Callable[[], None]]) -> Pipeline:
        return await model_choice.find_pipeline(
            self._services.catalogue, self._store.model, EMBEDDING, closers.append, _loaded
        )

    def _apply(self, work: StoreWork) -> None:
        settings = IndexSettings(self._store.model, self._embed, kinds=self._kinds)
        if work.removed:
            remove(self._folder, work.removed, settings)
        if work.described:
            describe(self._folder, map(self._document, work.described), settings)
        if work.added:
            report = update(self._folder, map(self._document, work.added), settings, keeps_others=True)
            for name, reason in report.wrong.items():  # of their texts, beside what has a code already
                self._texts.errors.setdefault(name, (INVALID, reason))

    def _document(self, file: StoreFileRow) -> SourceDocument:
        cutting = file.chunks and Cutting(*(CHARS_PER_TOKEN * tokens for tokens in file.chunks))
        return SourceDocument(file.id, file.id, partial(self._texts.read, file), file.attributes, cutting)

    def _usage(self, work: StoreWork) -> dict[str, int]:
        number = self._folder.number()
        if number is None:
            return {}
        version = self._folder.version(number)
        about = About.read(version)
        of_passage = about.size * VECTOR_BYTES
        of_passage += about.postings * POSTING_BYTES // max(about.rows, 1)
        passages = Passages(version, about.parts)
        try:
            sizes = passages.sizes(file.id for file in work.added)
        finally:
            passages.close()
        return {name: num_bytes + count * of_passage for name, (count, num_bytes) in sizes.items()}

    def _embed(self, texts: list[str]) -> dict[str, Vectors]:
        """The vectors of each kind; called in a thread of the update.  Raises Unavailable when it is stopped:
        asyncio would take the CancelledError of a thread for one of the task that awaits it.
        """
        if self.is_stopped:
            raise Unavailable(STOPPED)
        self._embedding = asyncio.run_coroutine_threadsafe(self._vectors(texts), self._loop)
        if self.is_stopped:
            self._embedding.cancel()
        try:
            return self._embedding.result()
        except CancelledError:
            raise Unavailable(STOPPED) from None

    async def _vectors(self, texts: list[str]) -> dict[str, Vectors]:
        closers = list[Callable[[], None]]()
        try:
            pipeline = await self._pipeline(closers)
            parts = [
                await self._part(pipeline, texts[first : first + TEXTS])
                for first in range(0, len(texts), TEXTS)
            ]
        finally:
            for close in closers:
                close()
        return joined(parts)

    async def _part(self, pipeline: Pipeline, texts: list[str]) -> dict[str, Vectors]:
        """The vectors of one request, below all requests of clients; its tokens are counted for its key."""
        trace = RequestTrace(os.urandom(16).hex(), time.monotonic())
        trace.account, trace.path = self._store.account, PATH
        request = PoolingInput(
            prompts=[Prompt.of_text(text) for text in texts],
            purpose="search_document",
            truncate_prompt_tokens=-1,
            priority=BACKGROUND,
            results=self._kinds if "sparse" in self._kinds else (),
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
        named = pooled.named if "sparse" in self._kinds else {"dense": pooled.vectors}
        return {kind: _checked(vectors) for kind, vectors in named.items()}


def _checked(vectors: Vectors) -> Vectors:
    """Raises ValueError for a vector per token."""
    return vectors if isinstance(vectors, SparseVectors) else query_vectors(vectors)


async def _loaded(loading: Coroutine[Any, Any, Pipeline]) -> Pipeline:
    return await loading
