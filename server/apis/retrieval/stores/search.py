"""A search of a vector store: its model reads the queries, its index has the passages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pipelines.base.errors import RequestError
from pipelines.retrieval.filters import Where, where
from pipelines.retrieval.index_reader import IndexReader
from pipelines.retrieval.index_version import Query, dense_of, query_vectors
from pipelines.values.node_values import Prompt, SparseVectors, Vectors
from pipelines.values.search_values import Hit, pairs_to_rank
from pipelines.values.tasks import PoolingInput
from pipelines.worker.model_choice import EMBEDDING, Ability
from server.apis.pooling.pooling_call import PoolingResult, run_pooling_call
from server.apis.retrieval.stores.bodies import SearchStore, StoreRanking
from server.apis.retrieval.stores.rows import StoreRow
from server.http.exchange import Exchange
from server.services.model_lookup import find_pipeline
from server.services.services import Services

RANKING = Ability(("rerank",), "rank")
NO_RANKERS = ("auto", "none", "default-2024-11-15", "default_2024_08_21")
"""With these the order is that of the search."""
FIRST = 20
"""Least number of passages that a reranking model scores."""


class StoreSearch:
    """One request's search; it ends with its exchange."""

    def __init__(self, services: Services, exchange: Exchange, request: SearchStore) -> None:
        """Raises RequestError for filters that are wrong, and for what is not offered."""
        self._services, self._exchange, self._request = services, exchange, request
        self._ranking = request.ranking_options or StoreRanking()
        self._condition = None if request.filters is None else where(request.filters)
        if request.rewrite_query:
            raise RequestError(
                "`rewrite_query` must be false: no model rewrites queries here", field="rewrite_query"
            )

    async def hits(self, store: StoreRow, removed: list[str]) -> list[Hit]:
        """The best passages, the best first.  `removed` names files that are no longer of the store."""
        stores = self._services.stores
        index = stores.index_of(store.id)
        unwritten: tuple[str, ...] = ()
        kinds = await stores.readers.read(index, lambda reader: reader.about.kinds, unwritten)
        if not kinds:
            return []
        vectors = await self._vectors(store.model, kinds)
        ranks = self._ranking.ranker not in NO_RANKERS
        wanted = self._request.max_num_results
        condition = _without(removed, self._condition)
        queries = self._queries(max(wanted, FIRST) if ranks else wanted, condition, vectors)
        nothing: list[list[Hit]] = [[] for _ in queries]

        def search(reader: IndexReader) -> list[list[Hit]]:
            return (
                reader.search(queries, dense_of(vectors, len(queries))) if reader.about.passages else nothing
            )

        hits = await stores.readers.read(index, search, nothing)
        if ranks:
            hits = await self._ranked(hits)
        best = _merged(hits)
        least = self._ranking.score_threshold
        return [hit for hit in best if least is None or hit.score >= least][:wanted]

    def _queries(self, top: int, condition: Where | None, vectors: Mapping[str, Vectors]) -> list[Query]:
        texts, sparse = self._request.query, vectors.get("sparse")
        terms = [*sparse] if isinstance(sparse, SparseVectors) else [None] * len(texts)
        weights = self._weights({*vectors})
        return [Query(text, top, weights, condition, own) for text, own in zip(texts, terms, strict=True)]

    def _weights(self, kinds: set[str]) -> dict[str, float]:
        """What each kind of search counts for; where the model has sparse vectors alone, they are its
        embeddings.

        Raises RequestError for a weight of sparse vectors where the store has none beside dense ones.
        """
        hybrid, of_model = self._ranking.hybrid_search, "sparse" if kinds == {"sparse"} else "dense"
        if hybrid is None:
            return {of_model: 1.0}
        if hybrid.sparse_weight and kinds != {"dense", "sparse"}:
            raise RequestError(
                "the store's model gives no sparse vectors beside dense ones: leave `sparse_weight` out",
                field="ranking_options.hybrid_search.sparse_weight",
            )
        weights = {of_model: hybrid.embedding_weight, "text": hybrid.text_weight}
        return weights | ({"sparse": hybrid.sparse_weight} if hybrid.sparse_weight else {})

    async def _vectors(self, model: str, kinds: tuple[str, ...]) -> dict[str, Vectors]:
        """The vectors of the queries of each of the index's kinds; dense ones: float32[queries, size]."""
        prompts = [Prompt.of_text(text) for text in self._request.query]
        results = kinds if "sparse" in kinds else ()
        request = PoolingInput(
            prompts=prompts, purpose="search_query", truncate_prompt_tokens=-1, results=results
        )
        result = await self._run(model, EMBEDDING, request)
        named = dict(result.value.named) if results else {"dense": result.value.vectors}
        try:
            if "dense" in named:
                query_vectors(named["dense"])
            return named
        except ValueError as error:
            raise RequestError(f"`{model}`: {error}", field="embedding_model") from None

    async def _ranked(self, all_hits: list[list[Hit]]) -> list[list[Hit]]:
        """The hits with the scores of the reranking model."""
        pairs = pairs_to_rank(self._request.query, all_hits)
        if not pairs:
            return all_hits
        request = PoolingInput(pairs=pairs, truncate_prompt_tokens=-1)
        result = await self._run(self._ranking.ranker, RANKING, request)
        scores = iter(np.asarray(result.value.values, np.float32).tolist())
        return [[replace(hit, score=next(scores)) for hit in hits] for hits in all_hits]

    async def _run(self, model: str, ability: Ability, request: PoolingInput) -> PoolingResult:
        services, exchange = self._services, self._exchange
        pipeline = await find_pipeline(services, exchange, model, ability)
        num_chars = sum(len(query) for query in self._request.query)
        call = await exchange.off_loop(lambda: services.prepare(pipeline, request, exchange), num_chars)
        return await run_pooling_call(call, exchange)


def _without(removed: list[str], condition: Where | None) -> Where | None:
    """The condition for documents that are not removed."""
    if not removed:
        return condition
    sql, values = condition or ("1", [])
    marks = ", ".join("?" * len(removed))
    return f"({sql} AND documents.name NOT IN ({marks}))", [*values, *removed]


def _merged(found: list[list[Hit]]) -> list[Hit]:
    """The hits of all queries, each passage once with its best score."""
    best: dict[tuple[str, int], Hit] = {}
    for hit in (hit for hits in found for hit in hits):
        place = hit.document, hit.start
        if place not in best or best[place].score < hit.score:
            best[place] = hit
    return sorted(best.values(), key=lambda hit: -hit.score)
