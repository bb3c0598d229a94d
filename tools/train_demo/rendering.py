"""Renders a conversation as text with the chat template that is served with the model.

Uses the same settings as servers: jinja2's immutable sandbox, trimmed blocks, JSON in key order.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .conversation import Conversation, Message, Tool

TEMPLATE_PATH = Path(__file__).with_name("chat_template.jinja")


def render(
    messages: list[Message],
    tools: list[Tool] | None = None,
    *,
    add_generation_prompt: bool = False,
    **options: Any,
) -> str:
    """The messages in the model's chat format; `options` may hold `enable_thinking`."""
    return _template().render(
        messages=messages, tools=tools or None, add_generation_prompt=add_generation_prompt, **options
    )


def prompt_of(conversation: Conversation) -> str:
    """The model's prompt: everything before the last reply, and the beginning of the reply."""
    return render(
        conversation.prompt_messages,
        conversation.tools,
        add_generation_prompt=True,
        enable_thinking=conversation.thinking,
    )


def reply_of(conversation: Conversation) -> str:
    """The expected output after `prompt_of`, including the end of the turn."""
    reply = dict(conversation.messages[-1])
    if not conversation.thinking:
        reply.pop("reasoning_content", None)
    turn = render([reply]).removesuffix("\n")
    opening = "<|im_start|>assistant\n"
    if conversation.thinking:
        thought = reply["reasoning_content"]
        return f"<think>\n{thought}\n</think>\n\n{turn.removeprefix(opening)}"
    return turn.removeprefix(opening)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@cache
def _template() -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = _to_json
    return environment.from_string(TEMPLATE_PATH.read_text(encoding="utf-8"))
