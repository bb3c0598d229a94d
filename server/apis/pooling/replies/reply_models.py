"""Reply models of the pooling endpoints: OpenAI's embeddings, and vLLM's shapes of the other endpoints.

Long replies are encoded from the arrays without these models; a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec

from server.schema.reply_models import Reply, Usage

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """Fields that all replies share; `num_tokens` counts the input tokens, `num_image_tokens` those of images
    among them.
    """

    id: str
    model: str
    created: int
    num_tokens: int
    num_image_tokens: int = 0

    @property
    def usage(self) -> dict[str, Any]:
        """`Usage` with every field, as vLLM sends it."""
        return {
            "prompt_tokens": self.num_tokens,
            "total_tokens": self.num_tokens,
            "completion_tokens": 0,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        }

    def list_reply(self, data: list[Any]) -> dict[str, Any]:
        """The fields of `ListReply` in their order."""
        return {
            "id": self.id,
            "object": "list",
            "created": self.created,
            "model": self.model,
            "data": data,
            "usage": self.usage,
        }


class EncodedReply(NamedTuple):
    """A reply ready to send."""

    data: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = {}


def encode_list_reply(context: ReplyContext, data: Iterable[Iterable[bytes]]) -> bytes:
    """A list reply from encoded items, each in pieces, so that other threads can run between two pieces."""
    before, after = msgspec.json.encode(context.list_reply([])).split(
        b'"data":[]'
    )  # in a name a quote is escaped
    out = BytesIO()
    out.writelines(chain((before, b'"data":'), encode_list(data), (after,)))
    return out.getvalue()


def encode_list(items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """A JSON list in pieces, from encoded items in pieces."""
    yield b"["
    for i, item in enumerate(items):
        if i:
            yield b","
        yield from item
    yield b"]"


class ListReply(Reply):
    """The fields that all list replies share."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Any]
    usage: Usage


class Embedding(Reply):
    """One embedding: its numbers, or their bytes in base64; and those of other kinds that were requested."""

    index: int
    object: Literal["embedding"]
    embedding: list[float] | str | None
    sparse_embedding: dict[str, list[int] | list[float] | float] | list[dict[str, float]] | None = None
    token_embeddings: list[list[float]] | str | None = None
    token_embeddings_shape: list[int] | None = None


class EmbeddingList(ListReply):
    data: list[Embedding]


class FoundEntity(Reply):
    """An entity: its characters from `start` to `end`."""

    start: int
    end: int
    text: str
    label: str
    score: float


class EntityList(Reply):
    """The entities of one text."""

    entities: list[FoundEntity]


class PoolingItem(Reply):
    """One pooled output: numbers for a text, numbers for each of its tokens, or their bytes in base64; or the
    entities that were found.
    """

    index: int
    object: Literal["pooling"]
    data: list[float] | list[list[float]] | list[FoundEntity] | str


class PoolingList(ListReply):
    data: list[PoolingItem]


class ClassificationItem(Reply):
    """`label` names the most probable class; null when the model's classes have no names."""

    index: int
    label: str | None
    probs: list[float]
    num_classes: int


class ClassificationList(ListReply):
    data: list[ClassificationItem]
