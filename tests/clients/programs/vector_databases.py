"""Qdrant's and Milvus' embedded databases with Braid's dense, sparse and token vectors: their searches find what numpy
finds in the same vectors.  Arguments: the server's address.
"""

import sys
import tempfile
from pathlib import Path

import httpx
import numpy as np
from cases import run
from pymilvus import DataType, MilvusClient
from qdrant_client import QdrantClient, models

URL = sys.argv[1]
WORDS = [
    "moon",
    "earth",
    "bread",
    "oven",
    "whale",
    "sea",
    "law",
    "court",
    "yeast",
    "dough",
    "kilometre",
    "degree",
    "mammal",
    "air",
    "contract",
    "river",
]
QUERIES = ["how far is the moon", "bread in the oven", "whale and sea"]
LIMIT = 10
chance = np.random.default_rng(0)
TEXTS = [" ".join(chance.choice(WORDS, chance.integers(3, 12))) for _ in range(60)]


def vectors(texts: list[str], sparse_format: str) -> list[dict]:
    body = {
        "model": "three",
        "input": texts,
        "embedding_kinds": ["dense", "sparse", "colbert"],
        "sparse_format": sparse_format,
    }
    reply = httpx.post(f"{URL}/v1/embeddings", json=body, timeout=120)
    return reply.raise_for_status().json()["data"]


documents, queries = vectors(TEXTS, "indices"), vectors(QUERIES, "indices")
by_id, queries_by_id = vectors(TEXTS, "ids"), vectors(QUERIES, "ids")


def sparse_product(one: dict, other: dict) -> float:
    weights = dict(zip(other["indices"], other["values"], strict=True))
    return sum(value * weights.get(i, 0) for i, value in zip(one["indices"], one["values"], strict=True))


def max_sim(one: list, other: list) -> float:
    return float((np.array(one) @ np.array(other).T).max(axis=1).sum())


def scores(kind: str) -> np.ndarray:
    """float[queries, documents]."""
    name, compared = {
        "dense": ("embedding", np.dot),
        "sparse": ("sparse_embedding", sparse_product),
        "colbert": ("token_embeddings", max_sim),
    }[kind]
    return np.array([[compared(query[name], each[name]) for each in documents] for query in queries])


def check(found: list[tuple[list[int], list[float]]], expected: np.ndarray) -> None:
    """What a database has found for each query are the best documents with their scores."""
    for (ids, own), wanted in zip(found, expected, strict=True):
        assert len(ids) == min(LIMIT, np.count_nonzero(wanted))
        np.testing.assert_allclose(own, np.sort(wanted)[::-1][: len(ids)], atol=1e-3)
        np.testing.assert_allclose(own, wanted[ids], atol=1e-3)


qdrant = QdrantClient(":memory:")


def stored_in_qdrant() -> None:
    size, token_size = len(documents[0]["embedding"]), len(documents[0]["token_embeddings"][0])
    by_tokens = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    qdrant.create_collection(
        "texts",
        vectors_config={
            "dense": models.VectorParams(size=size, distance=models.Distance.COSINE),
            "colbert": models.VectorParams(
                size=token_size, distance=models.Distance.DOT, multivector_config=by_tokens
            ),
        },
        sparse_vectors_config={"sparse": models.SparseVectorParams()},
    )
    points = [
        models.PointStruct(
            id=i,
            vector={
                "dense": document["embedding"],
                "sparse": models.SparseVector(**document["sparse_embedding"]),
                "colbert": document["token_embeddings"],
            },
        )
        for i, document in enumerate(documents)
    ]
    qdrant.upsert("texts", points)


def found_in_qdrant(kind: str, query) -> tuple[list[int], list[float]]:
    points = qdrant.query_points("texts", query=query, using=kind, limit=LIMIT).points
    return [point.id for point in points], [point.score for point in points]


def qdrant_dense() -> None:
    check([found_in_qdrant("dense", each["embedding"]) for each in queries], scores("dense"))


def qdrant_sparse() -> None:
    sparse = [models.SparseVector(**each["sparse_embedding"]) for each in queries]
    check([found_in_qdrant("sparse", each) for each in sparse], scores("sparse"))


def qdrant_tokens() -> None:
    check([found_in_qdrant("colbert", each["token_embeddings"]) for each in queries], scores("colbert"))


def stored_vectors_are_ranked() -> None:
    """Braid's MaxSim over the vectors of tokens that Qdrant holds."""
    points = qdrant.retrieve("texts", list(range(20)), with_vectors=["colbert"])
    body = {
        "model": "three",
        "query": QUERIES[0],
        "embedding_kind": "colbert",
        "documents": [{"token_embeddings": point.vector["colbert"]} for point in points],
    }
    reply = httpx.post(f"{URL}/v1/rerank", json=body, timeout=120).raise_for_status().json()
    ranked = {points[result["index"]].id: result["relevance_score"] for result in reply["results"]}
    expected = scores("colbert")[0]
    np.testing.assert_allclose([ranked[i] for i in range(20)], expected[:20], atol=1e-3)


def integer_keys(each: dict) -> dict[int, float]:
    return {int(key): weight for key, weight in each["sparse_embedding"].items()}


def milvus() -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = MilvusClient(str(Path(folder) / "texts.db"))
        schema = MilvusClient.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("dense", DataType.FLOAT_VECTOR, dim=len(documents[0]["embedding"]))
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        indexes = client.prepare_index_params()
        indexes.add_index("dense", index_type="FLAT", metric_type="COSINE")
        indexes.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        client.create_collection("texts", schema=schema, index_params=indexes)
        rows = [
            {"id": i, "dense": row["embedding"], "sparse": integer_keys(row)} for i, row in enumerate(by_id)
        ]
        client.insert("texts", rows)
        client.load_collection("texts")
        dense, sparse = [row["embedding"] for row in queries_by_id], [*map(integer_keys, queries_by_id)]
        for kind, data in (("dense", dense), ("sparse", sparse)):
            hits = client.search("texts", data=data, anns_field=kind, limit=LIMIT, consistency_level="Strong")
            searched = [([hit["id"] for hit in own], [hit["distance"] for hit in own]) for own in hits]
            check(searched, scores(kind))
        client.close()


run([stored_in_qdrant, qdrant_dense, qdrant_sparse, qdrant_tokens, stored_vectors_are_ranked, milvus])
