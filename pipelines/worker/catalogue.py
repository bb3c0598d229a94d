"""The worker's view of what is served: names → live pipelines, following the engine host's status.

Pipelines are built from what the host loaded, never from the model repository.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from graphs.compose import Graphs, GraphSource
from graphs.errors import hint, shown
from pipelines.errors import BraidError, ModelNotFound, Unavailable, unloaded_by_hand
from pipelines.loading import BuildError
from pipelines.nodes import VOCABULARY
from pipelines.nodes.graph_node import GraphNode
from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.model_versions import is_other_version, model_of
from pipelines.repository.snapshot import digest
from pipelines.tasks import TASKS
from pipelines.wire.client import EngineClient
from pipelines.wire.messages import ModelStatus, Status
from pipelines.worker.build import load_for_worker
from pipelines.worker.pipeline import Pipeline

log = logging.getLogger("braid.catalogue")

FIRST_STATUS_S = 3.0
"""How long `caught_up` waits for a connection; without one there is nothing to catch up with."""
RETRY_S = 5.0
"""Between two attempts to build what could not be built."""
FAILED_RETRY_AFTER_S = 30


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model as clients see it.  `state` is "unloaded", "loading", "ready", "failed" or "unloading".

    It is "ready" exactly while `Catalogue.get` returns the model's pipeline.  `max_context` is None for a
    graph without an engine, its own or a named one, and while it is unknown.  `on_request`: a request for the
    model, which is not ready, loads it or waits for its load.
    """

    name: str
    version: int
    created: int
    max_context: int | None
    state: str
    problems: list[str]
    task: str | None
    on_request: bool = False


@dataclass(frozen=True, slots=True)
class _Built:
    """A pipeline, the model instance that it calls, and the names of the models that its graph names."""

    pipeline: Pipeline
    instance_id: int
    named: tuple[str, ...]


