"""POST chat/completions/batch: several conversations in, the next message of each out, in one reply."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import falcon
import falcon.asgi

from pipelines.tasks import GenerationInput
from pipelines.worker.call import Call
from server.dialects import Dialect, dialect_of
from server.endpoints.chat import ChatCompletions
from server.endpoints.generation_endpoint import Answering, open_call
from server.generation.replies.chat import ChoiceBuilder, ReplyContext, chat_completion
from server.generation.replies.token_counter import TokenCounter
from server.generation.requests.batch import BatchRequest
from server.generation.requests.chat import ChatRequest
from server.http.exchange import ClientGone, Exchange
from server.http.request_body import LONG_BODY_BYTES
from server.model_lookup import TEXT, find_pipeline


class BatchChat(ChatCompletions):
    """One call for each conversation; the reply has their choices in order."""

    kind = "batch"
    body = BatchRequest

    async def respond(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        request: Any = await self.read(raw)
        pipeline = find_pipeline(self._services, request.model, TEXT)
        calls = []
        for conversation in request.conversations():
            self.check(conversation, pipeline)
            is_long = len(raw) > LONG_BODY_BYTES
            ask = partial(_asked, dialect_of(req.path), conversation)
            call = await open_call(self._services, pipeline, ask, is_long)
            exchange.at_end(call.close)
            calls.append(call)
        exchange.when_gone(lambda: _close(calls))
        head = self.head(conversation, self._reply_id(request, exchange), pipeline.name)
        tally = TokenCounter([length for call in calls for length in call.prompt_lengths], 1)
        found = [Answering(call, exchange, head, tally) for call in calls]
        choices = await asyncio.gather(*[_one(i, answering) for i, answering in enumerate(found)])
        if not tally.complete:
            raise ClientGone
        resp.content_type = falcon.MEDIA_JSON
        resp.data = chat_completion(head, choices, tally).to_json()


def _asked(dialect: Dialect, conversation: ChatRequest, max_context: int) -> GenerationInput:
    return dialect.transform_generation(conversation.generation(max_context))


def _close(calls: list[Call]) -> None:
    for call in calls:
        call.close()


async def _one(index: int, answering: Answering[ReplyContext]) -> ChoiceBuilder:
    gathered = ChoiceBuilder()
    async for batch in answering.updates():
        for _, update in batch:
            answering.tally.add(index, update)
            gathered.add(update)
    return gathered
