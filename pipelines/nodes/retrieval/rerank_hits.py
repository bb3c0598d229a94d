"""The rerank_hits node: a reranking model's graph orders what a search has found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from pydantic import Field

from graphs.graph import Graph, PortsBySettings
from graphs.node import Node, NodeConfig, Port
from pipelines.base.errors import EngineError
from pipelines.nodes.interface import Running
from pipelines.nodes.naming import NamesOne
from pipelines.values.node_values import Scores
from pipelines.values.search_values import Hit, Hits, pairs_to_rank
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import PoolingInput, SearchInput


class RerankHits(NamesOne, Node, PortsBySettings):
    """Scores each hit against its query by another model of the repository, and orders the hits by it."""

    class Config(NodeConfig):
        graph: str = Field(description="name of a reranking model of the repository")
        first: int = Field(
            default=20,
            ge=1,
            le=1000,
            description="how many hits of each query are scored; the others are left out",
        )

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The graph that is named must be there."""
        graph(config.graph)
        ports = {"hits": Port(Deferred[Hits], optional=False), "request": Port(SearchInput, optional=False)}
        return ports, Deferred[Hits]

    def run(self, call: Running, hits: Deferred[Hits], request: SearchInput) -> Deferred[Hits]:
        if not request.rerank:
            return hits.map(lambda found: _first(found, request.top))
        return hits.map(lambda found: self._ranked(call, found, request))

    def _ranked(self, call: Running, hits: Hits, request: SearchInput) -> Hits | Deferred[Hits]:
        scored = [best[: max(self.config.first, request.top)] for best in hits.found]
        pairs = pairs_to_rank(hits.queries, scored)
        if not pairs:
            return hits
        graph = self.named_graph()
        inner = PoolingInput(pairs=pairs, truncate_prompt_tokens=-1, priority=request.priority)
        graph.check(inner, graph.plan(inner))
        scores: Deferred[Any] = graph.run(call, inner)
        return scores.map(lambda ranked: _first(_ordered(hits.queries, scored, ranked), request.top))


def _ordered(queries: list[str], scored: list[list[Hit]], ranking: Any) -> Hits:
    if not isinstance(ranking, Scores):
        raise EngineError(f"a rerank_hits node needs a model that ranks; it gives {type(ranking).__name__}")
    scores: Iterator[float] = iter(ranking.values.tolist())
    ordered = []
    for hits in scored:
        new = [
            replace(hit, score=score, scores={**hit.scores, "rerank": score})
            for hit, score in zip(hits, islice(scores, len(hits)), strict=True)
        ]
        ordered.append(sorted(new, key=lambda hit: -hit.score))
    return Hits(queries, ordered)


def _first(hits: Hits, top: int) -> Hits:
    return Hits(hits.queries, [found[:top] for found in hits.found])
