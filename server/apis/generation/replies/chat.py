"""Builds the whole reply of chat/completions.  Does not depend on HTTP or streams."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.values.reply_values import ToolCallPiece
from server.apis.generation.replies.choice_builder import (
    ChoiceBuilder,
    best_choices,
    prompt_scores,
    routed_experts,
)
from server.apis.generation.replies.citations import annotations_of, cited_passages
from server.apis.generation.replies.logprobs import chat_drafts, chat_logprobs
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.base.version import FINGERPRINT
from server.schema.reply_models import (
    CalledFunction,
    ChatChoice,
    ChatCompletion,
    ReplyMessage,
    ToolCallReply,
)


def joined_calls(pieces: Iterable[ToolCallPiece], parallel: bool = True) -> list[ToolCallReply]:
    """Joins the pieces of tool calls, in order; only the first call unless `parallel`."""
    calls: dict[int, ToolCallReply] = {}
    for piece in pieces:
        if piece.name is not None:
            function = CalledFunction(name=piece.name, arguments="")
            calls[piece.index] = ToolCallReply(id=piece.id or "", type="function", function=function)
        calls[piece.index].function.arguments += piece.arguments
    return [call for index, call in sorted(calls.items()) if parallel or index == 0]


def chat_completion(
    context: TextReplyContext, choices: list[ChoiceBuilder], counter: TokenCounter
) -> ChatCompletion:
    prompt = context.prompts[0] if context.prompts else None
    reply = ChatCompletion(
        id=context.id,
        object="chat.completion",
        created=context.created,
        model=context.model,
        choices=[
            _chat_choice(context, index, choices[drawn])
            for index, drawn in enumerate(best_choices(context, choices))
        ],
        service_tier=None,
        system_fingerprint=FINGERPRINT,
        usage=counter.usage(),
        prompt_logprobs=None,
        prompt_token_ids=prompt.ids if prompt and context.token_ids else None,
        prompt_text=prompt.text if prompt and context.prompt_text else None,
        kv_transfer_params=None,
        ec_transfer_params=None,
        metrics=None,
    )
    reply.prompt_logprobs = prompt_scores(context, choices[0])
    if cited := [citation for choice in choices for citation in choice.citations]:
        reply.citations = cited_passages(cited)
    return reply


def _chat_choice(context: TextReplyContext, index: int, choice: ChoiceBuilder) -> ChatChoice:
    reply = ChatChoice(
        index=index,
        message=_message(context, choice),
        logprobs=chat_logprobs(choice.logprobs.tokens, context.token_format) if context.logprobs else None,
        finish_reason=context.finish(choice.finish),
        stop_reason=choice.piece.stop_reason,
        token_ids=choice.piece.token_ids if context.token_ids else None,
        routed_experts=routed_experts(choice),
    )
    if context.draft_logprobs:
        reply.draft_logprobs = chat_drafts(choice.logprobs.drafted, context.token_format)
    return reply


def _message(context: TextReplyContext, choice: ChoiceBuilder) -> ReplyMessage:
    """`content` is null beside reasoning or optional tool calls; "" where the model generated nothing."""
    content, reasoning = "".join(choice.text), "".join(choice.reasoning)
    calls = joined_calls(choice.calls, context.parallel_calls)
    is_null = not content and not context.forced_call and (reasoning or calls)
    shown_reasoning = reasoning if reasoning and context.reasoning else None
    message = ReplyMessage(
        role=context.role,
        content=None if is_null and not context.echoed else context.echoed + content,
        refusal=None,
        annotations=annotations_of(choice.citations) or None,
        audio=None,
        function_call=None,
        reasoning=shown_reasoning,
    )
    if calls and context.calls_functions:
        message.function_call = calls[0].function
    elif calls:
        message.tool_calls = calls
    if shown_reasoning is not None:
        message.reasoning_content = shown_reasoning
    if context.token_ids:
        message.prompt_token_ids = context.prompts[0].ids if context.prompts else None
        message.completion_token_ids = choice.piece.token_ids
    return message