class Catalogue:
    """One pipeline per name, swapped when the host has a newer instance; calls in flight keep the old one.

    A name is served exactly while its pipeline's instance takes calls in the host and every model that its
    graph names is served.  All but `_build` belongs to the event loop.
    """

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._models: dict[str, ModelStatus] = {}
        self._built: dict[str, _Built] = {}
        self._problems: dict[str, list[str]] = {}
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
        """Wait until all that the host has ready is live here or the host goes, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first_status.wait(), min(FIRST_STATUS_S, timeout_s))
        if self._first_status.is_set() or self._client.connected:
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
        name = self._name(name)
        model = self.status(name)
        built = self._served(name)
        if built is None:
            raise self._absent(model)
        return built.pipeline

    def hold(self, pipeline: Pipeline) -> Callable[[], None]:
        """The instances that a pipeline calls take calls until the function that this gives is called."""
        instance_ids = self._instances(pipeline.name)
        self._held.update(instance_ids)
        return partial(self._release, instance_ids)

    def may_wait(self, name: str | None) -> bool:
        """Whether a model is not served here, but is once `load` has returned."""
        name = self._name(name)
        return name in self._models and self._served(name) is None and self._next_to_load(name) is not None

    async def load(self, name: str | None, at_end: Callable[[Callable[[], None]], object]) -> Pipeline:
        """Wait until a model is served here, with those that its graph names.

        What is returned stays loaded until the function is called that `at_end` is given.  Raises the
        BraidError of the host where a model cannot be loaded.
        """
        name = self._name(name)
        async with contextlib.AsyncExitStack() as wanted:
            while (missing := self._next_to_load(name)) is not None:
                await wanted.enter_async_context(self._client.wanted(missing))
                while self._is_being_built(missing):
                    await self._progress.wait()
            pipeline = self.get(name)
            at_end(self.hold(pipeline))
            return pipeline

    async def load_by_hand(self, name: str) -> None:
        """Load a model, also one that a client unloaded; returns when it is served here.

        Raises the BraidError of the host where it cannot be loaded.
        """
        async with self._client.wanted(name, by_hand=True):
            while self._is_being_built(name):
                await self._progress.wait()
            self.get(name)

    def _next_to_load(self, name: str) -> str | None:
        """The model to wait for next, of a name and those that its graph names; None: there is none."""
        model = self._models.get(name)
        if model is None or self._served(name) is not None:
            return None
        if self._is_being_built(name) or (model.state != "ready" and model.on_request):
            return name
        return next((found for other in self._named(name) if (found := self._next_to_load(other))), None)

    def _named(self, name: str) -> tuple[str, ...]:
        """What the graph of a model names; () while it is not built here."""
        built = self._built.get(name)
        return built.named if built is not None and self._is_current(name, built) else ()

    def _is_being_built(self, name: str) -> bool:
        """Whether the host has a model ready and this worker is still to build its pipeline."""
        model, built = self._models.get(name), self._built.get(name)
        if self._client.status is None or model is None or model.state != "ready" or name in self._problems:
            return False
        return built is None or not self._is_current(name, built)

    def _is_current(self, name: str, built: _Built) -> bool:
        model = self._models[name]
        return built.instance_id == model.instance_id or built.instance_id in model.replaced

    def _name(self, name: str | None) -> str:
        """Without a name, that of the only model."""
        if name is not None:
            return name
        own = self._own_names()
        return own[0] if len(own) == 1 else ""

    def _release(self, instance_ids: list[int]) -> None:
        self._held.subtract(instance_ids)
        ended = [each for each in instance_ids if not self._held[each]]
        for each in ended:
            del self._held[each]
        built = [built.instance_id for built in self._built.values()]
        if any(each not in built for each in ended):
            self._report_use()

    def _instances(self, name: str) -> list[int]:
        """Of a name and of all that its graph names."""
        built = self._built.get(name)
        named = built.named if built else ()
        own = [built.instance_id] if built else []
        return own + [each for other in named for each in self._instances(other)]

    def status(self, name: str) -> ModelStatus:
        """What the host says of a model.  Raises ModelNotFound, Unavailable while the engine is starting."""
        if self._client.status is None:
            raise Unavailable("the engine is starting; try again in a moment")
        model = self._models.get(name)
        if model is None:
            near = hint(name, self._own_names(), "models")
            raise ModelNotFound(f"The model `{shown(name)}` does not exist{near}", field="model")
        return model

    def cards(self) -> list[ModelCard]:
        """Every model of the repository, in the order of names; of each its newest version."""
        return [self._card(self._models[name]) for name in self._own_names()] if self._client.status else []

    def versions(self, name: str) -> dict[int, ModelCard]:
        """Every version of a model by its number, the newest first; {} without such a model.

        `get` takes the name of its card: that of the newest is the model's own.
        """
        known = [self._card(model) for model in self._models.values() if model_of(model.name) == name]
        return {card.version: card for card in sorted(known, key=_age)} if self._client.status else {}

    def _own_names(self) -> list[str]:
        """The names of models, without those of versions beside the newest ones."""
        return [name for name in self._models if not is_other_version(name)]

    def _served(self, name: str) -> _Built | None:
        """What a name is served by; None where it is not."""
        model, built = self._models.get(name), self._built.get(name)
        if model is None or built is None or model.state != "ready":
            return None
        if not self._is_current(name, built):
            return None
        return built if all(self._served(other) for other in built.named) else None

    def _card(self, model: ModelStatus) -> ModelCard:
        built = self._served(model.name)
        if built is None:
            state = "loading" if model.state == "ready" else model.state
            problems = model.problems or self._why_not_live(model)
            return ModelCard(
                model.name,
                model.version,
                int(time.time()),
                model.max_context,
                state,
                problems,
                model.task or None,
                model.on_request,
            )
        pipeline = built.pipeline
        return ModelCard(
            model.name,
            pipeline.version,
            pipeline.created,
            pipeline.max_context or None,
            "ready",
            model.problems or self._problems.get(model.name, []),
            pipeline.task,
        )

    def _why_not_live(self, model: ModelStatus) -> list[str]:
        """Why a model that the host has ready is not served here; [] while it is only built."""
        built = self._built.get(model.name)
        missing = [other for other in (built.named if built else ()) if self._served(other) is None]
        return self._problems.get(model.name) or [
            f"its graph names `{other}`, which is not ready" for other in missing
        ]

    def _absent(self, model: ModelStatus) -> BraidError:
        if model.state == "failed":
            problem = model.problems[0] if model.problems else "it failed to load"
            return Unavailable(
                f"The model `{model.name}` could not be loaded: {problem} (run: braid check)",
                FAILED_RETRY_AFTER_S,
            )
        if model.state == "unloaded":
            return unloaded_by_hand(model.name)
        problems = self._why_not_live(model) if model.state == "ready" else []
        state = "unloading" if model.state == "unloading" else "loading"
        return Unavailable(f"The model `{model.name}` is {state}" + (f": {problems[0]}" if problems else ""))

    def _take_status(self, status: Status | None) -> None:
        self._models = {model.name: model for model in status.models} if status else {}
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
                await asyncio.wait_for(self._changed.wait(), RETRY_S if self._problems else None)
            self._changed.clear()
            if (status := self._client.status) is not None:
                await self._catch_up(status)
                if not self._changed.is_set() and not self._problems:
                    self._caught_up.set()

    async def _catch_up(self, status: Status) -> None:
        """Build what the host loaded since the last look, off the event loop, and swap it in."""
        models = self._models
        live = {name for name, model in models.items() if model.state == "ready"}
        for name in (self._built.keys() | self._problems.keys()) - live:
            self._built.pop(name, None)
            self._problems.pop(name, None)
        for name in sorted(live):
            built = self._built.get(name)
            if built is None or built.instance_id != models[name].instance_id:
                await self._build_one(models[name])
        newest = self._client.status
        if newest is not None and newest.engine_pid == status.engine_pid:
            self._followed = status.number
        self._report_use()

    async def _build_one(self, model: ModelStatus) -> None:
        """Swap in a new pipeline; where it cannot be built, the old one stays."""
        try:
            self._built[model.name] = await asyncio.to_thread(self._build, model)
        except Exception as error:  # the other models are built all the same
            problems = getattr(error, "problems", None) or [f"{type(error).__name__}: {error}"]
            if self._problems.get(model.name) != problems:
                log.error("model %s cannot be built in this worker", model.name, exc_info=error)
            self._problems[model.name] = problems
        else:
            self._problems.pop(model.name, None)
            self._report_use()
        self._note_progress()

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    def _build(self, model: ModelStatus) -> _Built:
        """The pipeline of the host's instance.  Raises BuildError where the snapshot was changed."""
        path = Path(model.snapshot)
        if digest(path) != model.fingerprint:
            raise BuildError([f"{path} is not what the engine host loaded"])
        graph = model.graphs[model.name]
        folder = ModelFolder(model.name, model.version, path, model.fingerprint, graph)
        sources = {name: GraphSource(text) for name, text in model.graphs.items()}
        graphs = Graphs(sources, VOCABULARY, TASKS)
        pipeline = load_for_worker(folder, model.instance_id, model.max_context or 0, graphs, self.get)
        nodes = (line.node for line in pipeline.lines)
        named = tuple(node.config.graph for node in nodes if isinstance(node, GraphNode))
        return _Built(pipeline, model.instance_id, named)

    def _report_use(self) -> None:
        """Report the instances that calls of this worker may use, and the status that it has followed."""
        in_use = sorted({*self._held, *(built.instance_id for built in self._built.values())})
        report = (in_use, self._followed)
        if report != self._reported and self._client.report_use(*report):
            self._reported = report


def _age(card: ModelCard) -> tuple[bool, int]:
    return is_other_version(card.name), -card.version
