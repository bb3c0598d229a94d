"""The request body of rerank: the fields of Jina, Cohere and vLLM combined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, StrictStr

from pipelines.errors import RequestError
from pipelines.tasks import PoolingInput
from server.generation.requests.field_types import AlsoAccepts, Items
from server.generation.requests.known_fields import Refused
from server.http.error_text import quoted
from server.pooling.requests.input_parsing import check_number
from server.pooling.requests.scoring import ComparedTexts, ComparisonRequest, NonNegative, Truncate
from server.pooling.requests.text_inputs import Text, TextInput, as_list, as_object
from server.pooling.requests.unsupported_fields import (
    IGNORED,
    IGNORED_RERANKING,
    IGNORED_SCORING,
    REFUSED_RERANKING,
)


class Document(TextInput):
    """A document as an object: its text, or the fields that `rank_fields` names; others are ignored."""

    def text_to_rank(self, fields: list[str], where: str) -> str:
        """The text to score: `fields` in order, one line each.  Raises RequestError naming `where`."""
        others = self.model_extra or {}
        if not fields:
            if "image" in others:
                raise RequestError(f"`{where}.image`: documents are text only", field=f"{where}.image")
            return "\n".join(self.parts(where))
        values = {"text": self.text, **others}
        lines = [_line(values[name], f"{where}.{name}") for name in fields if values.get(name) is not None]
        if not lines:
            raise RequestError(f"`{where}` has none of the fields in `rank_fields`", field=where)
        return "\n".join(lines)


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

    def read_compared(self) -> ComparedTexts:
        check_number(len(self.documents), "documents")
        fields = self.rank_fields or []
        documents = [each.text_to_rank(fields, f"documents.{i}") for i, each in enumerate(self.documents)]
        if not documents:
            raise RequestError("At least one text_pair element must be given")
        return ComparedTexts([self.query.read_text("query")], documents)

    def pairs_input(self) -> PoolingInput:
        return replace(super().pairs_input(), chunk=bool(self.chunk_documents))

    def texts_input(self, truncate: Truncate) -> PoolingInput:
        """As for any comparison.  Raises RequestError for `chunk_documents`, which applies to pairs only."""
        if self.chunk_documents:
            raise RequestError(
                "`chunk_documents` applies to cross-encoders; this model embeds each document separately",
                field="chunk_documents",
            )
        return super().texts_input(truncate)

    @property
    def num_results(self) -> int:
        """Number of documents in the reply."""
        num_documents = len(self.compared.documents)
        return min(self.top_n or num_documents, num_documents)

    @property
    def returned_documents(self) -> list[str] | None:
        """The texts of the documents, None when the reply is to omit them."""
        if self.return_documents is False:
            return None
        texts = zip(self.documents, self.compared.documents, strict=True)
        return [ranked if each.text is None else each.text for each, ranked in texts]
