"""What both APIs of decisions ask: one input, and questions about it, each with its options."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.requests.generation.chat import ChatRequest

Kind = Literal["predicate", "choice", "score"]
Value = str | bool


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """One of the answers: `value` is what the reply has, `description` what it means."""

    value: Value
    description: str | None = None

    @property
    def text(self) -> str:
        """The option for a model to read; a text as JSON, so that "true" is not true."""
        shown = json.dumps(self.value, ensure_ascii=False)
        return f"{shown} - {self.description}" if self.description else shown

    @property
    def meaning(self) -> str:
        """The option in plain words."""
        return self.description or str(self.value)


@dataclass(frozen=True, slots=True)
class Question:
    """One question; of a predicate the options are false and true, of a score the levels from low to high.

    `name` is the client's, `where` its place in the request.  `images` are content parts of its instructions.
    """

    kind: Kind
    name: str | None
    where: str
    instructions: str
    options: tuple[AnswerOption, ...]
    images: tuple[dict[str, Any], ...] = ()

    @property
    def claims(self) -> list[str]:
        """A statement for each option that can be true: one of a predicate, as many as options of others."""
        if self.kind == "predicate":
            return [self.instructions]
        return [f"{self.instructions} {option.meaning}".strip() for option in self.options]


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
