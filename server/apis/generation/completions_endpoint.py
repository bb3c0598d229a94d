"""POST completions: generates continuations of raw prompts."""

from __future__ import annotations

from pipelines.requests.generation.completion import CompletionRequest
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import check_completion, check_echo
from server.apis.generation.generation_endpoint import GenerationEndpoint
from server.apis.generation.replies.choice_builder import ChoiceBuilder
from server.apis.generation.replies.completion import completion
from server.apis.generation.replies.completion_chunks import CompletionChunks
from server.apis.generation.replies.logprobs import TokenFormat
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.schema.reply_models import Completion


class CompletionsEndpoint(GenerationEndpoint[CompletionRequest, TextReplyContext, ChoiceBuilder]):
    kind = "completion"
    body = CompletionRequest
    id_prefix = "cmpl-"

    def check(self, request: CompletionRequest, pipeline: Pipeline) -> None:
        check_completion(pipeline)
        check_echo(pipeline, bool(request.echo))

    def context(self, request: CompletionRequest, reply_id: str, model: str) -> TextReplyContext:
        return TextReplyContext(
            id=reply_id,
            model=model,
            logprobs=request.logprobs is not None,
            include_usage=request.include_usage,
            continuous_usage=request.continuous_usage,
            num_drawn=request.num_choices,
            num_returned=request.num_returned,
            tokens_per_event=request.tokens_per_event,
            token_format=TokenFormat(request.tokens_as_ids),
            token_ids=bool(request.return_token_ids),
            prompt_logprobs=request.scores_prompt() is not None and not request.stream,
            draft_logprobs=bool(request.include_draft_logprobs),
            echo=bool(request.echo),
            only_prompt=request.only_prompt,
        )

    def builder(self, context: TextReplyContext) -> ChoiceBuilder:
        return ChoiceBuilder()

    def full_reply(
        self, context: TextReplyContext, choices: list[ChoiceBuilder], counter: TokenCounter
    ) -> Completion:
        return completion(context, choices, counter)

    def chunks(self, context: TextReplyContext, counter: TokenCounter) -> CompletionChunks:
        return CompletionChunks(context, counter)
