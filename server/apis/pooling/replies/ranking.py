"""Encodes scores in the order of the documents, or ranked with the best first.

The models describe the replies; encoding works on the arrays directly, because a reply may hold thousands of
documents.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from server.apis.pooling.replies.cohere import CohereApiVersion, CohereTokens
from server.apis.pooling.replies.reply_models import EncodedReply, ListReply, ReplyContext
from server.schema.reply_models import Reply

Document = str | list[dict[str, Any]]
"""A text, or the parts of what shows an image."""
Floats = NDArray[np.float32]


class Score(Reply):
    index: int
    object: Literal["score"]
    score: float


class ScoreList(ListReply):
    data: list[Score]


class RankedText(Reply):
    """`multi_modal` are the parts of a document that shows images, which has no `text`."""

    text: str | None
    multi_modal: list[dict[str, Any]] | None = None


class RankedDocument(Reply):
    """`index` is the position of the document in the request."""

    index: int
    document: RankedText | None = None
    relevance_score: float


class RankUsage(Reply):
    prompt_tokens: int
    total_tokens: int


class SearchUnits(Reply):
    search_units: int


class RankMeta(Reply):
    api_version: CohereApiVersion
    billed_units: SearchUnits
    tokens: CohereTokens


class Ranking(Reply):
    """One reply for Jina's, Cohere's and vLLM's clients."""

    id: str
    object: Literal["list"]
    model: str
    results: list[RankedDocument]
    usage: RankUsage
    meta: RankMeta


class OvmsRanking(Reply):
    """The rerank reply of OpenVINO Model Server."""

    results: list[RankedDocument]


def encode_scores(context: ReplyContext, scores: Floats) -> EncodedReply:
    """A `ScoreList`: a score for each pair, in the order of the request."""
    data = [{"index": i, "object": "score", "score": score} for i, score in enumerate(scores.tolist())]
    return EncodedReply(msgspec.json.encode(context.list_reply(data)))


def encode_ranking(
    context: ReplyContext, scores: Floats, num_results: int, documents: list[Document] | None
) -> EncodedReply:
    """A `Ranking` of the `num_results` best documents, with what they hold unless `documents` is None."""
    reply = {
        "id": context.id,
        "object": "list",
        "model": context.model,
        "results": _best(scores, num_results, documents, ("text", "multi_modal")),
        "usage": {"prompt_tokens": context.num_tokens, "total_tokens": context.num_tokens},
        "meta": {
            "api_version": {"version": "2"},
            "billed_units": {"search_units": 1},
            "tokens": {"input_tokens": context.num_tokens},
        },
    }
    return EncodedReply(msgspec.json.encode(reply))


def encode_ovms_ranking(scores: Floats, num_results: int, documents: list[Document] | None) -> EncodedReply:
    """An `OvmsRanking` of the same documents."""
    return EncodedReply(msgspec.json.encode({"results": _best(scores, num_results, documents, ("text",))}))


def _best(
    scores: Floats, num_results: int, documents: list[Document] | None, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The best first, equal scores in request order; `names` are the fields of each document."""
    found = []
    for i in np.argsort(-scores, kind="stable")[:num_results].tolist():
        document = {} if documents is None else {"document": _document(documents[i], names)}
        found.append({"index": i, **document, "relevance_score": float(scores[i])})
    return found


def _document(document: Document, names: tuple[str, ...]) -> dict[str, Any]:
    """A `RankedText`."""
    is_text = isinstance(document, str)
    fields = {"text": document if is_text else None, "multi_modal": None if is_text else document}
    return {name: fields[name] for name in names}
