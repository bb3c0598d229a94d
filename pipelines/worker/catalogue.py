"""The worker's view of what is served: names → live pipelines, following the engine host's status.

Pipelines are built from what the host loaded, never from the model repository.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pipelines.base.errors import BraidError
from pipelines.base.garbage_collection import release_free_pages
from pipelines.loading.load import BuildError, checked_graph, graphs_from, source_of
from pipelines.repository.snapshot import digest
from pipelines.wire.messages import ModelStatus, Status
from pipelines.worker.build import LoadedModel, load_for_worker
from pipelines.worker.engines.faces import HostClient
from pipelines.worker.model_table import BuiltPipeline, ModelCard, ModelTable
from pipelines.worker.pipeline import Pipeline

log = logging.getLogger("braid.catalogue")

FIRST_STATUS_S = 3.0
"""How long `caught_up` waits for a connection; without one there is nothing to catch up with."""
RETRY_S = 5.0
"""The seconds between two attempts to build what could not be built."""


class Catalogue:
    """One pipeline per name, swapped when the host has a newer instance; calls in flight keep the old one.

    What is served, and why the rest is not, is in its `ModelTable`.  All but `_build` belongs to the event
    loop.
    """

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self._table = ModelTable(is_up=client.status is not None)
        self._followed = 0  # the number of the last status for which all was built
        self._reported: tuple[list[int], int] | None = None
        self._progress = asyncio.Event()  # set, and replaced, whenever something was built or could not be
        self._held: Counter[int] = Counter()  # requests of each instance; no zeros
        self._work: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._first_status = asyncio.Event()
        self._caught_up = asyncio.Event()

    async def start(self) -> None:
        """Follow the host's status from now on; returns before any model is live."""
        self._client.on_status(self._take_status)
        self._work = asyncio.create_task(self._follow(), name="catalogue")

    async def caught_up(self, timeout_s: float) -> None:
        """Wait until all that the host has ready is live or failed here, or it goes; at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(FIRST_STATUS_S, timeout_s)):
                await self._first_status.wait()
        if self._first_status.is_set() or self._client.connected:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._caught_up.wait()

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    def get(self, name: str | None) -> Pipeline:
        """The pipeline that new calls use; without a name, that of the only model.

        A name may be that of an adapter.  Raises NotFound with the names there are, RequestError for an
        adapter that cannot be used, Unavailable while the model or the engine is loading.
        """
        return self._table.pipeline(self._table.only_or(name))

    def status(self, name: str) -> ModelStatus:
        """What the host says of a model.  Raises ModelNotFound, Unavailable while the engine is starting."""
        return self._table.status(name)

    def unknown(self, name: str) -> BraidError:
        """Why no model has a name, with the names there are; Unavailable while the engine is starting."""
        return self._table.unknown(name)

    def built(self, name: str | None) -> BuiltPipeline:
        """What a model is served by, with its graph.  Raises as `get`."""
        return self._table.built[self.get(name).model]

    def cards(self) -> list[ModelCard]:
        """Every model of the repository, in the order of names; of each its newest version."""
        return self._table.cards()

    def versions(self, name: str) -> dict[int, ModelCard]:
        """Every version of a model by its number, the newest first; {} without such a model.

        `get` takes the name of its card: that of the newest is the model's own.
        """
        return self._table.versions(name)

    def ended(self) -> list[tuple[str, int]]:
        """Name and version of each model that was taken out of the repository."""
        return [(name, model.version) for name, model in self._table.ended.items()]

    def hold(self, pipeline: Pipeline) -> Callable[[], None]:
        """The instances that a pipeline calls take calls until the function that this gives is called."""
        instance_ids = self._table.instance_ids(pipeline.model)
        self._held.update(instance_ids)
        return partial(self._release, instance_ids)

    def may_wait(self, name: str | None) -> bool:
        """Whether a model is not served here, but is once `load` has returned."""
        return self._table.next_to_load(self.model_of(name)) is not None

    def model_of(self, name: str | None) -> str:
        """The model behind a name, which may be that of an adapter; without a name the only model."""
        return self._table.model_of(self._table.only_or(name))

    async def load(self, name: str | None, at_end: Callable[[Callable[[], None]], object]) -> Pipeline:
        """Wait until a model is served here, with those that its graph names.

        What is returned stays loaded until the function is called that `at_end` is given.  Raises the
        BraidError of the host where a model cannot be loaded.
        """
        name = self._table.only_or(name)
        async with contextlib.AsyncExitStack() as wanted:
            while (missing := self._table.next_to_load(self.model_of(name))) is not None:
                await wanted.enter_async_context(self._client.wanted(missing))
                while self._table.is_being_built(missing):
                    await self._progress.wait()
            pipeline = self.get(name)
            at_end(self.hold(pipeline))
            return pipeline

    async def load_by_hand(self, name: str) -> None:
        """Load a model, also one that a client unloaded; returns when it is served here.

        Raises the BraidError of the host where it cannot be loaded.
        """
        async with self._client.wanted(name, by_hand=True):
            while self._table.is_being_built(name):
                await self._progress.wait()
            self.get(name)

    def _release(self, instance_ids: list[int]) -> None:
        self._held.subtract(instance_ids)
        ended = [each for each in instance_ids if not self._held[each]]
        for each in ended:
            del self._held[each]
        if ended and self._table.left:
            self._table.keep_left(self._held)
        built = [built.instance_id for built in self._table.built.values()]
        if any(each not in built for each in ended):
            self._report_use()

    def _take_status(self, status: Status | None) -> None:
        self._table.take(status)
        if status is None:
            self._followed, self._reported = 0, None  # the next host has to be informed anew
            self._caught_up.set()  # there is nothing to wait for
        else:
            self._first_status.set()
            self._caught_up.clear()
        self._changed.set()
        self._note_progress()

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if self._table.problems else None):
                    await self._changed.wait()
            self._changed.clear()
            if (status := self._client.status) is not None:
                await self._catch_up(status)
                if not self._changed.is_set():
                    self._caught_up.set()

    async def _catch_up(self, status: Status) -> None:
        """Build what the host loaded since the last look, off the event loop, and swap it in."""
        ready = self._table.drop_unready()
        self._table.keep_left(self._held)
        for model in ready:
            built = self._table.built.get(model.name)
            if built is None or built.instance_id != model.instance_id:
                await self._build_one(model)
        waiting = {model.name: model for model in ready}
        while (name := next(filter(self._table.is_of_other_kind, waiting), None)) is not None:
            await self._build_one(waiting.pop(name))
        newest = self._client.status
        if newest is not None and newest.engine_pid == status.engine_pid:
            self._followed = status.number
        self._report_use()

    async def _build_one(self, model: ModelStatus) -> None:
        """Swap in a new pipeline; where it cannot be built, the old one stays."""
        try:
            self._table.built[model.name] = await asyncio.to_thread(self._build, model)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the other models are built all the same
            problems = getattr(error, "problems", None) or [f"{type(error).__name__}: {error}"]
            if self._table.problems.get(model.name) != problems:
                log.error("model %s cannot be built in this worker", model.name, exc_info=error)
            self._table.problems[model.name] = problems
        else:
            self._table.problems.pop(model.name, None)
            self._report_use()
        self._note_progress()

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    def _build(self, model: ModelStatus) -> BuiltPipeline:
        """The pipeline of the host's instance.  Raises BuildError where the snapshot was changed."""
        path = Path(model.snapshot)
        if digest(path) != model.fingerprint:
            raise BuildError([f"{path} is not what the engine host loaded"])
        graph = model.graphs[model.name].graph
        loaded = LoadedModel(model.name, model.version, path, graph)
        graphs = graphs_from({name: source_of(text) for name, text in model.graphs.items()})
        max_context, known = model.max_context or 0, self._table.composed
        inner = self._table.inner_pipeline
        pipeline = load_for_worker(loaded, model.instance_id, max_context, graphs, inner, known)
        release_free_pages()
        checked = checked_graph(loaded, graphs)
        return BuiltPipeline(pipeline, model.instance_id, pipeline.named_models, checked, graph)

    def _report_use(self) -> None:
        """Report the instances that calls of this worker may use, and the status that it has followed."""
        in_use = sorted({*self._held, *(built.instance_id for built in self._table.built.values())})
        report = (in_use, self._followed)
        if report != self._reported and self._client.report_use(*report):
            self._reported = report
