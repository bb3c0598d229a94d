"""POST inference/v1/generate and abort_requests: token ids in, token ids out."""

from __future__ import annotations

from typing import Any

import falcon
import falcon.asgi

from pipelines.requests.generation.completion import CompletionRequest
from server.apis.generation.completions_endpoint import CompletionsEndpoint
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.scale_out.tokens_reply import TokensChunks, tokens_reply
from server.apis.scale_out.tokens_request import AbortRequest, TokensRequest
from server.http.request_body import parse, parse_body
from server.services.services import Services

PREFIX = "generate-tokens-"


class GenerateTokensEndpoint(CompletionsEndpoint):
    kind = "tokens"
    id_prefix = PREFIX

    def read(self, raw: bytes) -> CompletionRequest:
        return parse(TokensRequest, raw).completion()

    def full_reply(
        self, context: TextReplyContext, choices: list[ChoiceBuilder], counter: TokenCounter
    ) -> Any:
        return tokens_reply(context, choices, counter)

    def chunks(self, context: TextReplyContext, counter: TokenCounter) -> Any:
        return TokensChunks(context, counter)


class AbortRequestsEndpoint:
    """Ends requests in flight; ids of others are ignored, as in vLLM."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        request = await parse_body(exchange, AbortRequest, await services.admit(req))
        for request_id in request.request_ids:
            await services.client.cancel(request_id.removeprefix(PREFIX), exchange.sees)
