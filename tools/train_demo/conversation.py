"""The data types of generators: turns, conversations, and expectations of a right answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Message = dict[str, Any]
Tool = dict[str, Any]


@dataclass(frozen=True)
class Expectation:
    """What a reply must be: `contains` all of the given words, the same `json` value, the given
    tool `calls`, a last `number`, the `exact` text, or `one_of` several texts."""

    kind: Literal["contains", "json", "calls", "number", "exact", "one_of"]
    value: Any


@dataclass(frozen=True)
class Turn:
    """A question, its answer, the reasoning for it, and the answer in one word."""

    question: str
    answer: str
    reasoning: str
    expect: Expectation
    short: str | None = None


@dataclass
class Conversation:
    """Messages that end with the assistant's reply; `messages[-1]` is the expected output."""

    skill: str
    messages: list[Message]
    expect: Expectation
    tools: list[Tool] = field(default_factory=list)
    thinking: bool = False
    schema: dict[str, Any] | None = None  # of the reply, which the request's `response_format` gives

    @property
    def prompt_messages(self) -> list[Message]:
        return self.messages[:-1]


def contains(*words: str) -> Expectation:
    return Expectation("contains", list(words))
