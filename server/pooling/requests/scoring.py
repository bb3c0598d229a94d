"""Body of score, and what it has in common with rerank: texts that are compared, in pairs.

Knows nothing of HTTP or of how a model compares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import StrictStr

from pipelines.errors import RequestError
from pipelines.tasks import PoolingInput
from pipelines.values import Prompt
from server.generation.requests.field_types import MAX_TOKEN_ID, Whole, check
from server.pooling.requests.pooled import PooledRequest
from server.pooling.requests.shapes import check_written, written_chars
from server.pooling.requests.text_inputs import Texts, said

NO_LESS = "{name} must be greater than or equal to 0, got {got}."
Count = Annotated[Whole, check(lambda n: 0 <= n <= MAX_TOKEN_ID, NO_LESS)]
"""0 asks for nothing."""

Cut = Callable[[list[str], int], list[str]]
"""Texts, and how many tokens of each are kept."""


@dataclass(frozen=True, slots=True)
class Sides:
    """One query for all documents, or as many queries as documents, each with its own."""

    queries: list[str]
    documents: list[str]

    def pairs(self) -> list[tuple[str, str]]:
        """A query and a document each, in the order of the documents."""
        queries = self.queries * len(self.documents) if len(self.queries) == 1 else self.queries
        return list(zip(queries, self.documents, strict=True))


class ComparingRequest(PooledRequest):
    """What score and rerank ask alike."""

    max_tokens_per_query: Count | None = None
    max_tokens_per_doc: Count | None = None
    instruction: StrictStr | None = None
    chat_template: StrictStr | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @cached_property
    def sides(self) -> Sides:
        """Raises RequestError."""
        return self.read_sides()

    def read_sides(self) -> Sides:
        """Raises RequestError."""
        raise NotImplementedError

    def as_pairs(self) -> PoolingInput:
        """What is asked of a model that reads a query and a document together.

        Raises RequestError where the pairs are too much text: a short body may repeat a long query.
        """
        queries, pairs = {text: _prompt(text) for text in self.sides.queries}, self.sides.pairs()
        beside = len(self.instruction or "") + written_chars(self.chat_template_kwargs)
        check_written([len(query) + len(document) + beside for query, document in pairs], "documents")
        return PoolingInput(
            pairs=[(queries[query], _prompt(document)) for query, document in pairs],
            instruction=self.instruction,
            chat_template=self.chat_template,
            template_kwargs=self.chat_template_kwargs or {},
            max_query_tokens=self.max_tokens_per_query or None,
            max_document_tokens=self.max_tokens_per_doc or None,
            **self.shared(),
        )

    def as_texts(self, cut: Cut) -> PoolingInput:
        """What is asked of a model that reads each text alone: vectors of length 1, the queries' first.

        `cut` gives the first tokens of texts.  Raises RequestError for a template, which only pairs have.
        """
        if self.chat_template is not None:
            raise RequestError("`chat_template`: this model reads each text alone", field="chat_template")
        queries, documents = self.sides.queries, self.sides.documents
        if self.max_tokens_per_query:
            queries = cut(queries, self.max_tokens_per_query)
        if self.max_tokens_per_doc:
            documents = cut(documents, self.max_tokens_per_doc)
        prompts = [_prompt(text) for text in (*queries, *documents)]
        return PoolingInput(prompts=prompts, **{**self.shared(), "activate": True})


class ScoreRequest(ComparingRequest):
    """Two sides under one of four pairs of names."""

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

    def read_sides(self) -> Sides:
        first, second = self._names()
        queries, documents = (said(getattr(self, name), name) for name in (first, second))
        if len(queries) not in (1, len(documents)):
            raise RequestError("Input lengths must be either 1:1, 1:N or N:N")
        if not documents:
            raise RequestError("At least one text element must be given")
        return Sides(queries, documents)

    def _names(self) -> tuple[str, str]:
        """Which two fields hold the sides.  Raises RequestError unless exactly those do."""
        given = {name for pair in self.NAMES for name in pair if getattr(self, name) is not None}
        found = next((pair for pair in self.NAMES if given == {*pair}), None)
        if found is None:
            wanted = ", ".join(f"`{first}` and `{second}`" for first, second in self.NAMES)
            raise RequestError(f"exactly one pair of these is required: {wanted}", field=self._missing(given))
        return found

    def _missing(self, given: set[str]) -> str:
        partners = [{*pair} - given for pair in self.NAMES if given & {*pair}]
        return min(next((names for names in partners if names), {"queries"}))


def _prompt(text: str) -> Prompt:
    return Prompt(text=text, add_special_tokens=True)
