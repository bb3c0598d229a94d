"""Whole replies to completions: the best choices of each prompt, the prompt before them where it is echoed.

Knows nothing of HTTP or of streams.
"""

from __future__ import annotations

from server.generation.replies.chat import ChoiceBuilder, ReplyContext, picked, scores
from server.generation.replies.logprobs import completion_drafts, completion_logprobs, with_prompt
from server.generation.replies.schema import Completion, CompletionChoice, CompletionLogprobs
from server.generation.replies.token_counter import TokenCounter
from server.version import FINGERPRINT


def completion(head: ReplyContext, choices: list[ChoiceBuilder], tally: TokenCounter) -> Completion:
    return Completion(
        id=head.id,
        object="text_completion",
        created=head.created,
        model=head.model,
        choices=[
            _choice(head, index, drawn, choices[drawn]) for index, drawn in enumerate(picked(head, choices))
        ],
        service_tier=None,
        system_fingerprint=FINGERPRINT,
        usage=tally.usage(),
        kv_transfer_params=None,
        ec_transfer_params=None,
        metrics=None,
    )


def _choice(head: ReplyContext, index: int, drawn: int, choice: ChoiceBuilder) -> CompletionChoice:
    text = "" if head.only_prompt else "".join(choice.text)
    said = CompletionChoice(
        index=index,
        text=head.prompt(drawn).text + text if head.echo else text,
        logprobs=_logprobs(head, drawn, choice) if head.logprobs else None,
        finish_reason="length" if head.only_prompt else choice.finish,
        stop_reason=None if head.only_prompt else choice.piece.stop_reason,
        token_ids=_token_ids(head, choice),
        prompt_logprobs=scores(head, choice),
        prompt_token_ids=head.prompt(drawn).ids if head.token_ids else None,
        routed_experts=None,
    )
    if head.draft_logprobs:
        own = said.logprobs.text_offset[-len(choice.logprobs.tokens) :] if said.logprobs else []
        said.draft_logprobs = completion_drafts(choice.logprobs.drafted, own, head.shown)
    return said


def _token_ids(head: ReplyContext, choice: ChoiceBuilder) -> list[int] | None:
    if not head.token_ids:
        return None
    return [] if head.only_prompt else choice.piece.token_ids


def _logprobs(head: ReplyContext, drawn: int, choice: ChoiceBuilder) -> CompletionLogprobs:
    own = [] if head.only_prompt else choice.logprobs.tokens
    if not head.echo:
        return completion_logprobs(own, shown=head.shown)
    prompt = head.prompt(drawn)
    return with_prompt(prompt.first, prompt.ids[0], [*(choice.logprobs.prompt or []), *own], head.shown)
