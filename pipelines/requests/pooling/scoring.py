"""The request body of score, and its common base with rerank: queries that are compared with documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import MAX_TOKEN_ID, Whole, check
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.pooling.base_request import BasePoolingRequest
from pipelines.requests.pooling.input_parsing import check_total_chars, json_chars
from pipelines.requests.pooling.text_inputs import Content, Texts, read_contents, texts_of
from pipelines.requests.pooling.unsupported_fields import IGNORED, IGNORED_SCORING
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import ImageInput, PoolingInput

TOO_SMALL = "{name} must be greater than or equal to 0, got {got}."
NonNegative = Annotated[Whole, check(lambda n: 0 <= n <= MAX_TOKEN_ID, TOO_SMALL)]
"""0 means: not set."""

T = TypeVar("T")
Truncate = Callable[[list[str], int], list[str]]
"""(texts, number of tokens) → the first tokens of each text, as text."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One query for all documents, or one query for each document; `images` are those of the queries, then
    those of the documents.
    """

    queries: list[Content]
    documents: list[Content]
    images: list[ImageInput]

    def pairs(self) -> list[tuple[Content, Content]]:
        """(query, document) pairs, in the order of the documents."""
        return _paired(self.queries, self.documents)

    def paired_images(self) -> list[ImageInput]:
        """The images of all pairs: for each those of its query, then those of its document."""
        given = iter(self.images)
        queries, documents = (
            [[*islice(given, _num_images(each))] for each in contents]
            for contents in (self.queries, self.documents)
        )
        return [image for pair in _paired(queries, documents) for images in pair for image in images]


class ComparisonRequest(BasePoolingRequest):
    """The fields that score and rerank share."""

    refused: ClassVar[Mapping[str, Refused]] = {}
    ignored: ClassVar[Mapping[str, str]] = IGNORED | IGNORED_SCORING

    max_tokens_per_query: NonNegative | None = None
    max_tokens_per_doc: NonNegative | None = None
    instruction: StrictStr | None = None
    chat_template: StrictStr | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    raw_scores: bool | None = None
    embedding_kind: StrictStr | None = None

    @property
    def activates(self) -> bool:
        """`raw_scores` is Text Embeddings Inference's word for scores that are not activated."""
        return not self.raw_scores and super().activates

    @cached_property
    def compared(self) -> Compared:
        """The queries and documents.  Raises RequestError."""
        return self.read_compared()

    @property
    def shown_images(self) -> list[ImageInput]:
        return self.compared.images

    def read_compared(self) -> Compared:
        """Read the queries and documents from the fields.  Raises RequestError."""
        raise NotImplementedError

    def pairs_input(self) -> PoolingInput:
        """The input of a cross-encoder: pairs of query and document, conversations where one of them shows an
        image.

        Raises RequestError when the pairs hold too much text: a short body may repeat a long query.
        """
        if self.embedding_kind is not None:
            raise RequestError("this model scores pairs, and has no vectors", field="embedding_kind")
        pairs = self.compared.pairs()
        num_added_chars = len(self.instruction or "") + json_chars(self.chat_template_kwargs)
        check_total_chars([sum(map(_num_chars, pair)) + num_added_chars for pair in pairs], "documents")
        return PoolingInput(
            **self._as_conversations(pairs) if self.compared.images else self._as_texts(pairs),
            instruction=self.instruction,
            chat_template=self.chat_template,
            template_kwargs=self.chat_template_kwargs or {},
            max_query_tokens=self.max_tokens_per_query or None,
            max_document_tokens=self.max_tokens_per_doc or None,
            **self.shared_fields(),
        )

    def _as_texts(self, pairs: list[tuple[Content, Content]]) -> dict[str, Any]:
        prompts = {text: Prompt.of_text(text) for text in texts_of([each for pair in pairs for each in pair])}
        return {"pairs": [tuple(prompts[str(each)] for each in pair) for pair in pairs]}

    def _as_conversations(self, pairs: list[tuple[Content, Content]]) -> dict[str, Any]:
        conversations = [
            [{"role": "query", "content": query}, {"role": "document", "content": document}]
            for query, document in pairs
        ]
        return {"conversations": conversations, "images": self.compared.paired_images()}

    def texts_input(self, truncate: Truncate) -> PoolingInput:
        """The input of an embedding model: the queries, then the documents; vectors get length 1.  They are
        conversations where one of them shows an image.

        Raises RequestError for a chat template, which applies to pairs only.
        """
        if self.chat_template is not None:
            raise RequestError(
                "`chat_template` applies to cross-encoders; this model embeds each text separately",
                field="chat_template",
            )
        queries = _cut(self.compared.queries, self.max_tokens_per_query, truncate)
        documents = _cut(self.documents_to_embed(), self.max_tokens_per_doc, truncate)
        kinds = (self.embedding_kind,) if self.embedding_kind else ()
        fields: dict[str, Any] = {**self.shared_fields(), "activate": True, "results": kinds}
        if images := self.compared.images:
            conversations = [[{"role": "user", "content": text}] for text in (*queries, *documents)]
            fields |= {"conversations": conversations, "images": images, "add_generation_prompt": None}
            return PoolingInput(**fields)
        return PoolingInput(
            prompts=[Prompt.of_text(text) for text in texts_of([*queries, *documents])], **fields
        )

    def documents_to_embed(self) -> list[Content]:
        """The documents whose vectors the model is to give."""
        return self.compared.documents


