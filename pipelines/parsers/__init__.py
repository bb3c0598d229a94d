"""Text in pieces → meaning.  Two tables: who splits reasoning from content, who finds tool calls.

A parser is made per choice and pushed pieces of text; it knows nothing of tokens or HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pipelines.parsers.reasoning.think import Think
from pipelines.parsers.tools.hermes import Hermes
from pipelines.values import ToolCall


class ReasoningParser(Protocol):
    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        """(reasoning, content) that this piece settles; with `final`, nothing stays held back."""


class ToolParser(Protocol):
    def push(self, text: str, *, final: bool = False) -> tuple[str, list[ToolCall]]:
        """(content, tool calls) that this piece settles; with `final`, nothing stays held back."""


REASONING: dict[str, Callable[[str], ReasoningParser]] = {"qwen3": Think}
"""Name in a graph → maker, given the prompt's text (a template may have opened the reasoning already)."""

TOOLS: dict[str, Callable[[], ToolParser]] = {"hermes": Hermes}
"""Name in a graph → maker."""
