"""Chat templates: Jinja in a sandbox, with the functions that Hugging Face templates expect.

Knows nothing of tokens or requests.  Follows `transformers.utils.chat_template_utils` in what a template
may use: `raise_exception`, `strftime_now`, `tojson` without HTML escapes, loop controls, generation blocks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEMPLATE_CHARS = 1 << 20
MAX_PROMPT_CHARS = 64 << 20


class ChatTemplateError(Exception):
    """The template does not compile, refused the conversation, or reached for what it may not have."""


class GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}` marks assistant tokens for training; here it is transparent."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise_exception(message: str) -> str:
    raise ChatTemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _environment() -> ImmutableSandboxedEnvironment:
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
    )
    env.filters["tojson"] = _to_json
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = _strftime_now
    return env


class Template:
    """A compiled chat template.  Raises ChatTemplateError when the source does not compile."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise ChatTemplateError(f"a chat template may have {MAX_TEMPLATE_CHARS} characters at most")
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateError as error:
            raise ChatTemplateError(f"it does not compile: {error}") from error
        self.source = source
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        add_generation_prompt: bool,
        continue_final_message: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        """The prompt as text.  `kwargs` never replace `messages`, `tools` or the special tokens."""
        variables = {
            **kwargs,
            **self._special_tokens,
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            pieces, size = [], 0
            for piece in self._template.generate(variables):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_PROMPT_CHARS:
                    raise ChatTemplateError(f"the prompt grew beyond {MAX_PROMPT_CHARS} characters")
        except ChatTemplateError:
            raise
        except Exception as error:  # a template is a program: whatever it raises is its refusal
            raise ChatTemplateError(f"{type(error).__name__}: {error}") from error
        text = "".join(pieces)
        return _cut_after_final(text, messages) if continue_final_message else text


def _cut_after_final(text: str, messages: list[dict[str, Any]]) -> str:
    """`text` up to the end of the last message's content, so that the model goes on with that message."""
    final = messages[-1].get("content")
    if not isinstance(final, str) or not final.strip():
        raise ChatTemplateError("continue_final_message needs a last message whose content is text")
    end = text.rfind(final.strip())
    if end < 0:
        raise ChatTemplateError("the template does not show the last message, so it cannot be continued")
    return text[: end + len(final.strip())]
