"""The worker's view of what is served: names → live pipelines, following the engine host's status.

Knows models and loads; knows nothing of HTTP or of what a node does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from pathlib import Path

from graphs.errors import hint
from pipelines.errors import NotFound, Unavailable
from pipelines.loading import graphs_of
from pipelines.repository.model_folders import ModelFolder, scan
from pipelines.wire.client import EngineClient
from pipelines.wire.messages import ModelStatus, Status
from pipelines.worker.build import load_for_worker
from pipelines.worker.pipeline import Pipeline

log = logging.getLogger("braid.catalogue")


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model as clients see it.  `state` is "loading", "ready", "failed" or "unloading"."""

    name: str
    version: int
    created: int
    max_context: int
    state: str
    problems: list[str]
    task: str | None


class Catalogue:
    """One entry per name; an entry is swapped when the host has a newer load, and calls keep the old one.

    `_pipelines[name]` belongs to load `_loads[name]` of the host; both change together, on the event loop.
    """

    def __init__(self, client: EngineClient, repository: Path) -> None:
        self._client = client
        self._repository = repository
        self._pipelines: dict[str, Pipeline] = {}
        self._loads: dict[str, int] = {}
        self._broken: dict[str, list[str]] = {}
        self._work: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._caught_up = asyncio.Event()

    async def start(self) -> None:
        """Follow the host's status from now on; returns before any model is there."""
        self._client.on_status(lambda status: self._wanted.set())
        self._work = asyncio.create_task(self._follow(), name="catalogue")

    async def caught_up(self, timeout_s: float) -> None:
        """Wait until what the host first said it serves is live here, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._caught_up.wait(), timeout_s)

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    def get(self, name: str | None) -> Pipeline:
        """The pipeline that new calls use; without a name, that of the only model.

        Raises NotFound with the names there are, Unavailable while the model or the engine is loading.
        """
        status = self._client.status
        if status is None:
            raise Unavailable("the engine is starting; try again in a moment")
        if name is None:
            name = status.models[0].name if len(status.models) == 1 else ""
        model = next((model for model in status.models if model.name == name), None)
        if model is None:
            names = [model.name for model in status.models]
            raise NotFound(f"The model `{name}` does not exist{hint(name, names, 'models')}", field="model")
        if model.instance_id and name in self._pipelines and name not in self._broken:
            return self._pipelines[name]  # while a newer load is built here, the older one still takes calls
        raise self._absent(model)

    def cards(self) -> list[ModelCard]:
        """Every model of the repository, in the order of names."""
        status = self._client.status
        return [self._card(model) for model in status.models] if status else []

    def _card(self, model: ModelStatus) -> ModelCard:
        pipeline = self._pipelines.get(model.name)
        problems = model.problems or self._broken.get(model.name, [])
        state = "loading" if model.state == "ready" and pipeline is None and not problems else model.state
        created = pipeline.created if pipeline else int(time.time())
        task = pipeline.task if pipeline else None
        max_context = self._max_context(model, pipeline)
        return ModelCard(model.name, model.version, created, max_context, state, problems, task)

    def _max_context(self, model: ModelStatus, pipeline: Pipeline | None) -> int:
        """What a client may be told; 0 while it is not known, as for the name of a model that is loading."""
        with contextlib.suppress(NotFound, Unavailable):
            return pipeline.max_context if pipeline else model.max_context
        return 0

    def _absent(self, model: ModelStatus) -> Exception:
        problems = model.problems or self._broken.get(model.name, [])
        if model.state == "failed" or self._broken.get(model.name):
            said = problems[0] if problems else "it failed to load"
            return Unavailable(f"The model `{model.name}` could not be loaded: {said} (run: braid check)", 30)
        return Unavailable(f"The model `{model.name}` is loading")

    async def _follow(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            status = self._client.status
            if status is not None:
                await self._catch_up(status)
                self._caught_up.set()

    async def _catch_up(self, status: Status) -> None:
        """Build what the host loaded since the last look, off the event loop, and swap it in."""
        for name in self._pipelines.keys() - {model.name for model in status.models}:
            self._drop(name)
        new = [
            model
            for model in status.models
            if model.instance_id and self._loads.get(model.name) != model.instance_id
        ]
        for model in new:
            try:
                pipeline = await asyncio.to_thread(self._build, model)
            except Exception as error:  # whatever it is, the other models go on
                log.exception("model %s cannot be built in this worker", model.name)
                self._broken[model.name] = getattr(error, "problems", [str(error)])
                continue
            self._broken.pop(model.name, None)
            self._pipelines[model.name], self._loads[model.name] = pipeline, model.instance_id

    def _build(self, model: ModelStatus) -> Pipeline:
        """The pipeline of the load that the host named, with the other models' graphs at hand."""
        loaded = ModelFolder(model.name, model.version, Path(model.folder), "")
        others = [folder for folder in scan(self._repository) if folder.name != model.name]
        graphs = graphs_of([loaded, *others])
        return load_for_worker(loaded, model.instance_id, model.max_context, graphs, self.get)

    def _drop(self, name: str) -> None:
        """Forget a name; calls that run keep their pipeline."""
        self._pipelines.pop(name, None)
        self._loads.pop(name, None)
