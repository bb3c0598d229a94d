"""Text before the engine: chat template and tokenizer.

Knows nothing of HTTP or of how tokens are computed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.errors import RequestError
from pipelines.nodes.template import ChatTemplateError, Template, compiled
from pipelines.nodes.tokenizer import longest_token, open_tokenizer
from pipelines.tasks import Generation
from pipelines.values import Prompt, Tokens

if TYPE_CHECKING:
    from pipelines.build import Resources
    from pipelines.call import Call


SLACK = 4
"""How many times the longest token a token may stand for: normalizers drop some characters."""
PROMPT_TAIL_TOKENS = 64
"""Of a chat prompt in token ids so many are read as text: parsers ask only how a prompt ends."""


def read_template(path: Path, content_format: str = "auto") -> Template:
    """The template of a `.jinja` file or of a tokenizer_config.json, with its special tokens as variables."""
    config_path = path if path.suffix == ".json" else path.with_name("tokenizer_config.json")
    config = json.loads(config_path.read_text()) if config_path.exists() else {}
    source = config.get("chat_template") if path.suffix == ".json" else path.read_text()
    if isinstance(source, list):  # several named templates; "default" serves plain chat
        source = next((entry["template"] for entry in source if entry.get("name") == "default"), None)
    if not isinstance(source, str):
        raise ValueError(f"{path.name} holds no chat template")
    return Template(source, special_tokens(config), content_format)


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
    """Renders the conversation into one prompt; raw prompts pass through unchanged."""

    class Config(NodeConfig):
        template: FilePath
        content_format: Literal["auto", "string", "openai"] = Field(
            default="auto",
            description="a message's content as text or as a list of parts; auto: as it reads it",
        )
        kwargs: dict[str, Any] = Field(
            default={}, description="variables of the template; those of a request win"
        )

    def load(self, resources: Resources) -> None:
        path = self.folder / self.config.template
        self.template = resources.shared(read_template, path, self.config.content_format)

    def run(self, call: Call, request: Generation) -> list[Prompt]:
        if request.messages is None:
            return request.prompts
        call.prompt_text = self.text(request)
        return [Prompt(text=call.prompt_text)]

    def text(self, request: Generation) -> str:
        """The conversation as the template writes it.  Raises RequestError."""
        field = "messages" if request.chat_template is None else "chat_template"
        template = self.template_for(request)
        try:
            return template.render(
                messages=request.messages or [],
                tools=request.tools or None,
                add_generation_prompt=request.add_generation_prompt,
                continue_final_message=request.continue_final_message,
                kwargs=self.config.kwargs | request.template_kwargs,
            )
        except ChatTemplateError as error:
            raise RequestError(f"the chat template refused these messages: {error}", field) from error

    def template_for(self, request: Generation) -> Template:
        """The request's own template, or the node's.  Raises RequestError when it does not compile."""
        if request.chat_template is None:
            return self.template
        try:
            return compiled(request.chat_template, self.template.special_tokens)
        except ChatTemplateError as error:
            raise RequestError(f"`chat_template`: {error}", "chat_template") from error


class Tokenize(Node):
    """Turns prompts into token ids; ids that the client made pass through."""

    class Config(NodeConfig):
        tokenizer: FilePath

    def load(self, resources: Resources) -> None:
        self.path = self.folder / self.config.tokenizer
        self.tokenizer = resources.shared(open_tokenizer, self.path)
        self.max_context = resources.max_context
        self.max_chars = self.max_context * longest_token(self.tokenizer) * SLACK

    def run(self, call: Call, prompts: list[Prompt]) -> list[Tokens]:
        if not prompts:
            raise RequestError("this model takes raw prompts: its graph lacks a chat_template", "messages")
        request = call.request
        if request.truncate_prompt_tokens is None:
            self.check_length(prompts, "prompt" if request.messages is None else "messages")
        call.prompt_ids = [self.cut(self.ids(each) + request.completion_ids, request) for each in prompts]
        if request.parse_reasoning:
            call.prompt_text += self.read((prompts[0].ids or [])[-PROMPT_TAIL_TOKENS:])
            call.reply_text = self.read(request.completion_ids)
        bad_words = self.spellings(request.bad_words)
        return [Tokens(ids, bad_words) for ids in call.prompt_ids]

    def check_length(self, prompts: list[Prompt], field: str) -> None:
        """Raise RequestError for text that cannot fit, before it is read for seconds."""
        longest = max(len(prompt.text or "") for prompt in prompts)
        if longest > self.max_chars > 0:
            raise RequestError(
                f"You passed {longest} input characters. However, the model's context length is only "
                f"{self.max_context} tokens (at most {self.max_chars} characters). "
                "Please reduce the length of the input prompt.",
                field,
            )

    def ids(self, prompt: Prompt) -> list[int]:
        if prompt.ids is not None:
            return prompt.ids
        special = prompt.add_special_tokens
        ids: list[int] = self.tokenizer.encode_batch_fast([prompt.text], add_special_tokens=special)[0].ids
        return ids  # as a batch of one, for then the GIL is released

    def cut(self, ids: list[int], request: Generation) -> list[int]:
        """At most the tokens that the request wants kept of a prompt."""
        kept = request.truncate_prompt_tokens
        if kept is None:
            return ids
        if kept < -1 or kept == 0:
            raise RequestError("truncate_prompt_tokens must be -1, or at least 1", "truncate_prompt_tokens")
        if kept > self.max_context > 0:
            raise RequestError(
                "truncate_prompt_tokens value is greater than max_model_len. "
                "Please request a smaller truncation size.",
                "truncate_prompt_tokens",
            )
        kept = kept if kept > 0 else self.max_context - 1
        if not 0 < kept < len(ids):
            return ids
        return ids[-kept:] if request.truncate_left else ids[:kept]

    def read(self, ids: list[int]) -> str:
        """The text of ids, for parsers: with the marks that are special tokens."""
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False) if ids else ""
        return text

    def spellings(self, words: list[str]) -> list[list[int]]:
        """Each word as it is tokenized at the start of a text and after a space (vLLM's rule)."""
        found = []
        for word in words:
            for spelling in (word.lstrip(), " " + word.lstrip()):
                ids = self.tokenizer.encode(spelling, add_special_tokens=False).ids
                if ids and ids not in found:
                    found.append(ids)
        return found
