"""POST api/chat and api/generate: Ollama's conversations and texts, over the graphs of chat/completions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import falcon
import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.worker.model_choice import TEXT
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_completion
from server.apis.generation.generation_call import Fit
from server.apis.generation.generation_endpoint import GenerationEndpoint
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.ollama.capabilities import capabilities
from server.apis.ollama.fitting import fitted
from server.apis.ollama.keeping import keep
from server.apis.ollama.names import served_name
from server.apis.ollama.replies import OllamaContext, OllamaLines, line, whole_reply
from server.apis.ollama.reply_models import OllamaPart
from server.apis.ollama.requests import ChatBody, GenerateBody, OllamaChat, OllamaCompletion, OllamaRequest
from server.http.exchange import Exchange
from server.http.request_body import parse
from server.services.model_lookup import find_pipeline

NDJSON = "application/x-ndjson"


class OllamaTextEndpoint(GenerationEndpoint[OllamaRequest, OllamaContext, ChoiceBuilder]):
    """What chat and generate do alike."""

    media_type = NDJSON
    keep_alive = b""  # a client reads every line of a stream as JSON
    id_prefix = ""
    source: ClassVar[type[ChatBody | GenerateBody]]

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """A body is JSON whatever its type is said to be."""
        await self.respond(await self._services.admit(req, any_content=True), req, resp)

    def read(self, raw: bytes) -> OllamaRequest:
        if not raw:
            raise RequestError("missing request body")
        return parse(self.source, raw).request()

    async def reply_to(
        self, request: OllamaRequest, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response
    ) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        request.model = served_name(services.of(exchange).catalogue, request.source.model)
        if request.source.loads_only:
            await self._load(request, exchange, resp)
        else:
            await super().reply_to(self._without_template(request), raw, req, resp)
        keep(self._services, request.model, request.source.keep_alive)

    def _without_template(self, request: OllamaRequest) -> OllamaRequest:
        """A model without a chat template continues the prompt of generate as it is."""
        tasks = {card.name: card.task for card in self._services.catalogue.cards()}
        if tasks.get(request.model or "") != "completion" or not isinstance(request.source, GenerateBody):
            return request
        completion = request.source.completion()
        completion.model = request.model
        return completion

    async def _load(self, request: OllamaRequest, exchange: Exchange, resp: falcon.asgi.Response) -> None:
        started_s, unloads = time.monotonic(), request.source.keep_alive == 0
        if not unloads:
            await find_pipeline(self._services, exchange, request.model, TEXT)
        part = self.context(request, "", "").part("")
        part.done, part.done_reason = True, "unload" if unloads else "load"
        part.load_duration = part.total_duration = max(int((time.monotonic() - started_s) * 1e9), 1)
        resp.content_type = NDJSON if request.source.streams else falcon.MEDIA_JSON
        resp.data = line(part)

    def check(self, request: OllamaRequest, pipeline: Pipeline) -> None:
        check_completion(pipeline)
        for capability in _needed(request):
            if capability not in capabilities(pipeline):
                raise RequestError(f'"{request.source.model}" does not support {capability}', field="model")

    def fit(self, request: OllamaRequest, pipeline: Pipeline) -> Fit | None:
        return partial(fitted, request, pipeline.max_context)

    def context(self, request: OllamaRequest, reply_id: str, model: str) -> OllamaContext:
        return OllamaContext(
            id=reply_id,
            model=request.source.model,
            logprobs=bool(request.source.logprobs),
            is_chat=isinstance(request.source, ChatBody),
            started_s=request.started_s,
            loaded_s=time.monotonic(),
        )

    def builder(self, context: OllamaContext) -> ChoiceBuilder:
        return ChoiceBuilder()

    def full_reply(
        self, context: OllamaContext, choices: list[ChoiceBuilder], counter: TokenCounter
    ) -> OllamaPart:
        return whole_reply(context, choices[0], counter)

    def chunks(self, context: OllamaContext, counter: TokenCounter) -> OllamaLines:
        return OllamaLines(context, counter)


class OllamaChatEndpoint(OllamaTextEndpoint):
    source = ChatBody


class OllamaGenerateEndpoint(OllamaTextEndpoint):
    source = GenerateBody


def _needed(request: OllamaRequest) -> Iterator[str]:
    """What a model must be able to do for a request, in Ollama's words."""
    if isinstance(request, OllamaCompletion) and request.suffix:
        yield "insert"
    if isinstance(request, OllamaChat):
        yield "chat"
        if request.calls_tools:
            yield "tools"
        if request.source.think:
            yield "thinking"
        if request.shows_images:
            yield "vision"
