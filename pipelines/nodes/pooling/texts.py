"""The texts node: the inputs of a request that are texts, for a model that encodes images apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphs.node import Node
from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Running
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput

OF_TEMPLATES = {
    "chat_template": "chat_template",
    "template_kwargs": "chat_template_kwargs",
    "add_generation_prompt": "add_generation_prompt",
    "continue_final_message": "continue_final_message",
}
"""What a request may set for a chat template → its field."""


class PlainTexts(Node):
    """Gives the texts of a request for a model with an encoder of texts and another of images.

    A conversation is the text of its messages, without a chat template; one that shows an image is left out.
    """

    def run(self, call: Running, request: PoolingInput) -> list[Prompt]:
        """Raises RequestError for a conversation of which the model cannot make one vector."""
        if request.conversations:
            _check_template(request)
        texts = [_text(each) for each in request.conversations if not shows_image(each)]
        return request.prompts + [Prompt(text, add_special_tokens=True) for text in texts]


def shows_image(messages: list[dict[str, Any]]) -> bool:
    """Whether a conversation is an image.  Raises RequestError for one of several, or with a text beside."""
    kinds = [part["type"] for part in _parts(messages) if part["type"] == "image" or part["text"].strip()]
    if "image" in kinds and len(kinds) > 1:
        raise RequestError(
            "this model has a vector for a text or for an image, not for several together: send each as an "
            "input of its own",
            "messages",
        )
    return "image" in kinds


def _text(messages: list[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in _parts(messages))


def _parts(messages: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    for message in messages:
        content = message["content"]
        yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_template(request: PoolingInput) -> None:
    for name, field in OF_TEMPLATES.items():
        if getattr(request, name):
            raise RequestError(f"`{field}`: this model has no chat template", field)
