"""The parsers of replies, by their names in graphs: one table for reasoning, one for tool calls.

A parser is made for each choice and pushed pieces of text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from pipelines.nodes.text.parsers.reasoning import families as reasoning
from pipelines.nodes.text.parsers.reasoning.addressed import SELF, Addressed
from pipelines.nodes.text.parsers.reasoning.enclosed import Enclosed
from pipelines.nodes.text.parsers.reasoning.harmony import Harmony
from pipelines.nodes.text.parsers.reasoning.harmony import span as harmony_span
from pipelines.nodes.text.parsers.reasoning.think import Span, Think, Unopened, span
from pipelines.nodes.text.parsers.tools import families as tools
from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.values.reply_values import ToolCallPiece


class ReasoningParser(Protocol):
    @property
    def inside(self) -> bool:
        """Whether what was pushed so far ends in reasoning."""

    @property
    def over(self) -> bool:
        """Whether no reasoning can follow."""

    def push(self, text: str, *, final: bool = False) -> tuple[str, str]:
        """(reasoning, content) that is certain after this piece; with `final`, nothing is held back."""


class ToolParser(Protocol):
    def push(
        self, text: str, *, final: bool = False, is_cut: bool = False
    ) -> tuple[str, list[ToolCallPiece]]:
        """(content, tool calls) that is certain after this piece; with `final`, nothing is held back.

        `is_cut`: not the model ended the text but a limit, so half of a call is no content.
        """


class MakesReasoningParser(Protocol):
    def __call__(self, prompt_text: str, unopened: Unopened = "text") -> ReasoningParser: ...


REASONING: dict[str, MakesReasoningParser] = {
    **{name: partial(Think, markers) for name, markers in reasoning.FAMILIES.items()},
    **{name: partial(Enclosed, *both) for name, both in reasoning.ENCLOSED.items()},
    "openai_gptoss": Harmony,
    "muse_glimmer": Addressed,
}
"""Name in a graph → maker, given the prompt's text (a template may have opened the reasoning already)."""

SPANS: dict[str, Callable[[str], Span | None]] = {
    **{name: partial(span, markers) for name, markers in reasoning.FAMILIES.items()},
    **{name: partial(span, markers) for name, (markers, _) in reasoning.ENCLOSED.items()},
    "openai_gptoss": harmony_span,
    "muse_glimmer": lambda prompt_text: SELF,
}
"""Name in a graph → the markers of reasoning in the reply to a prompt; None where the prompt closed it."""

TOOLS: dict[str, Callable[..., ToolParser]] = {
    name: partial(CallFinder, family) for name, family in tools.FAMILIES.items()
}
"""Name in a graph → maker, given the tools of the request, which declare the types of parameters."""

IN_SPECIAL_TOKENS: frozenset[str] = frozenset(
    {
        "openai_gptoss",
        "muse_glimmer",
        *(name for name, markers in reasoning.FAMILIES.items() if markers.special),
        *(name for name, (markers, _) in reasoning.ENCLOSED.items() if markers.special),
    }
)
"""Names of reasoning parsers whose markers are special tokens, which the text must include.

All tool parsers need them: the same marker is a special token in one model and plain text in another.
"""
