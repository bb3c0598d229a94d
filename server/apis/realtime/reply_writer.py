"""Turns the updates of a reply into the events of a response, and keeps its items."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import numpy as np

from pipelines.values.reply_values import ReplyUpdate, SpokenPart, ToolCallPiece
from server.apis.realtime.conversation_items import Item, ItemPart
from server.apis.realtime.openai_events import OpenAIEvent
from server.apis.realtime.pcm import SoundForm
from server.apis.realtime.response_events import CallEvent, OutputItemEvent, PartEvent
from server.apis.voice.encoders import Samples, resampled

SAMPLES_PER_EVENT = 9_600
"""Samples of one event of sound: 0.4 seconds at 24 kHz."""


class ItemHome(Protocol):
    """The place where the items of a reply belong, as a conversation."""

    is_older: bool

    async def begin_item(self, item: Item) -> None:
        """A reply has a new item."""

    async def end_item(self, item: Item) -> None:
        """The item is whole."""

    async def send(self, event: OpenAIEvent) -> None: ...


Resample = Callable[[Callable[[], Samples], int], Awaitable[Samples]]
"""Does work off the event loop; the number is the bytes that it reads."""


class ReplyWriter:
    """Writes one response: an item for its text and sound, and one for each call of a function."""

    def __init__(
        self, home: ItemHome, response_id: str, speaks: bool, form: SoundForm, long_work: Resample
    ) -> None:
        self.items: list[Item] = []
        self._home = home
        self._response_id = response_id
        self._kind = "output_audio" if speaks else "output_text"
        self._form = form
        self._long_work = long_work
        self._message: tuple[int, Item] | None = None
        self._calls: dict[int, tuple[int, Item]] = {}

    async def add(self, update: ReplyUpdate) -> None:
        """Send what an update says."""
        if update.content:
            await self._text(update.content)
        for spoken in update.spoken:
            await self._sound(spoken)
        for piece in update.tool_calls:
            await self._call(piece)

    async def end(self, is_whole: bool) -> None:
        """Close what is open; a reply that is not whole holds the text that was spoken."""
        if self._message is not None:
            await self._end_message(*self._message, is_whole)
        for at, item in self._calls.values():
            await self._end_call(at, item, is_whole)

    # --- text and its sound

    async def _text(self, text: str) -> None:
        at, item = self._message or await self._begin_message()
        part = item.parts[0]
        part.text = (part.text or "") + text
        name = "output_audio_transcript" if self._kind == "output_audio" else "output_text"
        await self._send_part(f"response.{name}.delta", at, item, delta=text)

    async def _sound(self, spoken: SpokenPart) -> None:
        at, item = self._message or await self._begin_message()
        sound, rate = spoken.sound, self._form.rate
        samples = await self._long_work(
            lambda: resampled(sound.samples, sound.rate, rate), sound.samples.nbytes
        )
        item.parts[0].spoken.append((spoken.text, 1000 * len(samples) / rate))
        for piece in _pieces(samples, self._form):
            await self._send_part("response.output_audio.delta", at, item, delta=piece)

    async def _begin_message(self) -> tuple[int, Item]:
        item = Item(role="assistant", status="in_progress")
        at = await self._begin(item)
        item.parts = [ItemPart(self._kind, "")]
        self._message = at, item
        await self._send_part("response.content_part.added", at, item, part=self._part_shown(""))
        return at, item

    async def _end_message(self, at: int, item: Item, is_whole: bool) -> None:
        part = item.parts[0]
        text = part.text or ""
        if self._kind == "output_audio":
            await self._send_part("response.output_audio.done", at, item)
            await self._send_part("response.output_audio_transcript.done", at, item, transcript=text)
            if not is_whole:
                part.text = "".join(said for said, _ in part.spoken)
        else:
            await self._send_part("response.output_text.done", at, item, text=text)
        await self._send_part("response.content_part.done", at, item, part=self._part_shown(text))
        await self._end(at, item, is_whole)

    def _part_shown(self, text: str) -> dict[str, str]:
        is_sound = self._kind == "output_audio"
        return {"type": "audio", "transcript": text} if is_sound else {"type": "text", "text": text}

    async def _send_part(self, kind: str, at: int, item: Item, **fields: object) -> None:
        await self._home.send(PartEvent.model_validate(self._placed(kind, at, item) | fields))

    # --- calls of functions

    async def _call(self, piece: ToolCallPiece) -> None:
        if piece.index not in self._calls:
            item = Item("function_call", status="in_progress", call_id=piece.id or "", name=piece.name or "")
            self._calls[piece.index] = await self._begin(item), item
        at, item = self._calls[piece.index]
        item.content += piece.arguments
        if piece.arguments:
            await self._send_call("delta", at, item, delta=piece.arguments)

    async def _end_call(self, at: int, item: Item, is_whole: bool) -> None:
        await self._send_call("done", at, item, name=item.name, arguments=item.content)
        await self._end(at, item, is_whole)

    async def _send_call(self, what: str, at: int, item: Item, **fields: object) -> None:
        placed = self._placed(f"response.function_call_arguments.{what}", at, item)
        await self._home.send(CallEvent.model_validate(placed | {"call_id": item.call_id} | fields))

    # --- items

    def _placed(self, kind: str, at: int, item: Item) -> dict[str, object]:
        """The fields of an event inside an item."""
        return {"type": kind, "response_id": self._response_id, "item_id": item.id, "output_index": at}

    async def _begin(self, item: Item) -> int:
        at = len(self.items)
        self.items.append(item)
        await self._send_item("response.output_item.added", at, item)
        await self._home.begin_item(item)
        return at

    async def _end(self, at: int, item: Item, is_whole: bool) -> None:
        item.status = "completed" if is_whole else "incomplete"
        await self._send_item("response.output_item.done", at, item)
        await self._home.end_item(item)

    async def _send_item(self, kind: str, at: int, item: Item) -> None:
        await self._home.send(
            OutputItemEvent(
                type=kind,
                response_id=self._response_id,
                output_index=at,
                item=item.shown(self._home.is_older),
            )
        )


def _pieces(samples: Samples, form: SoundForm) -> Iterator[str]:
    """Samples in the size of events, in base64."""
    for start in range(0, len(samples), SAMPLES_PER_EVENT):
        piece: Samples = np.asarray(samples[start : start + SAMPLES_PER_EVENT])
        yield base64.b64encode(form.write(piece)).decode()
