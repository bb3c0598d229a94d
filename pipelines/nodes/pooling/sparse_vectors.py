"""Sparse vectors of texts: which numbers of them a request gets, and how alike two of them are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.values.node_values import SparseVectors

Floats = NDArray[np.float32]


def pruned(vectors: SparseVectors, top_k: int | None, threshold: float | None) -> SparseVectors:
    """The `top_k` largest numbers of each vector, of those that are at least `threshold`."""
    if top_k is None and threshold is None:
        return vectors
    rows = [
        (ids[best], weights[best]) for ids, weights in vectors for best in [_best(weights, top_k, threshold)]
    ]
    return SparseVectors(
        np.concatenate([ids for ids, _ in rows]),
        np.concatenate([weights for _, weights in rows]),
        np.array([len(ids) for ids, _ in rows], np.int32),
        vectors.size,
    )


def _best(weights: Floats, top_k: int | None, threshold: float | None) -> NDArray[np.intp]:
    """Which numbers remain, in their order; of equal ones the first."""
    places = np.arange(len(weights)) if threshold is None else np.flatnonzero(weights >= threshold)
    if top_k is None:
        return places
    return np.sort(places[np.argsort(-weights[places], kind="stable")[:top_k]])


def dot_products(vectors: SparseVectors, num_queries: int) -> Floats:
    """float32[num_documents]: the product of each document with its query, of which one is for all, or one
    for each.  The first `num_queries` vectors are those of the queries.
    """
    rows = [*vectors]
    queries, documents = rows[:num_queries], rows[num_queries:]
    queries = queries * len(documents) if len(queries) == 1 else queries
    pairs = zip(queries, documents, strict=True)
    return np.array([_product(*query, *document) for query, document in pairs], np.float32)


def _product(ids: NDArray[np.int32], weights: Floats, others: NDArray[np.int32], theirs: Floats) -> float:
    _, own, other = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
    return float(weights[own] @ theirs[other])
