"""The items of a conversation: messages, calls of functions, their outputs; and the chat that they are."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr

from pipelines.base.errors import RequestError
from pipelines.nodes.speech.windows import Sound
from pipelines.requests.fields.field_types import Items
from server.apis.realtime.client_events import INVALID_EVENT, ClientEvent
from server.apis.realtime.openai_session_fields import SessionFields
from server.apis.realtime.utterance import Utterance

MAX_ITEMS = 1000
"""Items of one conversation; more are refused until some are deleted."""
MAX_TEXT_CHARS = 1 << 20
"""Characters of all items of a conversation."""
MAX_PARTS = 64
ROOT = "root"
"""The `previous_item_id` of a first item."""
NEW_TYPES = {"text": "output_text", "audio": "output_audio"}
OLD_TYPES = {new: old for old, new in NEW_TYPES.items()}
"""Type of a part of a reply → its name in the beta."""
PartType = Literal["input_text", "input_audio", "input_image", "output_text", "output_audio", "text", "audio"]
ItemId = Annotated[StrictStr, Field(min_length=1, max_length=64)]


class ContentFields(SessionFields):
    type: PartType
    text: StrictStr | None = None
    audio: StrictStr | None = None
    transcript: StrictStr | None = None
    image_url: StrictStr | None = None


class ItemFields(SessionFields):
    """`item` of `conversation.item.create`."""

    id: ItemId | None = None
    type: Literal["message", "function_call", "function_call_output"]
    role: Literal["system", "user", "assistant"] | None = None
    content: Annotated[Items[ContentFields], Field(max_length=MAX_PARTS)] | None = None
    call_id: StrictStr | None = None
    name: StrictStr | None = None
    arguments: StrictStr | None = None
    output: StrictStr | None = None


class ItemCreateEvent(ClientEvent):
    item: ItemFields
    previous_item_id: StrictStr | None = None


class ItemNamedEvent(ClientEvent):
    """An event about one item: `delete` and `retrieve`."""

    item_id: StrictStr


class TruncateEvent(ItemNamedEvent):
    content_index: int = 0
    audio_end_ms: Annotated[int, Field(ge=0)]


@dataclass(slots=True)
class ItemPart:
    """A part of a message: `text` is its text or what is said in it, None while that is not known.

    `sound` is what a client said, until it is text; `spoken` says of which texts the sound of a reply was
    sent, and how many milliseconds each has.
    """

    type: str
    text: str | None = None
    sound: Utterance | None = None
    image_url: str | None = None
    spoken: list[tuple[str, float]] = field(default_factory=list)

    def shown(self, is_older: bool) -> dict[str, Any]:
        kind = OLD_TYPES.get(self.type, self.type) if is_older else self.type
        if self.type == "input_image":
            return {"type": kind, "image_url": self.image_url}
        return {"type": kind, "transcript" if self.type.endswith("audio") else "text": self.text}

    def heard(self, text: str) -> None:
        """What was said is known; the sound is not needed any more."""
        self.text = text
        self.release()

    def release(self) -> None:
        if self.sound is not None:
            self.sound.drop(self.sound.num_samples)
            self.sound = None

    def cut(self, end_ms: float) -> None:
        """Only the first `end_ms` of its sound were heard: the rest of its text is removed."""
        if not self.spoken:
            return
        heard: list[tuple[str, float]] = []
        for text, ms in self.spoken:
            if ms > end_ms:
                num_words = round(len(text.split()) * end_ms / ms)
                heard.append((" ".join(text.split()[:num_words]), end_ms))
                break
            heard.append((text, ms))
            end_ms -= ms
        self.text, self.spoken = "".join(text for text, _ in heard), heard

    @property
    def plain(self) -> dict[str, Any] | None:
        """The part for a chat; None where it is empty, and while its sound is not text."""
        if self.type == "input_image":
            return {"type": "image_url", "image_url": {"url": self.image_url}}
        if self.sound is not None:
            return {"type": "input_audio", "input_audio": {"data": self.sound.id}}
        return {"type": "text", "text": self.text} if self.text and self.text.strip() else None


@dataclass(slots=True)
class Item:
    """`type` is "message" with a `role` and `parts`, "function_call" or "function_call_output"."""

    type: str = "message"
    role: str = "user"
    parts: list[ItemPart] = field(default_factory=list)
    id: str = field(default_factory=lambda: f"item_{secrets.token_hex(12)}")
    status: str = "completed"
    call_id: str = ""
    name: str = ""
    content: str = ""  # arguments of a call, or what it gave

    @property
    def num_chars(self) -> int:
        own = len(self.content) + len(self.name)
        return own + sum(len(part.text or "") + len(part.image_url or "") for part in self.parts)

    @property
    def num_bytes(self) -> int:
        """About how many bytes a chat has of it."""
        sounds = [part.sound for part in self.parts if part.sound is not None]
        return self.num_chars + sum(2 * sound.num_samples for sound in sounds)

    def shown(self, is_older: bool) -> dict[str, Any]:
        """The item as clients see it."""
        shown: dict[str, Any] = {"id": self.id, "object": "realtime.item", "type": self.type}
        shown["status"] = self.status
        if self.type == "message":
            return shown | {"role": self.role, "content": [part.shown(is_older) for part in self.parts]}
        shown["call_id"] = self.call_id
        if self.type == "function_call":
            return shown | {"name": self.name, "arguments": self.content}
        return shown | {"output": self.content}

    def release(self) -> None:
        for part in self.parts:
            part.release()


class ItemList:
    """The items of a conversation in their order."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    @property
    def last_id(self) -> str | None:
        return self.items[-1].id if self.items else None

    def add(self, item: Item, previous_id: str | None = None) -> str | None:
        """Put an item behind another one, by default the last; the id of that.  Raises RequestError."""
        if any(known.id == item.id for known in self.items):
            raise _invalid(f"There is an item with the id '{item.id}' already", "item.id")
        if self._is_full_for(item):
            raise _invalid(
                f"A conversation has {MAX_ITEMS} items and {MAX_TEXT_CHARS} characters at most: delete some "
                "with `conversation.item.delete`",
                "item",
            )
        at = len(self.items)
        if previous_id is not None:
            at = 0 if previous_id == ROOT else self._place(previous_id, "previous_item_id") + 1
        self.items.insert(at, item)
        return self.items[at - 1].id if at else None

    def grow(self, item: Item) -> str | None:
        """Put what was said at the end; of too many items the oldest leave.  The id of the one before."""
        while self.items and self._is_full_for(item):
            self.items.pop(0).release()
        return self.add(item)

    def before(self, item: Item) -> str | None:
        """The id of the item before one."""
        at = self.items.index(item)
        return self.items[at - 1].id if at else None

    def find(self, item_id: str) -> Item:
        """Raises RequestError."""
        return self.items[self._place(item_id, "item_id")]

    def remove(self, item_id: str) -> None:
        """Raises RequestError."""
        self.items.pop(self._place(item_id, "item_id")).release()

    def _place(self, item_id: str, where: str) -> int:
        for at, item in enumerate(self.items):
            if item.id == item_id:
                return at
        raise _invalid(f"There is no item with the id '{item_id[:64]}'", where)

    def _is_full_for(self, item: Item) -> bool:
        num_chars = sum(known.num_chars for known in self.items)
        return len(self.items) >= MAX_ITEMS or num_chars + item.num_chars > MAX_TEXT_CHARS


