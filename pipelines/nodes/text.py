"""Text before the engine: chat template and tokenizer.

Knows nothing of HTTP or of how tokens are computed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphs.node import FilePath, Node, NodeConfig
from pipelines.errors import RequestError
from pipelines.nodes.template import ChatTemplateError, Template
from pipelines.nodes.tokenizer import open_tokenizer
from pipelines.tasks import Generation
from pipelines.values import Prompt, Tokens

if TYPE_CHECKING:
    from pipelines.build import Resources
    from pipelines.pipeline import Call


def read_template(path: Path) -> Template:
    """The template of a `.jinja` file or of a tokenizer_config.json, with its special tokens as variables."""
    config_path = path if path.suffix == ".json" else path.with_name("tokenizer_config.json")
    config = json.loads(config_path.read_text()) if config_path.exists() else {}
    source = config.get("chat_template") if path.suffix == ".json" else path.read_text()
    if isinstance(source, list):  # several named templates; "default" serves plain chat
        source = next((entry["template"] for entry in source if entry.get("name") == "default"), None)
    if not isinstance(source, str):
        raise ValueError(f"{path.name} holds no chat template")
    return Template(source, special_tokens(config))


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

    def load(self, resources: Resources) -> None:
        self.template = resources.shared(read_template, self.folder / self.config.template)

    def run(self, call: Call, request: Generation) -> list[Prompt]:
        if request.messages is None:
            return request.prompts
        try:
            text = self.template.render(
                messages=request.messages,
                tools=request.tools or None,
                add_generation_prompt=request.add_generation_prompt,
                continue_final_message=request.continue_final_message,
                kwargs=request.template_kwargs,
            )
        except ChatTemplateError as error:
            raise RequestError(f"the chat template refused these messages: {error}", "messages") from error
        call.prompt_text = text
        return [Prompt(text=text)]


class Tokenize(Node):
    """Turns prompts into token ids; ids that the client made pass through."""

    class Config(NodeConfig):
        tokenizer: FilePath

    def load(self, resources: Resources) -> None:
        self.tokenizer = resources.shared(open_tokenizer, self.folder / self.config.tokenizer)

    def run(self, call: Call, prompts: list[Prompt]) -> list[Tokens]:
        if not prompts:
            raise RequestError("this model takes raw prompts: its graph lacks a chat_template", "messages")
        bad_words = self.spellings(call.request.bad_words)
        return [Tokens(self.ids(prompt), bad_words) for prompt in prompts]

    def ids(self, prompt: Prompt) -> list[int]:
        if prompt.ids is not None:
            return prompt.ids
        ids: list[int] = self.tokenizer.encode(prompt.text, add_special_tokens=prompt.add_special_tokens).ids
        return ids

    def spellings(self, words: list[str]) -> list[list[int]]:
        """Each word as it is tokenized at the start of a text and after a space (vLLM's rule)."""
        found = []
        for word in words:
            for spelling in (word.lstrip(), " " + word.lstrip()):
                ids = self.tokenizer.encode(spelling, add_special_tokens=False).ids
                if ids and ids not in found:
                    found.append(ids)
        return found
