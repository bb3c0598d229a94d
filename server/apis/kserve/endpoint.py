"""KServe's protocol over HTTP: what the server and its models are, and inference."""

from __future__ import annotations

from functools import partial

import falcon
import falcon.asgi
import msgspec

from server.apis.kserve.infer_body import HEADER, json_length, read_infer, work_size
from server.apis.kserve.infer_reply import encode_infer
from server.apis.kserve.inference import encoded
from server.apis.kserve.messages import ModelNames, ModelReadiness
from server.apis.kserve.run import INFER, run_inference
from server.apis.kserve.served import EXTENSIONS, check_ready, find_served, metadata, server_metadata
from server.apis.kserve.triton import model_config, model_statistics
from server.services.model_lookup import find_pipeline
from server.services.services import Services

BINARY = "application/octet-stream"


def json_reply(resp: falcon.asgi.Response, reply: msgspec.Struct) -> None:
    resp.content_type = falcon.MEDIA_JSON
    resp.data = msgspec.json.encode(reply)


class ServerMetadataEndpoint:
    """GET v2: which server this is."""

    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        json_reply(resp, server_metadata(EXTENSIONS))


class _ServedEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services


class ModelNamesEndpoint(_ServedEndpoint):
    """GET v2/models."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        json_reply(resp, ModelNames([card.name for card in catalogue.cards()]))


class ModelMetadataEndpoint(_ServedEndpoint):
    """GET v2/models/{name}: its versions and tensors."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str | None = None
    ) -> None:
        services = self._services.of(req.scope["braid.exchange"])
        json_reply(resp, metadata(services, find_served(services, name, version)))


class ModelReadyEndpoint(_ServedEndpoint):
    """GET v2/models/{name}/ready: 200 when it takes requests."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str | None = None
    ) -> None:
        check_ready(self._services.of(req.scope["braid.exchange"]), name, version)
        json_reply(resp, ModelReadiness(name, ready=True))


class ModelConfigEndpoint(_ServedEndpoint):
    """GET v2/models/{name}/config: Triton's description of a model."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str | None = None
    ) -> None:
        services = self._services.of(req.scope["braid.exchange"])
        resp.media = model_config(metadata(services, find_served(services, name, version)))


class ModelStatsEndpoint(_ServedEndpoint):
    """GET v2/models/{name}/stats: Triton's counts of a model that is loaded."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str | None = None
    ) -> None:
        resp.media = await model_statistics(self._services.of(req.scope["braid.exchange"]), name, version)


class InferEndpoint(_ServedEndpoint):
    """POST v2/models/{name}/infer: one inference, in JSON or with tensors as bytes."""

    async def on_post(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str | None = None
    ) -> None:
        exchange = req.scope["braid.exchange"]
        services = self._services.of(exchange)
        body = await services.admit(req, any_content=True)
        length = json_length(body, req.get_header(HEADER))
        inference = await exchange.off_loop(lambda: read_infer(body, length), work_size(body, length))
        served = find_served(services, name, version)
        pipeline = await find_pipeline(services, exchange, served.key, INFER)
        tensors = await run_inference(services, exchange, pipeline, inference)
        encode = partial(encode_infer, name, served.status.version, inference, tensors)
        reply = await encoded(encode, tensors)
        resp.content_type, resp.data = falcon.MEDIA_JSON, reply.data
        if reply.json_length is not None:
            resp.content_type = BINARY
            resp.set_header(HEADER, str(reply.json_length))
