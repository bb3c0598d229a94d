"""What both APIs of decisions ask: one input, and questions about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.nodes.decisions.questions import Question
from pipelines.requests.generation.chat import ChatRequest


@dataclass(frozen=True, slots=True)
class Decision:
    """The questions of one request about the input that `messages` hold, as a chat request has them.

    `places[i]` is the field of the request from which message `i` came.
    """

    model: str | None
    messages: list[dict[str, Any]]
    places: list[str]
    questions: list[Question]
    cache_salt: str | None = None
    priority: int | None = None

    @property
    def text(self) -> str:
        """The input as one text, for models that read no conversation."""
        contents = [message.get("content") or "" for message in self.messages]
        texts = [_text(content) for content in contents]
        return "\n\n".join(text for text in texts if text)

    @property
    def images(self) -> tuple[dict[str, Any], ...]:
        """The parts of all instructions that show images."""
        return tuple(image for question in self.questions for image in question.images)

    def chat(self, text: str, images: tuple[dict[str, Any], ...] = ()) -> ChatRequest:
        """The conversation that ends with the input and a text about it.  Raises ValidationError."""
        *before, last = self.messages
        if last["role"] != "user":
            before, last = self.messages, {"role": "user", "content": ""}
        parts = [*_parts(last["content"]), *images, {"type": "text", "text": text}]
        is_text = all(part["type"] == "text" for part in parts)
        content = "\n\n".join(part["text"] for part in parts) if is_text else parts
        return ChatRequest.model_validate(
            {
                "messages": [*before, {**last, "content": content}],
                "enable_thinking": False,
                "cache_salt": self.cache_salt,
                "priority": self.priority,
            }
        )


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def _text(content: Any) -> str:
    return "\n".join(part["text"] for part in _parts(content) if part["type"] == "text")
