"""OpenAI's events of conversations: items that grow by what is said, and responses in text and sound."""

from __future__ import annotations

import asyncio
from typing import Any

from pipelines.base.errors import BraidError, EngineError, RequestError
from pipelines.nodes.composing.transcribe import Transcribe
from pipelines.requests.generation.chat import ChatRequest
from pipelines.worker.model_choice import SPEECH, able_names
from pipelines.worker.pipeline import Pipeline
from server.apis.realtime.client_events import INVALID_EVENT, ClientEvent, checked
from server.apis.realtime.client_items import ClientItems
from server.apis.realtime.conversation_call import chat_body, find_talker, speaker, spoken_form
from server.apis.realtime.conversation_fields import (
    ConversationState,
    ConversationUpdate,
    ReplySettings,
    ResponseCreateEvent,
    ResponseFields,
)
from server.apis.realtime.conversation_items import (
    Item,
    ItemCreateEvent,
    ItemList,
    ItemNamedEvent,
    ItemPart,
    TruncateEvent,
)
from server.apis.realtime.openai_events import CommittedEvent, OpenAIEvent, SessionEvent
from server.apis.realtime.openai_realtime import Handler, OpenAIRealtime
from server.apis.realtime.response_events import ConversationItemEvent, OneItemEvent, in_older_words
from server.apis.realtime.response_run import CANCELLED, INTERRUPTED, ResponseRun
from server.apis.realtime.utterance import Utterance
from server.apis.realtime.window_reader import ReadingCost, SpeechChoice

HEARS_S = 60.0
"""How long a response waits for the text of what was said."""
OPENAI_READERS = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-realtime-whisper")
"""OpenAI's models that transcribe: in a conversation they mean the one that the graph names."""


