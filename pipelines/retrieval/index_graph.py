"""The graph.yaml of an index: a search by its model of vectors, and a model that ranks what it finds."""

from __future__ import annotations

import json

INDEX = "index"
"""The folder of the index beside its graph.yaml."""
FIRST = 20
"""Hits that are ranked again."""


def index_graph(model: str, reranker: str | None, weights: dict[str, float], source: str) -> str:
    """The text of the graph."""
    lines = [
        "version: 1",
        "task: search",
        f"description: {json.dumps(f'Passages of {source}, by {model}', ensure_ascii=False)}",
        "nodes:",
        f"  question: {{type: graph, graph: {json.dumps(model)}, from: request}}",
        "  hits:",
        "    type: search",
        "    from: question",
        f"    weights: {json.dumps(weights)}",
        *([f"    candidates: {FIRST}"] if reranker else []),
        "    body:",
        f"      found: {{type: index, from: batch, path: {INDEX}}}",
    ]
    if reranker:
        lines.append(
            f"  ranked: {{type: rerank_hits, from: hits, graph: {json.dumps(reranker)}, first: {FIRST}}}"
        )
    return "\n".join(lines) + "\n"
