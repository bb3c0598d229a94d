"""What is served in a worker, and why the rest is not: the host's models beside the pipelines built of them.

Does no I/O and waits for nothing: `Catalogue` fills it.
"""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass, field
from typing import NamedTuple

from graphs.errors import hint, shown
from graphs.graph import Graph
from pipelines.base.errors import BraidError, ModelNotFound, RequestError, Unavailable, unloaded_by_hand
from pipelines.repository.files.model_versions import is_other_version, model_of
from pipelines.wire.messages import AdapterStatus, ModelStatus, Status, how_far
from pipelines.worker.build import is_composed
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.used_adapter import UsedAdapter

FAILED_RETRY_AFTER_S = 30
MAX_ENDED = 100
WORST_FIRST = ("failed", "loading", "unloading", "unloaded")


class AdapterName(NamedTuple):
    """An adapter that has this name, and its model."""

    model: str
    adapter: AdapterStatus


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model as clients see it.  `state` is "unloaded", "loading", "ready", "failed" or "unloading".

    It is "ready" exactly while the model's pipeline takes calls.  `max_context` is None for a graph without
    an engine, its own or a named one, and while it is unknown.  `on_request`: a request for the model, which
    is not ready, loads it or waits for its load.  `adapters` are those that requests can use.  `doing` is
    the task of a load that reports its progress, and `share`, from 0 to 1, how much of it is done.
    """

    name: str
    version: int
    created: int
    max_context: int | None
    state: str
    problems: list[str]
    task: str | None
    on_request: bool = False
    adapters: tuple[AdapterStatus, ...] = ()
    doing: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class BuiltPipeline:
    """A pipeline, the model instance that it calls, and the names of the models that its graph names.

    It was built of `graph`, which was read from `text`.
    """

    pipeline: Pipeline
    instance_id: int
    named: tuple[str, ...]
    graph: Graph
    text: str


@dataclass(slots=True)
class ModelTable:
    """Models of the host by name, and what was built of them.

    A name is served exactly while its pipeline's instance takes calls in the host and every model that its
    graph names is served.
    """

    is_up: bool = False
    """Whether a host is connected that has sent its status."""
    models: dict[str, ModelStatus] = field(default_factory=dict)
    built: dict[str, BuiltPipeline] = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)
    """Why the pipeline of a model could not be built."""
    ended: dict[str, ModelStatus] = field(default_factory=dict)
    """Models that were taken out of the repository, as they were last; at most MAX_ENDED."""
    left: dict[str, BuiltPipeline] = field(default_factory=dict)
    """The pipelines of models that take no new calls, while calls that began before use them."""
    adapters: dict[str, AdapterName] = field(default_factory=dict)
    """By the names that requests may use: NAME and MODEL:NAME.  No model has one of them."""

    def take(self, status: Status | None) -> None:
        """None: the host is gone."""
        self.is_up = status is not None
        if status is not None:
            self._note_ended({model.name for model in status.models})
        self.models = {model.name: model for model in status.models} if status else {}
        self.adapters = {}
        for model in self.models.values():
            for adapter in model.adapters:
                adapter_name = AdapterName(model.name, adapter)
                self._name(f"{model.name}:{adapter.name}", adapter_name)
                self._name(adapter.name, adapter_name)

    def _note_ended(self, names: set[str]) -> None:
        self.ended |= {name: model for name, model in self.models.items() if name not in names}
        self.ended = {name: model for name, model in self.ended.items() if name not in names}
        for name in [*self.ended][:-MAX_ENDED]:
            del self.ended[name]

    def _name(self, name: str, found: AdapterName) -> None:
        """The first that can be used keeps a name."""
        known = self.adapters.get(name)
        if name not in self.models and (known is None or known.adapter.problem):
            self.adapters[name] = found

    def model_of(self, name: str) -> str:
        """The model behind a name, which may be that of an adapter."""
        found = self.adapters.get(name)
        return name if found is None else found.model

    def drop_unready(self) -> list[ModelStatus]:
        """The models that the host has ready, by name; what was built of others is removed."""
        ready = {name: model for name, model in self.models.items() if model.state == "ready"}
        for name in (self.built.keys() | self.problems.keys()) - ready.keys():
            self.problems.pop(name, None)
            if name in self.built:
                self.left[name] = self.built.pop(name)
        return [ready[name] for name in sorted(ready)]

    def status(self, name: str) -> ModelStatus:
        """What the host says of a model.  Raises ModelNotFound, Unavailable while the engine is starting."""
        model = self.models.get(name)
        if not self.is_up or model is None:
            raise self.unknown(name)
        return model

    def unknown(self, name: str) -> BraidError:
        """Why no model has a name, with the names there are; Unavailable while the engine is starting."""
        if not self.is_up:
            return Unavailable("the engine is starting; try again in a moment")
        if name in self.adapters:
            base = self.adapters[name].model
            return ModelNotFound(f"`{shown(name)}` is an adapter of the model `{base}`", field="model")
        if not self.models:
            return ModelNotFound("This server has no models", field="model")
        adapters = dict.fromkeys(named.adapter.name for named in self.adapters.values())
        near = hint(name, [*self.own_names(), *adapters], "models")
        return ModelNotFound(f"The model `{shown(name)}` does not exist{near}", field="model")

    def pipeline(self, name: str) -> Pipeline:
        """What a name is served by: a model's pipeline, or that of a model with an adapter.

        Raises ModelNotFound, RequestError for an adapter that cannot be used, Unavailable while the model or
        the engine is loading.
        """
        model = self.status(self.model_of(name))
        built, adapter = self.served(model.name), self.adapters.get(name)
        if adapter is not None and adapter.adapter.problem:
            raise RequestError(
                f"The adapter `{adapter.adapter.name}` cannot be used: {adapter.adapter.problem}",
                field="model",
            )
        if built is None:
            raise self.absent(model)
        if adapter is None:
            return built.pipeline
        return built.pipeline.adapted(UsedAdapter(model.name, adapter.adapter.name, adapter.adapter.number))

    def inner_pipeline(self, name: str) -> Pipeline:
        """The pipeline that a line of a call asks, which may be one that takes no new calls."""
        if not self.is_up or name in self.adapters:
            return self.pipeline(name)
        built = self.served(name) or self.built.get(name) or self.left.get(name)
        return self.pipeline(name) if built is None else built.pipeline

    def keep_left(self, instance_ids: Container[int]) -> None:
        """Drop the pipelines of models that take no new calls, except those of these instances."""
        self.left = {name: built for name, built in self.left.items() if built.instance_id in instance_ids}

    def cards(self) -> list[ModelCard]:
        """Every model of the repository, in the order of names; of each its newest version."""
        return [self._card(self.models[name]) for name in self.own_names()] if self.is_up else []

    def versions(self, name: str) -> dict[int, ModelCard]:
        """Every version of a model by its number, the newest first; {} without such a model.

        `get` takes the name of its card: that of the newest is the model's own.
        """
        known = [self._card(model) for model in self.models.values() if model_of(model.name) == name]
        return {card.version: card for card in sorted(known, key=_age)} if self.is_up else {}

    def only_or(self, name: str | None) -> str:
        """Without a name, that of the only model."""
        if name is not None:
            return name
        own = self.own_names()
        return own[0] if len(own) == 1 else ""

    def own_names(self) -> list[str]:
        """The names of models, without those of versions beside the newest ones."""
        return [name for name in self.models if not is_other_version(name)]

    def served(self, name: str) -> BuiltPipeline | None:
        """What a name is served by; None where it is not."""
        model, built = self.models.get(name), self.built.get(name)
        if model is None or built is None or model.state != "ready":
            return None
        if not self._is_current(name, built):
            return None
        return built if all(self.served(other) for other in built.named) else None

    def next_to_load(self, name: str) -> str | None:
        """The model to wait for next, of a name and those that its graph names; None: there is none."""
        model = self.models.get(name)
        if model is None or self.served(name) is not None:
            return None
        if self.is_being_built(name) or (model.state != "ready" and model.on_request):
            return name
        return next((found for other in self._named(name) if (found := self.next_to_load(other))), None)

    def _named(self, name: str) -> tuple[str, ...]:
        """What the graph of a model names; () while it is not built here."""
        built = self.built.get(name)
        return built.named if built is not None and self._is_current(name, built) else ()

    def is_being_built(self, name: str) -> bool:
        """Whether the host has a model ready and this worker is still to build its pipeline."""
        model, built = self.models.get(name), self.built.get(name)
        if not self.is_up or model is None or model.state != "ready" or name in self.problems:
            return False
        return built is None or not self._is_current(name, built)

    def _is_current(self, name: str, built: BuiltPipeline) -> bool:
        model = self.models[name]
        return built.instance_id == model.instance_id or built.instance_id in model.replaced

    def instance_ids(self, name: str) -> list[int]:
        """The instances of a name and of all that its graph names."""
        built = self.built.get(name)
        named = built.named if built else ()
        own = [built.instance_id] if built else []
        return own + [each for other in named for each in self.instance_ids(other)]

    @property
    def composed(self) -> dict[str, bool]:
        """Which of the models that were built are composed."""
        return {name: built.pipeline.is_composed for name, built in self.built.items()}

    def is_of_other_kind(self, name: str) -> bool:
        """Whether a model was built as a plain graph and what it names is composed now, or vice versa."""
        built, known = self.built.get(name), self.composed
        if built is None or not all(other in known for other in built.named):
            return False
        return built.pipeline.is_composed != is_composed(built.graph, graphs=None, known=known)

    def _card(self, model: ModelStatus) -> ModelCard:
        built, adapters = (
            self.served(model.name),
            tuple(adapter for adapter in model.adapters if not adapter.problem),
        )
        refused = [
            f"adapter {adapter.name}: {adapter.problem}" for adapter in model.adapters if adapter.problem
        ]
        if built is None:
            problems = model.problems or self._why_not_live(model)
            return ModelCard(
                model.name,
                model.version,
                int(time.time()),
                model.max_context,
                self._state(model),
                problems,
                model.task or None,
                self._is_on_request(model),
                adapters,
                model.doing,
                model.share,
            )
        pipeline = built.pipeline
        return ModelCard(
            model.name,
            pipeline.version,
            pipeline.created,
            pipeline.max_context or None,
            "ready",
            [*(model.problems or self.problems.get(model.name, [])), *refused],
            pipeline.task,
            adapters=adapters,
        )

    def _why_not_live(self, model: ModelStatus) -> list[str]:
        """Why a model that the host has ready is not served here; [] while it is only built."""
        return self.problems.get(model.name) or [
            f"its graph names `{other}`, which is not ready" + self._reason(other)
            for other in self._missing(model)
        ]

    def _reason(self, name: str) -> str:
        model = self.models.get(name)
        problems = (model.problems or self._why_not_live(model)) if model else []
        return f": {problems[0]}" if problems else ""

    def _missing(self, model: ModelStatus) -> list[str]:
        """What its graph names and is not served."""
        return [other for other in self._named(model.name) if self.served(other) is None]

    def _state(self, model: ModelStatus) -> str:
        """The state of a model that is not served here.

        One that the host has ready is "failed" where this worker cannot build it; where what its graph names
        is missing, its state is theirs.
        """
        if model.state != "ready":
            return model.state
        if model.name in self.problems:
            return "failed"
        others = [
            self._state(self.models[name]) if name in self.models else "failed"
            for name in self._missing(model)
        ]
        return next((state for state in WORST_FIRST if state in others), "loading")

    def _is_on_request(self, model: ModelStatus) -> bool:
        """Whether a request for it loads it, or what its graph names."""
        named = (self.models[each] for each in self._missing(model) if each in self.models)
        return model.on_request or any(map(self._is_on_request, named))

    def absent(self, model: ModelStatus) -> BraidError:
        """The error for a request for a model that is not served."""
        state, problems = self._state(model), model.problems or self._why_not_live(model)
        if state == "failed":
            problem = problems[0] if problems else "it failed to load"
            return Unavailable(
                f"The model `{model.name}` could not be loaded: {problem} (run: braid check)",
                FAILED_RETRY_AFTER_S,
            )
        if model.state == "unloaded":
            return unloaded_by_hand(model.name)
        why = problems[0] if problems else how_far(model.doing, model.share)
        return Unavailable(f"The model `{model.name}` is {state}" + (f": {why}" if why else ""))


def _age(card: ModelCard) -> tuple[bool, int]:
    return is_other_version(card.name), -card.version
