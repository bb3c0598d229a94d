"""Chat templates: Jinja in a sandbox, with the functions that Hugging Face templates expect.

A template can use what `transformers.utils.chat_template_utils` offers: `raise_exception`, `strftime_now`,
`tojson` without HTML escapes, loop controls, generation blocks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pipelines.nodes.text.templates.chat_messages import conform, text_of
from pipelines.nodes.text.templates.content_format import detect

MAX_TEMPLATE_CHARS = 1 << 20
MAX_PROMPT_CHARS = 16 << 20
MAX_RENDER_S = 5.0
"""The time limit for rendering a template, in seconds."""
MAX_REPEATED = 1 << 20
"""Most characters or items of a product by `*`."""
MAX_BITS = 4096
"""Most bits of a number in a template."""


class ChatTemplateError(Exception):
    """The template does not compile, refused the conversation, or used something forbidden."""


class GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}` marks assistant tokens for training; here it is transparent."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a limit on the size of products."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for one, other in ((left, right), (right, left)):
            repeats = isinstance(one, str | list | tuple) and isinstance(other, int)
            if repeats and len(one) * other > MAX_REPEATED:
                raise SecurityError(f"more than {MAX_REPEATED} characters or items by `*`")
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() + right.bit_length() if operator == "*" else left.bit_length() * right
            if bits > MAX_BITS:
                raise SecurityError(f"a number of more than {MAX_BITS} bits by `{operator}`")
        return super().call_binop(context, operator, left, right)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise_exception(message: str) -> str:
    raise ChatTemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _environment() -> Sandbox:
    env = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols])
    env.filters["tojson"] = _to_json
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = _strftime_now
    return env


class Template:
    """A compiled chat template.  Raises ChatTemplateError when the source does not compile.

    `variables` are the names that it reads, `content_format` is the format of a message's content that it
    takes.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str], content_format: str = "auto") -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise ChatTemplateError(f"a chat template may have {MAX_TEMPLATE_CHARS} characters at most")
        env = _environment()
        try:
            tree = env.parse(source)
            self._template = env.from_string(source)
            self._template.globals = dict(self._template.globals)  # a plain one, as each rendering copies it
        except (jinja2.TemplateError, RecursionError, MemoryError) as error:
            raise ChatTemplateError(f"it does not compile: {error}") from error
        self.source = source
        self.variables = frozenset(meta.find_undeclared_variables(tree))
        self.content_format = detect(tree) if content_format == "auto" else content_format
        self.special_tokens = dict(special_tokens)

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None,
        add_generation_prompt: bool,
        continue_final_message: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        """The prompt as text.  `kwargs` never replace `messages`, `tools` or the special tokens.

        Those that the template does not read are ignored.
        """
        variables = {
            **{name: value for name, value in kwargs.items() if name in self.variables},
            **self.special_tokens,
            "messages": conform(messages, self.content_format, "developer" in self.source),
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        text = self._generate(variables)
        return _cut_after_final(text, messages) if continue_final_message else text

    def _generate(self, variables: dict[str, Any]) -> str:
        try:
            pieces, size, end_s = [], 0, time.monotonic() + MAX_RENDER_S
            for piece in self._template.generate(variables):
                pieces.append(piece)
                size += len(piece)
                if time.monotonic() > end_s:
                    raise ChatTemplateError(f"it took longer than {MAX_RENDER_S:g} s")
                if size > MAX_PROMPT_CHARS:
                    raise ChatTemplateError(f"the prompt grew beyond {MAX_PROMPT_CHARS} characters")
        except ChatTemplateError:
            raise
        except Exception as error:  # a template is a program and can raise anything
            raise ChatTemplateError(f"{type(error).__name__}: {error}") from error
        return "".join(pieces)


def _cut_after_final(text: str, messages: list[dict[str, Any]]) -> str:
    """`text` up to the end of the last message's content, so that the model continues that message."""
    content = messages[-1].get("content")
    final = text_of(content[-1:] if isinstance(content, list) else content).strip()
    if not final:
        raise ChatTemplateError("continue_final_message needs a last message whose content is text")
    end = text.rfind(final)
    if end < 0:
        raise ChatTemplateError("the template does not show the last message, so it cannot be continued")
    return text[: end + len(final)]
