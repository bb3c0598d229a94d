"""From a checked request to a call: what earlier responses hold, what is said now, and the model asked.

Knows nothing of HTTP or of how a reply is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from pipelines.errors import RequestError
from pipelines.worker.call import Call
from pipelines.worker.pipeline import Pipeline
from server.http.request_body import LONG_BODY_BYTES, off_loop
from server.responses.items import read_items, references
from server.responses.request import ResponseRequest
from server.responses.schema import RUNNING
from server.responses.store import Store
from server.responses.stored import ResponseStorage
from server.responses.tables import Kept
from server.responses.translate import Translated

MAX_REFERENCES = 256
"""Items of an input that are named instead of said."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request comes to.  `items` is all that the model is told, as it is stored."""

    translated: Translated
    items: list[dict[str, Any]]
    own_ids: tuple[str, ...]
    is_long: bool

    async def call(self, pipeline: Pipeline, make: Callable[[Pipeline, Any], Call]) -> Call:
        """`make` walks the pipeline, in a thread when the input is long.  Raises RequestError."""

        def prepare() -> Call:
            return make(pipeline, self.translated.generation(pipeline.max_context))

        with self.translated.named():
            return await off_loop(prepare, self.is_long or self.translated.chat.compiles)

    def packed(self) -> bytes:
        return msgspec.json.encode(self.items)


async def ask(keeper: ResponseStorage, request: ResponseRequest, num_bytes: int) -> Asked:
    """Raises RequestError, and NoResponse when the previous response is not there."""
    request.check()
    context, num_before = await _context(keeper, request.previous_response_id)
    named = await _named(keeper, references(request.input))

    def find(item_id: str, where: str) -> dict[str, Any]:
        if item_id not in named:
            raise RequestError(f"Item with id '{item_id}' not found.", field=f"{where}.id")
        return named[item_id]

    def make() -> Asked:
        items = read_items(request.input, find)
        own_ids = tuple(item["id"] for item in items)
        return Asked(Translated(request, context, items), [*context, *items], own_ids, is_long)

    is_long = num_bytes + num_before > LONG_BODY_BYTES
    return await off_loop(make, is_long)


async def _context(keeper: ResponseStorage, previous_id: str | None) -> tuple[list[dict[str, Any]], int]:
    """What the model was told before and what it said, and how many bytes that is."""
    if previous_id is None:
        return [], 0
    kept = await keeper.get(previous_id, "previous_response_id")
    if kept.status in RUNNING:
        raise RequestError(
            f"Response '{previous_id}' is still {kept.status}; it can be continued once it ended",
            field="previous_response_id",
        )
    return all_items(kept), len(kept.items) + len(kept.body)


async def _named(keeper: ResponseStorage, item_ids: list[str]) -> dict[str, dict[str, Any]]:
    """The items that an input refers to, as far as they are kept."""
    if len(item_ids) > MAX_REFERENCES:
        raise RequestError(f"`input` may refer to {MAX_REFERENCES} items at most", field="input")
    if not item_ids or not keeper.keeps:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for item_id in item_ids:
        kept = await keeper(Store.holder, item_id)
        found |= {item["id"]: item for item in (all_items(kept) if kept else []) if item["id"] == item_id}
    return found


def all_items(kept: Kept) -> list[dict[str, Any]]:
    """What the model was told, and what it said."""
    output = msgspec.json.decode(kept.body)["output"]
    return [*msgspec.json.decode(kept.items), *output]
