"""What Elasticsearch and OpenSearch send to models elsewhere, and where they look in the replies.

The bodies are those that their services and connectors build, by their sources and documentation (November
2026); the servers themselves were not run.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from documents import ROOT
from fake_decoder import byte_tokenizer
from fake_encoder import FAKE_BATCHER, row_of, use_fake_encoders, write_fake_encoder
from live_app import answers

TEXTS = ["how far is the moon", "bread"]
PAIRS = "{type: tokenize_pairs, from: request,"
RANKING = "  ranking: {type: rank, from: {scores: rows, pairs: tokens}}\n"
DOCS = (ROOT / "docs/retrieval.md").read_text(encoding="utf-8")


@pytest.fixture
def ask(tmp_path, monkeypatch):
    use_fake_encoders(monkeypatch)
    write_fake_encoder(tmp_path / "vectors", FAKE_BATCHER, size=4)
    write_fake_encoder(
        tmp_path / "splade", FAKE_BATCHER + "      weights: {type: sparse, from: hidden}\n", size=5
    )
    rerank = FAKE_BATCHER.replace("task: embed", "task: rerank")
    rerank = rerank.replace("{type: tokenize, from: request.prompts,", PAIRS) + RANKING
    write_fake_encoder(tmp_path / "ranks", rerank, size=1)
    return lambda *given: answers(tmp_path, given)


def rows(size):
    return [row_of(byte_tokenizer().encode(text).ids, size=size) for text in TEXTS]


def test_dense_vectors(ask):
    """Elasticsearch's services `openai`, `hugging_face` and `custom`, OpenSearch's openai and cohere functions."""
    openai = {"input": TEXTS, "model": "vectors"}
    of_openai, with_user, hugging_face, custom, cohere = ask(
        ("/v1/embeddings", openai),
        ("/v1/embeddings", {**openai, "user": "somebody"}),
        ("/embed", {"inputs": TEXTS, "model": "vectors"}),
        ("/v1/embeddings", {**openai, "encoding_format": "float"}),
        (
            "/v1/embed",
            {"texts": TEXTS, "truncate": "END", "input_type": "search_document", "model": "vectors"},
        ),
    )
    for reply in (of_openai, with_user, custom):
        np.testing.assert_allclose([item["embedding"] for item in reply.json["data"]], rows(4))
    np.testing.assert_allclose(hugging_face.json, rows(4))
    np.testing.assert_allclose(cohere.json["embeddings"], rows(4))


def test_scores(ask):
    """OpenSearch's cohere rerank function reads `$.results`, Elasticsearch's custom service paths in it."""
    query, documents = "moon", ["bread", "the moon is far", "yeast"]
    body = {"documents": documents, "query": query, "model": "ranks"}
    cohere, custom, first, of_tei = ask(
        ("/v1/rerank", {**body, "top_n": 3}),
        ("/v1/rerank", body),
        ("/v2/rerank", {**body, "top_n": 1}),
        ("/rerank", {"texts": documents, "query": query, "model": "ranks", "return_text": True}),
    )
    results = cohere.json["results"]
    assert sorted(result["index"] for result in results) == [0, 1, 2]
    assert all(isinstance(result["relevance_score"], float) for result in results)
    assert [result["index"] for result in custom.json["results"]] == [result["index"] for result in results]
    assert [result["index"] for result in first.json["results"]] == [results[0]["index"]]
    for hit, result in zip(of_tei.json, results, strict=True):
        assert hit.keys() == {"index", "score", "text"}  # Elasticsearch refuses a reply with another field
        assert hit["text"] == documents[result["index"]]


def from_docs(name):
    """The settings of a block of docs/retrieval.md."""
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL)]
    return next(block for block in blocks if name in json.dumps(block))


def filled(template, values):
    """A body with its places filled, as both engines do it."""
    for name, value in values.items():
        template = template.replace(f"${{{name}}}", json.dumps(value))
    return json.loads(template)


def test_sparse_vectors_by_the_settings_of_the_docs(ask):
    settings = from_docs("json_parser")["service_settings"]
    (action,) = from_docs("response_filter")["actions"]
    elastic = filled(settings["request"], {"input": TEXTS})
    opensearch = filled(action["request_body"], {"parameters.input": TEXTS})
    for_elastic, for_opensearch = ask(("/v1/embeddings", elastic), ("/v1/embeddings", opensearch))
    assert settings["response"]["json_parser"] == {
        "token_path": "$.data[*].sparse_embedding[*].index",
        "weight_path": "$.data[*].sparse_embedding[*].value",
    }
    for place, row in enumerate(rows(5)):
        expected = {index: float(np.log1p(weight)) for index, weight in enumerate(row) if weight}
        listed = for_elastic.json["data"][place]["sparse_embedding"]
        assert {item["index"]: item["value"] for item in listed} == pytest.approx(expected)
        mapped = for_opensearch.json["data"][place]["sparse_embedding"]
        assert {int(name): weight for name, weight in mapped.items()} == pytest.approx(expected)
