"""The reply of a search."""

from __future__ import annotations

from typing import Any, Literal

from pipelines.values.search_values import Hit, Hits
from server.schema.reply_models import Reply


class FoundPassage(Reply):
    """A hit of the query with the number `query_index`; `text` is left out where the request wants none."""

    object: Literal["search.result"]
    query_index: int
    score: float
    document: str
    heading: str
    start: int
    text: str | None
    attributes: dict[str, Any]
    scores: dict[str, float]


class SearchUsage(Reply):
    prompt_tokens: int
    total_tokens: int


class SearchReply(Reply):
    """The hits of each query in its order, the best first."""

    object: Literal["search.results"]
    id: str
    model: str
    search_query: list[str]
    data: list[FoundPassage]
    usage: SearchUsage


def search_reply(reply_id: str, model: str, hits: Hits, num_tokens: int, with_text: bool) -> SearchReply:
    return SearchReply(
        object="search.results",
        id=reply_id,
        model=model,
        search_query=hits.queries,
        data=[_found(index, hit, with_text) for index, found in enumerate(hits.found) for hit in found],
        usage=SearchUsage(prompt_tokens=num_tokens, total_tokens=num_tokens),
    )


def _found(index: int, hit: Hit, with_text: bool) -> FoundPassage:
    return FoundPassage(
        object="search.result",
        query_index=index,
        score=hit.score,
        document=hit.document,
        heading=hit.heading,
        start=hit.start,
        text=hit.text if with_text else None,
        attributes=hit.attributes,
        scores=hit.scores,
    )
