"""Whole replies: the pieces of every choice, joined.  Knows nothing of HTTP or of streams."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipelines.values import ReplyUpdate, TextLogprob, TextPiece, TextUpdate, ToolCallPiece
from pipelines.wire.token_piece import PieceLogprobs, TokenPiece
from server.generation.replies.logprobs import AS_TEXT, Shown, chat_drafts, chat_logprobs, prompt_logprobs
from server.generation.replies.prompt_echo import PromptShown
from server.generation.replies.schema import (
    CalledFunction,
    ChatChoice,
    ChatCompletion,
    PromptLogprobs,
    ReplyMessage,
    ToolCallReply,
)
from server.generation.replies.token_counter import TokenCounter
from server.version import FINGERPRINT


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """What every chunk of a reply repeats, and what of the reply its client asked to see.

    `num_drawn` choices were computed for each prompt, the best `num_returned` of them are shown.  `prompts`
    is filled when one of the fields about prompts is set.
    """

    id: str
    model: str
    role: str = "assistant"
    logprobs: bool = False
    reasoning: bool = True
    parallel_calls: bool = True
    include_usage: bool = False
    continuous_usage: bool = False
    created: int = field(default_factory=lambda: int(time.time()))
    num_drawn: int = 1
    num_returned: int = 1
    tokens_per_event: int = 1
    shown: Shown = AS_TEXT
    forced_call: bool = False  # the model had to call a tool
    token_ids: bool = False
    prompt_text: bool = False
    prompt_logprobs: bool = False
    draft_logprobs: bool = False
    echo: bool = False
    echoed: str = ""  # of a conversation: what stands before the reply
    only_prompt: bool = False
    prompts: list[PromptShown] = field(default_factory=list)

    @property
    def needs_prompts(self) -> bool:
        return self.token_ids or self.prompt_text or self.echo

    def prompt(self, choice: int) -> PromptShown:
        """The prompt of a computed choice."""
        return self.prompts[choice // self.num_drawn]

    def calls(self, update: ReplyUpdate) -> list[ToolCallPiece]:
        """The calls of a piece that the client sees: only the first of a reply unless it takes several."""
        return [call for call in update.tool_calls if self.parallel_calls or call.index == 0]


@dataclass(slots=True)
class ChoiceBuilder:
    """The updates of one choice so far, joined."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCallPiece] = field(default_factory=list)
    piece: TextPiece = field(default_factory=lambda: TokenPiece([], 0))

    def add(self, update: ReplyUpdate | TextUpdate) -> None:
        self.text.append(text_of(update))
        self.piece.extend(update.piece)
        if isinstance(update, ReplyUpdate):
            self.reasoning.append(update.reasoning)
            self.calls += update.tool_calls

    @property
    def finish(self) -> str:
        return self.piece.finish or "abort"

    @property
    def logprobs(self) -> PieceLogprobs[TextLogprob]:
        return self.piece.logprobs or PieceLogprobs()


def text_of(update: ReplyUpdate | TextUpdate) -> str:
    """What a completion shows of a piece, whichever task the model's graph has."""
    return update.text if isinstance(update, TextUpdate) else update.content


def joined_calls(pieces: Iterable[ToolCallPiece], parallel: bool = True) -> list[ToolCallReply]:
    """Whole calls of their pieces, in order; only the first unless the client takes several."""
    calls: dict[int, ToolCallReply] = {}
    for piece in pieces:
        if piece.name is not None:
            function = CalledFunction(name=piece.name, arguments="")
            calls[piece.index] = ToolCallReply(id=piece.id or "", type="function", function=function)
        calls[piece.index].function.arguments += piece.arguments
    return [call for index, call in sorted(calls.items()) if parallel or index == 0]


def picked(head: ReplyContext, choices: list[ChoiceBuilder]) -> list[int]:
    """Which of the computed choices are shown: the likeliest of each prompt, token by token on average."""
    found: list[int] = []
    for start in range(0, len(choices), head.num_drawn):
        drawn = range(start, start + head.num_drawn)
        if head.num_returned < head.num_drawn:
            drawn = sorted(drawn, key=lambda at: -_mean_logprob(choices[at]))  # type: ignore[assignment]
        found += drawn[: head.num_returned]
    return found


def _mean_logprob(choice: ChoiceBuilder) -> float:
    values = [entry.logprob for entry in choice.logprobs.tokens]
    return sum(values) / len(values) if values else float("-inf")


def chat_completion(head: ReplyContext, choices: list[ChoiceBuilder], tally: TokenCounter) -> ChatCompletion:
    prompt = head.prompts[0] if head.prompts else None
    return ChatCompletion(
        id=head.id,
        object="chat.completion",
        created=head.created,
        model=head.model,
        choices=[
            _chat_choice(head, index, choices[drawn]) for index, drawn in enumerate(picked(head, choices))
        ],
        service_tier=None,
        system_fingerprint=FINGERPRINT,
        usage=tally.usage(),
        prompt_logprobs=scores(head, choices[0]),
        prompt_token_ids=prompt.ids if prompt and head.token_ids else None,
        prompt_text=prompt.text if prompt and head.prompt_text else None,
        kv_transfer_params=None,
        ec_transfer_params=None,
        metrics=None,
    )


def scores(head: ReplyContext, choice: ChoiceBuilder) -> PromptLogprobs | None:
    """The prompt's log-probabilities, where the client asked for them."""
    if not head.prompt_logprobs:
        return None
    return prompt_logprobs(choice.logprobs.prompt or [], head.shown)


def _chat_choice(head: ReplyContext, index: int, choice: ChoiceBuilder) -> ChatChoice:
    said = ChatChoice(
        index=index,
        message=_message(head, choice),
        logprobs=chat_logprobs(choice.logprobs.tokens, head.shown) if head.logprobs else None,
        finish_reason=choice.finish,
        stop_reason=choice.piece.stop_reason,
        token_ids=choice.piece.token_ids if head.token_ids else None,
        routed_experts=None,
    )
    if head.draft_logprobs:
        said.draft_logprobs = chat_drafts(choice.logprobs.drafted, head.shown)
    return said


def _message(head: ReplyContext, choice: ChoiceBuilder) -> ReplyMessage:
    """`content` is null when the model only thought or called as it liked; "" when it said nothing at all."""
    content, reasoning = "".join(choice.text), "".join(choice.reasoning)
    calls = joined_calls(choice.calls, head.parallel_calls)
    silent = not content and not head.forced_call and (reasoning or calls)
    shown = reasoning if reasoning and head.reasoning else None
    message = ReplyMessage(
        role=head.role,
        content=None if silent and not head.echoed else head.echoed + content,
        refusal=None,
        annotations=None,
        audio=None,
        function_call=None,
        reasoning=shown,
    )
    if calls:
        message.tool_calls = calls
    if shown is not None:
        message.reasoning_content = shown
    return message
