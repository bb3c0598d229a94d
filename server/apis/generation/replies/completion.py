"""Builds the whole reply of completions: the best choices of each prompt, after the echoed prompt if any.

Does not depend on HTTP or streams.
"""

from __future__ import annotations

from server.apis.generation.replies.choice_builder import (
    ChoiceBuilder,
    best_choices,
    prompt_scores,
    routed_experts,
)
from server.apis.generation.replies.logprobs import completion_drafts, completion_logprobs, with_prompt
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.base.version import FINGERPRINT
from server.schema.reply_models import Completion, CompletionChoice, CompletionLogprobs


def completion(context: TextReplyContext, choices: list[ChoiceBuilder], counter: TokenCounter) -> Completion:
    return Completion(
        id=context.id,
        object="text_completion",
        created=context.created,
        model=context.model,
        choices=[
            _choice(context, index, drawn, choices[drawn])
            for index, drawn in enumerate(best_choices(context, choices))
        ],
        service_tier=None,
        system_fingerprint=FINGERPRINT,
        usage=counter.usage(),
        kv_transfer_params=None,
        ec_transfer_params=None,
        metrics=None,
    )


def _choice(context: TextReplyContext, index: int, drawn: int, choice: ChoiceBuilder) -> CompletionChoice:
    text = "" if context.only_prompt else "".join(choice.text)
    reply = CompletionChoice(
        index=index,
        text=context.prompt(drawn).text + text if context.echo else text,
        logprobs=_logprobs(context, drawn, choice) if context.logprobs else None,
        finish_reason="length" if context.only_prompt else choice.finish,
        stop_reason=None if context.only_prompt else choice.piece.stop_reason,
        token_ids=_token_ids(context, choice),
        prompt_token_ids=context.prompt(drawn).ids if context.token_ids else None,
        routed_experts=routed_experts(choice),
    )
    reply.prompt_logprobs = prompt_scores(context, choice)
    if context.draft_logprobs:
        own = reply.logprobs.text_offset[-len(choice.logprobs.tokens) :] if reply.logprobs else []
        reply.draft_logprobs = completion_drafts(choice.logprobs.drafted, own, context.token_format)
    return reply


def _token_ids(context: TextReplyContext, choice: ChoiceBuilder) -> list[int] | None:
    if not context.token_ids:
        return None
    return [] if context.only_prompt else choice.piece.token_ids


def _logprobs(context: TextReplyContext, drawn: int, choice: ChoiceBuilder) -> CompletionLogprobs:
    own = [] if context.only_prompt else choice.logprobs.tokens
    if not context.echo:
        return completion_logprobs(own, context.token_format)
    prompt = context.prompt(drawn)
    return with_prompt(
        prompt.first, prompt.ids[0], [*(choice.logprobs.prompt or []), *own], context.token_format
    )
