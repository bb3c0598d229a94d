"""Models are loaded and unloaded by clients: Triton's repository extension, llama.cpp's paths, and OVMS's."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import falcon
import falcon.asgi
from pydantic import AfterValidator, ConfigDict, Field

from graphs.keep_alive import keep_alive_s
from pipelines.base.deferred_model import DeferredModel
from pipelines.repository.files.model_versions import model_of
from pipelines.wire.messages import how_far
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_table import ModelCard
from server.apis.kserve.triton import repository_index
from server.http.request_body import joined, parse
from server.schema.reply_models import Success
from server.services.services import Services

OVMS_STATES = {"ready": "AVAILABLE", "unloaded": "END", "unloading": "END"}
"""State of a model → OpenVINO Model Server's word; any other is LOADING.  A model that is not in memory is
AVAILABLE where requests load it, and takes none where it is END.
"""
OK = {"error_code": "OK", "error_message": "OK"}


def _seconds(value: float | str | None) -> float | None:
    return None if value is None else keep_alive_s(value)


class ModelName(DeferredModel):
    """llama.cpp's body."""

    model: Annotated[str, Field(min_length=1)]


class NamedLoad(ModelName):
    """llama.cpp's body, with Ollama's `keep_alive`: how long the model stays without calls from now on."""

    keep_alive: Annotated[float | str | None, AfterValidator(_seconds)] = None


class IndexRequest(DeferredModel):
    """Triton's: `ready` lists only models that are loaded."""

    model_config = ConfigDict(extra="forbid")
    ready: bool = False


class LoadParameters(DeferredModel):
    """Triton's `config` and `file:…` are refused: the folder says what a model is."""

    model_config = ConfigDict(extra="forbid")


class LoadRequest(DeferredModel):
    model_config = ConfigDict(extra="forbid")
    parameters: LoadParameters = LoadParameters()


class UnloadParameters(DeferredModel):
    model_config = ConfigDict(extra="forbid")
    unload_dependents: Literal[False] = False


class UnloadRequest(DeferredModel):
    model_config = ConfigDict(extra="forbid")
    parameters: UnloadParameters = UnloadParameters()


class _LoadingEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def load(self, req: falcon.asgi.Request, name: str) -> None:
        """Load a model; returns when it is served by this worker."""
        catalogue, exchange = self._services.catalogue, req.scope["braid.exchange"]
        catalogue.status(name)
        await exchange.while_here(catalogue.load_by_hand(name))

    async def unload(self, req: falcon.asgi.Request, name: str) -> None:
        """Unload a model; returns when its calls have ended and it is closed."""
        self._services.catalogue.status(name)
        await req.scope["braid.exchange"].while_here(self._services.client.unload(name))


class LoadModelEndpoint(_LoadingEndpoint):
    """POST models/load: llama.cpp's."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        request = parse(NamedLoad, await _body(self._services, req))
        await self.load(req, request.model)
        if request.keep_alive is not None:
            self._services.client.keep(request.model, float(request.keep_alive))
        resp.media = Success(success=True).model_dump()


class UnloadModelEndpoint(_LoadingEndpoint):
    """POST models/unload: llama.cpp's."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self.unload(req, parse(ModelName, await _body(self._services, req)).model)
        resp.media = Success(success=True).model_dump()


class RepositoryIndexEndpoint(_LoadingEndpoint):
    """POST v2/repository/index: Triton's list of models."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        request = parse(IndexRequest, await _body(self._services, req))
        resp.media = repository_index(self._services.catalogue.cards(), request.ready)


class RepositoryModelEndpoint(_LoadingEndpoint):
    """POST v2/repository/models/{name}/load and /unload: Triton's.  A name may have slashes itself."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        stem, _, verb = name.rpartition("/")
        body = await _body(self._services, req)
        if verb == "load" and stem:
            parse(LoadRequest, body)
            await self.load(req, stem)
        elif verb == "unload" and stem:
            parse(UnloadRequest, body)
            await self.unload(req, stem)
        else:
            raise falcon.HTTPNotFound


class ConfigStatusEndpoint:
    """GET v1/config: OpenVINO Model Server's status of every model."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services = self._services.of(req.scope["braid.exchange"])
        resp.content_type, resp.data = falcon.MEDIA_JSON, _ovms_status(services.catalogue)


class ReloadConfigEndpoint:
    """POST v1/config/reload: look at the model repository; 201 when anything was loaded or removed."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await _body(self._services, req)
        has_changed = await req.scope["braid.exchange"].while_here(self._services.client.rescan())
        resp.status = 201 if has_changed else 200
        resp.content_type, resp.data = falcon.MEDIA_JSON, _ovms_status(self._services.catalogue)


async def _body(services: Services, req: falcon.asgi.Request) -> bytes:
    """An empty body is an object without fields; its type of content does not matter."""
    return await services.arriving.read(req, joined, any_content=True) or b"{}"


def _ovms_status(catalogue: Catalogue) -> bytes:
    names = [card.name for card in catalogue.cards()]
    found = {name: list(map(_ovms_version, catalogue.versions(name).values())) for name in names}
    for name, version in catalogue.ended():
        end = {"version": str(version), "state": "END", "status": OK}
        found.setdefault(model_of(name), []).append(end)
    entries = {name: {"model_version_status": versions} for name, versions in sorted(found.items())}
    return json.dumps(entries, indent=1).encode()


def _ovms_version(card: ModelCard) -> dict[str, Any]:
    """The status of a version; the message of one that is loading says how far it is."""
    error = OK | {"error_message": how_far(card.doing, card.share) or OK["error_message"]}
    if card.state == "failed":
        error = {"error_code": "FAILED_PRECONDITION", "error_message": "; ".join(card.problems)}
    state = OVMS_STATES.get(card.state, "LOADING")
    if card.on_request and state == "END":
        state = "AVAILABLE"
    return {"version": str(card.version), "state": state, "status": error}
