"""The request bodies of vector stores, their files and their searches."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.field_types import AlsoAccepts, Items, at_most, check, listed
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.retrieval.search import MAX_QUERIES, MAX_QUERY_CHARS
from server.apis.batches.batch_models import Metadata

MAX_FILES = 2000
"""Files that one request may add."""
MAX_ATTRIBUTE_CHARS, MAX_BITS = 512, 1000

AttributeKey = Annotated[str, StringConstraints(min_length=1, max_length=64)]


def _attribute(value: Any) -> Any:
    """The value of an attribute as filters compare it: whole numbers of more than 64 bits become others."""
    if isinstance(value, bool) or (isinstance(value, str) and len(value) <= MAX_ATTRIBUTE_CHARS):
        return value
    if isinstance(value, int) and value.bit_length() <= MAX_BITS:
        return value if -(1 << 63) <= value < 1 << 63 else float(value)
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise PydanticCustomError(
        "field_error", f"must be a string of at most {MAX_ATTRIBUTE_CHARS} characters, a number or a boolean"
    )


AttributeValue = Annotated[
    Any,
    BeforeValidator(_attribute),
    WithJsonSchema({"type": ["string", "number", "boolean"], "maxLength": MAX_ATTRIBUTE_CHARS}),
]
Attributes = Annotated[dict[AttributeKey, AttributeValue], at_most(16, "attributes")]
StoreName = Annotated[str, StringConstraints(max_length=256)]
QueryText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_CHARS)]


class StoreBody(DeferredModel):
    """A body; unknown fields are ignored, and reported where they are misspelt."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    ignored: ClassVar[dict[str, str]] = {}

    @model_validator(mode="after")
    def _check_other_fields(self) -> StoreBody:
        check_fields(self.model_extra or {}, type(self).model_fields, ignored=self.ignored)
        return self


class ChunkTokens(DeferredModel):
    """The most tokens of a passage, and how many it repeats of the one before."""

    model_config = ConfigDict(extra="forbid")

    max_chunk_size_tokens: int = Field(ge=100, le=4096)
    chunk_overlap_tokens: int = Field(ge=0)

    @model_validator(mode="after")
    def _check_overlap(self) -> ChunkTokens:
        if self.chunk_overlap_tokens * 2 > self.max_chunk_size_tokens:
            raise PydanticCustomError(
                "plain_error", "`chunk_overlap_tokens` must be at most half of `max_chunk_size_tokens`"
            )
        return self


AUTO_CHUNKS = ChunkTokens.model_construct(max_chunk_size_tokens=250, chunk_overlap_tokens=0)
"""Passages that models of 512 tokens read whole."""


class ChunkingStrategy(DeferredModel):
    """How files are cut into passages."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["auto", "static"]
    static: ChunkTokens | None = None

    @model_validator(mode="after")
    def _check_static(self) -> ChunkingStrategy:
        if (self.type == "static") != (self.static is not None):
            raise PydanticCustomError(
                "plain_error", "`static` is required with the type static, and with no other"
            )
        return self


class StoreExpiry(DeferredModel):
    """The days without use after which a store expires."""

    model_config = ConfigDict(extra="forbid")

    anchor: Literal["last_active_at"]
    days: int = Field(ge=1, le=365)


class CreateStore(StoreBody):
    """The body of POST vector_stores."""

    name: StoreName = ""
    description: StoreName | None = None
    file_ids: list[str] = Field(default=[], max_length=MAX_FILES)
    chunking_strategy: ChunkingStrategy | None = None
    expires_after: StoreExpiry | None = None
    metadata: Metadata | None = None
    embedding_model: str | None = None


class ChangeStore(StoreBody):
    """The body of POST vector_stores/{id}: what it names is changed."""

    name: StoreName | None = None
    expires_after: StoreExpiry | None = None
    metadata: Metadata | None = None


class AddStoreFile(StoreBody):
    """A file for a store: its attributes, which filters of searches are about, and how it is cut."""

    file_id: str
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None


def files_alike(
    file_ids: list[str], chunking: ChunkingStrategy | None, attributes: dict[str, Any] | None = None
) -> list[AddStoreFile]:
    """Files with the same fields."""
    return [
        AddStoreFile.model_construct(file_id=file_id, attributes=attributes, chunking_strategy=chunking)
        for file_id in file_ids
    ]


class AddFileBatch(StoreBody):
    """The body of POST file_batches: `files`, each with its own fields, or `file_ids` that share them."""

    file_ids: list[str] | None = Field(default=None, min_length=1, max_length=MAX_FILES)
    files: list[AddStoreFile] | None = Field(default=None, min_length=1, max_length=MAX_FILES)
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None

    @model_validator(mode="after")
    def _check_one(self) -> AddFileBatch:
        if (self.file_ids is None) == (self.files is None):
            raise PydanticCustomError("plain_error", "one of `file_ids` and `files` is required")
        return self

    def wanted(self) -> list[AddStoreFile]:
        """The files with their fields."""
        if self.files is not None:
            return self.files
        return files_alike(self.file_ids or [], self.chunking_strategy, self.attributes)


class ChangeStoreFile(StoreBody):
    """The body of POST files/{id}."""

    attributes: Attributes | None


class HybridWeights(DeferredModel):
    """What the ranks by vectors and by words count for.

    `sparse_weight`, Braid's own, is of the sparse vectors that some models give beside dense ones.
    """

    model_config = ConfigDict(extra="forbid")

    embedding_weight: FiniteFloat = Field(ge=0)
    text_weight: FiniteFloat = Field(ge=0)
    sparse_weight: FiniteFloat = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _check_sum(self) -> HybridWeights:
        if not self.embedding_weight + self.text_weight + self.sparse_weight:
            raise PydanticCustomError("field_error", "must have a weight that is more than 0")
        return self


class StoreRanking(DeferredModel):
    """`ranker` is the name of a reranking model, or none of them."""

    model_config = ConfigDict(extra="forbid")

    ranker: str = "auto"
    score_threshold: FiniteFloat | None = None
    hybrid_search: HybridWeights | None = None


class SearchStore(StoreBody):
    """The body of POST vector_stores/{id}/search."""

    query: Annotated[
        Items[QueryText],
        BeforeValidator(listed),
        AlsoAccepts(type="string"),
        at_most(MAX_QUERIES, "texts"),
        check(bool, "`query` must be a text, or a list of at least one"),
    ]
    filters: dict[str, Any] | None = None
    max_num_results: int = Field(default=10, ge=1, le=50)
    ranking_options: StoreRanking | None = None
    rewrite_query: bool = False
