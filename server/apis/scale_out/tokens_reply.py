"""The replies of vLLM's generate: token ids, and log-probabilities by token id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pipelines.base.errors import BraidError
from pipelines.values.reply_values import ReplyUpdate, TextLogprob, TextUpdate
from server.apis.generation.replies.choice_builder import (
    ChoiceBuilder,
    best_choices,
    prompt_scores,
    routed_experts,
)
from server.apis.generation.replies.logprobs import FLOOR
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.schema.reply_models import PromptLogprobs, Reply, Usage
from server.schema.sse import DONE, error_events, event


class IdLogprob(Reply):
    token_id: int
    logprob: float
    rank: int


class ChosenIdLogprob(IdLogprob):
    top_logprobs: list[IdLogprob]


class IdLogprobs(Reply):
    content: list[ChosenIdLogprob]


class WeightVersion(Reply):
    """Which weights gave the tokens from `start` to `end`."""

    version: Literal["default"] = "default"
    start: int = 0
    end: int


class TokensChoice(Reply):
    index: int
    finish_reason: str | None
    stop_reason: str | int | None
    token_ids: list[int]
    routed_experts: str | None = None
    sampling_mask: None = None
    weight_versions: list[WeightVersion]
    logprobs: IdLogprobs | None


class TokensReply(Reply):
    """The fields about several machines are always null."""

    request_id: str
    model: str
    created: int
    usage: Usage
    prompt_logprobs: PromptLogprobs | None
    prompt_token_id_logprobs: None = None
    prompt_token_ids: list[int] | None
    mm_placeholders: None = None
    metrics: None = None
    kv_transfer_params: None = None
    ec_transfer_params: None = None
    output_mode: Literal["tokens"] = "tokens"
    choices: list[TokensChoice]

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()


class StreamedTokens(Reply):
    index: int
    logprobs: IdLogprobs | None = None
    finish_reason: str | None = None
    token_ids: list[int]


class TokensChunk(Reply):
    request_id: str
    choices: list[StreamedTokens]
    usage: Usage | None = None


def tokens_reply(
    context: TextReplyContext, choices: list[ChoiceBuilder], counter: TokenCounter
) -> TokensReply:
    """The whole reply; of several drawn choices the best."""
    reply = TokensReply(
        request_id=context.id,
        model=context.model,
        created=context.created,
        usage=counter.usage(),
        prompt_logprobs=None,
        prompt_token_ids=context.prompts[0].ids if context.token_ids else None,
        choices=[
            _choice(context, index, choices[drawn])
            for index, drawn in enumerate(best_choices(context, choices))
        ],
    )
    reply.prompt_logprobs = prompt_scores(context, choices[0])
    return reply


def _choice(context: TextReplyContext, index: int, choice: ChoiceBuilder) -> TokensChoice:
    ids = choice.piece.token_ids
    return TokensChoice(
        index=index,
        finish_reason=choice.finish,
        stop_reason=choice.piece.stop_reason,
        token_ids=ids,
        routed_experts=routed_experts(choice),
        weight_versions=[WeightVersion(end=len(ids))],
        logprobs=id_logprobs(choice.logprobs.tokens) if context.logprobs else None,
    )


def id_logprobs(entries: Sequence[TextLogprob]) -> IdLogprobs:
    """Log-probabilities by token id, each with its alternatives."""
    return IdLogprobs(content=[_id_logprob(entry) for entry in entries])


def _id_logprob(entry: TextLogprob) -> ChosenIdLogprob:
    others = [
        IdLogprob(token_id=other.token_id, logprob=max(other.logprob, FLOOR), rank=i + 1)
        for i, other in enumerate(entry.alternatives)
    ]
    own = max(entry.logprob, FLOOR)
    return ChosenIdLogprob(token_id=entry.token_id, logprob=own, rank=entry.rank, top_logprobs=others)


class TokensChunks:
    """Serializes the events of a stream of token ids."""

    def __init__(self, context: TextReplyContext, counter: TokenCounter) -> None:
        self.context = context
        self.counter = counter

    def opening(self) -> bytes:
        return b""

    def piece(self, choice: int, update: ReplyUpdate | TextUpdate) -> bytes:
        """The event of one update."""
        self.counter.add(choice, update)
        piece = update.piece
        tokens = piece.logprobs.tokens if piece.logprobs is not None else []
        logprobs = id_logprobs(tokens) if self.context.logprobs else None
        part = StreamedTokens(
            index=choice, logprobs=logprobs, finish_reason=piece.finish, token_ids=piece.token_ids
        )
        more: dict[str, Any] = {}
        if self.context.continuous_usage:
            more["usage"] = self.counter.running_usage()
        return event(TokensChunk(request_id=self.context.id, choices=[part], **more))

    def ending(self) -> bytes:
        if not self.context.include_usage:
            return DONE
        usage = self.counter.stream_usage()
        return event(TokensChunk(request_id=self.context.id, choices=[], usage=usage)) + DONE

    def failure(self, error: BraidError) -> bytes:
        return error_events(error)
