"""Where reasoning is in the reply to a prompt: one rule for the parser of the reply and for its guide."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.nodes.text.parsers.reasoning.think import Unopened
from pipelines.nodes.text.parsers.tables import IN_SPECIAL_TOKENS, REASONING, SPANS, ReasoningParser
from pipelines.values.node_values import Tokens
from pipelines.wire.sampling_params import Thinking


@dataclass(frozen=True, slots=True)
class ReasoningRule:
    """A family of reasoning markers, and the most tokens of reasoning (None: no limit).

    Resolved with a prompt, since a prompt may have opened or closed the reasoning already.
    """

    family: str
    budget: int | None = None

    @property
    def in_special_tokens(self) -> bool:
        """Whether the markers are special tokens, which plain text leaves out."""
        return self.family in IN_SPECIAL_TOKENS

    def parser(self, prompt: Tokens, unopened: Unopened = "text") -> ReasoningParser:
        """A new parser, in the state in which the model continues."""
        parser = REASONING[self.family](prompt.prompt_text, unopened)
        parser.push(prompt.reply_text)
        return parser

    def thinking(self, prompt: Tokens) -> Thinking | None:
        """The reasoning that may follow; None where the prompt or the reply's beginning ended it."""
        span = SPANS[self.family](prompt.prompt_text)
        if span is None:
            return None
        inside = self.parser(prompt).inside
        if prompt.reply_text.strip() and not inside:
            return None
        return Thinking(span.start, span.end, inside, self.budget)
