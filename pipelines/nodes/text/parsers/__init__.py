"""Text in pieces → meaning.  Two tables: who splits reasoning from content, who finds tool calls.

A parser is made per choice and pushed pieces of text; it knows nothing of tokens or HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from pipelines.nodes.text.parsers.reasoning import families as reasoning
from pipelines.nodes.text.parsers.reasoning.enclosed import Enclosed
from pipelines.nodes.text.parsers.reasoning.harmony import Harmony
from pipelines.nodes.text.parsers.reasoning.harmony import span as harmony_span
from pipelines.nodes.text.parsers.reasoning.think import Span, Think, span
from pipelines.nodes.text.parsers.tools import families as tools
from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.values import ToolCallPiece


class ReasoningParser(Protocol):
    @property
    def inside(self) -> bool:
        """Whether what was pushed so far ends in reasoning."""

    @property
    def over(self) -> bool:
        """Whether no reasoning can follow."""

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        """(reasoning, content) that this piece settles; with `final`, nothing stays held back."""


class ToolParser(Protocol):
    def push(self, text: str, *, final: bool = False) -> tuple[str, list[ToolCallPiece]]:
        """(content, tool calls) that this piece settles; with `final`, nothing stays held back."""


REASONING: dict[str, Callable[[str], ReasoningParser]] = {
    **{name: partial(Think, marks) for name, marks in reasoning.FAMILIES.items()},
    **{name: partial(Enclosed, *both) for name, both in reasoning.ENCLOSED.items()},
    "openai_gptoss": Harmony,
}
"""Name in a graph → maker, given the prompt's text (a template may have opened the reasoning already)."""

SPANS: dict[str, Callable[[str], Span | None]] = {
    **{name: partial(span, marks) for name, marks in reasoning.FAMILIES.items()},
    **{name: partial(span, marks) for name, (marks, _) in reasoning.ENCLOSED.items()},
    "openai_gptoss": harmony_span,
}
"""Name in a graph → where reasoning stands in the reply to a prompt, None where the prompt closed it."""

TOOLS: dict[str, Callable[..., ToolParser]] = {
    name: partial(CallFinder, family) for name, family in tools.FAMILIES.items()
}
"""Name in a graph → maker, given the tools of the request, which say what types parameters have."""

IN_SPECIAL_TOKENS: frozenset[str] = frozenset(
    {"openai_gptoss", *(name for name, marks in reasoning.FAMILIES.items() if marks.special)}
)
"""Names of reasoning parsers whose marks are special tokens: their text must be made with those.

Tool parsers all need them: the same mark is a special token in one model and plain text in another.
"""
