"""Computes the similarity of texts from their embeddings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.nodes.pooling.sparse_vectors import dot_products
from pipelines.values.node_values import PooledOutputs, Scores, SparseVectors

Floats = NDArray[np.float32]
QUERY_TOKENS = 128
"""Query tokens per matrix product: bounds the memory of two long texts."""


def document_scores(value: Scores | PooledOutputs, num_queries: int) -> Floats:
    """The score of each document, float32[num_documents]: a cross-encoder's, or the similarity of vectors."""
    return value.values if isinstance(value, Scores) else similarities(value, num_queries)


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
