"""GET api/tags, api/ps and api/version, POST api/show: Ollama's lists of models."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import falcon
import falcon.asgi
from pydantic import ConfigDict, Field, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import BraidError, MissingField
from pipelines.wire.messages import ModelStatus
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_table import ModelCard
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import of_type
from server.apis.ollama.capabilities import listed
from server.apis.ollama.details import ModelFacts, read_facts
from server.apis.ollama.names import served_name, tagged
from server.apis.ollama.reply_models import (
    ApiVersion,
    InstalledModel,
    InstalledModels,
    ModelInMemory,
    ModelsInMemory,
    ShownModel,
)
from server.http.request_body import parse
from server.schema.reply_models import Reply
from server.services.services import Services

API_VERSION = "0.40.4"
"""The version of Ollama whose API this is: clients ask for three plain numbers, some for a least version."""
FOR_EVER = timedelta(days=365 * 292)
COPILOT = "GitHubCopilotChat/"
"""The user agent of a client that shows `general.basename` as the name of a model."""


class NamedModel(DeferredModel):
    """A body that names a model by either of two names."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    model: Annotated[StrictStr, Field(min_length=1)] | None = None
    name: Annotated[StrictStr, Field(min_length=1)] | None = None

    @property
    def given(self) -> str:
        """Raises MissingField."""
        if not (found := self.model or self.name):
            raise MissingField("model is required", field="model")
        return found


class ModelFactsReader:
    """What lists say of models; what was read of a file that is the same is not read again."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: dict[tuple[str, str, int], ModelFacts] = {}

    def pipeline(self, name: str) -> Pipeline | None:
        """The live pipeline of a model; None while it is not served."""
        try:
            return self._services.catalogue.get(name)
        except BraidError:
            return None

    async def facts(self, status: ModelStatus) -> ModelFacts:
        key = status.name, status.fingerprint, status.instance_id
        if key not in self._known:
            facts = await asyncio.to_thread(read_facts, status, self._services.settings.models)
            self._known = {known: each for known, each in self._known.items() if known[0] != status.name}
            self._known[key] = facts
        return self._known[key]


class _ListEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._reader = ModelFactsReader(services)

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = falcon.MEDIA_JSON
        resp.data = (await self._reply(self._services.of(req.scope["braid.exchange"]).catalogue)).to_json()

    async def _reply(self, catalogue: Catalogue) -> Reply:
        raise NotImplementedError

    async def _known(self, catalogue: Catalogue) -> list[tuple[ModelCard, ModelFacts]]:
        return [(card, await self._reader.facts(catalogue.status(card.name))) for card in catalogue.cards()]


class TagsEndpoint(_ListEndpoint):
    """The models of the repository and their adapters, those that changed last first."""

    async def _reply(self, catalogue: Catalogue) -> InstalledModels:
        known = await self._known(catalogue)
        entries = [self._entry(name, card, facts) for card, facts in known for name in _names(card)]
        return InstalledModels(models=sorted(entries, key=lambda entry: entry.modified_at, reverse=True))

    def _entry(self, name: str, card: ModelCard, facts: ModelFacts) -> InstalledModel:
        return InstalledModel(
            name=tagged(name),
            model=tagged(name),
            modified_at=facts.modified_at,
            size=facts.size,
            digest=facts.digest,
            details=facts.details(),
            capabilities=listed(self._reader.pipeline(card.name), card.task),
        )


def _names(card: ModelCard) -> list[str]:
    return [card.name, *(adapter.name for adapter in card.adapters)]


class LoadedEndpoint(_ListEndpoint):
    """The models that are in memory."""

    async def _reply(self, catalogue: Catalogue) -> ModelsInMemory:
        sizes: dict[str, int] = {}
        for host in await self._services.client.inspect(""):
            for load in host.models:
                sizes[load.name] = sizes.get(load.name, 0) + load.num_bytes
        is_gpu = any((device or "").startswith("cuda") for device in self._services.settings.engine_devices)
        return ModelsInMemory(
            models=[
                _loaded(card, facts, sizes.get(card.name, 0), is_gpu)
                for card, facts in await self._known(catalogue)
                if card.state == "ready"
            ]
        )


def _loaded(card: ModelCard, facts: ModelFacts, size: int, is_gpu: bool) -> ModelInMemory:
    expires = datetime.now(UTC) + FOR_EVER
    return ModelInMemory(
        name=tagged(card.name),
        model=tagged(card.name),
        size=size or facts.size,
        digest=facts.digest,
        details=facts.details(),
        expires_at=expires.isoformat().replace("+00:00", "Z"),
        size_vram=(size or facts.size) * is_gpu,
        context_length=card.max_context or 0,
    )


class ShowEndpoint:
    """One model; it need not be loaded."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reader = ModelFactsReader(services)

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        wanted = parse(NamedModel, await self._services.admit(req, any_content=True)).given
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        name = served_name(catalogue, wanted)
        status = catalogue.status(catalogue.model_of(name))
        facts, pipeline = await self._reader.facts(status), self._reader.pipeline(name)
        shown = wanted if (req.user_agent or "").startswith(COPILOT) else name
        resp.content_type = falcon.MEDIA_JSON
        resp.data = ShownModel(
            parameters=_parameters(facts),
            template=_template(pipeline),
            details=facts.details(),
            model_info=facts.model_info(shown),
            capabilities=listed(pipeline, status.task or None),
            modified_at=facts.modified_at,
        ).to_json()


def _parameters(facts: ModelFacts) -> str:
    """Lines of a name, padded to 30 columns, and a value."""
    return f"{'num_ctx':<30} {facts.max_context}" if facts.max_context else ""


def _template(pipeline: Pipeline | None) -> str:
    """The chat template; "" where the model has none, or is not loaded."""
    nodes: list[Any] = [] if pipeline is None else [*of_type(pipeline, "chat_template")]
    return next((str(node.template.source) for node in nodes), "")


class ApiVersionEndpoint:
    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type, resp.data = falcon.MEDIA_JSON, ApiVersion(version=API_VERSION).to_json()
