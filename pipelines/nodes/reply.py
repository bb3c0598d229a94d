"""Text in pieces → reasoning, content and tool calls in pieces.  Knows nothing of tokens or HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from graphs.node import Node, NodeConfig
from pipelines.parsers import IN_SPECIAL_TOKENS, REASONING, TOOLS, ReasoningParser, ToolParser
from pipelines.values import CallPiece, ReplyUpdate, Stream, TextUpdate

if TYPE_CHECKING:
    from pipelines.pipeline import Call

ReasoningName = Literal[tuple(REASONING)]  # type: ignore[valid-type]
ToolsName = Literal[tuple(TOOLS)]  # type: ignore[valid-type]


class ParseReply(Node):
    """Splits a chat model's text into what the model thought, said and called."""

    class Config(NodeConfig):
        reasoning: ReasoningName | None = None
        tools: ToolsName | None = None

    def run(self, call: Call, text: Stream[TextUpdate]) -> Stream[ReplyUpdate]:
        if self._reads_special_tokens(call):
            call.request.skip_special_tokens = False
        return text.through(lambda choice: ReplyParser(self.reasoning_parser(call), self.tool_parser(call)))

    def reasoning_parser(self, call: Call) -> ReasoningParser | None:
        """None where reasoning is not looked for."""
        return REASONING[self.config.reasoning](call.prompt_text) if self._reasons(call) else None

    def tool_parser(self, call: Call) -> ToolParser | None:
        """None where calls are not looked for."""
        return TOOLS[self.config.tools](call.request.tools) if self._calls_tools(call) else None

    def _reasons(self, call: Call) -> bool:
        """Not for raw prompts: there the text is the reply."""
        request = call.request
        return bool(self.config.reasoning and request.messages is not None and request.parse_reasoning)

    def _calls_tools(self, call: Call) -> bool:
        """Only where the request declared tools that may be called."""
        return bool(self.config.tools and call.request.tools and call.request.parse_tools)

    def _reads_special_tokens(self, call: Call) -> bool:
        """Whether the marks looked for may be special tokens; text is made when the first token comes."""
        in_reasoning = self._reasons(call) and self.config.reasoning in IN_SPECIAL_TOKENS
        return in_reasoning or self._calls_tools(call)


class ReplyParser:
    """The push machine of one choice."""

    def __init__(self, reasoning: ReasoningParser | None, tools: ToolParser | None) -> None:
        self.reasoning = reasoning
        self.tools = tools
        self.num_calls = 0

    def push(self, update: TextUpdate) -> ReplyUpdate:
        final = update.finish is not None
        reasoning, content = "", update.text
        calls: list[CallPiece] = []
        if self.reasoning is not None:
            reasoning, content = self.reasoning.push(content, final=final)
        if self.tools is not None:
            content, calls = self.tools.push(content, final=final)
        self.num_calls += len(calls)
        return ReplyUpdate(
            content=content,
            reasoning=reasoning,
            tool_calls=calls,
            num_tokens=update.num_tokens,
            logprobs=update.logprobs,
            finish="tool_calls" if update.finish == "stop" and self.num_calls else update.finish,
            stop_reason=update.stop_reason,
            num_cached=update.num_cached,
            token_ids=update.token_ids,
            prompt_logprobs=update.prompt_logprobs,
        )
