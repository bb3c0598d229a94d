"""The request body of a search for passages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, FiniteFloat, StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import AlsoAccepts, Items, Whole, check
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.pooling.base_request import BasePoolingRequest
from pipelines.requests.pooling.unsupported_fields import IGNORED
from pipelines.values.node_values import Prompt
from pipelines.values.search_values import SEARCH_KINDS
from pipelines.values.tasks import SearchInput

MAX_QUERIES, MAX_TOP, MAX_QUERY_CHARS = 32, 1000, 1 << 16
MAX_HITS = 1 << 14
"""The most hits of all queries: the pairs that a request to a ranking model may hold."""

Top = Annotated[Whole, check(lambda n: 1 <= n <= MAX_TOP, "{name} must be from 1 to 1000, got {got}.")]
"""How many hits of each query are wanted."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class SearchRequest(BasePoolingRequest):
    """One query or several, and what is wanted of the passages that are nearest.

    `top_k`, `max_num_results` and `limit` are other APIs' names of `top`, `filter` of `filters`.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=(), populate_by_name=True)
    refused: ClassVar[Mapping[str, Refused]] = {}
    ignored: ClassVar[Mapping[str, str]] = IGNORED

    query: Annotated[Items[StrictStr], BeforeValidator(_as_list), AlsoAccepts(type="string")]
    top: Top | None = Field(
        default=None, validation_alias=AliasChoices("top", "top_k", "max_num_results", "limit")
    )
    filters: dict[str, Any] | None = Field(default=None, validation_alias=AliasChoices("filters", "filter"))
    weights: dict[str, FiniteFloat] | None = None
    rerank: bool | None = None
    score_threshold: FiniteFloat | None = None
    return_text: bool | None = None

    def pooling_input(self) -> SearchInput:
        """Raises RequestError."""
        if not 1 <= len(self.query) <= MAX_QUERIES:
            raise RequestError(f"`query` must be a text, or 1 to {MAX_QUERIES} of them", field="query")
        for i, text in enumerate(self.query):
            if not text.strip() or len(text) > MAX_QUERY_CHARS:
                field = "query" if len(self.query) == 1 else f"query.{i}"
                raise RequestError(f"`{field}` must have 1 to {MAX_QUERY_CHARS:,} characters", field=field)
        top = self.top or 10
        if top * len(self.query) > MAX_HITS:
            raise RequestError(
                f"`top` may be {MAX_HITS // len(self.query)} for {len(self.query)} queries: they have "
                f"{MAX_HITS:,} hits together at most",
                field="top",
            )
        return SearchInput(
            prompts=[Prompt.of_text(text) for text in self.query],
            purpose="search_query",
            top=top,
            filters=self.filters,
            weights=self._weights(),
            rerank=self.rerank is not False,
            least_score=self.score_threshold,
            **{**self.shared_fields(), "truncate_prompt_tokens": self.truncate_prompt_tokens or -1},
        )

    def _weights(self) -> dict[str, float]:
        weights = self.weights or {}
        unknown = weights.keys() - set(SEARCH_KINDS)
        if unknown:
            raise RequestError(
                f"`weights.{min(unknown)}`: there is no such kind of search; allowed: "
                f"{', '.join(SEARCH_KINDS)}",
                field=f"weights.{min(unknown)}",
            )
        if self.weights is not None and not (min(weights.values(), default=0) >= 0 and any(weights.values())):
            raise RequestError("`weights` must be 0 or more, and one of them more than 0", field="weights")
        return weights