def item_of(fields: ItemFields, sounds: list[Utterance]) -> Item:
    """The item that a client writes; `sounds` are those of its `input_audio` parts.  Raises RequestError."""
    item = Item(fields.type)
    if fields.id is not None:
        item.id = fields.id
    if fields.type == "message":
        if fields.role is None or fields.content is None:
            raise _invalid("A message needs `role` and `content`", "item")
        waiting = iter(sounds)
        item.role = fields.role
        item.parts = [_part(part, at, waiting) for at, part in enumerate(fields.content)]
        return item
    if fields.call_id is None:
        raise _invalid(f"An item of the type `{fields.type}` needs `call_id`", "item.call_id")
    if fields.type == "function_call" and not fields.name:
        raise _invalid("A call of a function needs its `name`", "item.name")
    item.call_id, item.name = fields.call_id, fields.name or ""
    item.content = (fields.arguments if fields.type == "function_call" else fields.output) or ""
    return item


def _part(fields: ContentFields, at: int, sounds: Any) -> ItemPart:
    kind, where = NEW_TYPES.get(fields.type, fields.type), f"item.content.{at}"
    if kind == "input_image":
        if fields.image_url is None:
            raise _invalid("An image needs `image_url`", f"{where}.image_url")
        return ItemPart(kind, image_url=fields.image_url)
    if kind == "input_audio":
        return ItemPart(kind, fields.transcript, None if fields.audio is None else next(sounds))
    text = fields.transcript if kind == "output_audio" else fields.text
    if text is None:
        name = "transcript" if kind == "output_audio" else "text"
        raise _invalid(f"A part of the type `{fields.type}` needs `{name}`", f"{where}.{name}")
    return ItemPart(kind, text)


def chat_messages(items: list[Item], instructions: str) -> tuple[list[dict[str, Any]], list[ItemPart]]:
    """The messages of a chat, which name sounds, and the parts that have these, in order."""
    messages: list[dict[str, Any]] = []
    sounds: list[ItemPart] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for item in items:
        if item.type == "function_call":
            function = {"name": item.name, "arguments": item.content}
            call = {"id": item.call_id, "type": "function", "function": function}
            if messages and messages[-1]["role"] == "assistant":
                messages[-1].setdefault("tool_calls", []).append(call)
            else:
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif item.type == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": item.content})
        elif parts := [(part, plain) for part in item.parts if (plain := part.plain) is not None]:
            sounds += [part for part, plain in parts if plain["type"] == "input_audio"]
            messages.append({"role": item.role, "content": _content([plain for _, plain in parts])})
    return messages, sounds


def _content(parts: list[dict[str, Any]]) -> Any:
    """Text where all parts are text."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def samples_of(parts: list[ItemPart]) -> dict[str, Sound]:
    """The sounds of the parts by the names that the messages of a chat have for them."""
    held = [part.sound for part in parts if part.sound is not None]
    return {sound.id: sound.sound(sound.num_dropped, sound.num_samples) for sound in held}


def _invalid(message: str, field: str) -> RequestError:
    return RequestError(message, field, word=INVALID_EVENT)
