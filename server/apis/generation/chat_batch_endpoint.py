"""POST chat/completions/batch: replies to several conversations at once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import falcon
import falcon.asgi

from pipelines.base.cancellation import ClientGone
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.model_choice import TEXT
from pipelines.worker.spent import spent_by_all
from server.apis.generation.chat_endpoint import ChatCompletionsEndpoint, read_files
from server.apis.generation.generation_call import open_call
from server.apis.generation.generation_endpoint import ReplyInProgress
from server.apis.generation.replies.chat import chat_completion
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.generation.replies.update_stages import num_scores, written
from server.apis.generation.requests.batch import BatchRequest
from server.apis.generation.requests.work_bytes import work_bytes
from server.dialects import Dialect
from server.http.exchange import Exchange
from server.services.model_lookup import find_pipeline


class BatchChatEndpoint(ChatCompletionsEndpoint):
    """One call for each conversation; the reply has their choices in order."""

    kind = "batch"
    body = BatchRequest

    def read_files(self, request: Any) -> None:
        for number, conversation in enumerate(request.messages):
            read_files(conversation, f"messages.{number}")

    async def respond(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        request: Any = await exchange.off_loop(lambda: self.read(raw), len(raw))
        pipeline = await find_pipeline(self._services, exchange, request.model, TEXT)
        calls = []
        for conversation in request.conversations():
            self.check(conversation, pipeline)
            generation = partial(_generation, exchange.dialect, conversation)
            num_bytes = work_bytes(conversation, len(raw))
            call = await open_call(self._services, pipeline, generation, exchange, num_bytes, conversation)
            call.count_tool_calls("chat_completions", streams=False)
            exchange.at_end(call.close)
            calls.append(call)
        exchange.when_gone(lambda: _close(calls))
        context = self.context(conversation, self._reply_id(request, exchange), pipeline.name)
        lengths = [length for call in calls for length in call.prompt_lengths]
        counter = TokenCounter(lengths, 1, lambda: spent_by_all(call.others for call in calls))
        replies = [ReplyInProgress(call, exchange, context, counter) for call in calls]
        choices = await asyncio.gather(*[_one(i, running) for i, running in enumerate(replies)])
        if not counter.complete:
            raise ClientGone
        resp.content_type = falcon.MEDIA_JSON
        num = sum(num_scores(builder) for builder in choices)
        resp.data = await written(exchange, lambda: chat_completion(context, choices, counter).to_json(), num)


def _generation(dialect: Dialect, conversation: ChatRequest, max_context: int) -> GenerationInput:
    return dialect.transform_generation(conversation.generation(max_context))


def _close(calls: list[Call]) -> None:
    for call in calls:
        call.close()


async def _one(index: int, running: ReplyInProgress[TextReplyContext]) -> ChoiceBuilder:
    builder = ChoiceBuilder()
    async for batch in running.updates():
        for _, update in batch:
            running.counter.add(index, update)
            builder.add(update)
    return builder
