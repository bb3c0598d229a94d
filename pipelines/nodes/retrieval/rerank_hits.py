"""The rerank_hits node: a reranking model's graph orders what a search has found."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from pydantic import Field

from graphs.graph import Graph, PortsBySettings
from graphs.node import Node, NodeConfig, Port
from pipelines.base.errors import EngineError
from pipelines.nodes.interface import Composer, Composing, Running
from pipelines.nodes.naming import CALLED, NamesOne, task_of
from pipelines.values.node_values import Scores
from pipelines.values.search_values import Hit, Hits, pairs_to_rank
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import PoolingInput, PromptInput, SearchInput


class RerankHits(NamesOne, Node, PortsBySettings, Composing):
    """Scores each hit against its query by another model of the repository, and orders the hits by it."""

    class Config(NodeConfig):
        elsewhere = CALLED | {"top_k": "how many passages is `top`", "top_n": "how many passages is `top`"}

        graph: str = Field(description="name of a reranking model of the repository")
        first: int = Field(
            default=20,
            ge=1,
            le=1000,
            description="how many hits of each query are scored, or as many as a search wants where that is "
            "more; the others are left out",
        )
        top: int | None = Field(
            default=None, ge=1, le=1000, description="how many hits are left; default: as a search asks"
        )
        least_score: float | None = Field(
            default=None, description="hits are left out to which the model gives a lower score"
        )
        max_tokens: int | None = Field(
            default=None,
            ge=1,
            le=1 << 15,
            description="hits are left out beyond this many tokens of the ranking model together",
        )

    @classmethod
    def ports_for(cls, config: Any, graph: Callable[[str], Graph]) -> tuple[Mapping[str, Port], Any]:
        """The graph that is named must be there, and rank."""
        task_of(graph, config.graph, ("rerank",), "graph")
        ports = {"hits": Port(Deferred[Hits], optional=False), "request": Port(PromptInput, optional=False)}
        return ports, Deferred[Hits]

    def run(self, call: Running, hits: Deferred[Hits], request: PromptInput) -> Deferred[Hits]:
        if not _wants(request):
            return hits.map(lambda found: _first(found, self._top(request)))
        return hits.map(lambda found: self._ranked(call, found, request))

    async def compose(self, call: Composer, hits: Hits, request: PromptInput) -> Hits:
        scored = self._scored(hits, request)
        inner = _ranking(hits, scored, request)
        if not _wants(request) or not inner.pairs:
            return _first(hits, self._top(request))
        asked = await call.ask(self.named_graph(), inner)
        ranking = await asked.answer()
        if self.config.max_tokens is None:
            return self._best(hits, scored, ranking, request)
        return await asyncio.to_thread(self._best, hits, scored, ranking, request)

    def _ranked(self, call: Running, hits: Hits, request: PromptInput) -> Hits | Deferred[Hits]:
        scored = self._scored(hits, request)
        inner = _ranking(hits, scored, request)
        if not inner.pairs:
            return hits
        graph = self.named_graph()
        graph.check(inner, graph.plan(inner))
        scores: Deferred[Any] = graph.run(call, inner)
        return scores.map(lambda ranked: self._best(hits, scored, ranked, request))

    def _top(self, request: PromptInput) -> int:
        """How many hits of each query are left."""
        asked: int = request.top if isinstance(request, SearchInput) else self.config.first
        return self.config.top or asked

    def _scored(self, hits: Hits, request: PromptInput) -> list[list[Hit]]:
        """The hits of each query that are scored."""
        return [best[: max(self.config.first, self._top(request))] for best in hits.found]

    def _best(self, hits: Hits, scored: list[list[Hit]], ranking: Any, request: PromptInput) -> Hits:
        """The best hits by their new scores."""
        ordered = _first(_ordered(hits.queries, scored, ranking), self._top(request))
        least = -math.inf if self.config.least_score is None else self.config.least_score
        left = [[hit for hit in best if hit.score >= least] for best in ordered.found]
        if self.config.max_tokens is not None:
            from pipelines.nodes.composing.token_room import first_within  # plain graphs need none of it

            graph, most = self.named_graph(), self.config.max_tokens
            left = [first_within(best, graph, most) for best in left]
        return Hits(hits.queries, left)


def _wants(request: PromptInput) -> bool:
    """Whether hits are to be ranked: a search may say that it needs none."""
    return not isinstance(request, SearchInput) or request.rerank


def _ranking(hits: Hits, scored: list[list[Hit]], request: PromptInput) -> PoolingInput:
    """The request to the model that ranks."""
    priority = request.priority if isinstance(request, PoolingInput) else 0
    pairs = pairs_to_rank(hits.queries, scored)
    return PoolingInput(pairs=pairs, truncate_prompt_tokens=-1, priority=priority)


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
