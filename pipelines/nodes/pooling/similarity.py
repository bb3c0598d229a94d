"""Computes the similarity of texts from their embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from pipelines.nodes.pooling.sparse_vectors import dot_products
from pipelines.values.node_values import PooledOutputs, Scores, SparseVectors

Floats = NDArray[np.float32]
QUERY_TOKENS = 128
"""Query tokens per matrix product: bounds the memory of two long texts."""


def document_scores(value: Scores | PooledOutputs, num_queries: int) -> Floats:
    """The score of each document, float32[num_documents]: a cross-encoder's, or the similarity of vectors."""
    return value.values if isinstance(value, Scores) else similarities(value, num_queries)


def stored_scores(value: Scores | PooledOutputs, stored: Sequence[Floats | None]) -> Floats:
    """The score of each document, float32[num_documents], to the only query; `stored` has the vectors of
    tokens of those that the model was not given: float32[tokens, size] or float32[tokens * size].

    Raises RequestError for vectors that the query's cannot be compared with.
    """
    if all(vectors is None for vectors in stored):
        return document_scores(value, 1)
    values = [] if isinstance(value, Scores) else value.values
    if not isinstance(values, list) or not values:
        raise RequestError(
            "the query has no vectors of tokens to compare these with: set `embedding_kind` to those, or "
            "name a model that has them",
            field=f"documents.{_first_stored(stored)}.token_embeddings",
        )
    query, computed = values[0], iter(values[1:])
    documents = [
        next(computed) if vectors is None else _of_size(vectors, query.shape[1], place)
        for place, vectors in enumerate(stored)
    ]
    return _by_tokens([query], documents)


def _first_stored(stored: Sequence[Floats | None]) -> int:
    return next(place for place, vectors in enumerate(stored) if vectors is not None)


def _of_size(vectors: Floats, size: int, place: int) -> Floats:
    """float32[tokens, size].  Raises RequestError for numbers of another size."""
    if len(vectors) % size if vectors.ndim == 1 else vectors.shape[1] != size:
        raise RequestError(
            f"these are no vectors of {size} numbers, which the model gives for each token",
            field=f"documents.{place}.token_embeddings",
        )
    return vectors.reshape(-1, size)


def similarities(pooled: PooledOutputs, num_queries: int) -> Floats:
    """The similarity of each document to its query, float32[num_documents].  Vectors have length 1.

    The first `num_queries` pooled outputs belong to queries: one for all documents, or one for each.
    """
    if isinstance(pooled.vectors, SparseVectors):
        return dot_products(pooled.vectors, num_queries)
    if isinstance(pooled.values, list):
        return _by_tokens(pooled.values[:num_queries], pooled.values[num_queries:])
    return cosines(pooled.values[:num_queries], pooled.values[num_queries:])


def cosines(queries: Floats, documents: Floats) -> Floats:
    """Cosine similarities, float32[n], of vectors of length 1: float32[1 or n, size] and float32[n, size]."""
    linears: Floats = np.einsum("ij,ij->i", np.broadcast_to(queries, documents.shape), documents)
    return linears


def max_sim(query: Floats, document: Floats) -> float:
    """ColBERT's late interaction score (Khattab and Zaharia, 2020); it may exceed 1.

    For each query token the largest product with a document token, summed over the query tokens.  `query` is
    float32[num_query_tokens, size], `document` float32[num_document_tokens, size].
    """
    nearest = [
        (query[i : i + QUERY_TOKENS] @ document.T).max(axis=1) for i in range(0, len(query), QUERY_TOKENS)
    ]
    return float(np.concatenate(nearest).sum())


def _by_tokens(queries: list[Floats], documents: list[Floats]) -> Floats:
    queries = queries * len(documents) if len(queries) == 1 else queries
    pairs = zip(queries, documents, strict=True)
    return np.array([max_sim(query, document) for query, document in pairs], np.float32)
