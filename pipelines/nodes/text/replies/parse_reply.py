"""Text in pieces → reasoning, content and tool calls in pieces, and what a guide must know of them.

Knows nothing of tokens but how many of them are reasoning; nothing of HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from graphs.node import Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Checking, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.text.parsers.guards import GUARDS
from pipelines.nodes.text.parsers.reasoning.think import Unopened
from pipelines.nodes.text.parsers.tables import REASONING, TOOLS, ReasoningParser, ToolParser
from pipelines.nodes.text.parsers.tools.generic import GENERIC
from pipelines.nodes.text.rules.reasoning_rule import ReasoningRule
from pipelines.nodes.text.rules.tool_call_rule import ToolCallRule, names_tool
from pipelines.values.reply_values import ReplyUpdate, TextUpdate
from pipelines.values.stream_values import Stream, StreamChoice
from pipelines.values.tasks import GenerationInput

if TYPE_CHECKING:
    ReasoningName = str
    ToolsName = str
    GuardName = str
else:  # the values that a graph may have
    ReasoningName = Literal[tuple(REASONING)]
    ToolsName = Literal[(*TOOLS, GENERIC)]
    GuardName = Literal[tuple(GUARDS)]


class ParseReply(Node, Planning, Checking):
    """Splits a chat model's text into reasoning, content and tool calls."""

    class Config(NodeConfig):
        reasoning: ReasoningName | None = Field(
            default=None, description="how the model marks its reasoning; default: it has none"
        )
        tools: ToolsName | None = Field(
            default=None,
            description="how the model writes tool calls; default: it calls no tools; generic: any model, by "
            "schemas in its system prompt and replies that a grammar holds",
        )
        guard: GuardName | None = Field(
            default=None,
            description="for moderations: how a guard model writes its verdict; default: it is none",
        )

    def plan(self, request: GenerationInput) -> RequestPlan:
        reasoning, calls = self._reasoning(request), self._tool_calls(request)
        in_special_tokens = calls is not None or (reasoning is not None and reasoning.in_special_tokens)
        as_text = self.config.tools == GENERIC
        return RequestPlan(in_special_tokens, calls, reasoning, tools_as_text=as_text)

    def check(self, request: GenerationInput, plan: RequestPlan) -> None:
        if request.thinking_budget is not None and plan.reasoning is None:
            raise RequestError(
                "`thinking_token_budget` needs to know what is reasoning: this model's graph has no "
                "parse_reply node with a `reasoning` setting, or the request switched it off",
                "thinking_token_budget",
            )

    def run(self, call: Running, text: Stream[TextUpdate]) -> Stream[ReplyUpdate]:
        request = call.request
        reasoning, calls = self._reasoning(request), self._tool_calls(request)
        unopened: Unopened = "shown" if request.streams else "held"
        if request.constraint is not None:
            unopened = "text"  # a marker in it is what the constraint says

        def make(choice: StreamChoice) -> ReplyParser:
            return ReplyParser(
                None if reasoning is None else reasoning.parser(choice.prompt, unopened),
                None if calls is None else calls.parser(request),
                request,
            )

        return text.pipe(make)

    def _reasoning(self, request: GenerationInput) -> ReasoningRule | None:
        """None where the graph or the request looks for no reasoning."""
        family: str | None = self.config.reasoning
        if family is None or not request.parse_reasoning:
            return None
        return ReasoningRule(family, request.thinking_budget)

    def _tool_calls(self, request: GenerationInput) -> ToolCallRule | None:
        """None where the graph or the request looks for no tool calls."""
        rule = ToolCallRule(self.config.tools)
        return rule if rule.applies(request) else None


class ReplyParser:
    """The stream stage of one choice.

    A reply with tool calls finishes with "tool_calls", unless the request itself named the tool to call.
    """

    def __init__(
        self, reasoning: ReasoningParser | None, tools: ToolParser | None, request: GenerationInput
    ) -> None:
        self.reasoning = reasoning
        self.tools = tools
        self.request = request
        self.called = False
        self._num_outside = 0  # tokens before any reasoning

    def push(self, update: TextUpdate) -> ReplyUpdate:
        piece = update.piece
        out = ReplyUpdate(piece, update.text)
        final = piece.finish is not None
        if self.reasoning is not None:
            self._split(out, update, self.reasoning, final)
        if self.tools is not None:
            self._find_calls(out, self.tools)
        if piece.finish == "stop" and self.called and not names_tool(self.request):
            piece.finish = "tool_calls"
        return out

    def _split(self, out: ReplyUpdate, update: TextUpdate, parser: ReasoningParser, final: bool) -> None:
        """Token by token: one counts as reasoning that leaves the parser inside, where it was before."""
        out.num_reasoning = 0
        if parser.over:
            out.reasoning, out.content = parser.push(update.text, final=final)
            return
        pushed = []
        for part in update.parts:
            inside = parser.inside
            pushed.append(parser.push(part))
            out.is_reasoning.append(inside or parser.inside)
            if inside and parser.inside:
                out.num_reasoning += 1
            elif pushed[-1][0] and not out.is_reasoning[-1]:  # the tokens so far turn out to be reasoning
                out.num_reasoning += self._num_outside
            self._num_outside += 1
        rest = update.text[sum(map(len, update.parts)) :]
        if rest or final:
            pushed.append(parser.push(rest, final=final))
        out.reasoning = "".join(reasoning for reasoning, _ in pushed)
        out.content = "".join(content for _, content in pushed)

    def _find_calls(self, out: ReplyUpdate, parser: ToolParser) -> None:
        finish = out.piece.finish
        out.content, pieces = parser.push(
            out.content, final=finish is not None, is_cut=finish not in (None, "stop")
        )
        out.tool_calls = [piece for piece in pieces if self.request.parallel_calls or piece.index == 0]
        self.called = self.called or bool(pieces)
