"""How near texts are to each other, by their vectors.  Knows arrays; knows nothing of replies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.values import PooledOutputs

Floats = NDArray[np.float32]
QUERY_TOKENS = 128
"""So many of a query are compared at once: two long texts would fill gigabytes."""


def similarities(rows: PooledOutputs, num_queries: int) -> Floats:
    """Of each document to its query: float32[num_documents], of vectors of length 1.

    The first `num_queries` rows are those of queries: one for all documents, or one for each.
    """
    if isinstance(rows.values, list):
        return _by_tokens(rows.values[:num_queries], rows.values[num_queries:])
    return cosines(rows.values[:num_queries], rows.values[num_queries:])


def cosines(queries: Floats, documents: Floats) -> Floats:
    """Of rows of length 1; queries float32[1 or n, size], documents float32[n, size]."""
    products: Floats = np.einsum("ij,ij->i", np.broadcast_to(queries, documents.shape), documents)
    return products


def max_sim(query: Floats, document: Floats) -> float:
    """ColBERT's late interaction (Khattab and Zaharia, 2020): how near the nearest of the document's tokens
    is to each of the query's tokens, summed; it may exceed 1."""
    nearest = [
        (query[i : i + QUERY_TOKENS] @ document.T).max(axis=1) for i in range(0, len(query), QUERY_TOKENS)
    ]
    return float(np.concatenate(nearest).sum())


def _by_tokens(queries: list[Floats], documents: list[Floats]) -> Floats:
    queries = queries * len(documents) if len(queries) == 1 else queries
    pairs = zip(queries, documents, strict=True)
    return np.array([max_sim(query, document) for query, document in pairs], np.float32)
