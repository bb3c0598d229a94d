"""POST chat/completions: generates the next message of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.conversation import Message
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_chat
from server.apis.generation.generation_endpoint import GenerationEndpoint
from server.apis.generation.replies.chat import chat_completion
from server.apis.generation.replies.chat_chunks import ChatChunks
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.generation.replies.logprobs import TokenFormat
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.generation.requests.trusted_template import check_template
from server.schema.reply_models import ChatCompletion


class ChatCompletionsEndpoint(GenerationEndpoint[ChatRequest, TextReplyContext, ChoiceBuilder]):
    kind = "chat"
    body: ClassVar[type[ChatRequest]] = ChatRequest
    id_prefix = "chatcmpl-"

    def read(self, raw: bytes) -> ChatRequest:
        request = super().read(raw)
        self.read_files(request)
        return request

    def read_files(self, request: ChatRequest) -> None:
        """Put the texts of files into the messages."""
        read_files(request.messages)

    def check(self, request: ChatRequest, pipeline: Pipeline) -> None:
        check_chat(pipeline, request.calls_tools)
        check_template(request.chat_template, self._services.settings)

    def context(self, request: ChatRequest, reply_id: str, model: str) -> TextReplyContext:
        return chat_context(request, reply_id, model)

    def builder(self, context: TextReplyContext) -> ChoiceBuilder:
        return ChoiceBuilder()

    def full_reply(
        self, context: TextReplyContext, choices: list[ChoiceBuilder], counter: TokenCounter
    ) -> ChatCompletion:
        return chat_completion(context, choices, counter)

    def chunks(self, context: TextReplyContext, counter: TokenCounter) -> ChatChunks:
        return ChatChunks(context, counter)


def read_files(messages: Sequence[Any] | None, place: str = "messages") -> None:
    """Put the text of each file among the parts of messages into its place.

    Raises RequestError and BadDocument, which name a file that is not there or not read.
    """
    if any(isinstance(message, Message) and message.has_files for message in messages or ()):
        from server.apis.generation.requests.chat_files import put_texts  # few requests have files

        put_texts(messages or (), place)


def chat_context(request: ChatRequest, reply_id: str, model: str) -> TextReplyContext:
    """The context of a reply to a conversation."""
    return TextReplyContext(
        id=reply_id,
        model=model,
        role=request.role,
        logprobs=bool(request.logprobs),
        reasoning=request.include_reasoning is not False,
        parallel_calls=request.parallel_tool_calls is not False and not request.calls_functions,
        calls_functions=request.calls_functions,
        include_usage=request.include_usage,
        continuous_usage=request.continuous_usage,
        num_drawn=request.num_choices,
        num_returned=request.num_returned,
        tokens_per_event=request.tokens_per_event,
        token_format=TokenFormat(request.tokens_as_ids, chosen_first=bool(request.logprob_token_ids)),
        forced_call=request.choice.forced is not None,
        token_ids=bool(request.return_token_ids),
        prompt_text=bool(request.return_prompt_text),
        prompt_logprobs=request.scores_prompt() is not None and not request.stream,
        draft_logprobs=bool(request.include_draft_logprobs),
        echoed=request.echoed,
    )
