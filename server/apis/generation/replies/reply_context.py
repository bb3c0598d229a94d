"""What is known of a generated reply before its first token: ids, and which parts the client requested.

Does not depend on HTTP or on the shape of replies.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pipelines.values.reply_values import ReplyUpdate, ToolCallPiece
from server.apis.generation.replies.logprobs import AS_TEXT, TokenFormat
from server.apis.generation.replies.prompt_echo import PromptEcho


@dataclass(frozen=True, slots=True)
class TextReplyContext:
    """What every chunk of a reply repeats, and which parts of the reply the client requested.

    `num_drawn` choices are computed for each prompt, the best `num_returned` of them are returned.  `prompts`
    is filled where `needs_prompts`.
    """

    shows_prompt_if_known: ClassVar[bool] = False
    """Whether a reply has its prompt where there is one, and is given without one too."""

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
    token_format: TokenFormat = AS_TEXT
    forced_call: bool = False  # the model had to call a tool
    calls_functions: bool = False  # the client reads calls of deprecated functions, and no tool calls
    token_ids: bool = False
    prompt_text: bool = False
    prompt_logprobs: bool = False
    draft_logprobs: bool = False
    echo: bool = False
    echoed: str = ""  # the text of the last message, which the reply continues
    only_prompt: bool = False
    prompts: list[PromptEcho] = field(default_factory=list)
    trace: Callable[[], dict[str, Any]] | None = None  # the request's path, where the client asks for it

    def staged(
        self, updates: AsyncIterator[list[tuple[int, Any]]], close: Callable[[], None]
    ) -> AsyncIterator[list[tuple[int, Any]]]:
        """The updates as the reply has them; `close` ends the call that they come from."""
        return updates

    @property
    def needs_prompts(self) -> bool:
        return self.token_ids or self.prompt_text or self.echo

    def finish(self, reason: str) -> str:
        """The reason for which a choice ended, in the words that the client reads."""
        return "function_call" if reason == "tool_calls" and self.calls_functions else reason

    def prompt(self, choice: int) -> PromptEcho:
        """The prompt of a computed choice."""
        return self.prompts[choice // self.num_drawn]

    def calls(self, update: ReplyUpdate) -> list[ToolCallPiece]:
        """The tool calls for the client: only the first of a reply unless it takes parallel calls."""
        return [call for call in update.tool_calls if self.parallel_calls or call.index == 0]
