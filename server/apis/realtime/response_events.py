"""The events of responses and of a conversation's items, as OpenAI's clients get them."""

from __future__ import annotations

from typing import Any

from server.apis.realtime.openai_events import OpenAIEvent

OLDER = {
    "response.output_text.": "response.text.",
    "response.output_audio.": "response.audio.",
    "response.output_audio_transcript.": "response.audio_transcript.",
}
"""How names of events begin → how they did in the beta."""


class TypedEvent(OpenAIEvent):
    """An event whose type is given; without the fields that are None."""

    type: str

    def to_json(self) -> bytes:
        return self.model_dump_json(exclude_none=True).encode()


class ResponseEvent(OpenAIEvent):
    """`response.created` and `response.done`."""

    type: str
    response: dict[str, Any]


class OutputItemEvent(OpenAIEvent):
    """`response.output_item.added` and `.done`."""

    type: str
    response_id: str
    output_index: int
    item: dict[str, Any]


class ConversationItemEvent(OpenAIEvent):
    """`conversation.item.added` and `.done`; `created` is the older name of `added`."""

    type: str
    previous_item_id: str | None
    item: dict[str, Any]


class OneItemEvent(TypedEvent):
    """`conversation.item.deleted`, `.retrieved` and `.truncated`."""

    item_id: str | None = None
    item: dict[str, Any] | None = None
    content_index: int | None = None
    audio_end_ms: int | None = None


class PartEvent(TypedEvent):
    """A part of a reply begins, grows or ends."""

    response_id: str
    item_id: str
    output_index: int
    content_index: int = 0
    delta: str | None = None
    text: str | None = None
    transcript: str | None = None
    part: dict[str, Any] | None = None


class CallEvent(TypedEvent):
    """A call of a function grows or ends."""

    response_id: str
    item_id: str
    output_index: int
    call_id: str
    name: str | None = None
    delta: str | None = None
    arguments: str | None = None


def in_older_words(event: OpenAIEvent) -> OpenAIEvent:
    """The event under its name of the beta, where it had another."""
    kind = getattr(event, "type", "")
    for newer, older in OLDER.items():
        if kind.startswith(newer):
            return event.model_copy(update={"type": older + kind.removeprefix(newer)})
    return event
