"""OpenVINO Model Server's validation rules for rerank bodies, with its error texts, and its defaults."""

from __future__ import annotations

from typing import Any

from server.dialects.dialect import Body
from server.dialects.rules import Rule, boolean, instance, text, whole


def _one_kind(documents: Any) -> bool:
    return len({type(document) for document in documents}) <= 1


RERANK: list[Rule] = [
    Rule("query", text, "query is not a string", null=True),
    Rule("documents", instance(list), "documents is not an array", null=True),
    Rule(
        "documents",
        lambda documents: all(isinstance(each, str | dict) for each in documents),
        "documents array element is neither string nor object",
    ),
    Rule("documents", _one_kind, "all documents have to be the same type (string or objects)"),
    Rule("top_n", whole, "top_n accepts integer values"),
    Rule("return_documents", boolean, "return_documents accepts boolean values"),
]
RERANK_TOGETHER: list[Rule] = [
    Rule("query", lambda body: "query" in body, "query field is missing in request"),
    Rule("documents", lambda body: "documents" in body, "documents field is missing in request"),
]


def transform_rerank(body: Body) -> Body:
    """Documents are returned only on request."""
    return {**body, "return_documents": body.get("return_documents") or False}
