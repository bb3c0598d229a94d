"""Scores, in the order of the documents or the best first.  Knows nothing of HTTP or of bodies.

Replies are pydantic models, but written without them: a thousand documents are a thousand objects.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from server.generation.replies.schema import Reply
from server.pooling.replies.cohere import ApiVersion, TokenCount
from server.pooling.replies.schema import Listed, ReplyContext, Written

Floats = NDArray[np.float32]


class Score(Reply):
    index: int
    object: Literal["score"]
    score: float


class ScoreList(Listed):
    data: list[Score]


class RankedText(Reply):
    text: str
    multi_modal: None = None


class Ranked(Reply):
    """`index` is the document's in the request."""

    index: int
    document: RankedText | None = None
    relevance_score: float


class RankUsage(Reply):
    prompt_tokens: int
    total_tokens: int


class SearchUnits(Reply):
    search_units: int


class RankMeta(Reply):
    api_version: ApiVersion
    billed_units: SearchUnits
    tokens: TokenCount


class Ranking(Reply):
    """What Jina's, Cohere's and vLLM's clients read, in one."""

    id: str
    object: Literal["list"]
    model: str
    results: list[Ranked]
    usage: RankUsage
    meta: RankMeta


class BareRanking(Reply):
    """OpenVINO Model Server's."""

    results: list[Ranked]


def scored(head: ReplyContext, scores: Floats) -> Written:
    """`ScoreList`: a score for each pair, in the order of the request."""
    data = [{"index": i, "object": "score", "score": score} for i, score in enumerate(scores.tolist())]
    return Written(msgspec.json.encode(head.listed(data)))


def ranking(head: ReplyContext, scores: Floats, num_best: int, documents: list[str] | None) -> Written:
    """`Ranking` of the `num_best` best, with their texts where `documents` holds them."""
    reply = {
        "id": head.id,
        "object": "list",
        "model": head.model,
        "results": _best(scores, num_best, documents, {"multi_modal": None}),
        "usage": {"prompt_tokens": head.num_tokens, "total_tokens": head.num_tokens},
        "meta": {
            "api_version": {"version": "2"},
            "billed_units": {"search_units": 1},
            "tokens": {"input_tokens": head.num_tokens},
        },
    }
    return Written(msgspec.json.encode(reply))


def bare_ranking(scores: Floats, num_best: int, documents: list[str] | None) -> Written:
    """`BareRanking` of the same."""
    return Written(msgspec.json.encode({"results": _best(scores, num_best, documents, {})}))


def _best(
    scores: Floats, num_best: int, documents: list[str] | None, more: dict[str, None]
) -> list[dict[str, Any]]:
    """The best first, of equal ones the earlier; `more` stands beside each text."""
    found = []
    for i in np.argsort(-scores, kind="stable")[:num_best].tolist():
        shown = {} if documents is None else {"document": {"text": documents[i], **more}}
        found.append({"index": i, **shown, "relevance_score": float(scores[i])})
    return found
