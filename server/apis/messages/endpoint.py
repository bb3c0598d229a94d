"""POST messages and messages/count_tokens: Anthropic's API over the same graphs as chat/completions."""

from __future__ import annotations

from collections.abc import Callable

import falcon
import falcon.asgi

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.encoding import chat_ids
from pipelines.worker.model_choice import TEXT
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_chat
from server.apis.generation.generation_endpoint import GenerationEndpoint
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.generation.request_images import fetch_images, size_of, with_files
from server.apis.generation.requests.work_bytes import work_bytes
from server.apis.messages.content_builder import ID_PREFIX, ContentBuilder, MessageContext, message
from server.apis.messages.events import MessageEvents
from server.apis.messages.reply_models import ContextManagement, MessageReply, TokenCount
from server.apis.messages.request import CountRequest, MessageChat, MessagesRequest
from server.http.exchange import Exchange
from server.http.request_body import parse
from server.services.model_lookup import find_pipeline
from server.services.services import Services

TOO_LONG = "This model's maximum context length is {} tokens. However, your prompt contains {} input tokens."

NO_ROOM = (
    "input length and `max_tokens` exceed context limit: {} + {} > {}, decrease input length or `max_tokens` "
    "and try again"
)
"""Clients that read these words ask again for as many tokens as there is room for."""


class MessagesEndpoint(GenerationEndpoint[MessageChat, MessageContext, ContentBuilder]):
    body = MessageChat
    id_prefix = ID_PREFIX

    async def explained(
        self,
        error: RequestError,
        exchange: Exchange,
        pipeline: Pipeline,
        generation: Callable[[int], GenerationInput],
    ) -> RequestError:
        """Says of a prompt that is too long how long it is: clients shorten it by that much."""
        if not isinstance(error, ContextTooLong):
            return error
        most = pipeline.max_context
        try:
            number = await exchange.long_work(lambda: len(chat_ids(pipeline, generation(most))))
        except RequestError:  # it is too long to be counted
            return error
        return ContextTooLong(TOO_LONG.format(most, number), error.field)

    def read(self, raw: bytes) -> MessageChat:
        return parse(MessagesRequest, raw).chat()

    def check(self, request: MessageChat, pipeline: Pipeline) -> None:
        check_chat(pipeline, request.calls_tools)

    def check_call(self, request: MessageChat, pipeline: Pipeline, call: Call) -> None:
        """`max_tokens` is lowered to the room that is left, but not to the budget of thinking or less."""
        source, used, most = request.source, sum(call.prompt_lengths), pipeline.max_context
        if source.budget is not None and used + source.budget >= most:
            raise RequestError(NO_ROOM.format(used, source.max_tokens, most))

    def context(self, request: MessageChat, reply_id: str, model: str) -> MessageContext:
        return request.source.context(reply_id, model)

    def builder(self, context: MessageContext) -> ContentBuilder:
        return ContentBuilder(context)

    def full_reply(
        self, context: MessageContext, choices: list[ContentBuilder], counter: TokenCounter
    ) -> MessageReply:
        return message(context, choices[0], counter)

    def chunks(self, context: MessageContext, counter: TokenCounter) -> MessageEvents:
        return MessageEvents(context, counter)


class CountTokensEndpoint:
    """Counts the tokens of a prompt without generating; the prompt may exceed the context of the model."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        raw = await services.admit(req)
        chat = await exchange.off_loop(lambda: parse(CountRequest, raw).chat(), len(raw))
        pipeline = await find_pipeline(services, exchange, chat.model, TEXT)
        check_chat(pipeline, chat.calls_tools)
        files = await fetch_images(services, services.route(exchange), pipeline, exchange, chat, len(raw))

        def count() -> int:
            return len(chat_ids(pipeline, with_files(chat.generation(pipeline.max_context), files)))

        number = await exchange.off_loop(count, work_bytes(chat, len(raw)) + size_of(files))
        untouched = ContextManagement(original_input_tokens=number)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = TokenCount(input_tokens=number, context_management=untouched).to_json()
