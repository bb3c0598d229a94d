"""POST chat/completions: one conversation in, the next message out."""

from __future__ import annotations

from typing import ClassVar

from pipelines.worker.pipeline import Pipeline
from server.endpoints.generation_endpoint import GenerationEndpoint
from server.generation.replies.chat import ChoiceBuilder, ReplyContext, chat_completion
from server.generation.replies.chat_chunks import ChatChunks
from server.generation.replies.logprobs import Shown
from server.generation.replies.schema import ChatCompletion
from server.generation.replies.token_counter import TokenCounter
from server.generation.requests.chat import ChatRequest
from server.generation.requests.required_nodes import check_chat, check_template


class ChatCompletions(GenerationEndpoint[ChatRequest, ReplyContext, ChoiceBuilder]):
    kind = "chat"
    body: ClassVar[type[ChatRequest]] = ChatRequest
    id_prefix = "chatcmpl-"

    def check(self, request: ChatRequest, pipeline: Pipeline) -> None:
        check_chat(pipeline, request.calls_tools)
        check_template(request.chat_template, self._services.settings)

    def head(self, request: ChatRequest, reply_id: str, model: str) -> ReplyContext:
        return chat_head(request, reply_id, model)

    def gathered(self, head: ReplyContext) -> ChoiceBuilder:
        return ChoiceBuilder()

    def whole(self, head: ReplyContext, choices: list[ChoiceBuilder], tally: TokenCounter) -> ChatCompletion:
        return chat_completion(head, choices, tally)

    def chunks(self, head: ReplyContext, tally: TokenCounter) -> ChatChunks:
        return ChatChunks(head, tally)


def chat_head(request: ChatRequest, reply_id: str, model: str) -> ReplyContext:
    """What replies to a conversation show."""
    return ReplyContext(
        id=reply_id,
        model=model,
        role=request.role,
        logprobs=bool(request.logprobs),
        reasoning=request.include_reasoning is not False,
        parallel_calls=request.parallel_tool_calls is not False,
        include_usage=request.include_usage,
        continuous_usage=request.continuous_usage,
        num_drawn=request.num_choices,
        num_returned=request.num_returned,
        tokens_per_event=request.tokens_per_event,
        shown=Shown(request.tokens_as_ids, chosen_first=bool(request.logprob_token_ids)),
        forced_call=request.choice.forced is not None,
        token_ids=bool(request.return_token_ids),
        prompt_text=bool(request.return_prompt_text),
        prompt_logprobs=request.prompt_logprobs is not None and not request.stream,
        draft_logprobs=bool(request.include_draft_logprobs),
        echoed=request.echoed,
    )
