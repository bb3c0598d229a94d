"""Cohere's own client, both of its versions.  Arguments: the server's address."""

import base64
import math
import struct
import sys

import cohere
import pytest
from cases import run

URL = sys.argv[1]
QUESTION = "What is the capital of France?"
PASSAGES = [
    "Oslo has a population of about seven hundred thousand people.",
    "The capital of France is Paris.",
    "Bread is made of flour, water, salt and yeast.",
]
v2 = cohere.ClientV2(api_key="none", base_url=URL)
v1 = cohere.Client(api_key="none", base_url=URL)


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def ranked() -> None:
    reply = v2.rerank(model="braid-rerank", query=QUESTION, documents=PASSAGES, top_n=2)
    assert len(reply.results) == 2
    assert reply.results[0].index == 1
    scores = [one.relevance_score for one in reply.results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert reply.meta.billed_units.search_units == 1


def ranked_by_the_older_client() -> None:
    asked = {"model": "braid-rerank", "query": QUESTION, "documents": [{"text": text} for text in PASSAGES]}
    reply = v1.rerank(**asked, return_documents=True)
    assert reply.results[0].document.text == PASSAGES[1]
    assert v1.rerank(**asked, return_documents=False).results[0].document is None


def long_documents_are_cut() -> None:
    document = " ".join(PASSAGES * 8)
    whole = v2.rerank(model="braid-rerank", query=QUESTION, documents=[document])
    cut = v2.rerank(model="braid-rerank", query=QUESTION, documents=[document], max_tokens_per_doc=8)
    assert cut.results[0].relevance_score != whole.results[0].relevance_score


def embedded() -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    reply = v2.embed(model="braid-embed", texts=PASSAGES, input_type="search_document", embedding_types=types)
    embeddings = reply.embeddings
    size = len(embeddings.float_[0])
    assert math.isclose(dot(embeddings.float_[0], embeddings.float_[0]), 1, abs_tol=1e-4)
    assert len(embeddings.int8[0]) == len(embeddings.uint8[0]) == size
    assert len(embeddings.binary[0]) == len(embeddings.ubinary[0]) == size // 8
    assert all(-128 <= byte <= 127 for byte in embeddings.binary[0])
    assert [byte - 128 for byte in embeddings.ubinary[0]] == embeddings.binary[0]
    decoded = struct.unpack(f"<{size}f", base64.b64decode(embeddings.base64[0]))
    assert max(abs(a - b) for a, b in zip(decoded, embeddings.float_[0], strict=True)) < 1e-6
    assert reply.texts == PASSAGES


def questions_find_their_passages() -> None:
    asked = {"model": "braid-embed", "embedding_types": ["float"]}
    passages = v2.embed(texts=PASSAGES, input_type="search_document", **asked).embeddings.float_
    (question,) = v2.embed(texts=[QUESTION], input_type="search_query", **asked).embeddings.float_
    near = [dot(question, passage) for passage in passages]
    assert near.index(max(near)) == 1


def embedded_by_the_older_client() -> None:
    reply = v1.embed(texts=PASSAGES * 40, model="braid-embed", input_type="search_document")
    assert len(reply.embeddings) == len(PASSAGES) * 40
    assert reply.response_type == "embeddings_floats"


def shorter_vectors() -> None:
    reply = v2.embed(
        model="braid-embed",
        texts=[QUESTION],
        input_type="search_query",
        embedding_types=["float"],
        output_dimension=64,
    )
    assert len(reply.embeddings.float_[0]) == 64
    with pytest.raises(cohere.BadRequestError):
        v2.embed(
            model="braid-embed",
            texts=[QUESTION],
            input_type="search_query",
            embedding_types=["float"],
            output_dimension=7,
        )


def refusals() -> None:
    with pytest.raises(cohere.BadRequestError):
        v2.rerank(model="braid-rerank", query=QUESTION, documents=[])
    with pytest.raises(cohere.NotFoundError):
        v2.rerank(model="braid-sentiment", query=QUESTION, documents=PASSAGES)
    with pytest.raises(cohere.BadRequestError):
        v2.embed(
            model="braid-embed",
            texts=["word " * 5000],
            input_type="search_query",
            embedding_types=["float"],
            truncate="NONE",
        )


run(
    [
        ranked,
        ranked_by_the_older_client,
        long_documents_are_cut,
        embedded,
        questions_find_their_passages,
        embedded_by_the_older_client,
        shorter_vectors,
        refusals,
    ]
)
