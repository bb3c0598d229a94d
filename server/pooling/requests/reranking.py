"""Body of rerank: Jina's, Cohere's and vLLM's fields in one.  Knows nothing of HTTP or of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, StrictBool, StrictStr

from pipelines.errors import RequestError
from pipelines.tasks import PoolingInput
from server.generation.requests.field_types import Also
from server.generation.requests.known_fields import Refused, shown
from server.pooling.requests.scoring import ComparingRequest, Count, Cut, Sides
from server.pooling.requests.shapes import check_number
from server.pooling.requests.text_inputs import Content, Text, as_list, as_object
from server.pooling.requests.unsupported_fields import IGNORED, IGNORED_RERANKING, REFUSED, REFUSED_RERANKING


class Document(Content):
    """A document as an object: its text, or the fields that `rank_fields` names; others are its owner's."""

    def ranked(self, fields: list[str], where: str) -> str:
        """What of it is read; fields in their order, a line each.  Raises RequestError naming `where`."""
        others = self.model_extra or {}
        if not fields:
            if "image" in others:
                raise RequestError(f"`{where}.image`: this model reads text", field=f"{where}.image")
            return "\n".join(self.parts(where))
        values = {"text": self.text, **others}
        lines = [_line(values[name], f"{where}.{name}") for name in fields if values.get(name) is not None]
        if not lines:
            raise RequestError(f"`{where}` has none of the fields in `rank_fields`", field=where)
        return "\n".join(lines)


def _line(value: Any, where: str) -> str:
    if not isinstance(value, str | int | float):
        raise RequestError(f"`{where}` must be a string or a number, got {shown(value)}", field=where)
    return value if isinstance(value, str) else shown(value)


Documents = Annotated[
    list[Annotated[Document, BeforeValidator(as_object), Also(type="string")]],
    BeforeValidator(as_list),
    Also(type="string"),
]


class RerankRequest(ComparingRequest):
    """One query, and documents to put in order."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_RERANKING
    ignored: ClassVar[Mapping[str, str]] = IGNORED | IGNORED_RERANKING

    query: Text
    documents: Documents
    top_n: Count | None = None
    return_documents: StrictBool | None = None
    rank_fields: list[StrictStr] | None = None
    chunk_documents: StrictBool | None = None

    def read_sides(self) -> Sides:
        check_number(len(self.documents), "documents")
        fields = self.rank_fields or []
        documents = [each.ranked(fields, f"documents.{i}") for i, each in enumerate(self.documents)]
        if not documents:
            raise RequestError("At least one text_pair element must be given")
        return Sides([self.query.said("query")], documents)

    def as_pairs(self) -> PoolingInput:
        return replace(super().as_pairs(), chunk=bool(self.chunk_documents))

    def as_texts(self, cut: Cut) -> PoolingInput:
        """As of any two sides.  Raises RequestError for parts of documents, which only pairs have."""
        if self.chunk_documents:
            raise RequestError(
                "`chunk_documents`: this model reads documents without their query; only a cross-encoder's "
                "are read in parts",
                field="chunk_documents",
            )
        return super().as_texts(cut)

    @property
    def num_best(self) -> int:
        """How many documents the reply holds."""
        num_documents = len(self.sides.documents)
        return min(self.top_n or num_documents, num_documents)

    @property
    def shown(self) -> list[str] | None:
        """The documents' own texts, unless the reply is to be without them."""
        if self.return_documents is False:
            return None
        texts = zip(self.documents, self.sides.documents, strict=True)
        return [read if each.text is None else each.text for each, read in texts]
