"""One response of a conversation: from `response.created` to `response.done`, however it ends."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Any, Protocol

import falcon

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import BraidError
from pipelines.values.tasks import SpokenForm
from pipelines.worker.pipeline import Pipeline
from server.apis.realtime.conversation_call import ConversationCall, find_talker, spoken_form
from server.apis.realtime.conversation_fields import ReplySettings
from server.apis.realtime.conversation_items import Item, ItemPart, chat_messages, samples_of
from server.apis.realtime.openai_events import OpenAIEvent
from server.apis.realtime.openai_realtime import fault_of
from server.apis.realtime.reply_writer import ReplyWriter
from server.apis.realtime.response_events import ResponseEvent
from server.http.errors import public_error
from server.http.exchange import Exchange
from server.http.socket_exchange import SocketExchange
from server.schema.reply_models import Usage
from server.services.services import Services

CANCELLED = "client_cancelled"
INTERRUPTED = "turn_detected"
GONE = (falcon.WebSocketDisconnected, ClientGone)
WHOLE = ("stop", "tool_calls")
"""Why a reply ends that is whole; one with calls is for the client to go on with."""
LENGTHS = ("length", "repetition")
"""Why a reply ends that might go on."""


class Talk(Protocol):
    """The conversation that a response belongs to."""

    is_older: bool

    @property
    def id(self) -> str: ...

    @property
    def model(self) -> str | None: ...

    @property
    def truncates(self) -> bool: ...

    async def begin_item(self, item: Item) -> None: ...

    async def end_item(self, item: Item) -> None: ...

    async def all_heard(self) -> None:
        """Returns once the text of what was said is there."""

    async def send(self, event: OpenAIEvent) -> None: ...


class Beside:
    """The place of the items of a response that is no part of the conversation."""

    def __init__(self, talk: Talk) -> None:
        self.is_older = talk.is_older
        self.send = talk.send

    async def begin_item(self, item: Item) -> None:
        """No conversation has it."""

    async def end_item(self, item: Item) -> None:
        """No conversation has it."""


class ResponseRun:
    """`items` are what it answers; `fields` of the event are those that its clients gave it."""

    def __init__(
        self,
        services: Services,
        socket: SocketExchange,
        talk: Talk,
        items: list[Item],
        settings: ReplySettings,
        metadata: dict[str, str] | None = None,
        is_beside: bool = False,
    ) -> None:
        self.id = f"resp_{secrets.token_hex(12)}"
        self._services = services
        self._socket = socket
        self._talk = talk
        self._items = items
        self._settings = settings
        self._metadata = metadata
        self._is_beside = is_beside
        self._reason = CANCELLED
        self._writer: ReplyWriter | None = None
        self._call: ConversationCall | None = None
        self._speaks = settings.modality != "text"
        self._was_created = False
        self._work = asyncio.create_task(self._answer(), name=f"answer-{self.id}")
        self._task = asyncio.create_task(self._run(), name=f"response-{self.id}")

    @property
    def is_running(self) -> bool:
        return not self._task.done()

    async def stop(self, reason: str) -> None:
        """End the response; returns when its last event was sent."""
        self._reason = reason
        self._work.cancel()
        await asyncio.wait([self._task])

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the response has ended, however it does."""
        self._task.add_done_callback(lambda _: callback())

    def close(self) -> None:
        """The client has left."""
        self._task.cancel()

    # --- from its first event to its last

    async def _run(self) -> None:
        with suppress(*GONE):
            try:
                await asyncio.wait([self._work])
            finally:
                self._work.cancel()
            is_stopped = self._work.cancelled()
            error = None if is_stopped else self._work.exception()
            if not isinstance(error, GONE):
                await self._end(is_stopped, error)

    async def _answer(self) -> None:
        part = self._socket.part()
        part.affinity = self._talk.id
        try:
            self._services.enter(part)
            pipeline = await find_talker(self._services, part, self._talk.model)
            spoken = spoken_form(pipeline, self._settings)
            self._speaks = spoken is not None
            await self._begin()
            await self._talk.all_heard()
            await self._reply(part, pipeline, spoken)
        except GONE:
            raise
        except Exception as error:
            raise public_error(error, part.trace) from None
        finally:
            part.close()
            self._services.requests.ended(part.trace)

    async def _begin(self) -> None:
        """Send the response's first event, once."""
        if not self._was_created:
            self._was_created = True
            await self._talk.send(self._state("response.created", "in_progress"))

    async def _reply(self, part: Exchange, pipeline: Pipeline, spoken: SpokenForm | None) -> None:
        items, instructions = self._items, self._settings.instructions
        num_bytes = sum(item.num_bytes for item in items)
        messages, sounds = chat_messages(items, instructions)
        samples = await part.off_loop(lambda: samples_of(sounds), num_bytes)
        self._call = call = ConversationCall(self._services, part, pipeline, num_bytes, samples)
        home = Beside(self._talk) if self._is_beside else self._talk
        self._writer = writer = ReplyWriter(
            home, self.id, spoken is not None, self._settings.form, part.long_work
        )
        try:
            updates = call.updates(messages, self._settings, spoken, self._talk.truncates)
            async with aclosing(updates):
                async for update in updates:
                    self._hear(sounds)
                    await writer.add(update)
        finally:
            self._hear(sounds)

    def _hear(self, sounds: list[ItemPart]) -> None:
        """Keep the texts of sounds in place of them."""
        if sounds and self._call is not None:
            for part, text in zip(sounds, self._call.heard, strict=False):
                part.heard(text)
            del sounds[: len(self._call.heard)]

    async def _end(self, is_stopped: bool, error: BaseException | None) -> None:
        """Send what ends the response."""
        await self._begin()
        finish = self._call.finish if self._call is not None else None
        is_whole = not is_stopped and error is None and finish in WHOLE
        if self._writer is not None:
            await self._writer.end(is_whole)
        status, details = self._status(is_stopped, error, finish)
        event = self._state("response.done", status, details)
        await self._talk.send(event)

    def _status(
        self, is_stopped: bool, error: BaseException | None, finish: str | None
    ) -> tuple[str, dict[str, Any] | None]:
        """How the response ended, and why."""
        if is_stopped:
            return "cancelled", {"type": "cancelled", "reason": self._reason}
        if isinstance(error, BraidError):
            fault = fault_of(error)
            shown = {"type": fault.type, "code": fault.code, "message": fault.message}
            return "failed", {"type": "failed", "error": shown}
        if finish in LENGTHS:
            return "incomplete", {"type": "incomplete", "reason": "max_output_tokens"}
        if finish == "content_filter":
            return "incomplete", {"type": "incomplete", "reason": "content_filter"}
        if finish in WHOLE:
            return "completed", None
        return "cancelled", {"type": "cancelled", "reason": CANCELLED}

    def _state(self, kind: str, status: str, details: dict[str, Any] | None = None) -> ResponseEvent:
        settings, is_older = self._settings, self._talk.is_older
        shown: dict[str, Any] = {
            "id": self.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": [item.shown(is_older) for item in (self._writer.items if self._writer else ())],
            "conversation_id": None if self._is_beside else f"conv_{self._talk.id[5:]}",
            "metadata": self._metadata,
            "max_output_tokens": settings.shown_max_tokens,
            "usage": None if kind == "response.created" else self._usage(),
        }
        if is_older:
            shown["modalities"] = ["text", "audio"] if self._speaks else ["text"]
        else:
            shown["output_modalities"] = ["audio" if self._speaks else "text"]
            shown["audio"] = {"output": settings.shown_sound}
        return ResponseEvent(type=kind, response=shown)

    def _usage(self) -> dict[str, Any]:
        used = (self._call.usage() if self._call is not None else None) or NO_USAGE
        cached = used.prompt_tokens_details.cached_tokens if used.prompt_tokens_details else 0
        counts = {"text_tokens": used.prompt_tokens, "audio_tokens": 0, "image_tokens": 0}
        return {
            "total_tokens": used.total_tokens,
            "input_tokens": used.prompt_tokens,
            "output_tokens": used.completion_tokens,
            "input_token_details": counts
            | {
                "cached_tokens": cached,
                "cached_tokens_details": {"text_tokens": cached, "audio_tokens": 0, "image_tokens": 0},
            },
            "output_token_details": {"text_tokens": used.completion_tokens, "audio_tokens": 0},
        }


NO_USAGE = Usage(prompt_tokens=0, total_tokens=0, completion_tokens=0)
