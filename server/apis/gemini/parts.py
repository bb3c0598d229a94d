"""Builds the parts of one candidate from its updates.  Does not depend on events or HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from pipelines.values.reply_values import ReplyUpdate
from server.apis.gemini.reply_models import (
    CallReply,
    Candidate,
    ContentReply,
    FinishReason,
    GenerateContentReply,
    PartReply,
    UsageMetadata,
)
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter

FINISHES: dict[str, FinishReason] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
"""Braid's reason → Gemini's; any other is OTHER."""


@dataclass(slots=True)
class OpenCall:
    """One call so far."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)

    def part(self) -> PartReply:
        call = CallReply(id=self.id, name=self.name, args=_object("".join(self.arguments)))
        return PartReply(function_call=call)


def _object(text: str) -> dict[str, Any]:
    """Arguments as an object; of those that a limit cut off, what was whole."""
    try:
        value = from_json(text or "{}", allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class PartsBuilder:
    """The parts of one candidate in their order.  A call is a part once its arguments are whole."""

    def __init__(self, context: TextReplyContext) -> None:
        self.parts: list[PartReply] = []
        self.finish: FinishReason | None = None
        self._shared = context
        self._call: OpenCall | None = None
        self._index = -1  # of the call

    def add(self, update: ReplyUpdate) -> list[PartReply]:
        """Add one update; returns the parts that are new."""
        new: list[PartReply] = []
        if update.reasoning and self._shared.reasoning:
            new.append(PartReply(text=update.reasoning, thought=True))
        if update.content:
            new += [*self._end_call(), PartReply(text=update.content)]
        for call in self._shared.calls(update):
            if call.name is not None:
                new += self._end_call()
                self._call, self._index = OpenCall(call.id or "", call.name), call.index
            if self._call is not None and call.index == self._index:
                self._call.arguments.append(call.arguments)
        if update.piece.finish is not None:
            self.finish = FINISHES.get(update.piece.finish, "OTHER")
            new += self._end_call()
        for part in new:
            self._keep(part)
        return new

    def _end_call(self) -> list[PartReply]:
        call, self._call = self._call, None
        return [] if call is None else [call.part()]

    def _keep(self, part: PartReply) -> None:
        """Add a part; text goes on with the text before it."""
        last = self.parts[-1] if self.parts else None
        if last is None or part.text is None or last.text is None or last.thought != part.thought:
            self.parts.append(part.model_copy())
        else:
            last.text += part.text

    def candidate(self, index: int, parts: list[PartReply]) -> Candidate:
        found = Candidate(index=index, content=ContentReply(role="model", parts=parts))
        if self.finish is not None:
            found.finish_reason = self.finish
        return found


def usage(counter: TokenCounter) -> UsageMetadata:
    thoughts = counter.num_reasoning
    tokens = UsageMetadata(
        prompt_token_count=counter.num_prompt,
        cached_content_token_count=counter.num_cached,
        candidates_token_count=counter.num_output - (thoughts or 0),
        total_token_count=counter.num_prompt + counter.num_output,
    )
    if thoughts is not None:
        tokens.thoughts_token_count = thoughts
    return tokens


def reply(
    context: TextReplyContext, candidates: list[Candidate], counter: TokenCounter
) -> GenerateContentReply:
    return GenerateContentReply(
        candidates=candidates,
        usage_metadata=usage(counter),
        model_version=context.model,
        response_id=context.id,
    )
