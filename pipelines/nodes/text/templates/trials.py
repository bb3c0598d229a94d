"""Shows how a chat template writes replies: it renders short conversations and cuts the reply out of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template
from pipelines.nodes.text.templates.message_content import Message

Options = Mapping[str, Any]
THOUGHT, ANSWER = "quixotry", "vermilion"
"""Words that no template has: the reasoning of a reply, and its answer."""
FUNCTION = "quokka_lookup"
CITIES = ("zephyrine", "marmalade")
CALLED = tuple({"city": city, "days": 3 + at} for at, city in enumerate(CITIES))
"""The arguments of the calls of a reply."""
PROPERTIES = {
    "city": {"type": "string", "description": "A city"},
    "days": {"type": "integer", "description": "How many days"},
}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["city", "days"]}
DECLARED = {"name": FUNCTION, "description": "Looks something up", "parameters": PARAMETERS}
TOOLS = [{"type": "function", "function": DECLARED}]

OPTIONS: tuple[Options, ...] = (
    {},
    {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    {"enable_thinking": False, "thinking": False},
)
"""Variables that switch reasoning on and off; a template ignores those that it does not read."""
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
USER: Message = {"role": "user", "content": "Good day"}
HALF_A_TAG = re.compile(r"[<\[][^<>\[\]]*\Z")


@dataclass(frozen=True)
class WrittenReply:
    """A reply in a rendered conversation: the text before it, and from its beginning to the end."""

    prompt: str
    text: str


class Trials:
    """The conversations of one model, rendered by its template or, with tools, by `tool_use`.

    Raises ChatTemplateError where one of them does not compile.
    """

    def __init__(self, source: str, tool_use: str | None = None) -> None:
        self._template = Template(source, SPECIAL)
        self._tool_use = Template(tool_use, SPECIAL) if tool_use else self._template

    def begun(self, options: Options | None = None, *, tools: bool = False) -> str:
        """The prompt of one question, up to where the reply begins; "" where the template refuses it."""
        return self._written([USER], tools, options or {}, begins=True)

    def calling(self, count: int, thought: str = "", options: Options | None = None) -> WrittenReply | None:
        """A reply of `count` calls, followed by their results.  None where the template refuses it."""
        calls = [_call(i) for i in range(count)]
        message = {"role": "assistant", "content": None, "tool_calls": calls, **_reasoning(thought)}
        after = [message, *(_result(i) for i in range(count))]
        return self._reply(after, tools=True, options=options or {}) or self._reply(
            after, tools=False, options=options or {}
        )

    def answering(self, thought: str = "", options: Options | None = None) -> WrittenReply | None:
        """An answer, the last message.  None where the template refuses it."""
        message = {"role": "assistant", "content": ANSWER, **_reasoning(thought)}
        return self._reply([message], tools=False, options=options or {})

    def earlier(self, content: str) -> str:
        """A conversation in which an early reply has this content."""
        replies = [{"role": "assistant", "content": each} for each in (content, "Well")]
        return self._written([USER, replies[0], USER, replies[1], USER], tools=False, options={}, begins=True)

    def _reply(self, after: list[Message], tools: bool, options: Options) -> WrittenReply | None:
        whole = self._written([USER, *after], tools, options, begins=False)
        begun = self._written([USER], tools, options, begins=True)
        at = _reply_start(whole, begun)
        return WrittenReply(whole[:at], whole[at:]) if whole and begun else None

    def _written(self, messages: list[Message], tools: bool, options: Options, *, begins: bool) -> str:
        template = self._tool_use if tools else self._template
        try:
            return template.render(
                messages, TOOLS if tools else None, begins, continue_final_message=False, kwargs=options
            )
        except ChatTemplateError:
            return ""


def _reply_start(whole: str, begun: str) -> int:
    """Where a conversation goes on after the text with which replies begin.

    A reply may begin with reasoning that a finished one does not have: then the last whole tag counts.
    """
    pairs = enumerate(zip(whole, begun, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(whole), len(begun)))
    return same if same == len(begun) else len(HALF_A_TAG.sub("", whole[:same]))


def _call(i: int) -> dict[str, Any]:
    """A call; its id has the length that Mistral's templates require."""
    return {
        "id": f"call0000{i}",
        "type": "function",
        "function": {"name": FUNCTION, "arguments": CALLED[i]},
    }


def _result(i: int) -> Message:
    return {"role": "tool", "name": FUNCTION, "tool_call_id": f"call0000{i}", "content": "warm"}


def _reasoning(thought: str) -> Message:
    return {"reasoning": thought, "reasoning_content": thought} if thought else {}
