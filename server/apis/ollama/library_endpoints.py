"""POST api/copy and api/create, DELETE api/delete: further names of models, and the end of fetched ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import falcon
import falcon.asgi
from pydantic import ConfigDict, Field, StrictBool, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.hub.base.errors import HubError
from server.apis.ollama.models_endpoint import NamedModel
from server.apis.ollama.names import served_name
from server.apis.ollama.replies import line
from server.apis.ollama.reply_models import PullProgress
from server.base.settings import Settings
from server.http.request_body import parse
from server.services.model_lookup import LATEST
from server.services.services import Services

NDJSON = "application/x-ndjson"
MODEL_TASKS = ("chat", "completion", "embed", "token_embed", "classify", "rerank")


class CopyBody(DeferredModel):
    model_config = ConfigDict(extra="ignore")
    source: StrictStr = Field(min_length=1)
    destination: StrictStr = Field(min_length=1)


class CreateBody(NamedModel):
    """The body of create: `from` is another model; what would change that is refused."""

    source: StrictStr | None = Field(default=None, alias="from")
    stream: StrictBool | None = None

    def check(self) -> None:
        """Raises RequestError."""
        if self.source is None:
            raise RequestError("neither 'from' or 'files' was specified", field="from")
        for name, value in (self.model_extra or {}).items():
            if value not in (None, "", [], {}):
                raise RequestError(f"{name}: write the graph.yaml of a model of your own", field=name)


class _LibraryEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def alias(self, source: str, destination: str) -> None:
        """Serve a model under a further name, by a graph that names it.  Raises BraidError."""
        services = self._services
        check_changes(services.settings)
        name = services.catalogue.model_of(served_name(services.catalogue, source))
        status = services.catalogue.status(name)
        if status.task not in MODEL_TASKS:
            raise RequestError(f"a model of the task {status.task} has no further name", field="source")
        await asyncio.to_thread(_write_alias, services.settings.models, destination, name, status.task)
        await services.client.rescan()


class CopyEndpoint(_LibraryEndpoint):
    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        body = parse(CopyBody, await self._services.admit(req, any_content=True))
        await self.alias(body.source, body.destination)


class CreateEndpoint(_LibraryEndpoint):
    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        body = parse(CreateBody, await self._services.admit(req, any_content=True))
        body.check()
        await self.alias(body.source or "", body.given)
        streams = body.stream is not False
        resp.content_type = NDJSON if streams else falcon.MEDIA_JSON
        steps = ["writing manifest", "success"] if streams else ["success"]
        resp.data = b"".join(line(PullProgress(status=status)) for status in steps)


class DeleteEndpoint(_LibraryEndpoint):
    """Removes a model that was fetched or copied; the folders of others are left to people."""

    async def on_delete(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services = self._services
        wanted = parse(NamedModel, await services.admit(req, any_content=True)).given
        name = served_name(services.catalogue, wanted)
        check_changes(services.settings)
        await asyncio.to_thread(_remove, services.settings.models, name)
        await services.client.rescan()


def check_changes(settings: Settings) -> None:
    """Raises RequestError where clients may fetch no models: then they may not change the repository."""
    may_change = (settings.pull or settings.needs_admin_key) and "off" not in settings.pull
    if not may_change or not settings.models.is_dir():
        raise RequestError(
            "this server changes no models; it does with BRAID_ADMIN_KEYS, or where BRAID_PULL lists names"
        )


def _write_alias(repository: Path, destination: str, source: str, task: str) -> None:
    from pipelines.hub.aliases import write_alias  # clients of few servers change models

    try:
        write_alias(repository, destination.removesuffix(LATEST), source, task)
    except HubError as error:
        raise RequestError(str(error), field="destination") from None


def _remove(repository: Path, name: str) -> None:
    from pipelines.hub.aliases import remove_fetched

    try:
        remove_fetched(repository, name)
    except HubError as error:
        raise RequestError(str(error), field="model") from None
