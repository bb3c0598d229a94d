"""Items that a client writes, with the sounds of their parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines.base.errors import BraidError
from server.apis.realtime.client_events import checked
from server.apis.realtime.conversation_items import Item, ItemFields, ItemList, item_of
from server.apis.realtime.pcm import PcmReader, SoundForm
from server.apis.realtime.realtime_session import RealtimeSession
from server.apis.realtime.utterance import Utterance


class ClientItems:
    """Reads items; where one is refused, no sound of it is held."""

    def __init__(self, session: RealtimeSession, known: ItemList) -> None:
        """`known` are the items of the conversation."""
        self._session = session
        self._known = known

    async def written(self, fields: ItemFields, form: SoundForm) -> Item:
        """An item, whose sounds have this form.  Raises RequestError."""
        sounds: list[Utterance] = []
        try:
            for content in fields.content or []:
                if content.type == "input_audio" and content.audio is not None:
                    sounds.append(self._session.new_utterance())
                    sounds[-1].append(await self._session.samples(PcmReader(form), content.audio))
                    sounds[-1].end()
            return item_of(fields, sounds)
        except BraidError:
            for utterance in sounds:
                utterance.drop(utterance.num_samples)
            raise

    async def given(self, fields: list[dict[str, Any]], form: SoundForm) -> list[Item]:
        """The items that a response shall answer in place of the conversation's.  Raises RequestError."""
        items: list[Item] = []
        try:
            for item in fields:
                if item.get("type") == "item_reference":
                    items.append(self._known.find(str(item.get("id"))))
                else:
                    items.append(await self.written(checked(ItemFields, item), form))
        except BraidError:
            self.release(items)
            raise
        return items

    def release(self, items: Iterable[Item]) -> None:
        """Release the sounds of items that were there for one response alone."""
        for item in items:
            if item not in self._known.items:
                item.release()
