"""What models reply to calls from Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.values.reply_values import Segment, TextLogprob, ToolCallPiece


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call of a tool that the model asks for; `arguments` are a JSON object as text."""

    id: str
    name: str
    arguments: str

    @property
    def message(self) -> dict[str, Any]:
        """The call in a message of the assistant."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one request, all its choices together.

    `cached_tokens` of the prompt were not computed again.  `reasoning_tokens` is None where the model's graph
    looks for no reasoning.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class TextChoice:
    """One of the `n` texts that a request asked for.

    `finish_reason` is "stop", "length", "tool_calls" or "repetition"; `stop_reason` the stop string or stop
    token id that ended it, if one did.  `logprobs` has one entry for each of `token_ids` where the request
    asked for them, else it is empty; so has `prompt_logprobs` for each token of the prompt but the first.
    """

    text: str
    finish_reason: str
    reasoning: str = ""
    tool_calls: tuple[RequestedCall, ...] = ()
    stop_reason: str | int | None = None
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TextLogprob, ...] = ()
    prompt_logprobs: tuple[TextLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class TextReply:
    """The reply to a chat or a completion: its choices, and what they took.

    `text`, `reasoning`, `tool_calls` and `finish_reason` are those of the first choice, which is the only one
    unless the request set `n`.
    """

    model: str
    choices: tuple[TextChoice, ...]
    usage: TokenCounts

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def reasoning(self) -> str:
        return self.choices[0].reasoning

    @property
    def tool_calls(self) -> tuple[RequestedCall, ...]:
        return self.choices[0].tool_calls

    @property
    def finish_reason(self) -> str:
        return self.choices[0].finish_reason

    @property
    def logprobs(self) -> tuple[TextLogprob, ...]:
        return self.choices[0].logprobs

    @property
    def message(self) -> dict[str, Any]:
        """The first choice as a message, to go on with the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [call.message for call in self.tool_calls]
        return message


@dataclass(frozen=True, slots=True)
class ReplyPiece:
    """What came of one choice since its last piece; the last one has the `finish_reason`.

    The pieces of a tool call have its `index`; its name comes first, the text of its arguments in parts.
    """

    text: str
    choice: int = 0
    reasoning: str = ""
    tool_calls: tuple[ToolCallPiece, ...] = ()
    finish_reason: str | None = None
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TextLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentScore:
    """A document and how well it answers the query; `index` is its place among those that were given."""

    index: int
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text of a recording.

    `segments` are those of the whole recording where times were asked for, in seconds from its beginning;
    each has its `words` where these were.
    """

    text: str
    language: str
    duration_s: float
    segments: tuple[Segment, ...] = ()
