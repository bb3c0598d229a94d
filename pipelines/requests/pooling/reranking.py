"""The request body of rerank: the fields of Jina, Cohere and vLLM combined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, FiniteFloat, StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import AlsoAccepts, Items
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.pooling.input_parsing import check_number
from pipelines.requests.pooling.scoring import Compared, ComparisonRequest, NonNegative, Truncate
from pipelines.requests.pooling.text_inputs import Content, Text, TextInput, as_list, as_object
from pipelines.requests.pooling.unsupported_fields import (
    IGNORED,
    IGNORED_RERANKING,
    IGNORED_SCORING,
    REFUSED_RERANKING,
)
from pipelines.values.tasks import ImageInput, PoolingInput

if TYPE_CHECKING:
    from pipelines.requests.pooling.token_vectors import Floats

StoredVectors = StrictStr | Items[Items[FiniteFloat]]
"""Vectors of tokens: lists of numbers, one for each token, or the base64 of all numbers one after another."""


class Document(TextInput):
    """A document as an object: its text, or the fields that `rank_fields` names; others are ignored.

    `token_embeddings`: the vectors of its tokens, as embeddings gave them before; its text is then not read.
    """

    token_embeddings: StoredVectors | None = None

    def to_rank(self, fields: list[str], where: str, images: list[ImageInput]) -> Content:
        """What is scored: the document, its images put into `images`; or its `fields`, one line each.

        Raises RequestError naming `where`.
        """
        others = self.model_extra or {}
        if self.token_embeddings is not None:
            return self.text or ""
        if not fields:
            if "image" in others:
                raise RequestError(
                    f"`{where}.image`: an image is a part of `content`: "
                    '{"type": "image_url", "image_url": {"url": …}}',
                    field=f"{where}.image",
                )
            return self.read_known(where, images)
        values = {"text": self.text, **others}
        lines = [_line(values[name], f"{where}.{name}") for name in fields if values.get(name) is not None]
        if not lines:
            raise RequestError(f"`{where}` has none of the fields in `rank_fields`", field=where)
        return "\n".join(lines)

    def returned(self, ranked: Content) -> str | list[dict[str, Any]]:
        """What the reply has of it, which was scored as `ranked`."""
        if self.text is not None:
            return self.text
        if isinstance(ranked, str):
            return ranked
        return [part.model_dump(exclude_unset=True) for part in self.content or []]


def _line(value: Any, where: str) -> str:
    if not isinstance(value, str | int | float):
        raise RequestError(f"`{where}` must be a string or a number, got {quoted(value)}", field=where)
    return value if isinstance(value, str) else quoted(value)


Documents = Annotated[
    Items[Annotated[Document, BeforeValidator(as_object), AlsoAccepts(type="string")]],
    BeforeValidator(as_list),
    AlsoAccepts(type="string"),
]


class RerankRequest(ComparisonRequest):
    """One query, and documents to rank."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED_RERANKING
    ignored: ClassVar[Mapping[str, str]] = IGNORED | IGNORED_SCORING | IGNORED_RERANKING

    query: Text
    documents: Documents
    top_n: NonNegative | None = None
    return_documents: bool | None = None
    rank_fields: Items[StrictStr] | None = None
    chunk_documents: bool | None = None
    embed_dtype: Literal["float32", "float16"] | None = None

    def find_image(self) -> bool:
        return any(each.shows_images for each in (self.query, *self.documents))

    def read_compared(self) -> Compared:
        check_number(len(self.documents), "documents")
        fields, images = self.rank_fields or [], list[ImageInput]()
        query = self.query.read("query", images)
        documents = [each.to_rank(fields, f"documents.{i}", images) for i, each in enumerate(self.documents)]
        if not documents:
            raise RequestError("At least one text_pair element must be given")
        return Compared([query], documents, images)

    @cached_property
    def stored_vectors(self) -> list[Floats | None]:
        """The vectors of tokens that the request has of each document, else None.

        Raises RequestError.
        """
        stored = [document.token_embeddings for document in self.documents]
        if not any(vectors is not None for vectors in stored):
            return [None] * len(stored)
        from pipelines.requests.pooling.token_vectors import read_vectors  # few requests have them

        half = self.embed_dtype == "float16"
        return [
            read_vectors(vectors, half, f"documents.{i}.token_embeddings") for i, vectors in enumerate(stored)
        ]

    def pairs_input(self) -> PoolingInput:
        """Raises RequestError for vectors of tokens, which a model that scores pairs cannot read."""
        for i, vectors in enumerate(self.stored_vectors):
            if vectors is not None:
                raise RequestError(
                    "this model scores pairs of texts: send `text`, or name a model with vectors of tokens",
                    field=f"documents.{i}.token_embeddings",
                )
        return replace(super().pairs_input(), chunk=bool(self.chunk_documents))

    def texts_input(self, truncate: Truncate) -> PoolingInput:
        """Raises RequestError for `chunk_documents`, which applies to pairs only."""
        if self.chunk_documents:
            raise RequestError(
                "`chunk_documents` applies to cross-encoders; this model embeds each document separately",
                field="chunk_documents",
            )
        return super().texts_input(truncate)

    def documents_to_embed(self) -> list[Content]:
        """The documents that have no vectors of their own."""
        pairs = zip(self.compared.documents, self.stored_vectors, strict=True)
        return [document for document, vectors in pairs if vectors is None]

    @property
    def num_results(self) -> int:
        """Number of documents in the reply."""
        num_documents = len(self.compared.documents)
        return min(self.top_n or num_documents, num_documents)

    @property
    def returned_documents(self) -> list[str | list[dict[str, Any]]] | None:
        """The documents, those with images in their parts; None when the reply is to omit them."""
        if self.return_documents is False:
            return None
        documents = zip(self.documents, self.compared.documents, strict=True)
        return [each.returned(ranked) for each, ranked in documents]
