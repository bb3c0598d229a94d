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

from pipelines.nodes.text.templates.chat_messages import conform
from pipelines.nodes.text.templates.message_content import Message
from pipelines.nodes.text.templates.message_forms import USER, find_forms
from pipelines.nodes.text.templates.tool_forms import conform_tools, find_fills

MAX_TEMPLATE_CHARS = 1 << 20
MAX_PROMPT_CHARS = 16 << 20
MAX_RENDER_S = 5.0
"""The time limit for rendering a template, in seconds of the thread's processor time."""
FORMS_S = 2.0
"""The time limit for finding out which forms of messages a template takes, which is 40 to 60 renderings."""
MAX_REPEATED = 1 << 20
"""Most characters or items of a product by `*`."""
MAX_BITS = 4096
"""Most bits of a number in a template."""
NO_VARIABLES: Mapping[str, Any] = {}
FINAL_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
"""What transformers writes behind a message that is to be continued; some templates know it."""


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


def environment() -> Sandbox:
    """The sandbox with the filters and functions that templates may use."""
    env = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols])
    env.filters["tojson"] = _to_json
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = _strftime_now
    return env


class Template:
    """A compiled chat template.  Raises ChatTemplateError when the source does not compile.

    `variables` are the names that it reads, `forms` the forms of messages that it takes, `fills` what it
    needs of tools, `thinking` its variables for how much a model is to reason; `content_format` is that of
    every message's content, or auto.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str], content_format: str = "auto") -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise ChatTemplateError(f"a chat template may have {MAX_TEMPLATE_CHARS} characters at most")
        env = environment()
        try:
            tree = env.parse(source)
            self.variables = frozenset(meta.find_undeclared_variables(tree))
            self._template = env.from_string(tree)
            self._template.globals = dict(self._template.globals)  # a plain one, as each rendering copies it
        except (jinja2.TemplateError, RecursionError, MemoryError) as error:
            raise ChatTemplateError(f"it does not compile: {error}") from error
        self.source = source
        self.special_tokens = dict(special_tokens)
        stated_format = None if content_format == "auto" else content_format
        self._forms_end_s = time.thread_time() + FORMS_S
        self.forms = find_forms(self._attempt, "developer" in source, stated_format)
        self.fills = find_fills(lambda tools: self._attempt([USER], tools))
        from pipelines.nodes.text.templates.thinking_forms import find_thinking  # few processes load one

        self.thinking = find_thinking(
            self.variables, lambda kwargs: self._attempt([USER], tools=None, kwargs=kwargs)
        )

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
        conformed = conform(messages, self.forms)
        final_text = _mark_final(conformed) if continue_final_message else None
        taken = self.thinking.variables(kwargs)
        known = {name: value for name, value in taken.items() if name in self.variables}
        shown, end_s = conform_tools(tools, self.fills), time.thread_time() + MAX_RENDER_S
        text = self._prompt(conformed, shown, add_generation_prompt, known, end_s)
        return text if final_text is None else _cut_after_final(text, final_text)

    def _attempt(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None,
        kwargs: Mapping[str, Any] = NO_VARIABLES,
    ) -> str:
        """The prompt of messages as they are; "" where the template refuses them."""
        end_s = self._forms_end_s
        try:
            return self._prompt(messages, tools, add_generation_prompt=True, kwargs=kwargs, end_s=end_s)
        except ChatTemplateError:
            return ""

    def _prompt(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]] | None,
        add_generation_prompt: bool,
        kwargs: Mapping[str, Any],
        end_s: float,
    ) -> str:
        given = {"messages": messages, "tools": tools, "add_generation_prompt": add_generation_prompt}
        return self._generate({"documents": None, **kwargs, **self.special_tokens, **given}, end_s)

    def _generate(self, variables: dict[str, Any], end_s: float) -> str:
        try:
            pieces, size = [], 0
            for piece in self._template.generate(variables):
                pieces.append(piece)
                size += len(piece)
                if time.thread_time() > end_s:
                    raise ChatTemplateError(f"it took longer than {MAX_RENDER_S:g} s")
                if size > MAX_PROMPT_CHARS:
                    raise ChatTemplateError(f"the prompt grew beyond {MAX_PROMPT_CHARS} characters")
        except ChatTemplateError:
            raise
        except Exception as error:  # a template is a program and can raise anything
            raise ChatTemplateError(f"{type(error).__name__}: {error}") from error
        return "".join(pieces)


def _mark_final(messages: list[Message]) -> str:
    """Write FINAL_TAG behind the last text of the last message, a copy; returns that text."""
    message = messages[-1]
    content = message.get("content")
    if isinstance(content, list) and content:
        *others, part = content
        text = part.get("text")
        message["content"] = [*others, {**part, "text": f"{text}{FINAL_TAG}"}]
    else:
        text = content
        message["content"] = f"{text}{FINAL_TAG}"
    if not isinstance(text, str):
        raise ChatTemplateError("continue_final_message needs a last message whose content is text")
    return text


def _cut_after_final(text: str, final_text: str) -> str:
    """`text` up to the end of the last message's content, so that the model continues that message."""
    end = text.rfind(FINAL_TAG.strip())
    if end < 0 or final_text.strip() not in text:
        raise ChatTemplateError("the template does not show the last message, so it cannot be continued")
    is_trimmed = not text.startswith(FINAL_TAG, end)
    return text[:end].rstrip() if is_trimmed else text[:end]
