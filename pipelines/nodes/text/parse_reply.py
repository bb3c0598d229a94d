"""Text in pieces → reasoning, content and tool calls in pieces, and what a guide must know of them.

Knows nothing of tokens but how many of them are reasoning; nothing of HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from graphs.node import Node, NodeConfig
from pipelines.errors import RequestError
from pipelines.nodes.text.parsers import (
    IN_SPECIAL_TOKENS,
    REASONING,
    SPANS,
    TOOLS,
    ReasoningParser,
    ToolParser,
)
from pipelines.nodes.text.tool_call_rules import looks_for_calls, must_call, names_tool, parser, reply_format
from pipelines.tasks import GenerationInput
from pipelines.values import ReplyUpdate, Stream, TextUpdate
from pipelines.wire.sampling_params import Thinking

if TYPE_CHECKING:
    from pipelines.worker.call import Call

ReasoningName = Literal[tuple(REASONING)]  # type: ignore[valid-type]
ToolsName = Literal[tuple(TOOLS)]  # type: ignore[valid-type]


class ParseReply(Node):
    """Splits a chat model's text into what the model thought, said and called."""

    class Config(NodeConfig):
        reasoning: ReasoningName | None = Field(
            default=None, description="how the model marks its reasoning; default: it has none"
        )
        tools: ToolsName | None = Field(
            default=None, description="how the model writes tool calls; default: it calls no tools"
        )

    def run(self, call: Call, text: Stream[TextUpdate]) -> Stream[ReplyUpdate]:
        request = call.request
        if self._reads_special_tokens(call):
            request.skip_special_tokens = False
        self._guide_calls(call)
        self._guide_thinking(call)
        return text.pipe(
            lambda choice: ReplyParser(self.reasoning_parser(call), self.tool_parser(call), request)
        )

    def reasoning_parser(self, call: Call) -> ReasoningParser | None:
        """As it stands where the model goes on; None where reasoning is not looked for."""
        if not self._reasons(call):
            return None
        parser: ReasoningParser = REASONING[self.config.reasoning](call.prompt_text)
        parser.push(call.reply_text)
        return parser

    def tool_parser(self, call: Call) -> ToolParser | None:
        """None where calls are not looked for."""
        return parser(self.config.tools, call.request)

    def _reasons(self, call: Call) -> bool:
        return bool(self.config.reasoning and call.request.parse_reasoning)

    def _reads_special_tokens(self, call: Call) -> bool:
        """Whether the marks looked for may be special tokens; text is made when the first token comes."""
        in_reasoning = self._reasons(call) and self.config.reasoning in IN_SPECIAL_TOKENS
        return in_reasoning or looks_for_calls(self.config.tools, call.request)

    def _guide_calls(self, call: Call) -> None:
        """Hold the reply to the calls that the request demands, or allows only in one form.

        `strict` asks for what only a grammar node can give: without one the model is trusted.
        """
        request = call.request
        form = reply_format(self.config.tools, request)
        if form is None or not (must_call(request) or call.can_guide):
            return
        call.guide("tool_choice").grammar = call.grammar(form, "tools")

    def _guide_thinking(self, call: Call) -> None:
        """Tell a guide where reasoning ends: a grammar holds after it, and a budget bounds it."""
        budget = call.request.thinking_budget
        if not self._reasons(call):
            if budget is not None:
                raise RequestError(
                    "`thinking_token_budget` needs to know what is reasoning: this model's graph has no "
                    "parse_reply node with a `reasoning` setting, or the request switched it off",
                    "thinking_token_budget",
                )
            return
        if budget is None and call.guided is None:
            return
        thinking = self._thinking(call, budget)
        if thinking is not None:
            call.guide("thinking_token_budget").thinking = thinking
        else:
            call.request.thinking_budget = None  # the prompt says that there is none

    def _thinking(self, call: Call, budget: int | None) -> Thinking | None:
        """The reasoning that may follow; None where the prompt or the reply's beginning ended it."""
        span = SPANS[self.config.reasoning](call.prompt_text)
        parser = self.reasoning_parser(call)
        if span is None or parser is None or (call.reply_text.strip() and not parser.inside):
            return None
        return Thinking(span.start, span.end, parser.inside, budget)


class ReplyParser:
    """The push machine of one choice."""

    def __init__(
        self, reasoning: ReasoningParser | None, tools: ToolParser | None, request: GenerationInput
    ) -> None:
        self.reasoning = reasoning
        self.tools = tools
        self.request = request
        self.called = False

    def push(self, update: TextUpdate) -> ReplyUpdate:
        out = ReplyUpdate(
            content=update.text,
            reasoning="",
            tool_calls=[],
            num_tokens=update.num_tokens,
            logprobs=update.logprobs,
            stop_reason=update.stop_reason,
            num_cached=update.num_cached,
            token_ids=update.token_ids,
            prompt_logprobs=update.prompt_logprobs,
            speculation=update.speculation,
        )
        final = update.finish is not None
        if self.reasoning is not None:
            self._split(out, update, self.reasoning, final)
        if self.tools is not None:
            self._find_calls(out, self.tools, final)
        out.finish = self._finish(update.finish)
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
            out.num_reasoning += inside and parser.inside
            out.thought.append(inside or parser.inside)
        rest = update.text[sum(map(len, update.parts)) :]
        if rest or final:
            pushed.append(parser.push(rest, final=final))
        out.reasoning = "".join(reasoning for reasoning, _ in pushed)
        out.content = "".join(content for _, content in pushed)

    def _find_calls(self, out: ReplyUpdate, parser: ToolParser, final: bool) -> None:
        out.content, pieces = parser.push(out.content, final=final)
        out.tool_calls = [piece for piece in pieces if self.request.parallel_calls or piece.index == 0]
        self.called = self.called or bool(pieces)

    def _finish(self, finish: str | None) -> str | None:
        """A reply that calls ends with "tool_calls", but where the request named the tool itself."""
        if finish == "stop" and self.called and not names_tool(self.request):
            return "tool_calls"
        return finish
