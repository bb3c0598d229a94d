"""Prepares a checked request for the model: loads earlier responses and translates the request to chat.

Does not depend on HTTP or on how the response is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from pipelines.base.errors import ContextTooLong, RequestError
from pipelines.requests.generation.chat import ChatRequest
from pipelines.values.tasks import GenerationInput
from pipelines.worker.call import Call
from pipelines.worker.encoding import chat_ids
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.pipeline import Pipeline
from server.apis.generation.fitting import fitted_chat
from server.apis.generation.request_images import fetch_images, size_of, with_files
from server.apis.generation.requests.work_bytes import work_bytes
from server.apis.responses.compaction import without_compacted
from server.apis.responses.database import ResponseDatabase
from server.apis.responses.input_items import read_items, references
from server.apis.responses.reply_models import RUNNING
from server.apis.responses.request import ResponseRequest
from server.apis.responses.sqlite_tables import StoredResponse
from server.apis.responses.store import ResponseStore
from server.apis.responses.translate import ChatTranslation
from server.http.exchange import Exchange
from server.services.services import Services

MAX_REFERENCES = 256
"""Most item references in one input."""


class RecentItems(NamedTuple):
    """The items of a response that may be continued without being stored, and their size in bytes."""

    items: list[dict[str, Any]]
    num_bytes: int


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that is ready for a pipeline.  `items` are all input items of the model, as stored.

    `num_bytes` is their size, earlier ones included.
    """

    translation: ChatTranslation
    items: list[dict[str, Any]]
    own_ids: tuple[str, ...]
    num_bytes: int

    async def call(
        self,
        services: Services,
        client: RequestClient,
        pipeline: Pipeline,
        exchange: Exchange,
        make: Callable[[Pipeline, Any], Call],
    ) -> Call:
        """The pipeline's call, made by `make`; off the event loop when it is long.  Raises RequestError."""
        translation, chat, most = self.translation, self.translation.chat, pipeline.max_context
        with translation.renamed_errors():
            files = await fetch_images(services, client, pipeline, exchange, chat, self.num_bytes)

            def made(generation: GenerationInput) -> Call:
                return make(pipeline, with_files(generation, files))

            def shorter(request: ChatRequest, places: list[int]) -> GenerationInput:
                generation = translation.generation(most, request, places)
                if pipeline.is_composed and not (generation.images or generation.sounds):
                    return replace(generation, truncate_prompt_tokens=-1)  # its lines add to the prompt
                return generation

            def make_call() -> Call:
                if not translation.truncates:
                    return made(translation.generation(most))
                try:
                    return fitted_chat(chat, pipeline, shorter, made)
                except ContextTooLong:
                    generation = translation.generation(most)
                    if generation.images or generation.sounds:
                        raise
                    return made(replace(generation, truncate_prompt_tokens=-1))

            return await exchange.off_loop(make_call, work_bytes(chat, self.num_bytes) + size_of(files))

    async def count(self, services: Services, pipeline: Pipeline, exchange: Exchange) -> int:
        """The tokens of the prompt, which may be more than the model takes.  Raises RequestError."""
        translation, client = self.translation, services.route(exchange)
        with translation.renamed_errors():
            files = await fetch_images(services, client, pipeline, exchange, translation.chat, self.num_bytes)

            def counted() -> int:
                generation = translation.generation(pipeline.max_context)
                return len(chat_ids(pipeline, with_files(generation, files)))

            num_bytes = work_bytes(translation.chat, self.num_bytes) + size_of(files)
            return await exchange.off_loop(counted, num_bytes)

    def encoded_items(self) -> bytes:
        return msgspec.json.encode(self.items)


async def prepare_request(
    store: ResponseStore,
    exchange: Exchange,
    request: ResponseRequest,
    num_bytes: int,
    takes_images: bool,
    recent: Mapping[str, RecentItems],
) -> PreparedRequest:
    """Check the request, load what it continues or refers to, and translate it to a chat request.

    `num_bytes` is the length of the body, `takes_images` whether the model does, `recent` the items of
    responses by id that are not stored.  Raises RequestError, and NoResponse when the previous response is
    not stored for this account.
    """
    request.check()
    previous = request.previous_response_id
    if previous is not None and previous in recent:
        context, num_context_bytes = recent[previous]
    else:
        context, num_context_bytes = await _context(store, exchange.account, previous)
    referenced = await _referenced(store, exchange.account, references(request.input))

    def find(item_id: str, where: str) -> dict[str, Any]:
        if item_id not in referenced:
            raise RequestError(f"Item with id '{item_id}' not found.", field=f"{where}.id")
        return referenced[item_id]

    def translate() -> PreparedRequest:
        items = read_items(request.input, find)
        earlier = without_compacted(context, items)
        own_ids = tuple(item["id"] for item in items)
        translation = ChatTranslation(request, earlier, items, takes_images)
        return PreparedRequest(translation, [*earlier, *items], own_ids, num_bytes)

    num_bytes += num_context_bytes
    return await exchange.off_loop(translate, num_bytes)


async def _context(
    store: ResponseStore, account: str, previous_id: str | None
) -> tuple[list[dict[str, Any]], int]:
    """Input and output items of the previous responses, and their size in bytes."""
    if previous_id is None:
        return [], 0
    stored = await store.get(previous_id, account, "previous_response_id")
    if stored.status in RUNNING:
        raise RequestError(
            f"Response '{previous_id}' is still {stored.status}; it can be continued after it has ended",
            field="previous_response_id",
        )
    return all_items(stored), len(stored.items) + len(stored.body)


async def _referenced(store: ResponseStore, account: str, item_ids: list[str]) -> dict[str, dict[str, Any]]:
    """The stored ones among the referenced items, by id."""
    if len(item_ids) > MAX_REFERENCES:
        raise RequestError(f"`input` may refer to {MAX_REFERENCES} items at most", field="input")
    if not item_ids or not store.enabled:
        return {}
    referenced: dict[str, dict[str, Any]] = {}
    for item_id in item_ids:
        stored = await store.run(ResponseDatabase.find_by_item, item_id, account)
        items = all_items(stored) if stored else []
        referenced |= {item["id"]: item for item in items if item["id"] == item_id}
    return referenced


def all_items(stored: StoredResponse) -> list[dict[str, Any]]:
    """The input items of a response, followed by its output items."""
    output = msgspec.json.decode(stored.body)["output"]
    return [*msgspec.json.decode(stored.items), *output]
