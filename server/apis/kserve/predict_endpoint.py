"""TensorFlow Serving's paths under /v1/models, for its clients and for ovmsclient."""

from __future__ import annotations

from functools import partial

import falcon
import falcon.asgi

from pipelines.worker.model_choice import TENSORS
from server.apis.kserve.inference import Inference, encoded, run_tensors_call
from server.apis.kserve.model_status import signature, version_status
from server.apis.kserve.predict import encode_predict, read_predict
from server.apis.kserve.served import find_served
from server.services.model_lookup import find_pipeline
from server.services.services import Services


class _VersionEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services


class VersionStatusEndpoint(_VersionEndpoint):
    """GET v1/models/{name}/versions/{version}: the state of a version; 0 is the newest."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str
    ) -> None:
        services = self._services.of(req.scope["braid.exchange"])
        served = find_served(services, name, version)
        resp.media = version_status(services.catalogue.versions(name)[served.status.version])


class SignatureEndpoint(_VersionEndpoint):
    """GET v1/models/{name}/metadata: the tensors of a model."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str | None = None
    ) -> None:
        resp.media = signature(find_served(self._services.of(req.scope["braid.exchange"]), name, version))


class PredictEndpoint(_VersionEndpoint):
    """POST v1/models/{name}:predict: one inference on tensors in rows or columns."""

    async def on_post(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str, version: str | None = None
    ) -> None:
        exchange = req.scope["braid.exchange"]
        services = self._services.of(exchange)
        body = await services.admit(req, any_content=True)
        key = find_served(services, name, version).key
        pipeline = await find_pipeline(services, exchange, key, TENSORS)
        specs = services.catalogue.status(key).inputs
        tensors, in_rows = await exchange.off_loop(lambda: read_predict(body, specs), len(body))
        outputs = await run_tensors_call(
            services,
            exchange,
            pipeline,
            Inference(id=None, inputs=tensors, outputs=None, binary=False, parameters={}),
        )
        encode = partial(encode_predict, outputs, in_rows)
        resp.content_type, resp.data = falcon.MEDIA_JSON, await encoded(encode, outputs)
