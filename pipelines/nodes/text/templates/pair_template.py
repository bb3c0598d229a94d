"""The pair_template node: a query and a document, texts or images, → the prompt of their reranker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Running
from pipelines.nodes.text.templates.chat_template import ChatTemplate, as_prompt
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput, PromptInput


class PairTemplate(ChatTemplate):
    """Renders each pair as one prompt, of a message with the role query and one with the role document; raw
    prompts pass through unchanged.

    The template gets an instruction as the variable `instruction`, and as a system message.
    """

    class Config(ChatTemplate.Config):
        content_format: Literal["auto", "string", "openai"] = Field(
            default="openai", description="a message's content as a list of parts, or as text"
        )
        instruction: str | None = Field(default=None, description="what a score is for; a request's own wins")

    def run(self, call: Running, request: PromptInput) -> list[Prompt]:
        """Raises RequestError."""
        assert isinstance(request, PoolingInput), "of a task that gives scores"
        if request.max_query_tokens or request.max_document_tokens:
            name = "max_tokens_per_query" if request.max_query_tokens else "max_tokens_per_doc"
            raise RequestError(f"`{name}`: this model does not cut queries or documents", name)
        instruction = request.instruction or self.config.instruction
        if instruction is not None:
            named = {"instruction": instruction, **request.template_kwargs}
            request = replace(request, template_kwargs=named)
        template = self.template_for(request)
        pairs = [_messages(*pair) for pair in request.pairs] + request.conversations
        texts = [self.rendered(template, request, _instructed(instruction, pair)) for pair in pairs]
        return request.prompts + [as_prompt(text, self.needs_special_tokens(text)) for text in texts]


def _messages(query: Prompt, document: Prompt) -> list[dict[str, Any]]:
    """Raises RequestError for token ids."""
    if query.text is None or document.text is None:
        raise RequestError("a query and a document are texts or content parts, not token ids")
    return [{"role": "query", "content": query.text}, {"role": "document", "content": document.text}]


def _instructed(instruction: str | None, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return messages if instruction is None else [{"role": "system", "content": instruction}, *messages]
