"""Replies as pydantic models: OpenAI's embeddings, and vLLM's shapes of the other endpoints.

They are the truth about what leaves the server.  Long replies are written without them, from the arrays; a
test holds both equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec

from server.generation.replies.schema import Reply, Usage

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """What every reply begins with; `num_tokens` were read for it."""

    id: str
    model: str
    created: int
    num_tokens: int

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

    def listed(self, data: list[Any]) -> dict[str, Any]:
        """A reply whose rows are `data`: the fields of `Listed` in their order."""
        return {
            "id": self.id,
            "object": "list",
            "created": self.created,
            "model": self.model,
            "data": data,
            "usage": self.usage,
        }


class Written(NamedTuple):
    """A reply as it leaves."""

    data: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = {}


def joined(head: ReplyContext, data: Iterable[Iterable[bytes]]) -> bytes:
    """A reply of rows that are JSON already, each in pieces: others may run between two of them."""
    before, after = msgspec.json.encode(head.listed([])).split(b'"data":[]')  # in a name a quote is escaped
    out = BytesIO()
    out.writelines(chain((before, b'"data":'), listed(data), (after,)))
    return out.getvalue()


def listed(items: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """A JSON list in pieces, of items that are JSON in pieces."""
    yield b"["
    for i, item in enumerate(items):
        if i:
            yield b","
        yield from item
    yield b"]"


class Listed(Reply):
    """What the lists of rows have in common."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Any]
    usage: Usage


class Embedding(Reply):
    """Numbers, or their bytes in base64."""

    index: int
    object: Literal["embedding"]
    embedding: list[float] | str


class EmbeddingList(Listed):
    data: list[Embedding]


class Pooled(Reply):
    """A row for a text, rows for its tokens, or the bytes of either in base64."""

    index: int
    object: Literal["pooling"]
    data: list[float] | list[list[float]] | str


class PooledList(Listed):
    data: list[Pooled]


class Classified(Reply):
    """`label` is the name of the likeliest class; null where the model's classes have none."""

    index: int
    label: str | None
    probs: list[float]
    num_classes: int


class ClassifiedList(Listed):
    data: list[Classified]