class ScoreRequest(ComparisonRequest):
    """Queries and documents, under one of four pairs of names."""

    NAMES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("queries", "documents"),
        ("queries", "items"),
        ("text_1", "text_2"),
        ("data_1", "data_2"),
    )

    queries: Texts | None = None
    documents: Texts | None = None
    items: Texts | None = None
    text_1: Texts | None = None
    text_2: Texts | None = None
    data_1: Texts | None = None
    data_2: Texts | None = None

    def find_image(self) -> bool:
        given = (getattr(self, name) or [] for pair in self.NAMES for name in pair)
        return any(each.shows_images for texts in given for each in texts)

    def read_compared(self) -> Compared:
        images: list[ImageInput] = []
        first, second = self._names()
        queries, documents = (read_contents(getattr(self, name), name, images) for name in (first, second))
        if len(queries) not in (1, len(documents)):
            raise RequestError("Input lengths must be either 1:1, 1:N or N:N")
        if not documents:
            raise RequestError("At least one text element must be given")
        return Compared(queries, documents, images)

    def _names(self) -> tuple[str, str]:
        """The two fields that hold the texts.  Raises RequestError unless exactly one pair is set."""
        given = {name for pair in self.NAMES for name in pair if getattr(self, name) is not None}
        found = next((pair for pair in self.NAMES if given == {*pair}), None)
        if found is None:
            wanted = ", ".join(f"`{first}` and `{second}`" for first, second in self.NAMES)
            raise RequestError(f"exactly one pair of these is required: {wanted}", field=self._missing(given))
        return found

    def _missing(self, given: set[str]) -> str:
        partners = [{*pair} - given for pair in self.NAMES if given & {*pair}]
        return min(next((names for names in partners if names), {"queries"}))


def _cut(contents: list[Content], num_tokens: int | None, truncate: Truncate) -> list[Content]:
    """The first tokens of each text; images are not cut."""
    if not num_tokens:
        return contents
    cut = iter(truncate(texts_of(contents), num_tokens))
    return [next(cut) if isinstance(each, str) else each for each in contents]


def _paired(queries: list[T], documents: list[T]) -> list[tuple[T, T]]:
    """Each document with its query, or with the only one."""
    return list(zip(queries * len(documents) if len(queries) == 1 else queries, documents, strict=True))


def _num_images(content: Content) -> int:
    return 0 if isinstance(content, str) else sum(part["type"] != "text" for part in content)


def _num_chars(content: Content) -> int:
    return len(content) if isinstance(content, str) else sum(len(part.get("text", "")) for part in content)
