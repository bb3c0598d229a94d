"""POST completions: raw prompts in, their continuations out."""

from __future__ import annotations

from pipelines.worker.pipeline import Pipeline
from server.endpoints.generation_endpoint import GenerationEndpoint
from server.generation.replies.chat import ChoiceBuilder, ReplyContext
from server.generation.replies.completion import completion
from server.generation.replies.completion_chunks import CompletionChunks
from server.generation.replies.logprobs import Shown
from server.generation.replies.schema import Completion
from server.generation.replies.token_counter import TokenCounter
from server.generation.requests.completion import CompletionRequest
from server.generation.requests.required_nodes import check_completion


class Completions(GenerationEndpoint[CompletionRequest, ReplyContext, ChoiceBuilder]):
    kind = "completion"
    body = CompletionRequest
    id_prefix = "cmpl-"

    def check(self, request: CompletionRequest, pipeline: Pipeline) -> None:
        check_completion(pipeline)

    def head(self, request: CompletionRequest, reply_id: str, model: str) -> ReplyContext:
        return ReplyContext(
            id=reply_id,
            model=model,
            logprobs=request.logprobs is not None,
            include_usage=request.include_usage,
            continuous_usage=request.continuous_usage,
            num_drawn=request.num_choices,
            num_returned=request.num_returned,
            tokens_per_event=request.tokens_per_event,
            shown=Shown(request.tokens_as_ids),
            token_ids=bool(request.return_token_ids),
            prompt_logprobs=request.scores_prompt() is not None and not request.stream,
            draft_logprobs=bool(request.include_draft_logprobs),
            echo=bool(request.echo),
            only_prompt=request.only_prompt,
        )

    def gathered(self, head: ReplyContext) -> ChoiceBuilder:
        return ChoiceBuilder()

    def whole(self, head: ReplyContext, choices: list[ChoiceBuilder], tally: TokenCounter) -> Completion:
        return completion(head, choices, tally)

    def chunks(self, head: ReplyContext, tally: TokenCounter) -> CompletionChunks:
        return CompletionChunks(head, tally)
