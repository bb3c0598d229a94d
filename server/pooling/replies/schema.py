"""Replies as pydantic models: OpenAI's embeddings, and vLLM's shapes of the other endpoints.

They are the truth about what leaves the server.  Long replies are written without them, from the arrays; a
test holds both equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from server.generation.replies.schema import Reply, Usage

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Head:
    """What every reply begins with; `num_tokens` were read for it."""

    id: str
    model: str
    created: int
    num_tokens: int

    @property
    def usage(self) -> Usage:
        """With every field, as vLLM sends it."""
        return Usage(
            prompt_tokens=self.num_tokens,
            total_tokens=self.num_tokens,
            completion_tokens=0,
            prompt_tokens_details=None,
            completion_tokens_details=None,
        )

    def listed(self, data: list[Any]) -> dict[str, Any]:
        """A reply whose rows are `data`: the fields of `Listed` in their order."""
        return {
            "id": self.id,
            "object": "list",
            "created": self.created,
            "model": self.model,
            "data": data,
            "usage": self.usage.model_dump(),
        }


class Written(NamedTuple):
    """A reply as it leaves."""

    data: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = {}


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
