"""POST tokenize and detokenize, GET tokenizer_info: a model's tokenizer and template, without its engine."""

from __future__ import annotations

import falcon
import falcon.asgi
from pydantic import BaseModel

from pipelines.worker import encoding
from pipelines.worker.model_choice import READING
from pipelines.worker.pipeline import Pipeline
from server.apis.generation.chat_endpoint import read_files
from server.apis.generation.request_images import fetch_images, size_of
from server.apis.generation.requests.trusted_template import check_template
from server.apis.generation.requests.work_bytes import work_bytes
from server.apis.tokenizing.reply import TokenizerDescription
from server.apis.tokenizing.request import DetokenizeRequest, TokenizeChat, TokenizerRequest, read_tokenize
from server.http.request_body import JsonObject, parse
from server.services.model_lookup import find_pipeline
from server.services.services import Services


class _TokenizerEndpoint:
    """An endpoint that needs only the tokenizer."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def read(self, body: JsonObject) -> TokenizerRequest:
        """The checked request of a body.  Raises RequestError."""
        raise NotImplementedError

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        request = await exchange.off_loop(lambda: self.read(parse(JsonObject, raw)), len(raw))
        pipeline = await find_pipeline(services, exchange, request.model, READING)
        files = await fetch_images(services, services.route(exchange), pipeline, exchange, request, len(raw))
        resp.content_type = falcon.MEDIA_JSON
        resp.data = await exchange.off_loop(
            lambda: request.reply(pipeline, files).model_dump_json().encode(),
            work_bytes(request, len(raw)) + size_of(files),
        )


class TokenizeEndpoint(_TokenizerEndpoint):
    def read(self, body: JsonObject) -> TokenizerRequest:
        request = read_tokenize(body)
        if isinstance(request, TokenizeChat):
            check_template(request.chat_template, self._services.settings)
            read_files(request.messages)
        return request


class DetokenizeEndpoint(_TokenizerEndpoint):
    def read(self, body: JsonObject) -> TokenizerRequest:
        return DetokenizeRequest.read(body.root)


class TokenizerInfoEndpoint:
    """GET tokenizer_info: the data with which a client can tokenize itself.  `?model=` selects the model."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange = req.scope["braid.exchange"]
        pipeline = await find_pipeline(self._services, exchange, req.get_param("model"), READING)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = await exchange.long_work(lambda: _description(pipeline).model_dump_json().encode())


def _description(pipeline: Pipeline) -> BaseModel:
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | encoding.tokenizer_config(pipeline)
    known = {
        "added_tokens_decoder": encoding.added_tokens(pipeline),
        "chat_template": encoding.template_source(pipeline),
    }
    return TokenizerDescription.model_validate(config | known)
