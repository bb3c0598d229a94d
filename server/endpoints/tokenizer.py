"""POST tokenize and detokenize, GET tokenizer_info: a model's tokenizer and template, without its engine."""

from __future__ import annotations

import asyncio

import falcon
import falcon.asgi
from pydantic import BaseModel

from pipelines.worker.pipeline import Pipeline
from server.generation.requests.required_nodes import check_template
from server.http.request_body import LONG_BODY_BYTES, JsonObject, off_loop, parse_body
from server.model_lookup import READING, find_pipeline
from server.services import Services
from server.tokenizing import encoding
from server.tokenizing.reply import TokenizerDescription
from server.tokenizing.request import DetokenizeRequest, TokenizeChat, TokenizerRequest, read_tokenize


class _TokenizerEndpoint:
    """An endpoint that needs only the tokenizer; runs in a thread, as a short body may give many ids."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def read(self, body: JsonObject) -> TokenizerRequest:
        """The checked request of a body.  Raises RequestError."""
        raise NotImplementedError

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services = self._services
        raw = await services.admit(req)
        body = await parse_body(JsonObject, raw)
        request = await off_loop(lambda: self.read(body), len(raw) > LONG_BODY_BYTES)
        pipeline = find_pipeline(services, request.model, READING)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = await asyncio.to_thread(lambda: request.reply(pipeline).model_dump_json().encode())


class TokenizeEndpoint(_TokenizerEndpoint):
    def read(self, body: JsonObject) -> TokenizerRequest:
        request = read_tokenize(body)
        if isinstance(request, TokenizeChat):
            check_template(request.chat_template, self._services.settings)
        return request


class DetokenizeEndpoint(_TokenizerEndpoint):
    def read(self, body: JsonObject) -> TokenizerRequest:
        return DetokenizeRequest.read(body.root)


class TokenizerInfoEndpoint:
    """GET tokenizer_info: the data with which a client can tokenize itself.  `?model=` selects the model."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        pipeline = find_pipeline(self._services, req.get_param("model"), READING)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = await asyncio.to_thread(lambda: _description(pipeline).model_dump_json().encode())


def _description(pipeline: Pipeline) -> BaseModel:
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | encoding.tokenizer_config(pipeline)
    known = {
        "added_tokens_decoder": encoding.added_tokens(pipeline),
        "chat_template": encoding.template_source(pipeline),
    }
    return TokenizerDescription.model_validate(config | known)