class ConversationRealtime(OpenAIRealtime):
    """One socket that talks with a chat model.

    `_unread` are the parts of which the text is still being read, by the id of their utterance.  At most one
    response runs at a time.
    """

    talks = True
    hint = ""
    _state: ConversationState

    def __init__(self, session: Any, is_older: bool) -> None:
        super().__init__(session, is_older)
        self.model: str | None = session.asked_model
        self._items = ItemList()
        self._client_items = ClientItems(session, self._items)
        self._unread: dict[str, ItemPart] = {}
        self._read = asyncio.Event()
        self._run: ResponseRun | None = None
        self._speaks = False
        self._is_read = False  # whether the open utterance becomes text while it lasts
        self._reader: str | None = None  # the model that the graph transcribes with

    def new_state(self) -> ConversationState:
        return ConversationState()

    def handlers(self) -> dict[str, Handler]:
        known = super().handlers()
        del known["transcription_session.update"]
        return known | {
            "conversation.item.create": self._create_item,
            "conversation.item.delete": self._delete_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
        }

    async def open(self) -> None:
        """Find the model, and what it can do.  Raises BraidError."""
        await self._check(self._state.reply)

    async def _check(self, settings: ReplySettings) -> None:
        """Raises BraidError for settings that the model cannot follow."""
        checked(ChatRequest, chat_body([{"role": "user", "content": ""}], settings))
        part = self._session.socket.part()
        try:
            pipeline = await find_talker(self._session.services, part, self.model)
            self._learn(pipeline)
            spoken_form(pipeline, settings)
        finally:
            part.close()

    def _learn(self, pipeline: Pipeline) -> None:
        self.model = pipeline.name
        self._speaks = speaker(pipeline) is not None
        readers = [line.node.config.graph for line in pipeline.lines if isinstance(line.node, Transcribe)]
        self._reader = next(iter(readers), None)

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def truncates(self) -> bool:
        return self._state.truncates

    @property
    def is_busy(self) -> bool:
        return self._run is not None and self._run.is_running

    def close(self) -> None:
        if self._run is not None:
            self._run.close()

    async def send(self, event: OpenAIEvent) -> None:
        await self._session.send(in_older_words(event) if self.is_older else event)

    # --- the session

    def shown(self) -> dict[str, Any]:
        shown = self._state.shown_older_with if self.is_older else self._state.shown_with
        return {"id": self.id, **shown(self.model, self._speaks)}

    async def _update(self, event: dict[str, Any]) -> None:
        fields = checked(ConversationUpdate, event).session
        if fields.model is not None and fields.model != self.model:
            if self._items.items:
                raise RequestError("The model of a conversation cannot change", "session.model")
            self.model = fields.model
        state = self._state.changed(fields)
        await self._check(state.reply)
        await self._set(state)
        await self.send(SessionEvent(type="session.updated", session=self.shown()))

    async def _set(self, state: Any) -> None:
        """Raises NotFound for a model that does not read speech, and RequestError."""
        name = state.transcription.model
        if name in OPENAI_READERS and name not in self._names:
            state.transcription = state.transcription.model_copy(update={"model": self._reader})
        await super()._set(state)

    @property
    def _names(self) -> list[str]:
        cards = self._session.services.of(self._session.socket).catalogue.cards()
        return able_names(cards, SPEECH)

    # --- what is said

    async def _begin(self) -> Utterance:
        """Without a wish for its text, what is said is held for the graph to read."""
        self._is_read = self._state.transcribes
        if self._is_read:
            return await super()._begin()
        self._open = self._session.new_utterance()
        return self._open

    async def _choice(self) -> SpeechChoice:
        model = self._state.transcription.model or self._reader or self._session.default_reader
        return self._state.choice(await self._session.check_model(model))

    async def _on_start(self, at: int) -> None:
        await super()._on_start(at)
        if self._state.interrupts:
            await self._stop(INTERRUPTED)

    async def _on_stop(self, at: int) -> None:
        was_open = self._open is not None
        await super()._on_stop(at)
        if was_open and self._state.responds:
            await self._respond(ResponseFields())

    async def _announce(self, utterance: Utterance, previous: str | None) -> None:
        is_read = self._is_read
        part = ItemPart("input_audio", sound=None if is_read else utterance)
        item = Item(parts=[part], id=utterance.id)
        before = self._items.grow(item)
        if is_read and not utterance.is_cleared:
            self._unread[utterance.id] = part
        await self.send(CommittedEvent(previous_item_id=before, item_id=item.id))
        await self._send_item(item, before)

    async def on_done(self, utterance: Utterance, text: str, cost: ReadingCost) -> None:
        self._heard(utterance, text)
        await super().on_done(utterance, text, cost)

    async def on_failed(self, utterance: Utterance, error: BraidError) -> None:
        self._heard(utterance, "")
        await super().on_failed(utterance, error)

    def _heard(self, utterance: Utterance, text: str) -> None:
        part = self._unread.pop(utterance.id, None)
        if part is not None:
            part.heard(text)
        self._read.set()

    async def all_heard(self) -> None:
        """Returns once the text of all that was said is there."""
        try:
            async with asyncio.timeout(HEARS_S):
                while self._unread:
                    self._read.clear()
                    await self._read.wait()
        except TimeoutError:
            raise EngineError(f"what was said did not become text within {HEARS_S:g} seconds") from None

    # --- items

    async def _create_item(self, event: dict[str, Any]) -> None:
        asked = checked(ItemCreateEvent, event)
        item = await self._client_items.written(asked.item, self._state.form)
        try:
            before = self._items.add(item, asked.previous_item_id)
        except BraidError:
            item.release()
            raise
        await self._send_item(item, before)

    async def _send_item(self, item: Item, before: str | None) -> None:
        shown = item.shown(self.is_older)
        kinds = ["conversation.item.created"]
        if not self.is_older:
            kinds = ["conversation.item.added", "conversation.item.done"]
        for kind in kinds:
            await self.send(ConversationItemEvent(type=kind, previous_item_id=before, item=shown))

    async def begin_item(self, item: Item) -> None:
        before = self._items.grow(item)
        kind = "conversation.item.created" if self.is_older else "conversation.item.added"
        await self.send(
            ConversationItemEvent(type=kind, previous_item_id=before, item=item.shown(self.is_older))
        )

    async def end_item(self, item: Item) -> None:
        if not self.is_older and item in self._items.items:
            before = self._items.before(item)
            shown = item.shown(is_older=False)
            await self.send(
                ConversationItemEvent(type="conversation.item.done", previous_item_id=before, item=shown)
            )

    async def _delete_item(self, event: dict[str, Any]) -> None:
        name = checked(ItemNamedEvent, event).item_id
        self._items.remove(name)
        self._unread.pop(name, None)
        self._read.set()
        await self.send(OneItemEvent(type="conversation.item.deleted", item_id=name))

    async def _retrieve_item(self, event: dict[str, Any]) -> None:
        item = self._items.find(checked(ItemNamedEvent, event).item_id)
        await self.send(OneItemEvent(type="conversation.item.retrieved", item=item.shown(self.is_older)))

    async def _truncate_item(self, event: dict[str, Any]) -> None:
        asked = checked(TruncateEvent, event)
        item = self._items.find(asked.item_id)
        if item.role != "assistant" or not item.parts or item.parts[0].type != "output_audio":
            raise RequestError("Only the sound of a reply can be cut", "item_id", word=INVALID_EVENT)
        if asked.content_index:
            raise RequestError("A reply has one part: its index is 0", "content_index", word=INVALID_EVENT)
        item.parts[0].cut(asked.audio_end_ms)
        await self.send(
            OneItemEvent(
                type="conversation.item.truncated",
                item_id=item.id,
                content_index=0,
                audio_end_ms=asked.audio_end_ms,
            )
        )

    # --- responses

    async def _create_response(self, event: dict[str, Any]) -> None:
        await self._respond(checked(ResponseCreateEvent, event).response or ResponseFields())

    async def _respond(self, fields: ResponseFields) -> None:
        if self.is_busy:
            raise RequestError(
                "Conversation already has an active response: wait for `response.done`, or send "
                "`response.cancel`",
                word="conversation_already_has_active_response",
            )
        session, settings = self._session, self._state.reply.changed(fields)
        await self._check(settings)
        items = list(self._items.items)
        if fields.input is not None:
            items = await self._client_items.given(fields.input, self._state.form)
        self._run = ResponseRun(
            session.services,
            session.socket,
            self,
            items,
            settings,
            fields.metadata,
            is_beside=fields.conversation == "none",
        )
        self._run.at_end(lambda: self._client_items.release(items))

    async def _cancel_response(self, event: dict[str, Any]) -> None:
        checked(ClientEvent, event)
        if not self.is_busy:
            raise RequestError(
                "Cancellation failed: no active response found", word="response_cancel_not_active"
            )
        await self._stop(CANCELLED)

    async def _stop(self, reason: str) -> None:
        if self._run is not None and self.is_busy:
            await self._run.stop(reason)
