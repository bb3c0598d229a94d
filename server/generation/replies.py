"""Whole replies: the pieces of every choice, joined.  Knows nothing of HTTP or of streams."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pipelines.values import CallPiece, ReplyUpdate, TextLogprob, TextUpdate
from server.generation.counting import Tally
from server.generation.logprobs import chat_logprobs, completion_logprobs
from server.generation.schema import (
    CalledFunction,
    ChatChoice,
    ChatCompletion,
    Completion,
    CompletionChoice,
    ReplyMessage,
    ToolCallReply,
)
from server.version import FINGERPRINT


@dataclass(frozen=True, slots=True)
class Head:
    """What every chunk of a reply repeats, and what of the reply its client asked to see."""

    id: str
    model: str
    role: str = "assistant"
    logprobs: bool = False
    reasoning: bool = True
    parallel_calls: bool = True
    include_usage: bool = False
    continuous_usage: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    def calls(self, update: ReplyUpdate) -> list[CallPiece]:
        """The calls of a piece that the client sees: only the first of a reply unless it takes several."""
        return [call for call in update.tool_calls if self.parallel_calls or call.index == 0]


@dataclass(slots=True)
class Gathered:
    """The pieces of one choice so far."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[CallPiece] = field(default_factory=list)
    logprobs: list[TextLogprob] = field(default_factory=list)
    finish: str = "abort"
    stop_reason: str | int | None = None

    def add(self, update: ReplyUpdate | TextUpdate) -> None:
        self.text.append(text_of(update))
        self.logprobs += update.logprobs
        if isinstance(update, ReplyUpdate):
            self.reasoning.append(update.reasoning)
            self.calls += update.tool_calls
        if update.finish is not None:
            self.finish, self.stop_reason = update.finish, update.stop_reason


def text_of(update: ReplyUpdate | TextUpdate) -> str:
    """What a completion shows of a piece, whichever task the model's graph has."""
    return update.text if isinstance(update, TextUpdate) else update.content


def tool_call(call: CallPiece) -> ToolCallReply:
    function = CalledFunction(name=call.name, arguments=call.arguments)
    return ToolCallReply(id=call.id, type="function", function=function)


def chat_completion(head: Head, choices: list[Gathered], tally: Tally) -> ChatCompletion:
    return ChatCompletion(
        id=head.id,
        object="chat.completion",
        created=head.created,
        model=head.model,
        choices=[_chat_choice(head, index, choice) for index, choice in enumerate(choices)],
        service_tier=None,
        system_fingerprint=FINGERPRINT,
        usage=tally.usage(),
        prompt_logprobs=None,
        prompt_token_ids=None,
    )


def _chat_choice(head: Head, index: int, choice: Gathered) -> ChatChoice:
    return ChatChoice(
        index=index,
        message=_message(head, choice),
        logprobs=chat_logprobs(choice.logprobs) if head.logprobs else None,
        finish_reason=choice.finish,
        stop_reason=choice.stop_reason,
        token_ids=None,
    )


def _message(head: Head, choice: Gathered) -> ReplyMessage:
    """`content` is null when the model only thought or called, "" when it said nothing at all."""
    content, reasoning = "".join(choice.text), "".join(choice.reasoning)
    calls = [tool_call(call) for call in choice.calls if head.parallel_calls or call.index == 0]
    silent = not content and (reasoning or calls)
    shown = reasoning if reasoning and head.reasoning else None
    return ReplyMessage(
        role=head.role,
        content=None if silent else content,
        refusal=None,
        annotations=None,
        audio=None,
        function_call=None,
        **({"tool_calls": calls} if calls else {}),
        reasoning=shown,
        reasoning_content=shown,
    )


def completion(head: Head, choices: list[Gathered], tally: Tally) -> Completion:
    return Completion(
        id=head.id,
        object="text_completion",
        created=head.created,
        model=head.model,
        choices=[_completion_choice(head, index, choice) for index, choice in enumerate(choices)],
        service_tier=None,
        system_fingerprint=FINGERPRINT,
        usage=tally.usage(),
    )


def _completion_choice(head: Head, index: int, choice: Gathered) -> CompletionChoice:
    return CompletionChoice(
        index=index,
        text="".join(choice.text),
        logprobs=completion_logprobs(choice.logprobs) if head.logprobs else None,
        finish_reason=choice.finish,
        stop_reason=choice.stop_reason,
        token_ids=None,
        prompt_logprobs=None,
        prompt_token_ids=None,
    )
