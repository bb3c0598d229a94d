"""A conversation with one model: the messages so far, and what is sent for the next reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    """One reply, put together from its pieces.  `usage` is empty where the server does not count tokens."""

    content: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    def message(self) -> dict[str, Any]:
        """The reply as a message of the next request; reasoning is not sent back."""
        calls = {"tool_calls": self.calls} if self.calls else {}
        return {"role": "assistant", "content": self.content or ("" if not self.calls else None), **calls}


@dataclass
class Conversation:
    """`fields` go into every request: sampling parameters and whatever else was given."""

    model: str
    system: str | None = None
    tools: Sequence[Any] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def body(self) -> dict[str, Any]:
        """The request for the next reply, as a stream."""
        first = [{"role": "system", "content": self.system}] if self.system else []
        return {
            "model": self.model,
            "messages": [*first, *self.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"tools": list(self.tools)} if self.tools else {}),
            **self.fields,
        }

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def add(self, reply: Reply) -> None:
        self.messages.append(reply.message())

    def answer_call(self, call: Mapping[str, Any], result: str) -> None:
        self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    def back_to(self, length: int) -> None:
        """Drop the messages after the first `length`: their reply never came."""
        del self.messages[length:]
