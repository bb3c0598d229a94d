"""The chat_template node: conversations → prompts in the format that the model was trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.images.places import in_pieces, with_breaks
from pipelines.nodes.interface import Loading, MarksMedia, Running
from pipelines.nodes.text.templates.jinja_template import ChatTemplateError, Template
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput, PromptInput

if TYPE_CHECKING:
    from pipelines.nodes.text.templates.request_template import RequestTemplate

DEFAULT, TOOL_USE = "default", "tool_use"
"""Names of templates: of every conversation, and of those with tools where a model has one for them."""
OTHERS = "additional_chat_templates"
"""The folder in which transformers writes the other templates than chat_template.jinja."""


def read_template(path: Path) -> Template:
    """The only or default template of a `.jinja` file or of a tokenizer_config.json."""
    return read_templates(path)[DEFAULT]


def read_templates(path: Path, content_format: str = "auto") -> dict[str, Template]:
    """The templates DEFAULT and TOOL_USE, the same one where the model has only one.

    The special tokens of tokenizer_config.json are variables of them.
    """
    config = tokenizer_config(path)
    sources = _sources(path, config)
    if not sources.get(DEFAULT, "").strip():
        raise ValueError(f"{path.name} holds no chat template")
    default = Template(sources[DEFAULT], special_tokens(config), content_format)
    tool_use = sources.get(TOOL_USE)
    with_tools = Template(tool_use, special_tokens(config), content_format) if tool_use else default
    return {DEFAULT: default, TOOL_USE: with_tools}


def _sources(path: Path, config: dict[str, Any]) -> dict[str, str]:
    """Name → text of the templates in a file and, of a `.jinja` file, in the folder of others beside it."""
    if path.suffix != ".json":
        others = {each.stem: _text(each) for each in sorted((path.parent / OTHERS).glob("*.jinja"))}
        return {**others, DEFAULT: _text(path)}
    given = config.get("chat_template")
    named = given if isinstance(given, list) else [{"name": DEFAULT, "template": given}]
    sources = ((each.get("name"), each.get("template")) for each in named)
    return {str(name): source for name, source in sources if isinstance(source, str)}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def tokenizer_config(path: Path) -> dict[str, Any]:
    """A tokenizer_config.json, or the one in the folder of another file; {} where there is none."""
    config_path = path if path.suffix == ".json" else path.with_name("tokenizer_config.json")
    config: dict[str, Any] = json.loads(config_path.read_text()) if config_path.exists() else {}
    return config


def special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """`bos_token`, `eos_token` … of a tokenizer_config.json as text."""
    texts = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        token = config.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str):
            texts[name] = text
    return texts


class ChatTemplate(Node):
    """Renders the conversation into one prompt; raw prompts pass through unchanged.

    With a line of `images` or `sounds` above, the model's mark for one is text where a user typed it.
    """

    class Config(NodeConfig):
        template: FilePath = Field(description="a .jinja file, or a tokenizer_config.json that holds one")
        content_format: Literal["auto", "string", "openai"] = Field(
            default="auto",
            description="a message's content as text or as a list of parts; auto: as the client wrote it, "
            "where the template takes that",
        )
        add_special_tokens: bool = Field(
            default=False,
            description="the tokenizer adds its special tokens to prompts that do not begin with the "
            "bos_token, as processors of vision models do in transformers",
        )
        kwargs: dict[str, Any] = Field(
            default={}, description="variables of the template; those of a request win"
        )

    def load(self, resources: Loading) -> None:
        path = self.folder / self.config.template
        self.templates = resources.shared(read_templates, path, self.config.content_format)
        self.template = self.templates[DEFAULT]
        media = [node for node in resources.above.values() if isinstance(node, MarksMedia)]
        self.marks = [mark for node in media for mark in node.media_marks()]

    def notes(self) -> list[str]:
        """The levels of reasoning that the template has."""
        return [*self.template.thinking.notes()]

    def typed(self, value: Any) -> Any:
        """A part of a request, whose texts make no mark for an image or a sound."""
        return with_breaks(value, self.marks) if self.marks else value

    def run(self, call: Running, request: PromptInput) -> list[Prompt]:
        if isinstance(request, PoolingInput):
            return request.prompts + self.conversations(request)
        if request.messages is None:
            return request.prompts
        if call.plan.tools_as_text:
            shown = [] if call.plan.tool_calls is None else _shown_tools(request)
            from pipelines.nodes.text.templates.tools_as_text import with_tools_as_text

            request = with_tools_as_text(request, shown)
        return [self.prompt(request)]

    def prompt(self, request: PromptInput) -> Prompt:
        """The conversation as a prompt to tokenize.  Raises RequestError."""
        text = self.text(request)
        return as_prompt(text, self.needs_special_tokens(text))

    def conversations(self, request: PoolingInput) -> list[Prompt]:
        """Each conversation as one prompt.  Raises RequestError."""
        given, template = request.add_special_tokens, self.template_for(request)
        texts = [self.rendered(template, request, each) for each in request.conversations]
        return [
            as_prompt(text, self.needs_special_tokens(text) if given is None else given) for text in texts
        ]

    def needs_special_tokens(self, text: str) -> bool:
        """Whether the tokenizer adds its special tokens to a rendered text."""
        begin = self.template.special_tokens.get("bos_token")
        return self.config.add_special_tokens and not (begin and text.startswith(begin))

    def text(self, request: PromptInput) -> str:
        """The conversation, rendered by the template.  Raises RequestError."""
        return self.rendered(self.template_for(request), request, request.messages or [])

    def rendered(
        self, template: Template | RequestTemplate, request: PromptInput, messages: list[dict[str, Any]]
    ) -> str:
        """The messages, rendered by a template with the request's options.  Raises RequestError."""
        try:
            return template.render(
                messages=self.typed(messages),
                tools=self.typed(_shown_tools(request) or None),
                add_generation_prompt=self.begins_reply(request),
                continue_final_message=request.continue_final_message,
                kwargs=self.config.kwargs | self.typed(request.template_kwargs),
            )
        except ChatTemplateError as error:
            raise RequestError(f"the chat template refused these messages: {error}", "messages") from error

    def begins_reply(self, request: PromptInput) -> bool:
        """Whether a prompt ends where the reply begins."""
        return bool(request.add_generation_prompt)

    def template_for(self, request: PromptInput) -> Template | RequestTemplate:
        """The request's own template, or the node's: the one for tools where the request declares some."""
        if request.chat_template is None:
            return self.templates[TOOL_USE if _shown_tools(request) else DEFAULT]
        from pipelines.nodes.text.templates.request_template import RequestTemplate  # few requests have one

        return RequestTemplate(request.chat_template, self.template.special_tokens)


def _shown_tools(request: PromptInput) -> list[dict[str, Any]]:
    """The tools that the prompt begins with; the schemas of others are in the text of messages."""
    later = request.later_tools
    return (
        [tool for tool in request.tools if tool["function"]["name"] not in later] if later else request.tools
    )


def as_prompt(text: str, add_special_tokens: bool) -> Prompt:
    """A rendered text, without the BREAKs that it may have."""
    return in_pieces(Prompt(text, add_special_tokens=add_special_tokens, is_rendered=True))
