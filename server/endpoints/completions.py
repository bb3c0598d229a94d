"""POST completions: raw prompts in, their continuations out."""

from __future__ import annotations

from pipelines.pipeline import Pipeline
from server.endpoints.generating import Generating
from server.generation.abilities import check_completion
from server.generation.completion_request import CompletionRequest
from server.generation.counting import Tally
from server.generation.replies import Gathered, Head, completion
from server.generation.schema import Completion
from server.generation.sse import CompletionChunks


class Completions(Generating[CompletionRequest]):
    body = CompletionRequest
    id_prefix = "cmpl-"

    def check(self, request: CompletionRequest, pipeline: Pipeline) -> None:
        check_completion(pipeline)

    def head(self, request: CompletionRequest, reply_id: str, model: str) -> Head:
        return Head(
            id=reply_id,
            model=model,
            logprobs=request.logprobs is not None,
            include_usage=request.include_usage,
            continuous_usage=request.continuous_usage,
        )

    def whole(self, head: Head, choices: list[Gathered], tally: Tally) -> Completion:
        return completion(head, choices, tally)

    def chunks(self, head: Head, tally: Tally) -> CompletionChunks:
        return CompletionChunks(head, tally)
