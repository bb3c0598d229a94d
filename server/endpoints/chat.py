"""POST chat/completions: one conversation in, the next message out."""

from __future__ import annotations

from pipelines.pipeline import Pipeline
from server.endpoints.generating import Generating
from server.generation.abilities import check_chat
from server.generation.chat_request import ChatRequest
from server.generation.counting import Tally
from server.generation.replies import Gathered, Head, chat_completion
from server.generation.schema import ChatCompletion
from server.generation.sse import ChatChunks


class ChatCompletions(Generating[ChatRequest]):
    body = ChatRequest
    id_prefix = "chatcmpl-"

    def check(self, request: ChatRequest, pipeline: Pipeline) -> None:
        check_chat(pipeline, request.calls_tools)

    def head(self, request: ChatRequest, reply_id: str, model: str) -> Head:
        return Head(
            id=reply_id,
            model=model,
            role=request.role,
            logprobs=bool(request.logprobs),
            reasoning=request.include_reasoning is not False,
            parallel_calls=request.parallel_tool_calls is not False,
            include_usage=request.include_usage,
            continuous_usage=request.continuous_usage,
        )

    def whole(self, head: Head, choices: list[Gathered], tally: Tally) -> ChatCompletion:
        return chat_completion(head, choices, tally)

    def chunks(self, head: Head, tally: Tally) -> ChatChunks:
        return ChatChunks(head, tally)
